//! A handle to one session on a target. Cheap to clone; a task owns the link and the state.

mod driver;
mod early;
mod handshake;
pub(crate) mod message;
mod opening;
mod recover;
mod routes;
mod starting_process;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::task::TaskTracker;
use wire::jsonrpc;
use wire::limits::MAX_LINE_BYTES;
use wire::rexd::v1::{self, Method, SessionOpenResult};

use crate::approvals::ApprovalSubscription;
use crate::connection::{CloseRequest, InboxSender, ReplayPolicy, inbox};
use crate::error::{Disconnect, Error};
use crate::files::Files;
use crate::options::SessionOptions;
use crate::process::{Command, Process};
use crate::queue::queue;
use crate::target::Target;
use driver::{EarlyRequest, Publications, SessionDriver};
use handshake::OpenedLink;
use message::{ClientMessage, ClientRequest, NewRoute, ProcessRoute, Received};
pub use opening::TargetConnection;
use starting_process::StartResponse;
pub use starting_process::StartingProcess;

/// A session on a target. It is closed when the last handle, process and watch of it are dropped; its task outlives
/// them for at most five seconds to do so.
#[derive(Debug, Clone)]
pub struct Session {
    inbox: InboxSender<ClientMessage>,
    /// The task that owns the link; [`Session::close`] waits for it.
    tasks: TaskTracker,
    opened: watch::Receiver<Arc<SessionOpenResult>>,
    connection: watch::Receiver<ConnectionState>,
    next_id: Arc<AtomicU64>,
    drained: Arc<Notify>,
    target: Arc<Target>,
    /// The prefix of the idempotency keys of this session.
    key_prefix: Arc<str>,
}

/// The state of a session's connection.
#[derive(Debug, Clone)]
pub enum ConnectionState {
    /// Requests are sent, and events are received.
    Connected,
    /// The connection was lost; requests wait until there is another one.
    Reconnecting {
        /// Why the connection was lost.
        disconnect: Disconnect,
        /// For how long the session tries to reconnect.
        timeout: Duration,
    },
}

impl Session {
    /// Connects to the target and opens a session. Must be called within a tokio runtime.
    pub async fn open(target: Target, options: SessionOptions) -> Result<Session, Error> {
        // Boxed, as the driver is: the state of the handshake must not enlarge every later future.
        Box::pin(async { Session::dial(target, options).await?.open().await }).await
    }

    /// Connects to the target, and opens no session yet. Must be called within a tokio runtime.
    pub async fn dial(target: Target, options: SessionOptions) -> Result<TargetConnection, Error> {
        Box::pin(TargetConnection::dial(target, options)).await
    }

    /// Runs the task of a session that was opened.
    fn run(
        opened: OpenedLink,
        (target, options): (Target, SessionOptions),
        (key_prefix, drained): (String, Arc<Notify>),
        early: Option<EarlyRequest>,
    ) -> Session {
        let OpenedLink { link, result, messages } = opened;
        let (sender, inbox) = inbox();
        let (publish, published) = watch::channel(Arc::new(result));
        let (publish_state, connection) = watch::channel(ConnectionState::Connected);
        let next_id = Arc::new(AtomicU64::new(handshake::FIRST_FREE_ID));
        let target = Arc::new(target);
        let shared = (next_id.clone(), drained.clone());
        let publications = Publications { opened: publish, connection: publish_state };
        let driver = SessionDriver::new(link, (target.clone(), options), (inbox, publications), shared);
        let tasks = TaskTracker::new();
        tasks.spawn(driver.run(early, messages));
        tasks.close();
        let (opened, key_prefix) = (published, key_prefix.into());
        Session { inbox: sender, tasks, opened, connection, next_id, drained, target, key_prefix }
    }

    /// The server's response to `session.open`, of the current session if it had to be opened again.
    pub fn open_result(&self) -> Arc<SessionOpenResult> {
        self.opened.borrow().clone()
    }

    /// The session's id, which is part of every request.
    pub fn id(&self) -> String {
        self.opened.borrow().session_id.clone()
    }

    /// The state of the connection. The receiver also sees each later change.
    pub fn connection_state(&self) -> watch::Receiver<ConnectionState> {
        self.connection.clone()
    }

    /// The target that the session is on.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the server lists this name in its `capabilities`.
    pub fn has_capability(&self, capability: &str) -> bool {
        self.opened.borrow().capabilities.iter().any(|offered| offered == capability)
    }

    /// Sends any request. After a lost connection a request that changes nothing is sent again; any other fails as
    /// [`Error::Ambiguous`]. Dropping this future cancels the request.
    pub async fn call<M: Method>(&self, params: &M) -> Result<M::Result, Error> {
        let replay = match v1::method(M::NAME).is_some_and(|info| !info.changes) {
            true => ReplayPolicy::Safe,
            false => ReplayPolicy::Never,
        };
        self.request(params, replay, NewRoute::None).await
    }

    /// Starts a command. The process ends with the session, unless it is detached.
    pub async fn start(&self, command: Command) -> Result<Process, Error> {
        self.begin(command).await?.process().await
    }

    /// Requests the start of a command.
    async fn begin(&self, command: Command) -> Result<StartingProcess, Error> {
        let limits = &self.open_result().limits;
        let request = command.request(self.id(), Some(limits), self.key());
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let message = request.encode(id)?;
        let (request, response) = StartResponse::of(&request, (id, message), self.drained.clone());
        self.inbox.send(ClientMessage::Request(request)).await.map_err(|_closed| Error::Closed)?;
        Ok(response.in_session(self.clone()))
    }

    /// Attaches to a running process and reads its output from a cursor; 0 is the beginning.
    pub async fn attach(&self, process_id: &str, cursor: u64) -> Result<Process, Error> {
        let cursor = i64::try_from(cursor).unwrap_or(i64::MAX);
        self.attach_at(v1::ExecAttach { cursor, ..self.attachment(process_id) }).await
    }

    /// Attaches to a process that has a terminal: [`Process::attach_result`] has its screen, and its output follows. The
    /// server must have the capability `exec.attach.screen`.
    pub async fn attach_screen(&self, process_id: &str) -> Result<Process, Error> {
        self.attach_at(v1::ExecAttach { screen: true, ..self.attachment(process_id) }).await
    }

    /// Attaches to a process and reads its output of the last `age`, to about a second. The server must have the capability
    /// `exec.attach.since`.
    pub async fn attach_since(&self, process_id: &str, age: Duration) -> Result<Process, Error> {
        let since_ms = Some(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        self.attach_at(v1::ExecAttach { since_ms, ..self.attachment(process_id) }).await
    }

    fn attachment(&self, process_id: &str) -> v1::ExecAttach {
        let process_id = process_id.to_owned();
        v1::ExecAttach { session_id: self.id(), process_id, ..v1::ExecAttach::default() }
    }

    async fn attach_at(&self, params: v1::ExecAttach) -> Result<Process, Error> {
        let (events, receiver) = queue(self.drained.clone());
        let cursor = u64::try_from(params.cursor).unwrap_or(0);
        let route = NewRoute::Process(ProcessRoute { events, cursor, is_detached: true, skipped: 0 });
        let attached = self.request(&params, ReplayPolicy::Safe, route).await?;
        Ok(Process::attached(self.clone(), attached, receiver))
    }

    /// Lists the processes of this daemon and of the user's keepers.
    pub async fn processes(&self) -> Result<Vec<v1::ListedProcess>, Error> {
        Ok(self.call(&v1::ExecList { session_id: self.id() }).await?.processes)
    }

    /// The file operations of this session.
    pub fn files(&self) -> Files<'_> {
        Files::new(self)
    }

    /// Subscribes to approval events. The session must have been opened with [`SessionOptions::approvals`].
    pub async fn subscribe_approvals(&self) -> Result<ApprovalSubscription, Error> {
        let (events, receiver) = queue(self.drained.clone());
        let message = ClientMessage::SubscribeApprovals(events);
        self.inbox.send(message).await.map_err(|_closed| Error::Closed)?;
        Ok(ApprovalSubscription::new(self.clone(), receiver))
    }

    /// Closes the session and waits until its attached processes have ended.
    pub async fn close(&self) -> Result<(), Error> {
        self.end(CloseRequest { waits: true }).await
    }

    /// Closes the session without waiting for the server to clean up.
    pub async fn close_without_waiting(&self) -> Result<(), Error> {
        self.end(CloseRequest { waits: false }).await
    }

    async fn end(&self, request: CloseRequest) -> Result<(), Error> {
        self.inbox.close(request).await.map_err(|_closed| Error::Closed)?;
        self.tasks.wait().await;
        Ok(())
    }

    pub(crate) async fn request<M: Method>(
        &self,
        params: &M,
        replay: ReplayPolicy,
        route: NewRoute,
    ) -> Result<M::Result, Error> {
        let encode = |id| jsonrpc::request(id, M::NAME, params);
        self.request_with::<M>(encode, replay, route).await.map(|(result, _payload)| result)
    }

    /// Sends a request with bytes, as the connection carries them best.
    pub(crate) async fn request_bytes<M: v1::PayloadMethod>(
        &self,
        params: &M,
        bytes: &[u8],
        replay: ReplayPolicy,
    ) -> Result<M::Result, Error> {
        let encoding = match self.has_binary_frames() {
            true => v1::PayloadEncoding::Binary,
            false => v1::PayloadEncoding::Base64,
        };
        let encode = |id| v1::payload_request(id, params, (bytes, encoding));
        self.request_with::<M>(encode, replay, NewRoute::None).await.map(|(result, _payload)| result)
    }

    /// Whether the server and the connection carry raw bytes.
    pub(crate) fn has_binary_frames(&self) -> bool {
        self.opened.borrow().frames.as_deref() == Some(wire::binary::ENCODING)
    }

    /// Sends a request that the caller encodes. Returns the result and the payload of its message.
    pub(crate) async fn request_with<M: Method>(
        &self,
        encode: impl FnOnce(u64) -> serde_json::Result<Vec<u8>>,
        replay: ReplayPolicy,
        route: NewRoute,
    ) -> Result<(M::Result, Option<Bytes>), Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let method = M::NAME;
        let message = encoded(method, encode(id))?;
        let (response, result) = oneshot::channel();
        let request = ClientRequest { id, method, message, replay, route, response, sent: 0 };
        self.inbox.send(ClientMessage::Request(request)).await.map_err(|_closed| Error::Closed)?;
        let Received { text, payload } = self.response(id, result).await?;
        let result = serde_json::from_slice(&text).map_err(|error| Error::decode(method, error))?;
        Ok((result, payload))
    }

    /// Waits for the response to a request. Dropping this future cancels the request.
    async fn response(
        &self,
        id: u64,
        result: oneshot::Receiver<Result<Received, Error>>,
    ) -> Result<Received, Error> {
        let mut guard = CancelOnDrop { id, inbox: Some(&self.inbox) };
        let result = result.await.map_err(|_| Error::Closed);
        guard.inbox = None;
        result?
    }

    /// A key by which the server recognises a request that is sent twice.
    pub(crate) fn key(&self) -> String {
        format!("{}-{}", self.key_prefix, self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether input may be sent twice: a server that ignores its key would write it twice.
    pub(crate) fn input_replay(&self) -> ReplayPolicy {
        match self.has_capability("input_key") {
            true => ReplayPolicy::Safe,
            false => ReplayPolicy::Never,
        }
    }

    pub(crate) fn drained(&self) -> Arc<Notify> {
        self.drained.clone()
    }
}

/// A request as it is sent, unless it is too large.
pub(crate) fn encoded(method: &'static str, message: serde_json::Result<Vec<u8>>) -> Result<Bytes, Error> {
    let message = message.map_err(|error| Error::encode(method, error))?;
    match message.len() {
        bytes if bytes > MAX_LINE_BYTES => Err(Error::TooLarge { method, bytes, limit: MAX_LINE_BYTES }),
        _ => Ok(message.into()),
    }
}

/// Cancels a request whose caller is dropped before the response arrives.
struct CancelOnDrop<'a> {
    id: u64,
    inbox: Option<&'a InboxSender<ClientMessage>>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(inbox) = self.inbox {
            // If the inbox is full, the response is discarded when it arrives.
            inbox.try_send(ClientMessage::Cancel(self.id));
        }
    }
}

/// Eight random bytes as hexadecimal digits.
pub(crate) fn random_hex() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 8];
    getrandom::fill(&mut bytes)?;
    Ok(hex::encode(bytes))
}
