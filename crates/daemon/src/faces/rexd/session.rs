//! What REXD keeps per session, and how a session is opened, resumed and subscribed to.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use engine::files::FileWatcher;
use engine::process::{Process, ProcessId};
use link::Outgoing;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};
use wire::binary;
use wire::jsonrpc::RpcError;
use wire::rexd::v1::{self, Encoding};

use super::Rexd;
use super::capabilities::capabilities;
use super::convert::{self, limits_report};
use super::errors::{invalid, rpc_error, still_attached, unknown_session};
use super::events::{chunk_bytes, line_bytes};
use super::quirks::{self, Quirks};
use super::resume_key::ResumeKey;
use crate::config::OFF;
use crate::core::events::{EventOptions, Gap, Listener, NotYet, StreamEvent, WhileAway};
use crate::core::opaque_debug;
use crate::core::request::{AuthorizedRequest, ConnectionContext, Requester};
use crate::core::responder::Responder;
use crate::core::resume;
use crate::core::sandbox::SessionSandbox;
use crate::core::session::{
    Face as _, Resumption, SessionConnection, SessionHandle, SessionMessage, SessionOptions, SubscriptionId,
};
use crate::net::auth::Caller;

/// A session of this face.
pub(super) type Session = crate::core::session::Session<Rexd>;
/// A handle to one.
pub(super) type RexdHandle = SessionHandle<Rexd>;

/// The shortest line that a client may limit the server to: a response must fit.
const MIN_FRAME_BYTES: usize = 16 * 1024;
/// Attached processes of other sessions; beyond it, those that have ended are dropped.
const MAX_ATTACHED: usize = 64;
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a client can handle, according to its request and its name.
#[derive(Debug, Clone)]
pub(super) struct ClientCapabilities {
    pub(super) quirks: Quirks,
    pub(super) encoding: Encoding,
    /// The same, if the client named it.
    requested_encoding: Option<Encoding>,
    pub(super) frame_bytes: Option<usize>,
    wants_zstd: bool,
    pub(super) can_approve: bool,
}

/// What a request does with a process.
type ProcessAction = Box<dyn FnOnce(&mut Session, Process, AuthorizedRequest) + Send>;
/// What it does without one.
type RequestAction = Box<dyn FnOnce(&mut Session, AuthorizedRequest) + Send>;

/// A request for a process that is being looked up among the detached ones.
pub(super) struct ProcessLookup {
    pub(super) request: AuthorizedRequest,
    pub(super) then: ProcessAction,
    /// For a process that does not exist.
    pub(super) otherwise: RequestAction,
}

/// What REXD keeps per session.
pub struct RexdState {
    pub(super) client: ClientCapabilities,
    reported_roots: Vec<String>,
    resume_token: Option<String>,
    /// The key that its client opened it with.
    pub(super) key: Option<ResumeKey>,
    /// Whether another daemon of this user has opened it.
    pub(super) is_of_peer: bool,
    pub(super) watches: HashMap<String, FileWatcher>,
    /// Processes of other sessions that this one has attached to.
    attached: HashMap<ProcessId, Process>,
    /// Requests by the process that is being looked up for them, in order; as many as may be in flight.
    pub(super) lookups: HashMap<ProcessId, Vec<ProcessLookup>>,
}

impl RexdState {
    /// A process of another session that this one has attached to.
    pub(super) fn attached(&self, id: &ProcessId) -> Option<&Process> {
        self.attached.get(id)
    }

    /// Adds a process of another session.
    pub(super) fn attach(&mut self, process: Process) {
        if self.attached.len() >= MAX_ATTACHED {
            // Each holds its output in memory, even if its own session has dropped it.
            self.attached.retain(|_, process| process.state().closed.is_none());
        }
        self.attached.insert(process.id().clone(), process);
    }

    /// Whether a client loses nothing with the session.
    pub(super) fn is_unused(&self) -> bool {
        self.watches.is_empty() && self.lookups.is_empty()
    }

    /// Drops watches and attached processes; returns the requests that still wait.
    pub(super) fn release(&mut self) -> Vec<AuthorizedRequest> {
        self.watches.clear();
        self.attached.clear();
        std::mem::take(&mut self.lookups).into_values().flatten().map(|lookup| lookup.request).collect()
    }
}

/// A session that was just opened.
pub(super) struct Opened {
    pub(super) handle: RexdHandle,
    pub(super) result: v1::SessionOpenResult,
}

/// `session.open`: events go to `connection`, or wait until a client subscribes.
pub(super) fn open(
    face: &Arc<Rexd>,
    context: &ConnectionContext,
    params: &v1::SessionOpen,
    connection: Option<SessionConnection>,
    key: &mut Option<ResumeKey>,
) -> Result<Opened, RpcError> {
    let (core, caller) = (face.core(), &context.caller);
    let outgoing = connection.as_ref().map(|connection| &connection.outgoing);
    let client = client_capabilities(params, outgoing)?;
    let limits = core.limits.lowered(&convert::requested_limits(params.limits.as_ref())?);
    let roots = match &caller.roots {
        Some(own) => core.roots.narrowed(own.clone()).map_err(rpc_error)?,
        None => core.roots.clone(),
    };
    let reported_roots =
        convert::reported_roots(&roots, params.workspace_roots.as_deref().unwrap_or_default());
    let engine =
        core.engine.open_session_of(&caller.name).map_err(|error| too_many_sessions(face, caller, error))?;
    let id: Arc<str> = match key {
        Some(key) => key.session_id().into(),
        None => format!("s_{}", engine::session::random_name().map_err(rpc_error)?).into(),
    };
    let resume_token = if params.resume && face.may_resume { Some(resume_token()?) } else { None };
    let keeps_events = resume_token.is_some() || connection.is_none();
    let options = SessionOptions {
        requester: Requester {
            client: Arc::from(params.client_name.as_deref().unwrap_or_default()),
            session: Some(id),
            ..Requester::new(Rexd::NAME, caller.clone())
        },
        cwd: reported_roots.first().map_or_else(|| PathBuf::from("/"), PathBuf::from),
        sandbox: session_sandbox(face, params, &roots)?,
        events: EventOptions {
            chunk_bytes: chunk_bytes(client.encoding, client.frame_bytes),
            line_bytes: line_bytes(client.encoding, chunk_bytes(client.encoding, client.frame_bytes)),
            while_away: match keeps_events {
                true => WhileAway::Replay(face.sessions().retention.resume_bytes),
                false => WhileAway::Discard,
            },
            is_acknowledged: false,
            window_bytes: 0,
        },
        can_approve: client.can_approve,
        is_resumable: resume_token.is_some(),
        state: RexdState {
            client,
            reported_roots,
            resume_token,
            key: key.take(),
            is_of_peer: context.is_of_peer,
            watches: HashMap::new(),
            attached: HashMap::new(),
            lookups: HashMap::new(),
        },
        face: face.clone(),
        engine,
        roots,
        limits,
    };
    let (session, inbox) = Session::new(options, connection);
    let result = open_result(&session);
    Ok(Opened { handle: session.start(inbox), result })
}

impl Opened {
    /// Responds; from the next message on the connection is compressed, if the client asked and it can be.
    pub(super) async fn respond(
        self,
        mut responder: Responder,
        wants_zstd: bool,
        outgoing: Option<Outgoing>,
    ) {
        responder.set_requester(self.handle.requester);
        respond(responder, self.result, outgoing.filter(|_| wants_zstd)).await;
    }
}

async fn respond(responder: Responder, mut result: v1::SessionOpenResult, compress: Option<Outgoing>) {
    match compress.filter(Outgoing::can_compress) {
        Some(outgoing) => {
            result.compress = Some("zstd".to_owned());
            responder.send_written(Ok(result)).await;
            outgoing.compress();
        }
        None => responder.send(Ok(result)).await,
    }
}

/// There is no capacity for another session: the caller's session that has waited longest for its client ends.
fn too_many_sessions(face: &Rexd, caller: &Caller, error: engine::Error) -> RpcError {
    let mut error = rpc_error(error);
    error.message.push_str("; close one, or raise limits.max_concurrent_sessions");
    let Some(oldest) = face.sessions().longest_disconnected(caller) else { return error };
    tracing::warn!(session = &*oldest.id, "too many sessions: ending the one that was disconnected first");
    oldest.end_soon();
    let mut data = error.data.clone();
    if let Some(data) = data.as_object_mut() {
        data.insert("retry".to_owned(), json!(true));
    }
    error.with_data(data)
}

fn session_sandbox(
    face: &Rexd,
    params: &v1::SessionOpen,
    roots: &engine::Roots,
) -> Result<SessionSandbox, RpcError> {
    if let Some(profile) = &params.sandbox {
        let sandbox = &face.core().policy.current().sandbox;
        sandbox.check(profile).map_err(|unknown| invalid("sandbox", &unknown.to_string()))?;
    }
    let profile = params.sandbox.clone().filter(|profile| profile != OFF);
    Ok(SessionSandbox::new(profile, roots.clone()))
}

/// Thirty-two hexadecimal digits that cannot be guessed, after the name of this daemon.
fn resume_token() -> Result<String, RpcError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| RpcError::internal(format!("no randomness: {error}")))?;
    Ok(resume::token_of(&hex::encode(bytes)))
}

fn client_capabilities(
    params: &v1::SessionOpen,
    outgoing: Option<&Outgoing>,
) -> Result<ClientCapabilities, RpcError> {
    let quirks = quirks::of(params.client_name.as_deref().unwrap_or_default());
    let requested = convert::optional_count("max_frame_bytes", params.max_frame_bytes)?;
    if requested.is_some_and(|bytes| bytes < MIN_FRAME_BYTES) {
        return Err(invalid("max_frame_bytes", "must be at least 16384"));
    }
    let frame_bytes = match (requested, quirks.frame_bytes) {
        (Some(requested), Some(known)) => Some(requested.min(known)),
        (requested, known) => requested.or(known),
    };
    let encoding = convert::output_encoding(params.output_encoding.as_deref(), "output_encoding")?;
    let wants_binary = params.frames.as_deref() == Some(binary::ENCODING);
    let is_binary = wants_binary && outgoing.is_some_and(Outgoing::accept_binary);
    Ok(ClientCapabilities {
        quirks,
        encoding: if is_binary { Encoding::Binary } else { encoding },
        requested_encoding: params.output_encoding.as_ref().map(|_named| encoding),
        frame_bytes,
        wants_zstd: params.compress.as_deref() == Some("zstd"),
        can_approve: params.approvals.unwrap_or(!quirks.cannot_approve),
    })
}

/// The result of `session.open` and `session.resume`.
fn open_result(session: &Session) -> v1::SessionOpenResult {
    let (state, policy) = (&session.state, session.core.policy.current());
    let sandbox = session.sandbox.of_session(&policy).map(|confinement| v1::SandboxReport {
        profile: confinement.name(),
        gaps: session.core.engine.gaps(&confinement).iter().map(ToString::to_string).collect(),
    });
    v1::SessionOpenResult {
        session_id: session.id.to_string(),
        protocol: v1::PROTOCOL.to_owned(),
        server_version: state.client.quirks.pinned_version.unwrap_or(OWN_VERSION).to_owned(),
        capabilities: capabilities(&session.face),
        limits: limits_report(&session.limits),
        workspace_roots: state.reported_roots.clone(),
        server_name: "rexd".to_owned(),
        implementation_version: OWN_VERSION.to_owned(),
        resume_token: state.resume_token.clone(),
        lost: None,
        output_encoding: state.client.requested_encoding.map(|encoding| encoding.as_str().to_owned()),
        compress: None,
        frames: (state.client.encoding == Encoding::Binary).then(|| binary::ENCODING.to_owned()),
        max_frame_bytes: state.client.frame_bytes.map(|bytes| bytes as u64),
        sandbox,
    }
}

/// The result of `session.info`.
pub(super) fn info(session: &Session) -> v1::SessionInfoResult {
    v1::SessionInfoResult {
        session_id: session.id.to_string(),
        cwd: super::errors::text(&session.cwd),
        workspace_roots: session.state.reported_roots.clone(),
        running_processes: session.engine.running() as u64,
        limits: limits_report(&session.limits),
        client_name: Some(session.requester.client.to_string()).filter(|name| !name.is_empty()),
        last_event_id: None,
        capabilities: Vec::new(),
        host: Some(super::host_info::host_info()),
    }
}

/// How a client proves that a session is its own.
#[derive(Debug)]
pub(super) enum ResumeProof {
    /// By the token from the response to `session.open`.
    Token(String),
    /// By the key that it opened the session with.
    Key(String),
}

/// `session.resume`: the response first, then every event after the last one that the client has seen. Without a
/// connection, the client subscribes next. The message for the session, and the id of the new connection if it took it.
pub(super) fn resume(
    proof: ResumeProof,
    last_event_id: i64,
    connection: Option<SessionConnection>,
    responder: Responder,
) -> (SessionMessage<Rexd>, oneshot::Receiver<Option<SubscriptionId>>) {
    let (taken, result) = oneshot::channel();
    let message = SessionMessage::complete(responder, move |session, mut responder| {
        if !is_proven(session, &proof) {
            return session.reject(responder, unknown_session(&session.id));
        }
        responder.set_requester(session.requester.clone());
        let may_take_over = connection.as_ref().is_some_and(|connection| connection.hang_up.is_some())
            && session.can_be_taken_over();
        if session.is_connected() && !may_take_over {
            return session.reject(responder, still_attached(&session.id));
        }
        let seen = Some(u64::try_from(last_event_id).unwrap_or(0));
        let result = open_result(session);
        let (wants_zstd, is_connection) = (session.state.client.wants_zstd, connection.is_some());
        let (resumption, compress) = match connection {
            Some(connection) => {
                let outgoing = connection.outgoing.clone();
                if session.state.client.encoding == Encoding::Binary {
                    outgoing.accept_binary();
                }
                (session.connect(connection, seen), wants_zstd.then_some(outgoing))
            }
            None => {
                // An earlier event stream ends; this one closes at once, until the client subscribes.
                let (stream, _closed) = mpsc::channel(1);
                (session.subscribe(Listener::Stream(stream), false, seen), None)
            }
        };
        session.count_resumed();
        let Resumption { id, gap, replaced } = resumption;
        session.spawn(async move {
            let gap = gap.await;
            let is_resumed = matches!(gap, Some(Ok(_)));
            if is_resumed {
                replaced.iter().for_each(tokio_util::sync::CancellationToken::cancel);
            }
            // Before the response: the client's next request finds the session on its new connection.
            taken.send(Some(id).filter(|_| is_resumed && is_connection)).ok();
            respond_resumed(responder, result, gap, compress).await;
        });
    });
    (message, result)
}

async fn respond_resumed(
    responder: Responder,
    mut result: v1::SessionOpenResult,
    gap: Option<Result<Gap, NotYet>>,
    compress: Option<Outgoing>,
) {
    match gap {
        Some(Ok(gap)) => {
            result.lost = Some(gap.lost);
            respond(responder, result, compress).await;
            drop(gap);
        }
        Some(Err(NotYet)) => responder.reject(not_yet()).await,
        None => responder.reject(unknown_session(&result.session_id)).await,
    }
}

/// Subscribes an event stream; an earlier one receives no more events.
pub(super) fn subscribe(
    seen: Option<u64>,
    stream: mpsc::Sender<StreamEvent>,
) -> (SessionMessage<Rexd>, oneshot::Receiver<Result<(), RpcError>>) {
    let (result, received) = oneshot::channel();
    let message = SessionMessage::update(move |session: &mut Session| {
        if session.is_connected() {
            result.send(Err(still_attached(&session.id))).ok();
            return;
        }
        session.count_subscribed();
        let Resumption { gap, .. } = session.subscribe(Listener::Stream(stream.clone()), false, seen);
        let session_id = session.id.to_string();
        session.spawn(async move {
            let subscribed = match gap.await {
                Some(Ok(gap)) => {
                    if gap.lost > 0 {
                        let (lost, event_id) = (gap.lost, gap.last_lost);
                        let line = v1::encode_event(&v1::SessionLost { session_id, lost, event_id });
                        stream.send(StreamEvent { event_id: Some(event_id), line: line.into() }).await.ok();
                    }
                    drop(gap);
                    Ok(())
                }
                Some(Err(NotYet)) => Err(not_yet()),
                None => Err(unknown_session(&session_id)),
            };
            result.send(subscribed).ok();
        });
    });
    (message, received)
}

/// Compared by digest, so that the duration reveals nothing about the token.
fn is_proven(session: &Session, proof: &ResumeProof) -> bool {
    let (ours, theirs) = match proof {
        ResumeProof::Token(token) => (session.state.resume_token.as_deref(), token),
        ResumeProof::Key(key) => (session.state.key.as_ref().map(ResumeKey::as_str), key),
    };
    ours.is_some_and(|ours| Sha256::digest(ours) == Sha256::digest(theirs))
}

fn not_yet() -> RpcError {
    invalid("last_event_id", "no event with this number has happened yet")
}

opaque_debug!(RexdState);
