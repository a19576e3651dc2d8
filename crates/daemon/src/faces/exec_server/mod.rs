//! exec-server: the face that Codex uses, its v0 and v1 on one connection.
//!
//! `table` lists the methods, `convert` and `sandbox` turn wire parameters into the engine's types, `methods` runs them,
//! and `events` turns log entries into notifications. Everything else is [`crate::core`].

mod connection;
mod convert;
mod errors;
mod events;
pub mod listen;
pub mod methods;
mod paths;
pub mod relay;
mod sandbox;
mod sequence;
mod session;
mod table;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::Roots;
use engine::process::ProcessId;
use link::Link;
use link::rpc::Params;
use serde::de::DeserializeOwned;
use wire::exec_server::{code, v1};
use wire::jsonrpc::RpcError;

use crate::core::Core;
use crate::core::request::ConnectionContext;
use crate::core::session::{Face, Retention, SessionRegistry};
use crate::core::table::Method;
use connection::Connection;
use session::{ExecServerState, Session};
pub use table::TABLE;

/// How long a session is kept without a connection.
const RESUME_FOR: Duration = Duration::from_secs(30);
/// Sessions that may be disconnected at the same time; one more ends at once.
const MAX_DISCONNECTED: usize = 1_024;

/// Sent output of a process that can be read again, unless `server.resume_bytes` is less. Released clients do not acknowledge
/// what they receive, and this is usually more than is on its way to one.
const MAX_KEPT: usize = 6 * 1024 * 1024;

/// exec-server over one core.
#[derive(Debug)]
pub struct ExecServer {
    core: Arc<Core>,
    roots: Roots,
    sessions: SessionRegistry<ExecServer>,
    max_running: usize,
}

impl ExecServer {
    /// The face. Its clients expect the rights of the OS user, so it serves `/` unless roots are configured.
    pub fn new(core: Arc<Core>) -> ExecServer {
        let roots = match core.roots.is_empty() {
            true => Roots::new(vec![PathBuf::from("/")]),
            false => core.roots.clone(),
        };
        let retention =
            Retention { resume: RESUME_FOR, max_disconnected: MAX_DISCONNECTED, ..Retention::default() };
        let max_running = connection::MAX_RUNNING;
        ExecServer { core, roots, sessions: SessionRegistry::new(retention), max_running }
    }

    /// The same with at most this much sent output of a process that can be read again.
    pub fn with_resume_bytes(mut self, bytes: u64) -> ExecServer {
        self.sessions.retention.resume_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self
    }

    /// Bytes of sent output of a process that can be read again.
    fn kept_bytes(&self) -> usize {
        self.sessions.retention.resume_bytes.min(MAX_KEPT)
    }

    /// The same with at most this many requests of a connection that run at the same time.
    pub fn with_concurrent_requests(self, limit: Option<NonZeroUsize>) -> ExecServer {
        let max_running = limit.map_or(self.max_running, |limit| limit.get().min(self.max_running));
        ExecServer { max_running, ..self }
    }
}

impl Face for ExecServer {
    const NAME: &'static str = "exec-server";
    const IDENTITY_PARAMS: &'static [&'static str] = &["processId"];
    type State = ExecServerState;
    /// Only `initialize` is for the connection.
    type ConnectionCall = v1::InitializeParams;
    type Events = events::ExecServerEvents;

    fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn sessions(&self) -> &SessionRegistry<ExecServer> {
        &self.sessions
    }

    fn table() -> &'static [&'static dyn Method<ExecServer>] {
        TABLE
    }

    fn decode<P: DeserializeOwned>(params: &Params) -> Result<P, RpcError> {
        let text = params.text().unwrap_or("null");
        serde_json::from_str(text).map_err(|error| {
            // A position in a part of the message is of no use.
            let text = error.to_string();
            let end = text.rfind(" at line ").unwrap_or(text.len());
            RpcError::invalid_params(&text[..end])
        })
    }

    fn error(error: engine::Error) -> RpcError {
        errors::rpc_error(error)
    }

    fn start_error(&self, error: engine::Error) -> RpcError {
        match errors::rpc_error(error) {
            // A missing directory is a failure of the start, not a missing file.
            error if error.code == code::NOT_FOUND => RpcError::internal(error.message),
            error => error,
        }
    }

    fn unknown_method(name: &str) -> RpcError {
        RpcError::new(code::METHOD_NOT_FOUND, format!("unknown method {name:?}"))
    }

    fn session_closed(id: &str) -> RpcError {
        RpcError::invalid_request(format!("session {id:?} has ended"))
    }

    fn disconnected(session: &mut Session) {
        session::disconnected(session);
    }

    fn process_closed(session: &mut Session, _process: &ProcessId) {
        session::process_closed(session);
    }
}

/// Serves one connection until its peer is done or the daemon ends. Its session is kept for the next connection, unless
/// the connection cannot be replaced.
pub async fn serve(face: Arc<ExecServer>, link: Link, context: ConnectionContext) {
    Connection::new(face, context, &link).run(link).await;
}

/// The length of a message: 64 MiB of a file in base64 and its envelope fit into one.
const MAX_LINE_BYTES: usize = 128 * 1024 * 1024;

/// The limits of a link.
pub fn link_limits(core: &Core) -> link::Limits {
    let budget = core.budget.clone();
    link::Limits { line_bytes: MAX_LINE_BYTES, event_slots: 2, budget, ..link::Limits::default() }
}
