//! Who makes a request, on which connection, and under which authorization it runs.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::approval;
use engine::audit::{AuditOutcome, AuditRecord, Detail};
use engine::policy::{PolicyOperation, PolicyQuery};
use engine::process::ProcessSummary;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::RpcError;

use super::authorize::Authorization;
use super::responder::{JsonResult, Responder, to_json};
use super::session::keys::KeyReservation;
use super::session::scheduler::SchedulerGuard;
use crate::net::auth::Caller;
use crate::observe::metrics::Transport;
use crate::observe::traces::TraceParent;

/// Names and values that the audit records of a request.
pub type Details = Vec<(Cow<'static, str>, Detail)>;

/// Who makes requests, as the policy, approvals and the audit identify them.
#[derive(Debug, Clone)]
pub struct Requester {
    /// The face the requests arrive through.
    pub face: &'static str,
    /// The authenticated caller.
    pub caller: Arc<Caller>,
    /// The name that the client gave itself; not verified.
    pub client: Arc<str>,
    /// The session, once one is open.
    pub session: Option<Arc<str>>,
}

impl Requester {
    /// A caller that has not opened a session yet.
    pub fn new(face: &'static str, caller: Arc<Caller>) -> Requester {
        Requester { face, caller, client: Arc::from(""), session: None }
    }

    /// An operation of this requester as a question to the policy.
    pub fn query<'a>(&'a self, operation: PolicyOperation<'a>) -> PolicyQuery<'a> {
        PolicyQuery { face: self.face, client: &self.client, caller: &self.caller.name, operation }
    }

    /// This requester as approvers see it.
    pub fn approval_requester(&self) -> approval::Requester {
        approval::Requester {
            caller: self.caller.name.clone(),
            client: self.client.clone(),
            face: self.face,
            session: self.session.clone().unwrap_or_default(),
        }
    }

    /// An audit record of this requester that ends now.
    pub fn record(
        &self,
        operation: Cow<'static, str>,
        details: Details,
        outcome: AuditOutcome,
        duration: Duration,
    ) -> AuditRecord {
        AuditRecord {
            time: SystemTime::now(),
            caller: self.caller.name.clone(),
            address: self.caller.address.clone(),
            client: self.client.clone(),
            face: self.face,
            session: self.session.clone(),
            operation,
            details,
            outcome,
            exit: None,
            duration,
            decision: None,
        }
    }

    /// The audit record of the end of a process that this requester started.
    pub fn end_record(
        &self,
        operation: &'static str,
        details: Details,
        closed: &ProcessSummary,
    ) -> AuditRecord {
        let outcome = AuditOutcome::Done("ended".into());
        let record = self.record(operation.into(), details, outcome, closed.duration);
        AuditRecord { exit: Some(closed.exit), ..record }
    }
}

/// A connection: who is at its other end, and what carries it.
#[derive(Debug, Clone)]
pub struct ConnectionContext {
    /// The authenticated caller.
    pub caller: Arc<Caller>,
    /// The transport, for metrics and traces.
    pub transport: Transport,
    /// The trace that its requests belong to.
    pub parent: Option<TraceParent>,
    /// The session that its first request must resume, if it was opened for one.
    pub resumes: Option<Arc<str>>,
    /// Whether another daemon of this user is at its other end, which has asked the remaining ones itself.
    pub is_of_peer: bool,
}

impl ConnectionContext {
    /// A connection without a trace and without a session to resume.
    pub fn new(caller: Caller, transport: Transport) -> ConnectionContext {
        ConnectionContext {
            caller: Arc::new(caller),
            transport,
            parent: None,
            resumes: None,
            is_of_peer: false,
        }
    }

    /// The same, for a connection that is closed unless its first request resumes `session`.
    pub fn resuming(self, session: Arc<str>) -> ConnectionContext {
        ConnectionContext { resumes: Some(session), ..self }
    }

    /// The same, for a connection of another daemon of this user.
    pub fn of_peer(self) -> ConnectionContext {
        ConnectionContext { is_of_peer: true, ..self }
    }
}

/// What a request is checked against and runs under. Passed down as a value; nothing of it is state of the session.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// Who makes it, through which face and in which session.
    pub requester: Requester,
    /// The name of its method.
    pub method: &'static str,
    /// The id that its client gave it, in protocols that match approvals to requests.
    pub request_id: Option<Arc<str>>,
    /// The approval that an earlier daemon has requested for it.
    pub earlier_approval: Option<approval::ApprovalIdentity>,
    /// The directory that its relative paths start in.
    pub cwd: Arc<PathBuf>,
    /// What it was authorized for, once it was.
    pub authorization: Authorization,
    /// Cancelled when the client withdraws the request or can no longer read the response.
    pub cancel: CancellationToken,
}

/// A request that may run now.
#[derive(Debug)]
pub struct AuthorizedRequest {
    /// What it runs under.
    pub context: RequestContext,
    /// Where its response goes.
    pub responder: Responder,
    /// Holds its position among the requests of its session; later ones continue when it is dropped.
    pub guard: SchedulerGuard,
    /// Its idempotency key, if it has one.
    pub key: Option<KeyReservation>,
}

impl AuthorizedRequest {
    /// Responds, and stores the response under the idempotency key.
    pub fn finish<T: Serialize>(self, result: Result<T, RpcError>) -> impl Future<Output = ()> + Send {
        let result = to_json(result);
        self.complete(&result).send_json(result)
    }

    /// The same, and waits until the response was written to the connection.
    pub fn finish_written<T: Serialize>(
        self,
        result: Result<T, RpcError>,
    ) -> impl Future<Output = ()> + Send {
        let result = to_json(result);
        self.complete(&result).send_json_written(result)
    }

    /// Responds with an error.
    pub async fn reject(self, error: RpcError) {
        self.finish(Err::<(), _>(error)).await;
    }

    /// Runs work that may block on a worker thread, under the request's guard, and responds with its result.
    pub fn run_blocking<T: Serialize + Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
    ) -> impl Future<Output = ()> + Send {
        self.run_boxed(Box::new(move || to_json(work())))
    }

    async fn run_boxed(self, work: Box<dyn FnOnce() -> JsonResult + Send>) {
        let result = match &self.guard {
            SchedulerGuard::Batch(batch) => batch.run(work).await,
            SchedulerGuard::None | SchedulerGuard::Shared(_) | SchedulerGuard::Exclusive(_) => {
                off_thread(work).await
            }
        };
        self.complete(&result).send_json(result).await;
    }

    /// Stores the response and drops the guard.
    fn complete(self, result: &JsonResult) -> Responder {
        if let Some(key) = self.key {
            key.complete(result);
        }
        self.responder
    }
}

/// Runs work that may block on a worker thread.
pub async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    let work: Box<dyn FnOnce() -> Result<T, RpcError> + Send> = Box::new(work);
    let finished = tokio::task::spawn_blocking(work).await;
    finished.unwrap_or_else(|_panicked| Err(RpcError::internal("the operation failed inside the server")))
}
