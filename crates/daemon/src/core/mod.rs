//! What every face uses and none owns: one engine, the operator's policy, approvals, sessions, events and responses.
//!
//! | module | what it holds |
//! |---|---|
//! | [`table`] | the method table: one row per method, read by dispatch, audit, metrics, traces and approvals |
//! | [`dispatch`] | from a message to a decoded request whose caller has the scope it needs |
//! | [`prepare`] | what a request is checked and converted with |
//! | [`request`], [`responder`] | who makes a request and under which authorization; its one response |
//! | [`effects`], [`authorize`] | what a request does to commands and files; allow, deny or ask |
//! | [`session`] | a session as a task: scheduling, idempotency, connections that come and go |
//! | [`events`] | logs of processes as numbered events, with replay |
//! | [`sandbox`], [`approvals`], [`runtime_policy`] | the operator's configuration at run time |
//! | [`resume`] | `rexd --stdio` after its streams are gone |
//! | [`terminal`] | the screen of a terminal, and the prompts on it |
//! | [`peers`] | the other daemons of this user |

/// Implements `Debug` by the type's name alone, for types whose fields have nothing to show.
macro_rules! opaque_debug {
    ($($name:ident $(<$($param:ident $(: $bound:path)?),+>)?),* $(,)?) => {$(
        impl $(<$($param $(: $bound)?),+>)? std::fmt::Debug for $name $(<$($param),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

pub(crate) use opaque_debug;

pub mod approvals;
pub mod authorize;
pub(crate) mod code_pages;
pub mod dispatch;
pub mod effects;
pub mod events;
pub mod path_rules;
pub mod peers;
pub mod prepare;
pub mod request;
pub mod responder;
pub mod response_memory;
pub mod resume;
pub mod runtime_policy;
pub mod sandbox;
pub mod session;
pub(crate) mod sockets;
pub(crate) mod state;
pub mod table;
pub mod terminal;

use std::sync::Arc;
use std::time::Duration;

use engine::approval::Approvals;
use engine::audit::AuditSink;
use engine::files::Durability;
use engine::{Engine, Limits, Roots};
use link::task::Tasks;
use link::{ByteBudget, Writing};
use tokio_util::sync::CancellationToken;

use crate::keeper::Keepers;
use crate::observe::metrics::{Metrics, QueueGauge};
use crate::observe::traces::Traces;
use peers::Peers;
use runtime_policy::RuntimePolicyHandle;

/// Whether the clients of a face are not authenticated, so that its processes belong to the OS user alone: other faces list and
/// kill them, but their output and input stay with that user.
pub fn is_unauthenticated(face: &str) -> bool {
    face == "stringd"
}

/// How long the end of the daemon may take: longer than any process tree takes to end.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Ends a connection: runs `end`, then waits until the remaining messages are written. A peer that does not read is waited
/// for until `timeout`.
pub async fn flush(writing: Writing, end: impl Future<Output = ()>, timeout: Duration) {
    let flushed = async {
        end.await;
        writing.finished().await
    };
    match tokio::time::timeout(timeout, flushed).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "connection closed before everything was written"),
        Err(_elapsed) => tracing::warn!("the peer does not read: dropping the remaining messages"),
    }
}

/// What all faces share. Built once; a face is built from it and its own configuration.
pub struct Core {
    /// Runs processes and reaches files.
    pub engine: Engine,
    /// The directories that the operator serves.
    pub roots: Roots,
    /// The error message for a path while no root is configured.
    pub no_roots: Option<String>,
    /// The operator's limits.
    pub limits: Limits,
    /// The operator's rules, environment and sandbox, as of now.
    pub policy: RuntimePolicyHandle,
    /// Operations that wait for a person.
    pub approvals: Approvals,
    /// Whether writes reach the disk before they are answered.
    pub durability: Durability,
    /// The other daemons of this user; `None` without a state directory.
    pub peers: Option<Peers>,
    /// Starts and finds detached processes; `None` without a state directory.
    pub keepers: Option<Keepers>,
    /// Where audit records go.
    pub audit: Arc<dyn AuditSink>,
    /// Counters and gauges of this daemon.
    pub metrics: Metrics,
    /// The bytes of all messages that are being received.
    pub budget: ByteBudget,
    /// Reports the used part of the budget.
    pub(crate) _budget_gauge: QueueGauge,
    /// Spans for a collector, if one is configured.
    pub traces: Traces,
    /// Owns the tasks that belong to no session and no connection.
    pub tasks: Tasks,
    /// Cancelled when the daemon ends: every session then ends.
    pub stop: CancellationToken,
}

impl Core {
    /// Ends every session of every face and waits for their tasks, at most [`SHUTDOWN_TIMEOUT`].
    pub async fn shut_down(&self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!("some clients did not read their last messages in time");
        }
        self.engine.shut_down();
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("roots", &self.roots).finish_non_exhaustive()
    }
}
