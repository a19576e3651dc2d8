//! What a session is made from, with the defaults of a resumable one.

use std::path::PathBuf;
use std::sync::Arc;

use engine::{Limits, Roots};

use super::{Face, Session, SessionConnection, SessionHandle};
use crate::core::events::EventOptions;
use crate::core::request::Requester;
use crate::core::sandbox::SessionSandbox;

/// What a session is made from.
pub struct SessionOptions<F: Face> {
    /// The face that opens it.
    pub face: Arc<F>,
    /// Who opens it; with the id of the session.
    pub requester: Requester,
    /// Owns its processes.
    pub engine: engine::Session,
    /// The directories it may reach.
    pub roots: Roots,
    /// Where relative paths start.
    pub cwd: PathBuf,
    /// Its limits.
    pub limits: Limits,
    /// What confines its processes and files.
    pub sandbox: SessionSandbox,
    /// How its events are published.
    pub events: EventOptions,
    /// Whether its client can show and answer requests for approval.
    pub can_approve: bool,
    /// Whether it is kept for a later connection.
    pub is_resumable: bool,
    /// What the protocol adds.
    pub state: F::State,
}

impl<F: Face> SessionOptions<F> {
    /// A resumable session of this requester with the operator's roots and limits, whose events are replayed.
    pub fn new(
        face: &Arc<F>,
        requester: Requester,
        engine: engine::Session,
        state: F::State,
    ) -> SessionOptions<F> {
        let core = face.core();
        SessionOptions {
            face: face.clone(),
            requester,
            engine,
            roots: core.roots.clone(),
            cwd: core.roots.paths().first().cloned().unwrap_or_default(),
            limits: core.limits.clone(),
            sandbox: SessionSandbox::new(None, core.roots.clone()),
            events: EventOptions::replaying(face.sessions().retention.resume_bytes),
            can_approve: false,
            is_resumable: true,
            state,
        }
    }

    /// Opens the session on a connection.
    pub fn open(self, connection: SessionConnection) -> SessionHandle<F> {
        let (session, inbox) = Session::new(self, Some(connection));
        session.start(inbox)
    }
}

opaque_debug!(SessionOptions<F: Face>);
