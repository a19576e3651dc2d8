//! Where exec-server is served: standard streams, or WebSockets on an address.

mod auth;
mod transport;
mod websocket;

pub use auth::{WsAuth, WsListenError};
pub use transport::{DEFAULT_LISTEN_URL, ExecServerListenUrlParseError, ExecServerTransport};
pub use websocket::WebSocketFrontEnd;
