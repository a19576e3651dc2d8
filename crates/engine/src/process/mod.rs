//! Processes: what runs, who owns it, what it wrote.

use std::fmt;

/// Names one process within one engine. Opaque to everyone else.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub String);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
