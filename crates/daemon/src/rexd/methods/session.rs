//! Sessions: opened, described, moved and closed.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::json;
use wire::rexd::v1::{self, RpcError};

use super::super::answer::Answer;
use super::super::connection::{Connection, Notice};
use super::super::convert::{self, limits_report, timestamp};
use super::super::errors::{invalid, rpc_error, session_not_found, text, unsupported, with_hint};
use super::super::order::Turn;
use super::super::quirks;
use super::super::session::{Manners, Opening, Session};

/// What this server can do beyond opening a session.
const CAPABILITIES: &[&str] = &[
    "exec",
    "fs",
    "events",
    "pty",
    "login",
    "exec.input",
    "exec.list",
    "fs.edit",
    "fs.patch",
    "fs.grep",
    "fs.watch",
    "fs.mkdir",
    "fs.remove",
    "fs.rename",
    "fs.copy",
    "names_only",
    "session.set_cwd",
    "session.limits",
    "server.ping",
    "event_id",
    "cursor",
    "kill_report",
    "output_encoding",
    "stdin_encoding",
    "max_frame_bytes",
    "idempotency_key",
    "cancel",
    "policy",
];
/// The shortest line a client may limit us to: an answer must fit.
const SMALLEST_FRAME: usize = 16 * 1024;
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

impl Connection {
    /// `session.open`.
    pub(in super::super) fn open(&mut self, params: v1::SessionOpen, mut answer: Answer) {
        let result = self.try_open(&params);
        if let Ok((session, _)) = &result {
            answer.describe(session.asker(), super::details(&super::Call::SessionOpen(params)));
        }
        let result = result.map(|(session, result)| {
            self.sessions.insert(session.id.clone(), session);
            result
        });
        self.spawn(answer.send(result));
    }

    fn try_open(&self, params: &v1::SessionOpen) -> Result<(Session, v1::SessionOpenResult), RpcError> {
        let service = self.service.clone();
        let manners = manners(params)?;
        let limits = service.limits.lowered(&convert::limits_wish(params.limits.as_ref())?);
        let asked = params.workspace_roots.as_deref().unwrap_or_default();
        let reported_roots = convert::reported_roots(&service.roots, asked);
        let engine = service.engine.open_session().map_err(rpc_error)?;
        let id: Arc<str> = Arc::from(format!("s_{}", engine::session::random_name().map_err(rpc_error)?));
        let result = v1::SessionOpenResult {
            session_id: id.to_string(),
            protocol: v1::PROTOCOL.to_owned(),
            server_version: manners.quirks.pinned_version.unwrap_or(OWN_VERSION).to_owned(),
            capabilities: CAPABILITIES.iter().map(|name| (*name).to_owned()).collect(),
            limits: limits_report(&limits),
            workspace_roots: reported_roots.clone(),
            server_name: "rexd".to_owned(),
            implementation_version: OWN_VERSION.to_owned(),
            resume_token: None,
            lost: None,
            output_encoding: params
                .output_encoding
                .as_ref()
                .map(|_asked| manners.encoding.as_str().to_owned()),
            compress: None,
            max_frame_bytes: manners.frame_bytes.map(|bytes| bytes as u64),
        };
        let opening = Opening { id, service, engine, manners, reported_roots, limits };
        Ok((Session::new(opening, self.outgoing.clone(), self.notices.clone(), self.tasks.clone()), result))
    }

    /// `session.close`: the answer comes when every process of the session is gone.
    pub(in super::super) fn close(&mut self, id: &str, answer: Answer) {
        match self.sessions.remove(id) {
            Some(session) => self.spawn(async move {
                session.close().await;
                answer.send(Ok(v1::OkResult::DONE)).await;
            }),
            None => self.spawn(answer.send(Err::<(), _>(session_not_found(id)))),
        }
    }

    /// `session.resume`, which only a connection that outlives its link can do.
    pub(in super::super) fn refuse_resume(&self, answer: Answer) {
        self.spawn(answer.send(Err::<(), _>(unsupported(
            "resume",
            "sessions on this transport end with their connection",
        ))));
    }

    /// `server.ping`.
    pub(in super::super) fn ping(&self, answer: Answer) {
        self.spawn(answer.send(Ok(v1::ServerPingResult { time: timestamp(SystemTime::now()) })));
    }
}

fn manners(params: &v1::SessionOpen) -> Result<Manners, RpcError> {
    let client = params.client_name.as_deref().unwrap_or_default();
    let quirks = quirks::of(client);
    let asked = convert::optional_count("max_frame_bytes", params.max_frame_bytes)?;
    if asked.is_some_and(|bytes| bytes < SMALLEST_FRAME) {
        return Err(invalid("max_frame_bytes", "must be at least 16384"));
    }
    let frame_bytes = match (asked, quirks.frame_bytes) {
        (Some(asked), Some(known)) => Some(asked.min(known)),
        (asked, known) => asked.or(known),
    };
    let encoding = convert::output_encoding(params.output_encoding.as_deref(), "output_encoding")?;
    Ok(Manners { client: Arc::from(client), quirks, encoding, frame_bytes })
}

impl Session {
    /// `session.info`.
    pub(super) fn info(&self, answer: Answer) {
        let result = v1::SessionInfoResult {
            session_id: self.id.to_string(),
            cwd: text(&self.cwd),
            workspace_roots: self.reported_roots.clone(),
            running_processes: self.engine.running() as u64,
            limits: limits_report(&self.limits),
            client_name: Some(self.manners.client.to_string()).filter(|name| !name.is_empty()),
            last_event_id: None,
            capabilities: Vec::new(),
        };
        self.reply(answer, Ok(result));
    }

    /// `session.set_cwd`: relative paths start there, if it is a directory within the roots.
    pub(super) fn set_cwd(&self, params: v1::SessionSetCwd, answer: Answer, turn: Turn) {
        let path = match self.path(&params.path) {
            Ok(path) => path,
            Err(error) => return self.refuse(answer, error),
        };
        let (session_id, notices) = (self.id.clone(), self.notices());
        self.spawn(async move {
            let cwd = path.as_path().to_owned();
            let opened = tokio::task::spawn_blocking(move || path.open_directory()).await;
            match opened.unwrap_or(Err(engine::Error::Gone)) {
                Ok(_directory) => {
                    let result = v1::SessionSetCwdResult { ok: true, cwd: text(&cwd) };
                    // In force before it is answered, so that the next request finds it.
                    notices.send(Notice::Cwd { session_id, path: cwd, turn }).await.ok();
                    answer.send(Ok(result)).await;
                }
                Err(error) => answer.send(Err::<(), _>(rpc_error(error))).await,
            }
        });
    }

    /// `approval.list`: nothing waits, since what must be asked about is refused while nobody can be asked.
    pub(super) fn approval_list(&self, answer: Answer) {
        self.reply(answer, Ok(v1::ApprovalListResult { approvals: Vec::new() }));
    }

    /// `approval.answer`.
    pub(super) fn approval_answer(&self, params: &v1::ApprovalAnswer, answer: Answer) {
        let data = json!({ "field": "approval_id", "approval_id": params.approval_id });
        self.refuse(answer, RpcError::invalid_params("approval not found").with_data(data));
    }

    /// Answers with an error.
    pub(super) fn refuse(&self, answer: Answer, error: RpcError) {
        self.reply(answer, Err::<(), _>(error));
    }

    /// A path of a request; while no root is configured the error says what to write where.
    pub(super) fn path(&self, asked: &str) -> Result<engine::RootedPath, RpcError> {
        convert::path(&self.roots, &self.cwd, asked).map_err(|error| self.hint(error))
    }

    /// Adds what to do about it to an error that comes from missing configuration.
    pub(super) fn hint(&self, error: RpcError) -> RpcError {
        with_hint(error, self.service.no_roots.as_deref())
    }
}
