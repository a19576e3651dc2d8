//! What exec-server keeps per session, and how a session is opened and resumed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::process::{Process, ProcessLimits, Signal};
use link::Outgoing;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use wire::exec_server::{code, v1};
use wire::jsonrpc::RpcError;

use super::events::Protocol;
use super::methods::handles::FileHandles;
use super::methods::http::ActiveRequests;
use super::methods::input::WriteIds;
use super::methods::missing::MissingWatch;
use super::sequence::SequenceIndex;
use super::{ExecServer, errors};
use crate::core::events::{EventOptions, Gap, WhileAway};
use crate::core::request::{ConnectionContext, Requester};
use crate::core::sandbox::SessionSandbox;
use crate::core::session::{
    Face as _, Resumption, SessionConnection, SessionHandle, SessionMessage, SessionOptions, SubscriptionId,
};

/// A session of this face.
pub(super) type Session = crate::core::session::Session<ExecServer>;
/// A handle to one.
pub(super) type ExecServerHandle = SessionHandle<ExecServer>;

/// How long an ended process is kept: clients read its end and output after reconnecting.
const KEEP_ENDED: Duration = Duration::from_secs(30);
/// Output of one process that is kept in memory, read or not.
const LOG_BYTES: usize = 8 * 1024 * 1024;
/// After the end of a command, output of its children is reported until they are quiet for this long. The released
/// servers wait without a limit.
const DRAIN_IDLE: Duration = Duration::from_millis(500);
/// The longest that output of children is waited for.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// The most output in one notification.
const CHUNK_BYTES: usize = 256 * 1024;
/// How long a connection may keep a session that another connection wants. A client resumes only when its own
/// connection is broken, although the server may not have noticed yet.
const TAKEOVER_AFTER: Duration = Duration::from_millis(500);
/// Memory for large responses of one session; a response that needs more runs alone.
const RESPONSE_MEMORY: u32 = 64 * 1024 * 1024;

/// A process as this protocol knows it.
pub(super) struct ManagedProcess {
    pub(super) process: Process,
    pub(super) index: Arc<SequenceIndex>,
    pub(super) protocol: Protocol,
    /// Whether it has an input to write to.
    pub(super) takes_input: bool,
    pub(super) write_ids: WriteIds,
    /// What it was started with, to recognise the same start again.
    pub(super) fingerprint: u64,
}

/// Process ids of starts that wait for an approval.
#[derive(Debug, Clone, Default)]
pub(super) struct PendingStarts(Arc<Mutex<HashMap<String, (u64, CancellationToken)>>>);

/// Reserves the id of a start until it runs or is refused.
pub(super) struct StartReservation {
    starts: PendingStarts,
    id: String,
    serial: u64,
}

impl PendingStarts {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    pub(super) fn reserve(&self, id: &str, cancel: CancellationToken) -> StartReservation {
        let mut starts = self.lock();
        let serial = starts.values().map(|(serial, _)| serial + 1).max().unwrap_or(0);
        starts.insert(id.to_owned(), (serial, cancel));
        StartReservation { starts: self.clone(), id: id.to_owned(), serial }
    }

    /// Cancels a start; its id is free at once.
    pub(super) fn cancel(&self, id: &str) {
        if let Some((_, cancel)) = self.lock().remove(id) {
            cancel.cancel();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (u64, CancellationToken)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StartReservation {
    fn drop(&mut self) {
        let mut starts = self.starts.lock();
        if starts.get(&self.id).is_some_and(|(serial, _)| *serial == self.serial) {
            starts.remove(&self.id);
        }
    }
}

/// What exec-server keeps per session.
pub struct ExecServerState {
    processes: HashMap<String, ManagedProcess>,
    pub(super) pending_starts: PendingStarts,
    pub(super) handles: FileHandles,
    /// The `http/request`s that run.
    pub(super) http: ActiveRequests,
    pub(super) missing: Option<MissingWatch>,
    /// The current connection, for notifications that belong to a request.
    pub(super) outgoing: Option<Outgoing>,
    /// When another connection first wanted the session.
    wanted_since: Option<Instant>,
    is_cleanup_scheduled: bool,
    response_memory: ResponseMemory,
}

impl ExecServerState {
    /// The process with this id, while it is known.
    pub(super) fn process(&self, id: &str) -> Option<&ManagedProcess> {
        self.processes.get(id).filter(|managed| managed.is_known())
    }

    /// The same, to record what was written to it.
    pub(super) fn process_mut(&mut self, id: &str) -> Option<&mut ManagedProcess> {
        self.processes.get_mut(id).filter(|managed| managed.is_known())
    }

    /// The memory budget of large responses.
    pub(super) fn response_memory(&self) -> ResponseMemory {
        self.response_memory.clone()
    }
}

/// The memory budget of a session's large responses. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct ResponseMemory(Arc<Semaphore>);

impl ResponseMemory {
    fn new() -> ResponseMemory {
        ResponseMemory(Arc::new(Semaphore::new(RESPONSE_MEMORY as usize)))
    }

    /// Reserves memory for a response; waits while earlier large responses are not sent.
    pub(super) async fn reserve(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let share = u32::try_from(bytes).unwrap_or(u32::MAX).min(RESPONSE_MEMORY);
        self.0.clone().acquire_many_owned(share).await.ok()
    }
}

impl ManagedProcess {
    /// Whether it runs or its end is recent. A v0 process is gone with its end.
    fn is_known(&self) -> bool {
        let state = self.index.state();
        match state.closed_at {
            _ if state.has_failed => false,
            Some(_) if self.protocol == Protocol::V0 => false,
            Some(closed_at) => closed_at.elapsed() < KEEP_ENDED,
            None => true,
        }
    }
}

/// Adds a process under its id; an older one with the same id has ended.
pub(super) fn add_process(session: &mut Session, id: String, managed: ManagedProcess) {
    if let Some(before) = session.state.processes.insert(id, managed) {
        session.engine.remove(before.process.id());
    }
}

/// A process has closed: it is removed after [`KEEP_ENDED`].
pub(super) fn process_closed(session: &mut Session) {
    if std::mem::replace(&mut session.state.is_cleanup_scheduled, true) {
        return;
    }
    let (handle, over) = (session.handle(), session.over.clone());
    session.spawn(async move {
        tokio::select! {
            () = tokio::time::sleep(KEEP_ENDED) => handle.send(SessionMessage::update(remove_ended)).await,
            () = over.cancelled() => {}
        }
    });
}

fn remove_ended(session: &mut Session) {
    session.state.is_cleanup_scheduled = false;
    let mut removed: Vec<Process> = Vec::new();
    session.state.processes.retain(|_, managed| {
        let keep = managed.is_known();
        removed.extend((!keep).then(|| managed.process.clone()));
        keep
    });
    removed.iter().for_each(|process| session.engine.remove(process.id()));
    if session.state.processes.values().any(|managed| managed.index.state().closed_at.is_some()) {
        process_closed(session);
    }
}

/// The connection is gone, and with it v0 processes, open files, watches, and starts that wait for an approval.
pub(super) fn disconnected(session: &mut Session) {
    let state = &mut session.state;
    state.outgoing = None;
    state.handles = FileHandles::default();
    state.http = ActiveRequests::default();
    state.missing = None;
    let is_v0 = |managed: &ManagedProcess| managed.protocol == Protocol::V0;
    let killed: Vec<Process> = state
        .processes
        .values()
        .filter(|managed| is_v0(managed))
        .map(|managed| managed.process.clone())
        .collect();
    state.processes.retain(|_, managed| !is_v0(managed));
    for process in killed {
        session.spawn(async move { drop(process.kill(Signal::KILL).await) });
    }
}

/// Opens a session on a connection.
pub(super) fn open(
    face: &Arc<ExecServer>,
    context: &ConnectionContext,
    client: String,
    connection: SessionConnection,
    is_resumable: bool,
) -> Result<ExecServerHandle, RpcError> {
    let limits = |limits: &mut ProcessLimits| {
        limits.log_bytes = LOG_BYTES;
        limits.drain_idle = DRAIN_IDLE;
        limits.drain_max = DRAIN_MAX;
    };
    let core = face.core();
    let options = SessionOptions {
        requester: Requester {
            face: ExecServer::NAME,
            caller: context.caller.clone(),
            client: client.into(),
            session: Some(random_uuid()?.into()),
        },
        engine: core.engine.open_uncounted_session(limits).map_err(errors::rpc_error)?,
        roots: face.roots.clone(),
        cwd: "/".into(),
        limits: core.limits.clone(),
        sandbox: SessionSandbox::new(None, face.roots.clone()),
        events: EventOptions {
            chunk_bytes: CHUNK_BYTES,
            line_bytes: CHUNK_BYTES,
            while_away: WhileAway::Pause,
        },
        can_approve: false,
        is_resumable,
        state: ExecServerState {
            processes: HashMap::new(),
            pending_starts: PendingStarts::default(),
            handles: FileHandles::default(),
            http: ActiveRequests::default(),
            missing: None,
            outgoing: Some(connection.outgoing.clone()),
            wanted_since: None,
            is_cleanup_scheduled: false,
            response_memory: ResponseMemory::new(),
        },
        face: face.clone(),
    };
    let (session, inbox) = Session::new(options, Some(connection));
    Ok(session.start(inbox))
}

/// The id of the connection that resumed a session, and the gap that holds its events back.
pub(super) type ResumeResult = Result<(SubscriptionId, Option<Gap>), RpcError>;

/// Resumes a session on a connection: the message for the session, and the new connection's id with the gap that holds
/// its events back.
pub(super) fn resume(
    connection: SessionConnection,
) -> (SessionMessage<ExecServer>, oneshot::Receiver<ResumeResult>) {
    let (result, received) = oneshot::channel();
    let message = SessionMessage::update(move |session: &mut Session| {
        if session.is_connected() {
            let since = *session.state.wanted_since.get_or_insert_with(Instant::now);
            if since.elapsed() > TAKEOVER_AFTER {
                session.hang_up();
            }
            let message =
                format!("session {:?} is still attached to another connection; try again", session.id);
            result.send(Err(RpcError::new(code::SESSION_ATTACHED, message))).ok();
            return;
        }
        session.state.wanted_since = None;
        session.state.outgoing = Some(connection.outgoing.clone());
        let Resumption { id, gap, .. } = session.connect(connection, None);
        session.count_resumed();
        session.spawn(async move {
            // Events start when the connection drops the gap, after its response.
            result.send(Ok((id, gap.await.and_then(Result::ok)))).ok();
        });
    });
    (message, received)
}

/// A random UUID, version 4.
fn random_uuid() -> Result<String, RpcError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| RpcError::internal(error.to_string()))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let parts = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]];
    Ok(parts.map(hex::encode).join("-"))
}

/// The result of `initialize`.
pub(super) fn initialize_response(face: &ExecServer, session: &ExecServerHandle) -> v1::InitializeResponse {
    v1::InitializeResponse {
        protocol_version: Some(wire::exec_server::v0::PROTOCOL_VERSION.to_owned()),
        session_id: Some(session.id.to_string()),
        environment_info: Some(super::methods::environment::info(&face.roots)),
    }
}

impl std::fmt::Debug for ExecServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecServerState").finish_non_exhaustive()
    }
}
