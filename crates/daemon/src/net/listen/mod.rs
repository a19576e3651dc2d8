//! The daemon's own listeners: unix sockets, sockets passed by a service manager, and streams whose bytes are counted.

mod activation;
mod counted;
mod unix;

pub use activation::{PassedListener, passed, passed_paths};
pub use counted::{ByteCounter, counted};
pub use unix::{UnixSocket, UnixSocketError, peer_caller};
