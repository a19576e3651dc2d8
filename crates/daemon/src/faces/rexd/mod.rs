//! REXD v1: the face that agent runtimes use, over any link that carries lines of JSON.
//!
//! `table` lists the methods, `convert` turns wire parameters into the engine's types, `methods` runs them, and `events`
//! turns log entries into notifications. Everything else is [`crate::core`].

mod capabilities;
mod connection;
mod convert;
mod errors;
mod events;
mod fingerprint;
mod host_info;
pub mod http;
mod methods;
mod peers;
mod quirks;
mod resume_key;
mod session;
mod table;

use std::sync::Arc;

use engine::approval::ApprovalUpdate;
use engine::process::ProcessId;
use engine::session::FinishedRetention;
use link::Link;
use link::rpc::Params;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::RpcError;
use wire::rexd::v1::{self, codes, encode_event};

use crate::core::Core;
use crate::core::events::EncodeEvent;
use crate::core::peers::ServePeers;
use crate::core::request::ConnectionContext;
use crate::core::resume::ResumeWait;
use crate::core::session::{Face, Retention, ServeLink, SessionRegistry};
use crate::core::table::Method;
use connection::Connection;
use peers::ApproverSessions;
use session::{RexdState, Session};
pub use table::TABLE;

/// REXD v1 over one core.
#[derive(Debug)]
pub struct Rexd {
    core: Arc<Core>,
    sessions: SessionRegistry<Rexd>,
    /// Whether sessions outlive their connections; not if this daemon ends with its only connection.
    may_resume: bool,
    /// How a daemon without listeners is found by clients that resume.
    resume: Option<ResumeWait>,
    /// Its sessions that answer approvals, also those of other daemons.
    approvers: Arc<ApproverSessions>,
    /// Part of the ids that follow from resume keys.
    key_salt: String,
}

impl Rexd {
    /// The face for a daemon that keeps sessions as `retention` says, or ends with its only connection.
    pub fn new(core: Arc<Core>, retention: Option<Retention>, resume: Option<ResumeWait>) -> Rexd {
        let may_resume = retention.is_some();
        let sessions = SessionRegistry::new(retention.unwrap_or_default());
        // The daemons on standard streams derive the same ids; elsewhere no client can find a key for the id of another session.
        let key_salt = match &resume {
            Some(_) => String::new(),
            None => engine::session::random_name().unwrap_or_default(),
        };
        Rexd { core, sessions, may_resume, resume, approvers: Arc::default(), key_salt }
    }
}

impl Rexd {
    /// The face that serves the other daemons of this user: a daemon that waits for its own sessions does not wait for
    /// those.
    pub fn for_peers(&self) -> Rexd {
        Rexd { approvers: self.approvers.clone(), ..Rexd::new(self.core.clone(), None, None) }
    }
}

/// The params of a request that reaches its connection rather than a session.
#[derive(Debug)]
pub enum ConnectionCall {
    /// `session.open`.
    Open(Box<v1::SessionOpen>),
    /// `session.resume`.
    Resume(v1::SessionResume),
    /// `server.ping`.
    Ping,
}

impl Face for Rexd {
    const NAME: &'static str = "rexd";
    const IDENTITY_PARAMS: &'static [&'static str] = &["session_id", "idempotency_key"];
    type State = RexdState;
    type ConnectionCall = ConnectionCall;
    type Events = events::RexdEvents;

    fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn sessions(&self) -> &SessionRegistry<Rexd> {
        &self.sessions
    }

    fn table() -> &'static [&'static dyn Method<Rexd>] {
        TABLE
    }

    fn decode<P: DeserializeOwned>(params: &Params) -> Result<P, RpcError> {
        params.decode()
    }

    fn error(error: engine::Error) -> RpcError {
        errors::rpc_error(error)
    }

    fn start_error(&self, error: engine::Error) -> RpcError {
        errors::with_hint(errors::rpc_error(error), self.core.no_roots.as_deref())
    }

    fn session_closed(id: &str) -> RpcError {
        errors::session_not_found(id)
    }

    fn key_in_use() -> RpcError {
        let message =
            "the idempotency key is in use by another request, or by this one, which has no response yet";
        RpcError::new(codes::CONCURRENCY_CONFLICT, message).with_data(json!({ "field": "idempotency_key" }))
    }

    fn process_closed(session: &mut Session, process: &ProcessId) {
        let memory =
            FinishedRetention { count: session.limits.finished_kept, time: session.limits.finished_for };
        session.engine.retain_finished(process, memory);
    }

    fn approval_update(session: &mut Session, update: &ApprovalUpdate) {
        methods::approvals::publish_update(session, update);
    }

    fn shutdown_event(session: &Session) -> Option<EncodeEvent> {
        let session_id = session.id.to_string();
        Some(Box::new(move |event_id| {
            encode_event(&v1::SessionClosing { session_id, reason: "shutdown".to_owned(), event_id })
        }))
    }

    /// A daemon on standard streams stays only for a session in which something happened.
    fn is_disposable(session: &Session) -> bool {
        session.face.resume.is_some()
            && !session.has_events()
            && session.keys.is_empty()
            && session.state.is_unused()
    }

    fn close(session: &mut Session) {
        session.face.approvers.remove(&session.id);
        if let Some(key) = session.state.key.take() {
            key.end(session.is_closing() || Rexd::is_disposable(session));
        }
        let error = errors::session_not_found(&session.id);
        for request in session.state.release() {
            session.reject(request.responder, error.clone());
        }
    }
}

/// Serves one connection until its peer is done or `stop` is cancelled. Sessions that cannot be resumed end with it.
pub async fn serve(face: Arc<Rexd>, link: Link, context: ConnectionContext, stop: CancellationToken) {
    Connection::new(face, context, &link).run(link, stop).await;
}

impl ServeLink for Rexd {
    async fn serve_link(self: Arc<Rexd>, link: Link, context: ConnectionContext) {
        let stop = self.core.stop.clone();
        serve(self, link, context, stop).await;
    }
}

impl ServePeers for Rexd {
    async fn connect_approvers(self: Arc<Rexd>, daemon: String) {
        peers::connect_approvers(self, daemon).await;
    }
}
