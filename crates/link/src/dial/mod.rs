//! Outbound connections: WebSockets and single HTTP requests, over TCP or TLS, and how long to wait before another try.

mod backoff;
mod endpoint;
mod http;
mod tls;
mod websocket;

use std::io;

use ::http::StatusCode;

pub use self::http::{Answer, Redirects, Request, http};
pub use backoff::Backoff;
pub use tls::Tls;
pub use websocket::{Socket, websocket};

/// Why a connection was not made, or did not hold.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The address is none.
    #[error("`{url}` is no address: {problem}")]
    Url {
        /// What was written; a query is left out, it may hold a secret.
        url: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A header is none.
    #[error("{0}")]
    Header(String),
    /// Nobody is there.
    #[error("could not connect to {address}: {source}")]
    Reach {
        /// Who was tried.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// The connection could not be encrypted, or not with whom it should be.
    #[error("could not encrypt the connection to {address}: {source}")]
    Tls {
        /// Who was tried.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// The server does not open a WebSocket.
    #[error("the server answers {status} {said}")]
    Refused {
        /// Its answer.
        status: StatusCode,
        /// The beginning of what it says.
        said: String,
    },
    /// What came back makes no sense, or nothing did.
    #[error("{0}")]
    Broken(String),
    /// It took too long.
    #[error("no answer within {0:?}")]
    Late(std::time::Duration),
}

/// Any byte stream.
pub(crate) trait Duplex: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Duplex for T {}
