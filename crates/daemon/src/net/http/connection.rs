//! One HTTP connection: its requests one after the other, until it ends, is upgraded, or has to go.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::crowd::Place;
use super::phases::{Phase, Phases, Timed};
use super::{Server, route};
use crate::net::listen::counted;
use crate::observe::metrics::Transport;

/// All headers of a request together.
const MOST_HEADERS: usize = 16 * 1024;
/// What is read at a time; large bodies come in pieces of this.
const READ_BUFFER: usize = 64 * 1024;

/// Who is at the other end.
#[derive(Debug)]
pub struct Peer {
    /// Where they come from.
    pub address: Option<SocketAddr>,
    /// The certificate they showed, verified, as DER.
    pub certificate: Option<Vec<u8>>,
    /// Their place in the crowd.
    pub place: Place,
}

/// What the requests of one connection share.
pub(super) struct Visit {
    pub(super) server: Arc<Server>,
    pub(super) peer: Peer,
    pub(super) phases: Phases,
}

/// Serves one connection to its end.
pub async fn serve<S>(server: Arc<Server>, stream: S, peer: Peer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stop, phases) = (server.stop.clone(), Phases::new());
    let stream = counted(stream, &server.metrics, Transport::Http);
    let stream = Timed::new(stream, phases.clone(), &server);
    let visit = Arc::new(Visit { server, peer, phases });
    let service = service_fn(|request| {
        let visit = visit.clone();
        async move {
            let response = route::answer::<S>(&visit, request).await;
            if !response.is_stream {
                visit.phases.enter(Phase::Idle);
            }
            Ok::<_, Infallible>(response.response)
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.max_header_size(MOST_HEADERS).max_buf_size(READ_BUFFER).header_read_timeout(None);
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = pin!(connection);
    let mut is_ending = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "an HTTP connection broke");
                }
                return;
            }
            () = visit.peer.place.evicted() => {
                tracing::debug!("a stranger made room");
                return;
            }
            () = stop.cancelled(), if !is_ending => {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}
