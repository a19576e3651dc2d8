//! Sessions: opened, described, moved and closed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use engine::Roots;
use link::Outgoing;
use serde_json::json;
use tokio::sync::mpsc;
use wire::rexd::v1::{self, RpcError};

use super::super::answer::{Answer, Asker};
use super::super::confining::Confining;
use super::super::convert::{self, limits_report, timestamp};
use super::super::errors::{invalid, rpc_error, text, with_hint};
use super::super::lifetime::live;
use super::super::mailbox::{Handle, LETTERS_WAITING, Letter, Notice, OnLink};
use super::super::order::Turn;
use super::super::quirks;
use super::super::session::{Manners, Opening, Session};
use super::super::{FACE, Service};
use crate::config::OFF;
use crate::core::permission::Rules;
use crate::core::runtime_policy::RuntimePolicy;
use crate::net::auth::Caller;

/// What this server can do beyond opening a session.
const CAPABILITIES: &[&str] = &[
    "exec",
    "fs",
    "events",
    "pty",
    "login",
    "exec.input",
    "exec.list",
    "exec.attach",
    "detach",
    "fs.edit",
    "fs.patch",
    "fs.grep",
    "fs.watch",
    "fs.mkdir",
    "fs.remove",
    "fs.rename",
    "fs.copy",
    "fs.read.hash",
    "fs.stat.hash",
    "fs.write.hash",
    "fs.write.permissions",
    "fs.write.durable",
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
    "input_key",
    "cancel",
    "policy",
    "approvals",
    "sandbox",
];
/// What only a daemon that outlives its connections can do.
const RESUME: &str = "resume";
/// What only WebSockets do, so a daemon that listens.
const COMPRESS: &str = "compress";
/// The shortest line a client may limit us to: an answer must fit.
const SMALLEST_FRAME: usize = 16 * 1024;
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// A session that was just opened.
pub(in super::super) struct Opened {
    pub(in super::super) handle: Handle,
    pub(in super::super) result: v1::SessionOpenResult,
}

/// `session.open`: its events go along `link`, or wait until somebody listens.
pub(in super::super) fn open(
    service: &Arc<Service>,
    caller: &Arc<Caller>,
    params: &v1::SessionOpen,
    link: Option<OnLink>,
) -> Result<Opened, RpcError> {
    let manners = manners(params)?;
    let limits = service.limits.lowered(&convert::limits_wish(params.limits.as_ref())?);
    let roots = match &caller.roots {
        Some(own) => service.roots.narrowed(own.clone()).map_err(rpc_error)?,
        None => service.roots.clone(),
    };
    let reported_roots =
        convert::reported_roots(&roots, params.workspace_roots.as_deref().unwrap_or_default());
    let engine = service.engine.open_session().map_err(|error| make_room(service, caller, error))?;
    let id: Arc<str> = Arc::from(format!("s_{}", engine::session::random_name().map_err(rpc_error)?));
    let client = Arc::from(params.client_name.as_deref().unwrap_or_default());
    let asker = Asker { caller: caller.clone(), client, session: Some(id.clone()) };
    let resume_token = if params.resume && service.may_resume { Some(secret()?) } else { None };
    let (letters, inbox) = mpsc::channel(LETTERS_WAITING);
    let handle = Handle { id, asker: asker.clone(), silent_since: Arc::default(), letters };
    let is_findable = resume_token.is_some() || link.is_none();
    let confining = confining(service, params, &roots)?;
    let service = service.clone();
    let sessions = service.sessions.clone();
    let opening =
        Opening { asker, service, engine, manners, roots, reported_roots, limits, resume_token, confining };
    let session = Session::new(opening, &handle, link);
    let result = session.opened();
    if is_findable {
        sessions.add(handle.clone());
    }
    // A future holds what it is given twice over: a session would weigh twice as much.
    sessions.tasks.spawn(live(Box::new(session), inbox));
    Ok(Opened { handle, result })
}

impl Opened {
    /// Answers; from the next message on the link is compressed, if that was asked for and it can be.
    pub(in super::super) async fn answer(
        self,
        params: v1::SessionOpen,
        mut answer: Answer,
        outgoing: Option<Outgoing>,
    ) {
        let wants_zstd = params.compress.as_deref() == Some("zstd");
        answer.describe(self.handle.asker, super::details(&super::Call::SessionOpen(params)));
        welcome(answer, self.result, outgoing.filter(|_| wants_zstd)).await;
    }
}

/// Answers `session.open` or `session.resume`; a link that can compress does so from the next message on, for a client
/// that learns from this answer what those look like.
pub(in super::super) async fn welcome(
    answer: Answer,
    mut result: v1::SessionOpenResult,
    compressing: Option<Outgoing>,
) {
    match compressing.filter(Outgoing::can_compress) {
        Some(outgoing) => {
            result.compress = Some("zstd".to_owned());
            answer.send_written(Ok(result)).await;
            outgoing.compress();
        }
        None => answer.send(Ok(result)).await,
    }
}

/// `server.ping`.
pub(in super::super) async fn ping(answer: Answer) {
    answer.send(Ok(v1::ServerPingResult { time: timestamp(SystemTime::now()) })).await;
}

/// There is no room for another session: if one of this caller's only waits for somebody to come back, it goes.
fn make_room(service: &Service, caller: &Caller, error: engine::Error) -> RpcError {
    let error = rpc_error(error);
    let Some(silent) = service.sessions.longest_silent(caller) else { return error };
    tracing::warn!(session = &*silent.id, "too many sessions: one that waits for its client ends");
    silent.end_soon();
    let mut data = error.data.clone();
    if let Some(data) = data.as_object_mut() {
        data.insert("retry".to_owned(), json!(true));
    }
    error.with_data(data)
}

/// What confines the processes of a session, if it names a profile that there is.
fn confining(service: &Service, params: &v1::SessionOpen, roots: &Roots) -> Result<Confining, RpcError> {
    if let Some(wish) = &params.sandbox {
        let sandbox = &service.runtime_policy.current().sandbox;
        sandbox.check(wish).map_err(|unknown| invalid("sandbox", &unknown.to_string()))?;
    }
    let wish = params.sandbox.clone().filter(|wish| wish != OFF);
    Ok(Confining::new(wish, roots.clone()))
}

/// Thirty-two hexadecimal digits that nobody can guess.
fn secret() -> Result<String, RpcError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| RpcError::internal(format!("no randomness: {error}")))?;
    Ok(convert::hexadecimal(&bytes))
}

fn capabilities(service: &Service) -> Vec<String> {
    let resume = service.may_resume.then_some(&RESUME);
    let compress = (service.may_resume && service.lingering.is_none()).then_some(&COMPRESS);
    CAPABILITIES.iter().chain(resume).chain(compress).map(|name| (*name).to_owned()).collect()
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
    let wants_zstd = params.compress.as_deref() == Some("zstd");
    let encoding_asked = params.output_encoding.as_ref().map(|_asked| encoding);
    let attends = params.approvals.unwrap_or(!quirks.cannot_approve);
    Ok(Manners { quirks, encoding, encoding_asked, frame_bytes, wants_zstd, attends })
}

impl Session {
    /// What `session.open` and `session.resume` answer.
    pub(in super::super) fn opened(&self) -> v1::SessionOpenResult {
        v1::SessionOpenResult {
            session_id: self.id.to_string(),
            protocol: v1::PROTOCOL.to_owned(),
            server_version: self.manners.quirks.pinned_version.unwrap_or(OWN_VERSION).to_owned(),
            capabilities: capabilities(&self.service),
            limits: limits_report(&self.limits),
            workspace_roots: self.reported_roots.clone(),
            server_name: "rexd".to_owned(),
            implementation_version: OWN_VERSION.to_owned(),
            resume_token: self.resume_token.clone(),
            lost: None,
            output_encoding: self.manners.encoding_asked.map(|encoding| encoding.as_str().to_owned()),
            compress: None,
            max_frame_bytes: self.manners.frame_bytes.map(|bytes| bytes as u64),
            sandbox: self.sandbox_report(),
        }
    }

    fn sandbox_report(&self) -> Option<v1::SandboxReport> {
        let confinement = self.confining.of_session(&self.service.runtime_policy.current())?;
        let gaps = self.service.engine.gaps(&confinement);
        Some(v1::SandboxReport {
            profile: confinement.name(),
            gaps: gaps.iter().map(ToString::to_string).collect(),
        })
    }

    /// `session.info`.
    pub(super) fn info(&self, answer: Answer) {
        let result = v1::SessionInfoResult {
            session_id: self.id.to_string(),
            cwd: text(&self.cwd),
            workspace_roots: self.reported_roots.clone(),
            running_processes: self.engine.running() as u64,
            limits: limits_report(&self.limits),
            client_name: Some(self.asker.client.to_string()).filter(|name| !name.is_empty()),
            last_event_id: None,
            capabilities: Vec::new(),
        };
        self.reply(answer, Ok(result));
    }

    /// `session.set_cwd`: relative paths start there, if it is a directory within the roots.
    pub(super) fn set_cwd(&self, params: v1::SessionSetCwd, answer: Answer, turn: Turn) {
        let path = match self.start_path(Some(&params.path)) {
            Ok(path) => path,
            Err(error) => return self.refuse(answer, error),
        };
        let letters = self.letters();
        self.spawn(async move {
            let cwd = path.as_path().to_owned();
            let opened = tokio::task::spawn_blocking(move || path.open_directory()).await;
            match opened.unwrap_or(Err(engine::Error::Gone)) {
                Ok(_directory) => {
                    let result = v1::SessionSetCwdResult { ok: true, cwd: text(&cwd) };
                    // In force before it is answered, so that the next request finds it.
                    letters.send(Letter::Notice(Notice::Cwd { path: cwd, turn })).await.ok();
                    answer.send(Ok(result)).await;
                }
                Err(error) => answer.send(Err::<(), _>(rpc_error(error))).await,
            }
        });
    }

    /// Answers with an error.
    pub(in super::super) fn refuse(&self, answer: Answer, error: RpcError) {
        self.reply(answer, Err::<(), _>(error));
    }

    /// A path of a request, held to the rules on files when it is opened.
    pub(in super::super) fn path(&self, asked: &str) -> Result<engine::RootedPath, RpcError> {
        convert::path(&self.ruled_roots(), &self.cwd, asked).map_err(|error| self.hint(error))
    }

    /// A path of a request, held to the roots only; while there is none the error says what to write where.
    pub(in super::super) fn admit(&self, asked: &str) -> Result<engine::RootedPath, RpcError> {
        convert::path(&self.roots, &self.cwd, asked).map_err(|error| self.hint(error))
    }

    /// The roots, with what confines the session and the rules on files, if there are any.
    pub(super) fn ruled_roots(&self) -> Roots {
        let runtime_policy = self.service.runtime_policy.current();
        let roots = match self.confining.of_session(&runtime_policy) {
            Some(confinement) => self.roots.guarded(confinement),
            None => self.roots.clone(),
        };
        self.with_rules(roots, runtime_policy)
    }

    /// The directory a process starts in. What confines it is the kernel's to hold there.
    pub(super) fn start_path(&self, asked: Option<&str>) -> Result<engine::RootedPath, RpcError> {
        let runtime_policy = self.service.runtime_policy.current();
        let mut roots = self.roots.clone();
        if runtime_policy.policy.restricts_files() {
            // A command is asked about as such, with its directory: nobody is asked about the directory alone.
            let approved = vec![PathBuf::from("/")];
            roots = roots.guarded(Arc::new(self.rules(runtime_policy, approved)));
        }
        convert::path(&roots, &self.cwd, asked.unwrap_or_default()).map_err(|error| self.hint(error))
    }

    fn with_rules(&self, roots: Roots, runtime_policy: Arc<RuntimePolicy>) -> Roots {
        if !runtime_policy.policy.restricts_files() {
            return roots;
        }
        let approved = self.permit.approved.clone();
        roots.guarded(Arc::new(self.rules(runtime_policy, approved)))
    }

    fn rules(&self, runtime_policy: Arc<RuntimePolicy>, approved: Vec<PathBuf>) -> Rules {
        let (client, caller) = (self.asker.client.clone(), self.asker.caller.name.clone());
        Rules { runtime_policy, face: FACE, client, caller, approved }
    }

    /// Adds what to do about it to an error that comes from missing configuration.
    pub(in super::super) fn hint(&self, error: RpcError) -> RpcError {
        with_hint(error, self.service.no_roots.as_deref())
    }
}
