//! What exec-server keeps per session, and how a session is opened and resumed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::process::{Process, ProcessLimits, Signal};
use link::Outgoing;
use link::task::OwnedTask;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wire::exec_server::code;
use wire::jsonrpc::RpcError;

use super::events::Protocol;
use super::methods::handles::FileHandles;
use super::methods::input::WriteIds;
use super::sequence::SequenceIndex;
use super::{ExecServer, errors};
use crate::core::events::{EventOptions, Gap, WhileAway};
use crate::core::opaque_debug;
use crate::core::request::{ConnectionContext, Requester};
use crate::core::sandbox::SessionSandbox;
use crate::core::session::{
    Face as _, Resumption, SessionConnection, SessionHandle, SessionMessage, SessionOptions, SubscriptionId,
};
use crate::observe::metrics::Transport;

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
/// Bytes of a notification besides its output. Ids of processes are shorter.
const LINE_OVERHEAD: usize = 1024;
/// How long a connection may keep a session that another connection wants. A client resumes only when its own
/// connection is broken, although the server may not have noticed yet.
const TAKEOVER_AFTER: Duration = Duration::from_millis(500);

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

/// Ids in use: of starts that wait for an approval, or of HTTP requests that run. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Reservations(Arc<Mutex<HashMap<String, (u64, CancellationToken)>>>);

/// An id that is in use until this is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    all: Reservations,
    pub(super) id: String,
    serial: u64,
}

impl Reservations {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// Reserves an id; `None` if it is in use. `cancel` ends what it is reserved for.
    pub(super) fn reserve(&self, id: &str, cancel: CancellationToken) -> Option<Reservation> {
        let mut reserved = self.lock();
        if reserved.contains_key(id) {
            return None;
        }
        let serial = reserved.values().map(|(serial, _)| serial + 1).max().unwrap_or(0);
        reserved.insert(id.to_owned(), (serial, cancel));
        Some(Reservation { all: self.clone(), id: id.to_owned(), serial })
    }

    /// Cancels what an id is reserved for; the id is free at once.
    pub(super) fn cancel(&self, id: &str) {
        if let Some((_, cancel)) = self.lock().remove(id) {
            cancel.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (u64, CancellationToken)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = self.all.lock();
        if reserved.get(&self.id).is_some_and(|(serial, _)| *serial == self.serial) {
            reserved.remove(&self.id);
        }
    }
}

/// What exec-server keeps per session.
pub struct ExecServerState {
    processes: HashMap<String, ManagedProcess>,
    pub(super) pending_starts: Reservations,
    pub(super) handles: FileHandles,
    /// The `http/request`s that run.
    pub(super) http: Reservations,
    /// The `fs/watchMissing` that runs.
    pub(super) missing: Option<OwnedTask<()>>,
    /// The current connection, for notifications that belong to a request.
    pub(super) outgoing: Option<Outgoing>,
    /// When another connection first wanted the session.
    wanted_since: Option<Instant>,
    is_cleanup_scheduled: bool,
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

    /// The process that was started with this version of the protocol.
    pub(super) fn known(&self, id: &str, protocol: Protocol) -> Result<&ManagedProcess, RpcError> {
        let managed = self.process(id).filter(|managed| managed.protocol == protocol);
        managed.ok_or_else(|| RpcError::invalid_request(format!("unknown process id {id}")))
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
        if over.run_until_cancelled(tokio::time::sleep(KEEP_ENDED)).await.is_some() {
            handle.send(SessionMessage::update(remove_ended)).await;
        }
    });
}

fn remove_ended(session: &mut Session) {
    session.state.is_cleanup_scheduled = false;
    for (_, managed) in session.state.processes.extract_if(|_, managed| !managed.is_known()) {
        session.engine.remove(managed.process.id());
    }
    if session.state.processes.values().any(|managed| managed.index.state().closed_at.is_some()) {
        process_closed(session);
    }
}

/// The connection is gone, and with it v0 processes, open files, watches, and starts that wait for an approval.
pub(super) fn disconnected(session: &mut Session) {
    let state = &mut session.state;
    state.outgoing = None;
    state.handles = FileHandles::default();
    state.http = Reservations::default();
    state.missing = None;
    let v0 = state.processes.extract_if(|_, managed| managed.protocol == Protocol::V0);
    let killed: Vec<Process> = v0.map(|(_, managed)| managed.process).collect();
    for process in killed {
        session.spawn(async move { drop(process.kill(Signal::KILL).await) });
    }
}

/// A session on a connection: which of its connections this one is, and what holds its events back.
pub(super) type Attached = (ExecServerHandle, SubscriptionId, Option<Gap>);

/// Opens a session on a connection, whose client acknowledges events or not.
pub(super) fn open(
    face: &Arc<ExecServer>,
    context: &ConnectionContext,
    client: String,
    (connection, acknowledges): (SessionConnection, bool),
) -> Result<Attached, RpcError> {
    let limits = |limits: &mut ProcessLimits| {
        limits.log_bytes = LOG_BYTES;
        limits.drain_idle = DRAIN_IDLE;
        limits.drain_max = DRAIN_MAX;
    };
    let requester = Requester {
        client: client.into(),
        session: Some(random_uuid()?.into()),
        ..Requester::new(ExecServer::NAME, context.caller.clone())
    };
    let engine = face.core().engine.open_uncounted_session(limits).map_err(errors::rpc_error)?;
    let state = ExecServerState {
        processes: HashMap::new(),
        pending_starts: Reservations::default(),
        handles: FileHandles::default(),
        http: Reservations::default(),
        missing: None,
        outgoing: Some(connection.outgoing.clone()),
        wanted_since: None,
        is_cleanup_scheduled: false,
    };
    let options = SessionOptions {
        roots: face.roots.clone(),
        cwd: "/".into(),
        sandbox: SessionSandbox::new(None, face.roots.clone()),
        events: EventOptions { is_acknowledged: acknowledges, ..event_options(face.kept_bytes()) },
        is_resumable: context.transport != Transport::Stdio,
        ..SessionOptions::new(face, requester, engine, state)
    };
    Ok((options.open(connection), SubscriptionId::FIRST, None))
}

/// How events are published if this many bytes of sent output can be read again. A client that acknowledges has at most that
/// much on its way: its events are base64, so their output is smaller.
fn event_options(kept: usize) -> EventOptions {
    let chunk_bytes = CHUNK_BYTES.min(kept / 2).max(1);
    EventOptions {
        chunk_bytes,
        line_bytes: chunk_bytes / 3 * 4 + LINE_OVERHEAD,
        while_away: WhileAway::Pause,
        is_acknowledged: false,
        window_bytes: kept,
    }
}

/// Resumes a session on a connection. Its events start when the gap is dropped, after the response.
pub(super) async fn resume(
    face: &ExecServer,
    context: &ConnectionContext,
    id: &str,
    (connection, acknowledges): (SessionConnection, bool),
) -> Result<Attached, RpcError> {
    let unknown = || RpcError::invalid_request(format!("unknown session id {id}"));
    let handle = face.sessions().find(id, &context.caller).ok_or_else(unknown)?;
    let (result, received) = oneshot::channel();
    let resume = move |session: &mut Session| {
        if session.is_connected() {
            let since = *session.state.wanted_since.get_or_insert_with(Instant::now);
            if since.elapsed() > TAKEOVER_AFTER {
                session.hang_up();
            }
            let message = format!("session {} is already attached to another connection", session.id);
            result.send(Err(RpcError::new(code::SESSION_ATTACHED, message))).ok();
            return;
        }
        session.state.wanted_since = None;
        session.state.outgoing = Some(connection.outgoing.clone());
        let Resumption { id, gap, .. } = session.connect(connection, None);
        session.count_resumed();
        let acknowledging = acknowledges.then(|| session.acknowledge_received(id, 0));
        session.spawn(async move {
            let gap = gap.await.and_then(Result::ok);
            // Before the first event is sent.
            if let Some(acknowledging) = acknowledging {
                acknowledging.await;
            }
            drop(result.send(Ok((id, gap))));
        });
    };
    handle.send(SessionMessage::update(resume)).await;
    let (subscription, gap) = received.await.map_err(|_over| unknown())??;
    Ok((handle, subscription, gap))
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

opaque_debug!(ExecServerState);
