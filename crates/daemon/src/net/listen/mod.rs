//! Listeners: where connections come from. TCP with or without TLS, unix sockets, and sockets that a service manager
//! passed on.

mod accept;
mod activation;
mod address;
mod counted;
mod unix;

pub use accept::accept;
pub use activation::{Passed, passed};
pub use address::{BadAddress, bind};
pub use counted::{Count, Counted, counted};
pub use link::listen::{Tls, TlsError};
pub use unix::{Unix, UnixError, peer};
