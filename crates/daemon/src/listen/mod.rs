//! Listeners: where connections come from. TCP with or without TLS, unix sockets, and sockets that a service manager
//! passed on.

mod accept;
mod activation;
mod address;
mod tls;
mod unix;

pub use accept::accept;
pub use activation::{Passed, passed};
pub use address::{BadAddress, bind};
pub use tls::{Tls, TlsError, answer_plain, is_tls};
pub use unix::{Unix, UnixError, peer};

/// Raises how many files may be open as far as it goes: every connection is one. Returns what was, for children.
pub fn raise_open_files() -> Option<rustix::process::Rlimit> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: before.maximum, ..before.clone() };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => Some(before),
        Err(error) => {
            tracing::debug!(%error, "the number of open files stays as it is");
            None
        }
    }
}
