//! The relay's executor: registers, keeps one WebSocket to the rendezvous, and serves each stream that arrives there.
//!
//! Register, connect, serve; after every loss wait a little longer and begin again. What no waiting mends ends it: a
//! token that is refused, an executor that is not known, an answer that makes no sense.

mod config;
mod registry;

use std::convert::Infallible;
use std::time::Duration;

use link::Link;
use link::dial::{self, Backoff, DialError, Tls};
use link::mux;
use link::websocket::{Closer, Settings};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use wire::exec_server::relay::REPLACED;

pub use config::{BEARER_TOKEN_VAR, RemoteExecutorConfig, RemoteExecutorError};

/// How long a rendezvous has for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(20);
/// The largest frame taken; released peers put whole messages into one.
const MOST_FRAME: usize = wire::limits::MAX_LINE_BYTES + 64 * 1024;
/// Frames on their way to the socket.
const FRAMES: usize = 32;

/// A connection that held so long was not one of two that throw each other out.
const STEADY: Duration = Duration::from_secs(120);

/// Serves the streams of a rendezvous until something happens that no waiting mends. Dropping this future resets all
/// streams and ends the connection; the tasks that do so belong to `tasks`.
pub async fn run<F, Served>(
    config: &RemoteExecutorConfig,
    serve: F,
    tasks: &TaskTracker,
) -> Result<Infallible, RemoteExecutorError>
where
    F: Fn(Link) -> Served,
    Served: Future<Output = ()> + Send + 'static,
{
    let mut backoff = Backoff::default();
    loop {
        match registry::register(config).await {
            Ok(place) => match connect(&place.url).await {
                Ok((link, closer)) => {
                    let executor_id = &place.executor_id;
                    tracing::info!(%executor_id, "connected to the rendezvous");
                    let since = Instant::now();
                    serve_all(link, &serve, tasks).await;
                    if is_replaced(&closer) {
                        tracing::error!(
                            "another executor connected as {executor_id:?} and took this one's place: give each an \
                             --executor-id of its own, or end one of them"
                        );
                    } else {
                        tracing::warn!("the connection to the rendezvous is gone");
                    }
                    if !is_replaced(&closer) || since.elapsed() > STEADY {
                        backoff.reset();
                    }
                }
                Err(error) => tracing::warn!(%error, "the rendezvous cannot be reached"),
            },
            Err(error) if error.may_pass() => tracing::warn!(%error, "the registry cannot be reached"),
            Err(error) => return Err(error),
        }
        let wait = backoff.wait();
        tracing::info!(?wait, "trying again");
        sleep(wait).await;
    }
}

/// Connects to the place that the registry named, as it named it.
async fn connect(url: &str) -> Result<(Link, Closer), DialError> {
    let headers = http::HeaderMap::new();
    let tls = Tls::default();
    let dialled = timeout(HANDSHAKE, dial::websocket(url, &headers, &tls)).await;
    let socket = dialled.map_err(|_| DialError::Late(HANDSHAKE))??;
    let limits = link::Limits { line_bytes: MOST_FRAME, event_slots: FRAMES, ..link::Limits::default() };
    Ok(socket.binary(&Settings::relay(), &limits))
}

/// Whether the rendezvous ended the connection because another one has its place.
fn is_replaced(closer: &Closer) -> bool {
    closer.peer_close().is_some_and(|said| said.code == REPLACED)
}

/// Serves every stream until the link is gone; its streams end with it.
async fn serve_all<F, Served>(link: Link, serve: &F, tasks: &TaskTracker)
where
    F: Fn(Link) -> Served,
    Served: Future<Output = ()> + Send + 'static,
{
    let mut acceptor = mux::executor(link, mux::Limits::default(), tasks);
    while let Some((stream_id, link)) = acceptor.accept().await {
        tracing::debug!(%stream_id, "a stream was opened");
        tasks.spawn(serve(link));
    }
}
