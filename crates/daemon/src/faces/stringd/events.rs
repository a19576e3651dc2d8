//! The events of a topic's session: none, because the reply of a command has its output.

use bytes::Bytes;
use engine::process::Process;

use crate::core::events::{LogEntry, ProcessEvents};
use crate::core::request::Details;
use crate::core::table::detail;

/// The operation in the audit record of a process's end.
pub(super) const PROCESS_EXITED: &str = "process.exited";

/// Encodes no event at all.
#[derive(Debug)]
pub struct NoEvents;

impl ProcessEvents for NoEvents {
    fn encode(&mut self, _entry: &LogEntry<'_>, _next_id: u64) -> Vec<Bytes> {
        Vec::new()
    }

    fn audit_end(&self, process: &Process) -> (&'static str, Details) {
        (PROCESS_EXITED, detail("process_id", &process.id().0))
    }
}
