//! What listeners share: TLS whose files may change while it is served, and streams that somebody watches.

mod tls;
mod watched;

pub use tls::{Tls, TlsError, TlsFiles};
pub use watched::{Watched, Witness};
