//! A session of any face: a task that owns its processes and runs its requests.
//!
//! Connections and single requests send it messages, so it can outlive them. A request is scheduled, looked up by its
//! idempotency key, checked and converted, authorized, and then run; work that takes time continues in a task beside
//! the session, which reports back by a message.

mod approver;
mod command;
mod connections;
mod handle;
pub mod keys;
pub mod liveness;
mod options;
mod registry;
mod requests;
pub mod scheduler;
mod task;
pub mod write_batch;

pub use approver::{SessionApprover, reason_against};
pub use connections::{Resumption, SessionConnection};
pub use handle::SessionHandle;
pub use liveness::{Retention, SessionLiveness, SubscriptionId};
pub use options::SessionOptions;
pub use registry::SessionRegistry;
pub use requests::PendingRequest;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::approval::{ApprovalUpdate, ApproverRegistration};
use engine::process::{Cursor, Process, ProcessId, ProcessSpec};
use engine::{Limits, Roots};
use link::rpc::Params;
use link::task::Tasks;
use link::{Link, Outgoing};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::RpcError;

use super::Core;
use super::events::{EncodeEvent, EventOptions, Follow, ProcessEvents, PublisherHandle, PublisherMessage};
use super::request::{AuthorizedRequest, ConnectionContext, Requester};
use super::responder::Responder;
use super::response_memory::ResponseMemory;
use super::sandbox::SessionSandbox;
use super::table::Method;
use crate::observe::metrics::{ProcessOwner, QueueGauge, SessionGauge};
use keys::IdempotencyKeys;
use scheduler::{RequestScheduler, SchedulerGuard};

/// Session inbox: messages that wait for one session; senders wait when it is full.
const INBOX_MESSAGES: usize = 256;

/// A protocol front end: its names, its table, its conversions, and the state that its protocol defines.
pub trait Face: Sized + Send + Sync + 'static {
    /// The name in listings, policies, metrics and the audit.
    const NAME: &'static str;
    /// Parameters that identify a request and do not change what it does.
    const IDENTITY_PARAMS: &'static [&'static str];
    /// What the protocol keeps per session beyond what every session has.
    type State: Send;
    /// Requests that a connection handles itself.
    type ConnectionCall: Send;
    /// Converts the log of a process into events of the protocol.
    type Events: ProcessEvents;

    /// What this face shares with the others.
    fn core(&self) -> &Arc<Core>;
    /// The open sessions of this face.
    fn sessions(&self) -> &SessionRegistry<Self>;
    /// Its method table.
    fn table() -> &'static [&'static dyn Method<Self>];
    /// Decodes parameters; the error names what is wrong with them.
    fn decode<P: DeserializeOwned>(params: &Params) -> Result<P, RpcError>;
    /// The engine's error in the protocol's codes.
    fn error(error: engine::Error) -> RpcError;
    /// The error of a start that failed.
    fn start_error(&self, error: engine::Error) -> RpcError {
        Self::error(error)
    }
    /// The error for a method that is not in the table.
    fn unknown_method(name: &str) -> RpcError {
        RpcError::method_not_found(name)
    }
    /// The error for a request that reaches a session after its end.
    fn session_closed(id: &str) -> RpcError;
    /// The error for an idempotency key that another request uses.
    fn key_in_use() -> RpcError {
        RpcError::invalid_request("the key is in use by another request")
    }

    /// Called when the session has lost its connection and is kept for the next one.
    fn disconnected(_session: &mut Session<Self>) {}
    /// Called when a process has closed and its last event was published.
    fn process_closed(session: &mut Session<Self>, process: &ProcessId);
    /// Called when an operation waits for an approval, or no longer does.
    fn approval_update(_session: &mut Session<Self>, _update: &ApprovalUpdate) {}
    /// The event for clients when the daemon ends.
    fn shutdown_event(_session: &Session<Self>) -> Option<EncodeEvent> {
        None
    }
    /// Whether a disconnected session may end at once, because a client loses nothing with it.
    fn is_disposable(_session: &Session<Self>) -> bool {
        false
    }
    /// Called when the session ends: releases what only its state holds.
    fn close(session: &mut Session<Self>) {
        Self::disconnected(session);
    }
}

/// A face whose connections come from other daemons of this user too.
pub trait ServeLink: Face {
    /// Serves one connection until it ends.
    fn serve_link(
        self: Arc<Self>,
        link: Link,
        context: ConnectionContext,
    ) -> impl Future<Output = ()> + Send + 'static;
}

/// How a process is started.
#[derive(Debug, Clone, Copy, Default)]
pub struct StartOptions {
    /// Bytes of published output that are kept, so that they can be read again.
    pub retained_bytes: u64,
    /// How long output is held back after the response was written, for clients that lose events that arrive too early.
    pub output_delay: Option<Duration>,
}

/// A session. Its own task drives it, message by message.
pub struct Session<F: Face> {
    /// The face it belongs to.
    pub face: Arc<F>,
    /// What all faces share.
    pub core: Arc<Core>,
    /// Its id.
    pub id: Arc<str>,
    /// Who opened it.
    pub requester: Requester,
    /// Owns its processes.
    pub engine: engine::Session,
    /// The directories it may reach.
    pub roots: Roots,
    /// Where relative paths start.
    pub cwd: Arc<PathBuf>,
    /// Its limits.
    pub limits: Limits,
    /// What confines its processes and files.
    pub sandbox: SessionSandbox,
    /// Responses by idempotency key.
    pub keys: IdempotencyKeys,
    /// Memory for its large responses.
    pub response_memory: ResponseMemory,
    /// What the protocol adds.
    pub state: F::State,
    /// As which it answers requests for approval.
    pub approver: Arc<SessionApprover<F>>,
    /// Cancelled when none of its processes is left: requests on processes of others then end.
    pub over: CancellationToken,
    handle: SessionHandle<F>,
    scheduler: RequestScheduler,
    connections: connections::Connections,
    event_options: EventOptions,
    has_events: bool,
    events: Option<PublisherHandle<F>>,
    closing: Option<(Responder, serde_json::Value)>,
    registration: Option<ApproverRegistration>,
    gauge: SessionGauge,
    tasks: Tasks,
    _inbox_depth: QueueGauge,
}

/// What a task has its session do.
type SessionUpdate<F> = Box<dyn FnOnce(&mut Session<F>) + Send>;
/// What a task has its session do to complete a request.
type Completion<F> = Box<dyn FnOnce(&mut Session<F>, Responder) + Send>;

/// A message to a session. Small, because every session has memory for 32 of them.
pub enum SessionMessage<F: Face> {
    /// A request to run.
    Request(Box<PendingRequest<F>>),
    /// A request whose turn has come.
    Scheduled(Box<PendingRequest<F>>, SchedulerGuard),
    /// A task's result.
    Update(SessionUpdate<F>),
    /// A task's result that completes a request.
    Complete(Box<Responder>, Completion<F>),
    /// A connection or event stream is gone.
    Disconnected(SubscriptionId),
    /// Ends the session.
    End,
}

impl<F: Face> SessionMessage<F> {
    /// Wraps the result of a task.
    pub fn update(update: impl FnOnce(&mut Session<F>) + Send + 'static) -> SessionMessage<F> {
        SessionMessage::Update(Box::new(update))
    }

    /// A task's result that completes a request; a session that is over responds with an error instead.
    pub fn complete(
        responder: Responder,
        complete: impl FnOnce(&mut Session<F>, Responder) + Send + 'static,
    ) -> SessionMessage<F> {
        SessionMessage::Complete(Box::new(responder), Box::new(complete))
    }
}

impl<F: Face> Session<F> {
    /// A session whose events go to `connection`, or wait until a client subscribes. [`Session::start`] runs it.
    pub fn new(
        options: SessionOptions<F>,
        connection: Option<SessionConnection>,
    ) -> (Session<F>, SessionInbox<F>) {
        let SessionOptions {
            face,
            requester,
            engine,
            roots,
            cwd,
            limits,
            sandbox,
            events,
            can_approve,
            is_resumable,
            state,
        } = options;
        let core = face.core().clone();
        let (sender, inbox) = mpsc::channel(INBOX_MESSAGES);
        let id = requester.session.clone().unwrap_or_default();
        let handle = SessionHandle {
            id: id.clone(),
            requester: requester.clone(),
            inbox: sender,
            disconnected_since: Arc::default(),
            tasks: core.tasks.clone(),
        };
        let confined = requester.caller.roots.as_ref().map(|_| roots.paths().to_vec());
        let approver = Arc::new(SessionApprover::new(handle.clone(), core.policy.clone(), confined));
        let session = Session {
            registration: can_approve.then(|| core.approvals.register_approver(approver.clone())),
            gauge: core.metrics.session_opened(),
            _inbox_depth: core.metrics.queue("session_inbox", inbox_depth(&handle.inbox)),
            connections: connections::Connections::new(connection, is_resumable),
            event_options: events,
            has_events: false,
            core,
            id,
            requester,
            engine,
            roots,
            cwd: Arc::new(cwd),
            limits,
            sandbox,
            keys: IdempotencyKeys::default(),
            response_memory: ResponseMemory::new(&face.core().budget),
            state,
            approver,
            over: CancellationToken::new(),
            handle,
            scheduler: RequestScheduler::default(),
            events: None,
            closing: None,
            tasks: Tasks::new(),
            face,
        };
        (session, SessionInbox(inbox))
    }

    /// Runs the session as a task of its face. It can be found by its id if it is resumable or has no connection.
    pub fn start(self, inbox: SessionInbox<F>) -> SessionHandle<F> {
        let (handle, face) = (self.handle.clone(), self.face.clone());
        if self.connections.is_resumable || !self.connections.liveness.is_connected() {
            face.sessions().add(handle.clone());
        }
        // Boxed: the future would hold the session twice.
        face.sessions().tasks().spawn(task::run(Box::new(self), inbox.0));
        handle
    }

    /// Whether its client has closed it.
    pub fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// A handle to this session.
    pub fn handle(&self) -> SessionHandle<F> {
        self.handle.clone()
    }

    /// Continues a piece of work: at once as far as it does not wait, then in a task of the session.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.begin(work);
    }

    /// Responds with a result that is at hand.
    pub fn respond<T: Serialize + Send + 'static>(&self, responder: Responder, result: Result<T, RpcError>) {
        self.spawn(responder.send(result));
    }

    /// Responds with an error.
    pub fn reject(&self, responder: Responder, error: RpcError) {
        self.spawn(responder.reject(error));
    }

    /// Starts a process, responds with `result` when it runs, and publishes its log from the first byte. `events` is
    /// called before the program runs.
    pub fn start_process<T: Serialize + Send + 'static>(
        &mut self,
        spec: ProcessSpec,
        options: StartOptions,
        request: AuthorizedRequest,
        events: impl FnOnce(&mut Session<F>, &Process) -> F::Events,
        result: impl FnOnce(&Process) -> T + Send + 'static,
    ) {
        let starting = match self.engine.start(spec) {
            Ok(starting) => starting,
            Err(error) => return self.spawn(request.reject(F::error(error))),
        };
        let process = starting.process().clone();
        // Before the program runs, so that its output is kept for this reader.
        let reader = process.primary_reader_retaining(Cursor(0), options.retained_bytes);
        let mut events = events(self, &process);
        let (publisher, handle, face) = (self.events().clone(), self.handle(), self.face.clone());
        self.spawn(async move {
            match starting.running().await {
                Ok(process) => {
                    events.started();
                    let result = Ok(result(&process));
                    match options.output_delay {
                        Some(_) => request.finish_written(result).await,
                        None => request.finish(result).await,
                    }
                    let not_before = options.output_delay.map(|delay| Instant::now() + delay);
                    let gauge = Some(face.core().metrics.process_started(ProcessOwner::Attached));
                    let follow = Follow { process, reader, events, not_before, gauge };
                    publisher.send(PublisherMessage::Follow(Box::new(follow))).await;
                }
                Err(error) => {
                    let error = face.start_error(error);
                    let event = events.start_failed(process.id(), &error);
                    request.reject(error).await;
                    if let Some(encode) = event {
                        publisher.send(PublisherMessage::Publish(encode)).await;
                    }
                    let remove = move |session: &mut Session<F>| session.engine.remove(process.id());
                    handle.send(SessionMessage::update(remove)).await;
                }
            }
        });
    }

    /// Ends the session after the current message, and responds with `result` when nothing of it is left.
    pub fn close(&mut self, responder: Responder, result: serde_json::Value) {
        match self.closing {
            Some(_) => self.reject(responder, F::session_closed(&self.id)),
            None => self.closing = Some((responder, result)),
        }
    }

    /// The session's event publisher, to publish something.
    pub fn events(&mut self) -> &PublisherHandle<F> {
        self.has_events = true;
        self.publisher()
    }

    /// The session's event publisher; its task starts with the first use.
    fn publisher(&mut self) -> &PublisherHandle<F> {
        // Not `get_or_insert_with`: starting it needs the rest of the session.
        let events = match self.events.take() {
            Some(events) => events,
            None => {
                let first = self.connections.first_listener();
                PublisherHandle::start(&self.handle, &self.core, &self.tasks, self.event_options, first)
            }
        };
        self.events.insert(events)
    }

    /// Whether anything was ever published.
    pub fn has_events(&self) -> bool {
        self.has_events
    }

    /// Whether a connection or event stream receives its events.
    pub fn is_subscribed(&self) -> bool {
        self.connections.liveness.is_subscribed()
    }
}

/// The receiving end of a session's inbox.
pub struct SessionInbox<F: Face>(mpsc::Receiver<SessionMessage<F>>);

/// How many messages wait, while the session exists.
fn inbox_depth<F: Face>(
    inbox: &mpsc::Sender<SessionMessage<F>>,
) -> impl Fn() -> usize + Send + Sync + 'static {
    let inbox = inbox.downgrade();
    move || inbox.upgrade().map_or(0, |inbox| inbox.max_capacity() - inbox.capacity())
}

/// The listener of the connection that opened a session.
type FirstListener = Option<(SubscriptionId, Outgoing)>;

impl<F: Face> std::fmt::Debug for Session<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

opaque_debug!(SessionMessage<F: Face>, SessionInbox<F: Face>);
