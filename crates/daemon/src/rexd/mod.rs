//! REXD v1: the face that agent runtimes speak, over any link that carries lines of JSON.
//!
//! A connection owns its sessions, a session owns its processes, and a request is three steps: decoded by `wire`,
//! turned into the engine's words by `convert`, done by `methods`. What happens later is told by `events`.

mod answer;
mod call;
mod connection;
mod convert;
mod errors;
mod events;
mod keys;
mod methods;
mod order;
mod quirks;
mod session;
pub mod web;

use std::ffi::OsString;
use std::sync::Arc;

use engine::audit::AuditSink;
use engine::files::Durability;
use engine::{Engine, Limits, Policy, Roots};
use link::Link;
use tokio_util::sync::CancellationToken;

use crate::auth::Caller;
use connection::Connection;

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
    /// What the operator allows.
    pub policy: Policy,
    /// What commands inherit, already filtered.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether writes reach the disk before they are answered.
    pub durability: Durability,
    /// Who keeps the record.
    pub audit: Arc<dyn AuditSink>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("roots", &self.roots).finish_non_exhaustive()
    }
}

/// Serves one connection until its peer is done or `stop` is cancelled; ends its sessions and waits for them.
pub async fn serve(service: Arc<Service>, link: Link, _caller: Caller, stop: CancellationToken) {
    Connection::new(service, &link).run(link, stop).await;
}
