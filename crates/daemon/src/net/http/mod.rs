//! HTTP/1.1 and WebSocket: REXD for clients that come over the network.
//!
//! | route | what |
//! |---|---|
//! | `POST /rpc` | one message or a batch, and its answer |
//! | `GET /events?session_id=` | the events of a session as they come, as server-sent events |
//! | `GET /ws` | a WebSocket: messages both ways |
//! | `GET /healthz` | whether the daemon takes work; for everybody |
//! | `GET /metrics` | numbers for Prometheus |
//!
//! Everybody passes the gate first. Connections have deadlines for every phase, and strangers cannot crowd out those
//! who have shown who they are.

mod answer;
mod connection;
mod crowd;
mod encoding;
mod events;
mod phases;
mod route;
mod rpc;
mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use link::websocket;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::faces::rexd::Rexd;
use crate::net::auth::{Caller, Gate, Refusals};
use crate::observe::metrics::Metrics;

pub(crate) use answer::Body;
pub use connection::{Peer, serve};
pub use crowd::{Crowd, Place};
pub(crate) use upgrade::switching;

/// Everything a connection needs to be served.
#[derive(Debug)]
pub struct Server {
    /// What is served.
    pub face: Arc<Rexd>,
    /// Who comes in.
    pub gate: Gate,
    /// Who did not.
    pub refusals: Refusals,
    /// What is counted.
    pub metrics: Metrics,
    /// Whether `/metrics` tells it.
    pub tells_metrics: bool,
    /// Where requests are posted.
    pub http_path: String,
    /// Where WebSockets connect.
    pub ws_path: String,
    /// How long each phase of a connection may take.
    pub deadlines: Deadlines,
    /// How WebSockets are kept alive.
    pub websocket: websocket::Settings,
    /// Bounds of what a WebSocket carries.
    pub limits: link::Limits,
    /// Cancelled when the daemon ends.
    pub stop: CancellationToken,
    /// Everything that is served, WebSockets too: what the end of the daemon waits for.
    pub tasks: TaskTracker,
}

/// How long each phase of a connection may take.
#[derive(Debug, Clone)]
pub struct Deadlines {
    /// For all headers of a request, and for the handshake of TLS.
    pub headers: Duration,
    /// For the next piece of a body.
    pub body: Duration,
    /// For the next piece of an answer to be taken.
    pub answer: Duration,
    /// For the next request on a connection that is kept.
    pub idle: Duration,
    /// Between comments on a silent stream of events.
    pub heartbeat: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines {
            headers: Duration::from_secs(10),
            body: Duration::from_secs(30),
            answer: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            heartbeat: Duration::from_secs(15),
        }
    }
}

/// Waits until somebody who was let in would not be let in again.
pub async fn revoked(gate: &Gate, caller: &Caller) {
    let mut changes = gate.auth.changed();
    // Also at once: between the gate and this call anything may have happened, and that change is not told again.
    while gate.auth.still_valid(caller) {
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
