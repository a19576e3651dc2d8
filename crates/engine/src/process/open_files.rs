//! The limit of open files: raised for the daemon, unchanged for its children.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The original limit of this process.
static FOUND: OnceLock<[u64; 2]> = OnceLock::new();

/// Raises the soft limit of open files to the hard limit. Children get the original limit: programs that use `select`,
/// or close every possible descriptor, need a small one.
pub fn raise_open_file_limit() {
    let found = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: found.maximum, ..found };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => {
            let number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
            FOUND.get_or_init(|| [number(found.current), number(found.maximum)]);
        }
        Err(error) => tracing::debug!(%error, "the number of open files stays as it is"),
    }
}

/// The limit of a child, if it differs from that of this process.
pub(super) fn of_children() -> Option<&'static [u64; 2]> {
    FOUND.get()
}
