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
