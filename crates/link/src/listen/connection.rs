//! One HTTP connection: its peer, its slot, and its requests one after the other until it ends or is upgraded.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::deadlines::{ConnectionPhase, DeadlineStream, PhaseBody, PhaseClock};
use super::http::{HttpServer, HttpService};
use super::limiter::ConnectionSlot;
use super::observed::{ObservedStream, StreamObserver};
use super::tls::ClientCertificate;

/// The limit on all headers of a request together.
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// The size of one read; large bodies arrive in pieces of this size.
const READ_BUFFER: usize = 64 * 1024;

/// A byte stream in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// A TCP or TLS stream behind one type, so that HTTP and WebSocket are compiled once for both.
pub type BoxedStream = Box<dyn ByteStream>;

/// The peer of a connection.
#[derive(Debug, Default)]
pub struct HttpPeer {
    /// The peer's address, if its transport has one.
    pub address: Option<SocketAddr>,
    /// The client certificate.
    pub certificate: Option<ClientCertificate>,
}

/// What the requests of one connection share.
pub struct HttpConnection {
    /// The peer's address and certificate.
    pub peer: HttpPeer,
    /// The connection's part of the limit; [`ConnectionSlot::authenticate`] protects it from eviction.
    pub slot: ConnectionSlot,
    clock: PhaseClock,
}

impl fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConnection").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl HttpConnection {
    /// Starts the deadline of another phase. The server itself enters `Busy` with each request and `Idle` after it.
    pub fn enter(&self, phase: ConnectionPhase) {
        self.clock.enter(phase);
    }
}

impl<S: HttpService> HttpServer<S> {
    /// Serves one connection until it ends, is upgraded or is evicted. On stop it finishes the current request.
    pub async fn serve(
        &self,
        stream: BoxedStream,
        observer: Box<dyn StreamObserver>,
        peer: HttpPeer,
        slot: ConnectionSlot,
    ) {
        let clock = PhaseClock::new();
        let stream = ObservedStream::new(stream, observer);
        let stream = DeadlineStream::new(stream, clock.clone(), self.deadlines.clone());
        let connection = Arc::new(HttpConnection { peer, slot, clock });
        let service = service_fn(|request| {
            let (connection, service) = (connection.clone(), self.service.clone());
            connection.enter(ConnectionPhase::Busy);
            async move {
                let clock = connection.clock.clone();
                let response = service.respond(connection, request).await;
                Ok::<_, Infallible>(response.map(|body| PhaseBody::new(body, clock)))
            }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.max_header_size(MAX_HEADER_BYTES).max_buf_size(READ_BUFFER).header_read_timeout(None);
        let mut http = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
        let mut is_stopping = false;
        loop {
            tokio::select! {
                ended = http.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "an HTTP connection failed");
                    }
                    return;
                }
                () = connection.slot.evicted() => {
                    tracing::debug!("an unauthenticated connection was closed in favour of a new one");
                    return;
                }
                () = self.stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    http.as_mut().graceful_shutdown();
                }
            }
        }
    }
}
