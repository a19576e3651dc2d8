//! One connection: the handshake, the admission of requests, and its session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use link::rpc::{Dialect, Params, Reply, Request};
use link::{Incoming, Link, Outgoing};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::exec_server::envelope::{self, Message};
use wire::exec_server::{ErrorObject, v1};
use wire::jsonrpc::RpcError;

use super::session::{ExecServerHandle, initialize_response, open, resume};
use super::table::{Admission, admission};
use super::{ConnectionCall, ExecServer};
use crate::core::SHUTDOWN_TIMEOUT;
use crate::core::dispatch::{Dispatch, Rejected, dispatch, reject};
use crate::core::request::{ConnectionContext, Requester};
use crate::core::responder::Responder;
use crate::core::session::{Face as _, SessionConnection, SessionMessage, SubscriptionId};
use crate::observe::metrics::Transport;

/// Requests with a slot that run at the same time.
const MAX_RUNNING: usize = 256;
/// Requests that wait for a slot; beyond it nothing is read.
const MAX_WAITING: usize = 1_024;
/// Bytes of the requests that wait; beyond it nothing is read.
const MAX_WAITING_BYTES: usize = 256 * 1024 * 1024;
/// Bytes of requests that wait for processes: unread input, reads that wait for output.
const PROCESS_MEMORY: usize = 256 * 1024 * 1024;
/// The least that such a request counts.
const MIN_REQUEST_MEMORY: usize = 64 * 1024;
/// How long a peer may take to read the last messages.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Initialized,
    Ready,
}

/// Whether the connection continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Continue,
    Close,
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
    tasks: TaskTracker,
    /// Cancelled when responses have no reader any more.
    closed: CancellationToken,
    /// Cancelled when another connection takes the session over.
    hang_up: CancellationToken,
}

impl Connection {
    pub(super) fn new(face: Arc<ExecServer>, context: ConnectionContext, link: &Link) -> Connection {
        Connection {
            face,
            context,
            outgoing: link.outgoing.clone(),
            phase: Phase::New,
            session: None,
            slots: Arc::new(Semaphore::new(MAX_RUNNING)),
            process_memory: Arc::new(Semaphore::new(PROCESS_MEMORY)),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            tasks: TaskTracker::new(),
            closed: CancellationToken::new(),
            hang_up: CancellationToken::new(),
        }
    }

    /// Serves until the peer is done, the connection is closed or `stop` is cancelled.
    pub(super) async fn run(mut self, link: Link, stop: CancellationToken) {
        let Link { mut incoming, outgoing, writing } = link;
        drop(outgoing);
        self.receive(&mut incoming, &stop).await;
        self.closed.cancel();
        if self.hang_up.is_cancelled() || self.outgoing.is_closed() {
            // What is still queued has no reader.
            writing.abort();
        }
        let is_ending = self.face.core().stop.is_cancelled() || stop.is_cancelled();
        let timeout = if is_ending { SHUTDOWN_TIMEOUT } else { FLUSH_TIMEOUT };
        let flushed = async {
            self.end(is_ending).await;
            writing.finished().await
        };
        match tokio::time::timeout(timeout, flushed).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "connection closed before everything was written"),
            Err(_elapsed) => tracing::debug!("the peer does not read: dropping the remaining messages"),
        }
    }

    /// Disconnects the session, or ends it if no other connection can resume it.
    async fn end(self, is_ending: bool) {
        let Connection { session, waiting, tasks, outgoing, context, .. } = self;
        drop((outgoing, waiting));
        if let Some((handle, subscription)) = session {
            if is_ending || context.transport == Transport::Stdio {
                handle.send(SessionMessage::End).await;
                handle.ended().await;
            } else {
                handle.send(SessionMessage::Disconnected(subscription)).await;
            }
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn receive(&mut self, incoming: &mut link::Receiver, stop: &CancellationToken) {
        let (peer, hang_up, shutdown) =
            (self.outgoing.clone(), self.hang_up.clone(), self.face.core().stop.clone());
        loop {
            // A peer that does not read responses is not asked for more requests.
            let is_full = peer.is_full();
            let reads =
                self.waiting.len() < MAX_WAITING && self.waiting_bytes < MAX_WAITING_BYTES && !is_full;
            let (slots, is_waiting) = (self.slots.clone(), !self.waiting.is_empty());
            let flow = tokio::select! {
                biased;
                message = incoming.recv(), if reads => match message {
                    Some(message) => self.handle(message).await,
                    None => Flow::Close,
                },
                Ok(slot) = slots.acquire_owned(), if is_waiting && !is_full => self.run_waiting(slot).await,
                () = peer.has_room(), if is_full => Flow::Continue,
                () = peer.closed() => Flow::Close,
                () = hang_up.cancelled() => Flow::Close,
                () = stop.cancelled() => Flow::Close,
                () = shutdown.cancelled() => Flow::Close,
            };
            if flow == Flow::Close {
                return;
            }
        }
    }

    async fn handle(&mut self, incoming: Incoming) -> Flow {
        let line = match incoming {
            Incoming::Message(line) => line,
            Incoming::TooLong { bytes } => {
                let limit = super::link_limits().line_bytes;
                self.complain(format!("message too large: {bytes} bytes (limit {limit})")).await;
                return Flow::Continue;
            }
        };
        match envelope::parse(&line) {
            Ok(Message::Request { id, method, params }) => {
                let params = Params::new(params.map(|raw| line.slice_ref(raw.get().as_bytes())));
                let reply = Reply::new(Dialect::Unversioned, id, self.outgoing.clone());
                let cancel = self.closed.child_token();
                self.admit(Request { method: method.into_owned(), params, reply, cancel }).await;
                Flow::Continue
            }
            Ok(Message::Notification { method, .. }) => match (&*method, self.phase) {
                (v1::INITIALIZED, Phase::Initialized | Phase::Ready) => {
                    self.phase = Phase::Ready;
                    Flow::Continue
                }
                (v1::INITIALIZED, Phase::New) => self.abort("`initialized` before `initialize`").await,
                _ => self.abort(&format!("unexpected notification {method:?}")).await,
            },
            Ok(Message::Response { .. }) => {
                self.abort("unexpected response: the server sent no request").await
            }
            Err(reason) => {
                self.complain(format!("cannot parse the message: {reason}")).await;
                Flow::Continue
            }
        }
    }

    /// Reports a protocol error and closes the connection.
    async fn abort(&self, reason: &str) -> Flow {
        self.complain(reason.to_owned()).await;
        Flow::Close
    }

    async fn complain(&self, message: String) {
        let error = ErrorObject::invalid_request(message);
        self.outgoing.respond(Bytes::from(envelope::error_to_nobody(&error))).await.ok();
    }

    /// Runs a request, or queues it for a slot. Requests that wait for a process must not delay those that end it.
    async fn admit(&mut self, request: Request) {
        match admission(&request.method) {
            Admission::Unlimited => self.dispatch(request, None).await,
            Admission::Slot => {
                let is_next = self.waiting.is_empty();
                match is_next.then(|| self.slots.clone().try_acquire_owned().ok()).flatten() {
                    Some(slot) => self.dispatch(request, Some(slot)).await,
                    None => {
                        self.waiting_bytes += request.params.len();
                        self.waiting.push_back(request);
                    }
                }
            }
            Admission::ProcessMemory => {
                let bytes = request.params.len().clamp(MIN_REQUEST_MEMORY, PROCESS_MEMORY);
                let memory = self.process_memory.clone();
                match u32::try_from(bytes).ok().and_then(|bytes| memory.try_acquire_many_owned(bytes).ok()) {
                    Some(share) => self.dispatch(request, Some(share)).await,
                    None => {
                        let error =
                            "too many pending reads and writes; wait for responses before sending more";
                        self.reject(request, RpcError::invalid_request(error));
                    }
                }
            }
        }
    }

    async fn run_waiting(&mut self, slot: OwnedSemaphorePermit) -> Flow {
        if let Some(request) = self.waiting.pop_front() {
            self.waiting_bytes -= request.params.len();
            self.dispatch(request, Some(slot)).await;
        }
        Flow::Continue
    }

    async fn dispatch(&mut self, request: Request, permit: Option<OwnedSemaphorePermit>) {
        if self.phase != Phase::Ready && request.method != v1::INITIALIZE {
            let error = self.not_ready(&request.method);
            return self.reject(request, error);
        }
        let session = self.session.as_ref().map(|(handle, _)| handle.clone());
        let find = |_id: Option<&str>| session;
        match dispatch::<ExecServer>(self.face.core(), &self.context, self.requester(), request, find) {
            Ok(Dispatch::Connection(ConnectionCall::Initialize(params), responder)) => {
                self.initialize(params, responder).await;
            }
            Ok(Dispatch::Session(mut request, handle)) => {
                permit.into_iter().for_each(|permit| request.responder.hold(permit));
                if let Err(request) = handle.request(request).await {
                    self.respond(request.responder, ExecServer::session_closed(&handle.id));
                }
            }
            Ok(Dispatch::NoSession(_, responder)) => self.respond(responder, ExecServer::session_closed("")),
            Err(rejected) => drop(self.tasks.spawn(rejected.respond())),
        }
    }

    fn requester(&self) -> Requester {
        match &self.session {
            Some((handle, _)) => handle.requester.clone(),
            None => Requester::new(ExecServer::NAME, self.context.caller.clone()),
        }
    }

    fn reject(&self, request: Request, error: RpcError) {
        let rejected: Rejected =
            reject::<ExecServer>(self.face.core(), &self.context, self.requester(), request, error);
        self.tasks.spawn(rejected.respond());
    }

    fn respond(&self, responder: Responder, error: RpcError) {
        self.tasks.spawn(responder.send(Err::<(), _>(error)));
    }

    fn not_ready(&self, method: &str) -> RpcError {
        let family = match method.split('/').next() {
            Some("fs") => "filesystem",
            Some("http") => "http",
            _ => "exec",
        };
        RpcError::invalid_request(match self.phase {
            Phase::New => format!("call `initialize` before {family} methods"),
            Phase::Initialized | Phase::Ready => format!("send `initialized` before {family} methods"),
        })
    }

    async fn initialize(&mut self, params: v1::InitializeParams, mut responder: Responder) {
        if self.phase != Phase::New {
            let error = RpcError::invalid_request("`initialize` was already called on this connection");
            return self.respond(responder, error);
        }
        let connection =
            SessionConnection { outgoing: self.outgoing.clone(), hang_up: Some(self.hang_up.clone()) };
        let attached = match params.resume_session_id {
            Some(id) => self.resume(&id, connection).await,
            None => {
                let is_resumable = self.context.transport != Transport::Stdio;
                open(&self.face, &self.context, params.client_name, connection, is_resumable)
                    .map(|handle| (handle, SubscriptionId::FIRST, None))
            }
        };
        match attached {
            Ok((handle, subscription, gap)) => {
                self.phase = Phase::Initialized;
                responder.set_requester(handle.requester.clone());
                let response = initialize_response(&self.face, &handle);
                self.session = Some((handle, subscription));
                responder.send(Ok(response)).await;
                // Events of a resumed session start after the response.
                drop(gap);
            }
            Err(error) => self.respond(responder, error),
        }
    }

    async fn resume(
        &self,
        id: &str,
        connection: SessionConnection,
    ) -> Result<(ExecServerHandle, SubscriptionId, Option<crate::core::events::Gap>), RpcError> {
        let unknown = || RpcError::invalid_request(format!("there is no session {id:?} to resume"));
        let handle = self.face.sessions().find(id, &self.context.caller).ok_or_else(unknown)?;
        let (message, resumed) = resume(connection);
        handle.send(message).await;
        let (subscription, gap) = resumed.await.map_err(|_over| unknown())??;
        Ok((handle, subscription, gap))
    }
}
