//! One connection: the handshake, the admission of requests, and its session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use link::rpc::{Dialect, Params, Reply, Request};
use link::task::Tasks;
use link::{Incoming, Link, Outgoing};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use wire::exec_server::envelope::{self, Message};
use wire::exec_server::{ErrorObject, v1};
use wire::jsonrpc::RpcError;

use super::ExecServer;
use super::methods::environment;
use super::session::{ExecServerHandle, Session, open, resume};
use crate::core::dispatch::{Dispatch, dispatch, lookup, reject};
use crate::core::request::{ConnectionContext, Requester};
use crate::core::responder::Responder;
use crate::core::session::{Face as _, SessionConnection, SessionMessage, SubscriptionId};
use crate::core::table::Admission;
use crate::core::{SHUTDOWN_TIMEOUT, flush};
use crate::observe::metrics::Transport;

/// Requests with a slot that run at the same time.
pub(super) const MAX_RUNNING: usize = 256;
/// Requests that wait for a slot; beyond it nothing is read.
const MAX_WAITING: usize = 1_024;
/// Bytes of the requests that wait; beyond it nothing is read.
const MAX_WAITING_BYTES: usize = 256 * 1024 * 1024;
/// Bytes of requests that wait for processes: unread input, reads that wait for output.
const PROCESS_MEMORY: u32 = 256 * 1024 * 1024;
/// The least that such a request counts.
const MIN_REQUEST_MEMORY: u32 = 64 * 1024;
const TOO_MANY_PENDING: &str = "too many pending reads and writes; wait for responses before sending more";
/// How long a peer may take to read the last messages.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Initialized,
    Ready,
}

/// One connection and its session.
pub(super) struct Connection {
    face: Arc<ExecServer>,
    context: ConnectionContext,
    outgoing: Outgoing,
    phase: Phase,
    session: Option<(ExecServerHandle, SubscriptionId)>,
    slots: Arc<Semaphore>,
    process_memory: Arc<Semaphore>,
    waiting: VecDeque<Request>,
    waiting_bytes: usize,
    tasks: Tasks,
    /// Cancelled when responses have no reader any more.
    closed: CancellationToken,
    /// Cancelled when another connection takes the session over.
    hang_up: CancellationToken,
}

impl Connection {
    pub(super) fn new(face: Arc<ExecServer>, context: ConnectionContext, link: &Link) -> Connection {
        let slots = Arc::new(Semaphore::new(face.max_running));
        Connection {
            face,
            context,
            outgoing: link.outgoing.clone(),
            phase: Phase::New,
            session: None,
            slots,
            process_memory: Arc::new(Semaphore::new(PROCESS_MEMORY as usize)),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            tasks: Tasks::new(),
            closed: CancellationToken::new(),
            hang_up: CancellationToken::new(),
        }
    }

    /// Serves until the peer is done, the connection is closed or the daemon ends.
    pub(super) async fn run(mut self, link: Link) {
        let Link { mut incoming, outgoing, writing } = link;
        drop(outgoing);
        self.receive(&mut incoming).await;
        self.closed.cancel();
        if self.hang_up.is_cancelled() || self.outgoing.is_closed() {
            // What is still queued has no reader.
            writing.abort();
        }
        let is_ending = self.face.core().stop.is_cancelled();
        let timeout = if is_ending { SHUTDOWN_TIMEOUT } else { FLUSH_TIMEOUT };
        flush(writing, self.end(is_ending), timeout).await;
    }

    /// Disconnects the session, or ends it if no other connection can resume it.
    async fn end(self, is_ending: bool) {
        let Connection { session, waiting, tasks, outgoing, context, .. } = self;
        drop((outgoing, waiting));
        if let Some((handle, subscription)) = session {
            if is_ending || context.transport == Transport::Stdio {
                handle.end().await;
            } else {
                handle.send(SessionMessage::Disconnected(subscription)).await;
            }
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn receive(&mut self, incoming: &mut link::Receiver) {
        let (peer, hang_up, stop) =
            (self.outgoing.clone(), self.hang_up.clone(), self.face.core().stop.clone());
        loop {
            // A peer that does not read responses is not asked for more requests.
            let is_full = peer.is_full();
            let reads =
                self.waiting.len() < MAX_WAITING && self.waiting_bytes < MAX_WAITING_BYTES && !is_full;
            let (slots, is_waiting) = (self.slots.clone(), !self.waiting.is_empty());
            tokio::select! {
                biased;
                message = incoming.recv(), if reads => match message {
                    Some(message) => if let Err(reason) = self.handle(message).await {
                        return self.complain(reason).await;
                    },
                    None => return,
                },
                Ok(slot) = slots.acquire_owned(), if is_waiting && !is_full => self.run_waiting(slot).await,
                () = peer.has_room(), if is_full => {}
                () = peer.closed() => return,
                () = hang_up.cancelled() => return,
                () = stop.cancelled() => return,
            }
        }
    }

    /// Handles one message. The error is the reason to close the connection.
    async fn handle(&mut self, incoming: Incoming) -> Result<(), String> {
        let line = match incoming {
            Incoming::Message(line) => line,
            Incoming::TooLong { bytes } => {
                let limit = super::MAX_LINE_BYTES;
                self.complain(format!("message too large: {bytes} bytes (limit {limit})")).await;
                return Ok(());
            }
        };
        match envelope::parse(&line) {
            Ok(Message::Request { id, method, params }) => {
                let params = Params::new(params.map(|raw| line.slice_ref(raw.get().as_bytes())));
                let reply = Reply::new(Dialect::Unversioned, id, self.outgoing.clone());
                let cancel = self.closed.child_token();
                self.admit(Request { method: method.into_owned(), params, reply, cancel }).await;
            }
            Ok(Message::Notification { method, params }) => match (&*method, self.phase) {
                (v1::INITIALIZED, Phase::New) => return Err("`initialized` before `initialize`".to_owned()),
                (v1::INITIALIZED, Phase::Initialized | Phase::Ready) => self.phase = Phase::Ready,
                (v1::SESSION_ACK, Phase::Ready) => {
                    self.acknowledge(params.map_or("null", |raw| raw.get())).await?
                }
                _ => return Err(format!("unexpected notification {method:?}")),
            },
            Ok(Message::Response { .. }) => {
                return Err("unexpected response: the server sent no request".to_owned());
            }
            Err(reason) => {
                let source = match self.context.transport {
                    Transport::Stdio => "JSON-RPC message from exec-server stdio",
                    _ => "websocket JSON-RPC message from exec-server websocket",
                };
                self.complain(format!("failed to parse {source}: {reason}")).await;
            }
        }
        Ok(())
    }

    /// Handles `session/ack`. The error is the reason to close the connection.
    async fn acknowledge(&self, params: &str) -> Result<(), String> {
        let invalid = |error: serde_json::Error| format!("invalid {}: {error}", v1::SESSION_ACK);
        let v1::SessionAckNotification { received } = serde_json::from_str(params).map_err(invalid)?;
        if let Some((handle, subscription)) = &self.session {
            let subscription = *subscription;
            let update = move |session: &mut Session| {
                let acknowledged = session.acknowledge_received(subscription, received);
                session.spawn(acknowledged);
            };
            handle.send(SessionMessage::update(update)).await;
        }
        Ok(())
    }

    async fn complain(&self, message: String) {
        let error = ErrorObject::invalid_request(message);
        self.outgoing.respond(Bytes::from(envelope::error_to_nobody(&error))).await.ok();
    }

    /// Runs a request, or queues it for a slot. Requests that wait for a process must not delay those that end it.
    async fn admit(&mut self, request: Request) {
        // Unknown methods are answered at once.
        let method = lookup::<ExecServer>(&request.method);
        let permit = match method.map_or(Admission::Unlimited, |method| method.admission()) {
            Admission::Unlimited => None,
            Admission::Slot => match self.slots.clone().try_acquire_owned() {
                Ok(slot) if self.waiting.is_empty() => Some(slot),
                _ => {
                    self.waiting_bytes += request.params.len();
                    return self.waiting.push_back(request);
                }
            },
            Admission::ProcessMemory => {
                let bytes = u32::try_from(request.params.len()).unwrap_or(u32::MAX);
                let bytes = bytes.clamp(MIN_REQUEST_MEMORY, PROCESS_MEMORY);
                match self.process_memory.clone().try_acquire_many_owned(bytes) {
                    Ok(share) => Some(share),
                    Err(_full) => return self.reject(request, RpcError::invalid_request(TOO_MANY_PENDING)),
                }
            }
        };
        self.dispatch(request, permit).await;
    }

    async fn run_waiting(&mut self, slot: OwnedSemaphorePermit) {
        if let Some(request) = self.waiting.pop_front() {
            self.waiting_bytes -= request.params.len();
            self.dispatch(request, Some(slot)).await;
        }
    }

    async fn dispatch(&mut self, request: Request, permit: Option<OwnedSemaphorePermit>) {
        if self.phase != Phase::Ready && request.method != v1::INITIALIZE {
            let error = self.not_ready(&request.method);
            return self.reject(request, error);
        }
        let session = self.session.as_ref().map(|(handle, _)| handle.clone());
        let find = |_id: Option<&str>| session;
        match dispatch::<ExecServer>(self.face.core(), &self.context, self.requester(), request, find) {
            Ok(Dispatch::Connection(params, responder)) => self.initialize(params, responder).await,
            Ok(Dispatch::Session(mut request, handle)) => {
                request.responder.hold(permit);
                if let Err(request) = handle.request(request).await {
                    self.respond(request.responder, ExecServer::session_closed(&handle.id));
                }
            }
            Ok(Dispatch::NoSession(_, responder)) => self.respond(responder, ExecServer::session_closed("")),
            Err(rejected) => self.tasks.spawn(rejected.respond()),
        }
    }

    fn requester(&self) -> Requester {
        match &self.session {
            Some((handle, _)) => handle.requester.clone(),
            None => Requester::new(ExecServer::NAME, self.context.caller.clone()),
        }
    }

    fn reject(&self, request: Request, error: RpcError) {
        let rejected =
            reject::<ExecServer>(self.face.core(), &self.context, self.requester(), request, error);
        self.tasks.spawn(rejected.respond());
    }

    fn respond(&self, responder: Responder, error: RpcError) {
        self.tasks.spawn(responder.reject(error));
    }

    fn not_ready(&self, method: &str) -> RpcError {
        let family = match method.split('/').next() {
            Some("fs") => "filesystem",
            Some("http") => "http",
            Some("environment") => "environment info",
            _ => "exec",
        };
        let missing = if self.phase == Phase::New { "call initialize" } else { "send initialized" };
        RpcError::invalid_request(format!("client must {missing} before using {family} methods"))
    }

    async fn initialize(&mut self, params: v1::InitializeParams, mut responder: Responder) {
        if self.phase != Phase::New {
            let error = RpcError::invalid_request("initialize may only be sent once per connection");
            return self.respond(responder, error);
        }
        let connection =
            SessionConnection { outgoing: self.outgoing.clone(), hang_up: Some(self.hang_up.clone()) };
        let session_ack = params.session_ack.filter(|is_wanted| *is_wanted);
        let attached = match params.resume_session_id {
            Some(id) => resume(&self.face, &self.context, &id, (connection, session_ack.is_some())).await,
            None => open(&self.face, &self.context, params.client_name, (connection, session_ack.is_some())),
        };
        match attached {
            Ok((handle, subscription, gap)) => {
                self.phase = Phase::Initialized;
                responder.set_requester(handle.requester.clone());
                let response = v1::InitializeResponse {
                    protocol_version: Some(wire::exec_server::v0::PROTOCOL_VERSION.to_owned()),
                    session_id: Some(handle.id.to_string()),
                    environment_info: Some(environment::info(&self.face.roots)),
                    session_ack,
                };
                self.session = Some((handle, subscription));
                responder.send(Ok(response)).await;
                // Events of a resumed session start after the response.
                drop(gap);
            }
            Err(error) => self.respond(responder, error),
        }
    }
}
