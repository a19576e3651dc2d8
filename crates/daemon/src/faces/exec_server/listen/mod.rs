//! Where exec-server is served: standard streams, or WebSockets on an address.

mod gate;
mod transport;
mod websocket;

pub use gate::{BadWsAuth, WsAuth};
pub use transport::{DEFAULT_LISTEN_URL, ExecServerListenUrlParseError, ExecServerTransport};
pub use websocket::{WebSockets, bind};
