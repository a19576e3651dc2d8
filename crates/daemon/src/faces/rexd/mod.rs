//! REXD v1: the face that agent runtimes speak, over any link that carries lines of JSON.
//!
//! A session is a task that owns its processes; connections and single requests only write letters to it, so it can
//! outlive them. A request is three steps: decoded by `wire`, turned into the engine's words by `convert`, done by
//! `methods`. What happens later is told by `events`.

mod answer;
mod approver;
mod attachment;
mod call;
mod confining;
mod connection;
mod convert;
mod desk;
mod errors;
mod events;
mod fingerprint;
mod followed;
mod judge;
mod kept;
mod keys;
mod lifetime;
mod listener;
mod mailbox;
mod methods;
mod order;
mod permission;
mod presence;
mod preview;
mod quirks;
mod roster;
mod session;
mod train;
mod wanted;
pub mod web;

use std::sync::Arc;
use std::time::Duration;

use engine::approval::Approvals;
use engine::audit::AuditSink;
use engine::files::Durability;
use engine::{Engine, Limits, Roots};
use link::Link;
use tokio_util::sync::CancellationToken;

use crate::core::resume::Lingering;
use crate::core::runtime_policy::RuntimePolicyHandle;
use crate::keeper::Keepers;
use crate::net::auth::Caller;
use crate::observe::metrics::{Metrics, Transport};
use crate::observe::traces::{TraceParent, Traces};
use connection::Connection;
pub use presence::Retention;
pub use roster::Roster as Sessions;

/// How long the end of the daemon may take: longer than any tree takes to die.
const FAREWELL: Duration = Duration::from_secs(3);

/// The name of this face in listings and in the audit.
pub const FACE: &str = "rexd";

/// What every connection of this face shares.
pub struct Service {
    /// Runs what is asked for.
    pub engine: Engine,
    /// What the operator opened.
    pub roots: Roots,
    /// What to tell a client while no root is configured.
    pub no_roots: Option<String>,
    /// What the operator bounds.
    pub limits: Limits,
    /// What the operator allows now.
    pub runtime_policy: RuntimePolicyHandle,
    /// What waits until somebody has decided.
    pub approvals: Approvals,
    /// Whether writes reach the disk before they are answered.
    pub durability: Durability,
    /// Who keeps the processes that outlive everything; nobody if there is no place for them.
    pub keepers: Option<Keepers>,
    /// Who keeps the record.
    pub audit: Arc<dyn AuditSink>,
    /// What counts.
    pub metrics: Metrics,
    /// What follows requests for a collector, if there is one.
    pub traces: Traces,
    /// Whether this daemon outlives its connections, so that sessions can wait for their clients.
    pub may_resume: bool,
    /// How a daemon without listeners is found by clients that come back.
    pub lingering: Option<Lingering>,
    /// How long sessions wait for somebody to come back.
    pub retention: Retention,
    /// The sessions somebody may come back to, and the tasks of all.
    pub sessions: Sessions,
    /// Cancelled when the daemon ends: every session then ends.
    pub stop: CancellationToken,
}

impl Service {
    /// Ends every session and waits until nothing of them is left, for as long as it takes to end trees: somebody who
    /// does not read what the last events say is not waited for any longer.
    pub async fn shut_down(&self) {
        self.stop.cancel();
        self.sessions.tasks.close();
        if tokio::time::timeout(FAREWELL, self.sessions.tasks.wait()).await.is_err() {
            tracing::warn!("some clients did not take their last events");
        }
        self.engine.shut_down();
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
    /// The trace their requests belong to.
    pub parent: Option<TraceParent>,
    /// The session they have to take up before anything else.
    pub(crate) resumes: Option<Arc<str>>,
}

impl Arrival {
    /// Somebody who says nothing about traces.
    pub fn new(caller: Caller, transport: Transport) -> Arrival {
        Arrival { caller, transport, parent: None, resumes: None }
    }

    /// Somebody who comes for one session, and is sent away if their first request does not take it up.
    pub(crate) fn resuming(self, session: Arc<str>) -> Arrival {
        Arrival { resumes: Some(session), ..self }
    }
}

/// Serves one connection until its peer is done or `stop` is cancelled. Ends its sessions and waits for them, but for
/// those that wait for their client.
pub async fn serve(service: Arc<Service>, link: Link, arrival: Arrival, stop: CancellationToken) {
    Connection::new(service, arrival, &link).run(link, stop).await;
}
