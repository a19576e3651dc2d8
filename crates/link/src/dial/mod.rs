//! Outbound connections: WebSockets and single HTTP requests, over TCP or TLS, and the back-off between attempts.

mod backoff;
mod endpoint;
mod http;
mod proxy;
mod tls;
mod websocket;

use std::io;

use ::http::StatusCode;

pub use self::http::{DialResponse, Redirects, Request, http};
pub use backoff::Backoff;
pub use proxy::Proxies;
pub use tls::Tls;
pub use websocket::{Socket, websocket};

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The URL is invalid.
    #[error("invalid URL `{url}`: {problem}")]
    Url {
        /// The URL without its query, which may contain a secret.
        url: String,
        /// The part that is invalid.
        problem: &'static str,
    },
    /// A header is invalid.
    #[error("{0}")]
    Header(String),
    /// No connection could be opened.
    #[error("could not connect to {address}: {source}")]
    Reach {
        /// The host and port.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The TLS handshake failed, or the certificate is not trusted.
    #[error("the TLS handshake with {address} failed: {source}")]
    Tls {
        /// The host and port.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The server rejected the WebSocket handshake.
    #[error("the server rejected the connection: {status} {body}")]
    Refused {
        /// The status of its response.
        status: StatusCode,
        /// The beginning of the response's body.
        body: String,
    },
    /// The response is invalid, or there was none.
    #[error("{0}")]
    Broken(String),
    /// The deadline passed.
    #[error("no response within {0:?}")]
    Late(std::time::Duration),
}

impl DialError {
    /// True if the URL or a header is invalid, so that no attempt can succeed.
    pub fn is_permanent(&self) -> bool {
        match self {
            DialError::Url { .. } | DialError::Header(_) => true,
            DialError::Reach { .. } | DialError::Tls { .. } | DialError::Refused { .. } => false,
            DialError::Broken(_) | DialError::Late(_) => false,
        }
    }
}

/// Any byte stream in both directions.
pub(crate) trait Duplex: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Duplex for T {}
