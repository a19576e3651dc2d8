//! The relay's executor: registers, keeps one WebSocket to the rendezvous, and serves each stream that arrives there.
//!
//! After a lost connection it waits, longer each time, and registers again. It ends with an error that no retry can
//! change: a rejected token, an unknown executor, an invalid response.

mod config;
mod registry;

use std::convert::Infallible;
use std::time::Duration;

use link::Link;
use link::dial::{self, Backoff, DialError, Tls};
use link::mux;
use link::task::Tasks;
use link::websocket::{Closer, Settings};
use tokio::time::{Instant, sleep, timeout};

use wire::exec_server::relay::REPLACED;

pub use config::{BEARER_TOKEN_VAR, RemoteExecutorConfig, RemoteExecutorError};

/// How long the handshake with the rendezvous may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// The largest frame; released peers put whole messages into one.
const MAX_FRAME: usize = wire::limits::MAX_LINE_BYTES + 64 * 1024;
/// Frames that wait to be written to the socket.
const FRAMES: usize = 32;

/// After this time a replaced connection is not one of two executors that replace each other in turn.
const STABLE_AFTER: Duration = Duration::from_secs(120);

/// Serves the streams of a rendezvous until an error that no retry can change. Dropping this future resets all
/// streams and ends the connection; the tasks that do so belong to `tasks`.
pub async fn run<Served: Future<Output = ()> + Send + 'static>(
    config: &RemoteExecutorConfig,
    serve: impl Fn(Link) -> Served,
    tasks: &Tasks,
) -> Result<Infallible, RemoteExecutorError> {
    let mut backoff = Backoff::default();
    loop {
        match registry::register(config).await {
            Ok(registration) => match connect(&registration.url, &config.keep_alive).await {
                Ok((link, closer)) => {
                    let executor_id = &registration.executor_id;
                    tracing::info!(%executor_id, "connected to the rendezvous");
                    let since = Instant::now();
                    // Its streams end with the link.
                    let mut acceptor = mux::executor(link, mux::Limits::default(), tasks);
                    while let Some((stream_id, link)) = acceptor.accept().await {
                        tracing::debug!(%stream_id, "a stream was opened");
                        tasks.spawn(serve(link));
                    }
                    let is_replaced = closer.peer_close().is_some_and(|close| close.code == REPLACED);
                    if is_replaced {
                        tracing::error!(
                            "another executor connected as {executor_id:?} and took this one's place: give each an \
                             --executor-id of its own, or end one of them"
                        );
                    } else {
                        tracing::warn!("the connection to the rendezvous is gone");
                    }
                    if !is_replaced || since.elapsed() > STABLE_AFTER {
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

/// Connects to the URL of the rendezvous, unchanged.
async fn connect(url: &str, keep_alive: &Settings) -> Result<(Link, Closer), DialError> {
    let (headers, tls) = (http::HeaderMap::new(), Tls::default());
    let connected = timeout(HANDSHAKE_TIMEOUT, dial::websocket(url, &headers, &tls)).await;
    let socket = connected.map_err(|_| DialError::Late(HANDSHAKE_TIMEOUT))??;
    let limits = link::Limits { line_bytes: MAX_FRAME, event_slots: FRAMES, ..link::Limits::default() };
    Ok(socket.binary(keep_alive, &limits))
}
