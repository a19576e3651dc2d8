//! Listening: everything that the HTTP front ends of rexd, exec-server, the hub and `rex mcp --http` share.
//!
//! [`HttpServer`] accepts TCP connections, bounds their number ([`ConnectionLimiter`]), encrypts them ([`Tls`]) and serves
//! HTTP/1.1 with a deadline for each phase ([`PhaseDeadlines`]). A front end is an [`HttpService`]: its routes and its own
//! rules. These parts are for its routes:
//!
//! | part | what it checks |
//! |---|---|
//! | [`OriginCheck`] | `Host` and `Origin`, and the peer's address behind trusted proxies |
//! | [`bearer_token`] | `Authorization: Bearer`, compared as a [`TokenDigest`] |
//! | [`WebSocketHandshake`] | the upgrade of a request to a WebSocket |

mod accept;
mod bearer;
mod bind;
mod connection;
mod deadlines;
mod handshake;
mod host;
mod http;
mod limiter;
mod observed;
mod origin;
mod proxies;
mod secret;
mod tls;

pub use accept::accept;
pub use bearer::{BearerError, bearer_token};
pub use bind::{BindError, bind};
pub use connection::{BoxedStream, ByteStream, HttpConnection, HttpPeer};
pub use deadlines::{ConnectionPhase, PhaseDeadlines};
pub use handshake::{HandshakeError, UpgradedStream, WebSocketHandshake, has_token};
pub use host::{Host, WebOrigin, is_loopback_address};
pub use http::{ConnectionRejection, HttpServer, HttpService, WhenFull};
pub use limiter::{ConnectionLimiter, ConnectionSlot, TooManyOfCaller};
pub use observed::{ObservedStream, StreamObserver};
pub use origin::{OriginCheck, OriginError};
pub use proxies::{Network, NotANetwork};
pub use secret::{Secret, TokenDigest};
pub use tls::{ClientCertificate, Tls, TlsConnection, TlsError, TlsFiles};
