//! How many files may be open: as many as allowed for the daemon, as many as before for what it starts.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit as this process found it. It belongs to the whole process, like the limit itself.
static FOUND: OnceLock<[u64; 2]> = OnceLock::new();

/// Raises the limit of open files to what is allowed. Children get what this process was given: programs that use
/// `select`, or close every descriptor they could have, rely on a small number.
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

/// What a child gets, if this process has more.
pub(super) fn of_children() -> Option<&'static [u64; 2]> {
    FOUND.get()
}
