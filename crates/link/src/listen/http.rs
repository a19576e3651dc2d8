//! The HTTP server: from a TCP listener to connections that are limited, encrypted and served.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::task::Tasks;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::accept::accept;
use super::connection::{BoxedStream, HttpConnection, HttpPeer};
use super::deadlines::PhaseDeadlines;
use super::limiter::{ConnectionLimiter, ConnectionSlot};
use super::observed::StreamObserver;
use super::tls::Tls;
use crate::tcp;

/// Written to a plain connection over the limit.
const UNAVAILABLE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";

/// A front end: the routes and rules behind an [`HttpServer`].
pub trait HttpService: Send + Sync + 'static {
    /// The body of its responses.
    type ResponseBody: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Unpin
        + Send
        + 'static;

    /// Answers one request. Dropped when the client disconnects.
    fn respond(
        self: Arc<Self>,
        connection: Arc<HttpConnection>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::ResponseBody>> + Send;

    /// An observer for a new connection; it lives as long as the connection, or until the connection is upgraded.
    fn observer(&self) -> Box<dyn StreamObserver> {
        Box::new(())
    }

    /// The whole response that is written to a plain connection over the limit.
    fn unavailable(&self) -> &'static [u8] {
        UNAVAILABLE
    }

    /// A connection was closed before its first request.
    fn rejected(&self, _rejection: ConnectionRejection) {}
}

/// Why a connection was closed before its first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionRejection {
    /// All slots belong to authenticated connections.
    TooMany,
    /// The TLS handshake failed or did not end in time.
    Tls,
}

/// What happens to a new connection when no slot is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// It is closed, with status 503 unless it would be encrypted.
    Reject,
    /// It is accepted as soon as a slot is free.
    Wait,
}

/// Accepts and serves HTTP connections.
#[derive(Debug)]
pub struct HttpServer<S> {
    /// The routes.
    pub service: Arc<S>,
    /// The limit, which several servers may share.
    pub limiter: Arc<ConnectionLimiter>,
    /// What happens at the limit.
    pub when_full: WhenFull,
    /// The deadlines of each connection.
    pub deadlines: PhaseDeadlines,
    /// TLS; plain HTTP without it.
    pub tls: Option<Tls>,
    /// Ends accepting at once, and each connection after its current request.
    pub stop: CancellationToken,
    /// Owns the connections; close and wait for it after `stop`.
    pub tasks: Tasks,
}

impl<S: HttpService> HttpServer<S> {
    /// Accepts connections until `stop` is cancelled.
    pub async fn run(self: Arc<Self>, listener: TcpListener) {
        let accepting = async {
            loop {
                let free = match self.when_full {
                    WhenFull::Reject => None,
                    WhenFull::Wait => Some(self.limiter.acquire().await),
                };
                let (stream, address) = accept(|| listener.accept(), || self.limiter.evict_oldest()).await;
                match free.or_else(|| self.limiter.try_acquire()) {
                    Some(slot) => {
                        let this = self.clone();
                        self.tasks.spawn(async move { this.serve_tcp(stream, address, slot).await });
                    }
                    None => self.reject(&stream),
                }
            }
        };
        self.stop.run_until_cancelled(accepting).await;
    }

    async fn serve_tcp(&self, stream: TcpStream, address: SocketAddr, slot: ConnectionSlot) {
        let observer = self.service.observer();
        if let Err(error) = tcp::set_options(&stream) {
            tracing::debug!(%error, "setting TCP options failed");
        }
        let Some(tls) = &self.tls else {
            let peer = HttpPeer { address: Some(address), certificate: None };
            return self.serve(Box::new(stream), observer, peer, slot).await;
        };
        let handshake = tokio::select! {
            handshake = tokio::time::timeout(self.deadlines.headers, tls.accept(stream)) => handshake,
            () = slot.evicted() => return,
        };
        match handshake {
            Ok(Ok(Some((stream, certificate)))) => {
                let peer = HttpPeer { address: Some(address), certificate };
                let stream: BoxedStream = Box::new(stream);
                return self.serve(stream, observer, peer, slot).await;
            }
            Ok(Ok(None)) => tracing::debug!(%address, "plain text on a TLS port"),
            Ok(Err(error)) => tracing::debug!(%address, %error, "the TLS handshake failed"),
            Err(_late) => tracing::debug!(%address, "the TLS handshake took too long"),
        }
        self.service.rejected(ConnectionRejection::Tls);
    }

    fn reject(&self, stream: &TcpStream) {
        self.service.rejected(ConnectionRejection::TooMany);
        tracing::debug!("too many connections; closing a new one");
        if self.tls.is_none() {
            // A peer that does not read it sees the end of the connection.
            stream.try_write(self.service.unavailable()).ok();
        }
    }
}
