//! The listening sockets of `rexd serve`: HTTP through [`HttpServer`], and unix sockets with newline-delimited JSON.

use std::sync::Arc;

use link::listen::{ConnectionLimiter, ConnectionSlot, HttpServer, accept};
use link::task::Tasks;
use tokio::net::{UnixListener, UnixStream};

use crate::core::request::ConnectionContext;
use crate::faces::rexd;
use crate::net::http::HttpFrontEnd;
use crate::net::listen::{counted, peer_caller};
use crate::observe::metrics::{RefusalReason, Transport};

/// Everything that is served over sockets.
#[derive(Debug, Clone)]
pub struct Sockets {
    /// The HTTP server; the unix sockets use the service of its front end.
    pub http: Arc<HttpServer<HttpFrontEnd>>,
    /// The limit on unix connections, which remote clients cannot exhaust.
    pub local_limiter: Arc<ConnectionLimiter>,
    /// Owns the listeners and the connections.
    pub tasks: Tasks,
}

impl Sockets {
    /// The routes of the HTTP server.
    pub fn front_end(&self) -> &Arc<HttpFrontEnd> {
        &self.http.service
    }

    /// Serves newline-delimited JSON on `listener` until the daemon stops; then the listener is dropped.
    pub fn serve_unix(&self, listener: impl AsRef<UnixListener> + Send + Sync + 'static) {
        let this = self.clone();
        self.tasks.spawn(async move {
            let on_shortage = || this.local_limiter.evict_oldest();
            loop {
                let (stream, _unnamed) = tokio::select! {
                    () = this.http.stop.cancelled() => return,
                    accepted = accept(|| listener.as_ref().accept(), on_shortage) => accepted,
                };
                match this.local_limiter.try_acquire() {
                    Some(slot) => this.tasks.spawn(unix(this.front_end().clone(), stream, slot)),
                    None => {
                        this.front_end().metrics.refused(RefusalReason::Connections);
                        tracing::debug!("too many connections; closing a new one");
                    }
                }
            }
        });
    }
}

async fn unix(front_end: Arc<HttpFrontEnd>, stream: UnixStream, slot: ConnectionSlot) {
    let caller = match peer_caller(&stream) {
        Ok(caller) => caller,
        Err(rejection) => {
            front_end.metrics.refused(RefusalReason::Credentials);
            return front_end.rejections.record("unix", &rejection, None);
        }
    };
    slot.authenticate();
    let metrics = &front_end.metrics;
    let _connection = metrics.connection(Transport::Unix);
    let (input, output) = stream.into_split();
    let input = counted(input, metrics, Transport::Unix);
    let output = counted(output, metrics, Transport::Unix);
    let link = link::ndjson::link(input, output, &front_end.limits);
    let context = ConnectionContext::new(caller, Transport::Unix);
    rexd::serve(front_end.face.clone(), link, context, front_end.stop.clone()).await;
}
