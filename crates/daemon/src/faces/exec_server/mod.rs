//! exec-server: the face that Codex speaks, its v0 and v1 on one connection.
//!
//! A session is owned by its connection; between connections it lies on the [`Shelf`] for a while. A request is three
//! steps: decoded by `wire`, turned into the engine's words by `convert` and `sandbox`, done by `processes` and
//! `files`. What a process writes is told by its `pump`, which numbers it.

mod answer;
mod blocks;
mod connection;
mod convert;
mod details;
mod environment;
mod errors;
mod exits;
mod fetches;
mod files;
pub mod http;
mod judge;
pub mod listen;
mod look;
mod methods;
mod missing;
mod numbers;
mod paths;
mod processes;
mod pump;
mod reads;
pub mod relay;
mod sandbox;
mod session;
mod shelf;
mod walk;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use engine::approval::Approvals;
use engine::audit::AuditSink;
use engine::{Engine, Roots};
use link::Link;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::core::runtime_policy::RuntimePolicyHandle;
use crate::net::auth::Caller;
use crate::observe::metrics::{Metrics, Transport};
use crate::observe::traces::Traces;
use connection::Connection;
pub use shelf::Shelf;

/// The name of this face in listings and in the audit.
pub const FACE: &str = "exec-server";

/// How long the end of the daemon may take: longer than any tree takes to die.
const FAREWELL: Duration = Duration::from_secs(3);

/// What every connection of this face shares.
pub struct Service {
    /// Runs what is asked for.
    pub engine: Engine,
    /// What the operator opened; everything, unless they said otherwise.
    pub roots: Roots,
    /// What the operator allows now.
    pub runtime_policy: RuntimePolicyHandle,
    /// What waits until somebody has decided.
    pub approvals: Approvals,
    /// Who keeps the record.
    pub audit: Arc<dyn AuditSink>,
    /// What counts.
    pub metrics: Metrics,
    /// What follows requests for a collector, if there is one.
    pub traces: Traces,
    /// The sessions that somebody may come back to.
    pub shelf: Shelf,
    /// What goes on beside connections.
    pub tasks: TaskTracker,
    /// Cancelled when the daemon ends: every session then ends.
    pub stop: CancellationToken,
}

impl Service {
    /// Ends every session and waits until nothing of them is left.
    pub async fn shut_down(&self) {
        // Connections end by it, and so do sessions that wait for one, all at the same time.
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(FAREWELL, self.tasks.wait()).await.is_err() {
            tracing::warn!("some clients of exec-server did not take their last messages");
        }
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("roots", &self.roots).finish_non_exhaustive()
    }
}

/// Who comes, and how.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// Who they have proved to be.
    pub caller: Caller,
    /// What carries them.
    pub transport: Transport,
}

/// Serves one connection until its peer is done or `stop` is cancelled. Its session then waits for the next one, unless
/// there cannot be any.
pub async fn serve(service: Arc<Service>, link: Link, arrival: Arrival, stop: CancellationToken) {
    Connection::new(service, arrival, &link).run(link, stop).await;
}

/// What a link of this face takes: 64 MiB of a file in base64, and what surrounds it.
pub fn link_limits() -> link::Limits {
    link::Limits { line_bytes: 128 * 1024 * 1024, event_slots: 2, ..link::Limits::default() }
}
