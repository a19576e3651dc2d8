//! The one response to a request, with its audit record, metrics and trace.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use engine::audit::{ApprovalRecord, AuditOutcome, PolicyOutcome};
use engine::policy::Verdict;
use link::rpc::Reply;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use wire::jsonrpc::{Id, RpcError, code};

use super::Core;
use super::request::{ConnectionContext, Details, Requester};
use super::response_memory::ReservedMemory;
use crate::observe::metrics::{self, RefusalReason, RequestTimer};
use crate::observe::traces::{self, Span};

/// A result as JSON: what sends and stores it is compiled once, and not for every type of result.
pub type JsonResult = Result<Box<RawValue>, RpcError>;

/// Encodes a result, or passes its error on.
pub fn to_json<T: Serialize>(result: Result<T, RpcError>) -> JsonResult {
    serde_json::value::to_raw_value(&result?).map_err(|error| RpcError::internal(error.to_string()))
}

/// Responds to one request once, and records the result under the face's own method name. A responder that is dropped
/// responds with an internal error and records that.
pub struct Responder {
    reply: Option<Reply>,
    record: Option<Box<Record>>,
    /// Cancelled when the client withdraws the request or can no longer read the response.
    pub cancel: CancellationToken,
    busy: Option<TaskTrackerToken>,
    is_audited: bool,
    permits: Vec<OwnedSemaphorePermit>,
}

struct Record {
    core: Arc<Core>,
    requester: Requester,
    method: Cow<'static, str>,
    details: Details,
    since: Instant,
    timer: RequestTimer,
    span: Span,
    decision: Option<PolicyOutcome>,
}

impl Responder {
    /// The responder of a request that has just arrived. `label` is its method in the face's table, if there is one.
    pub fn new(
        core: &Arc<Core>,
        connection: &ConnectionContext,
        requester: Requester,
        method: (Option<&'static str>, String),
        (reply, cancel): (Reply, CancellationToken),
    ) -> Responder {
        let mut responder = Responder::recording(core, connection, requester, method);
        (responder.reply, responder.cancel) = (Some(reply), cancel);
        responder
    }

    /// A responder that only records the result, for a face whose response is an HTTP response.
    pub fn recording(
        core: &Arc<Core>,
        connection: &ConnectionContext,
        requester: Requester,
        (label, method): (Option<&'static str>, String),
    ) -> Responder {
        let (face, name) = (requester.face, label.unwrap_or(metrics::OTHER_METHOD));
        let request = traces::RequestAttributes {
            face,
            name,
            method: &method,
            caller: &connection.caller.name,
            transport: connection.transport,
        };
        let record = Record {
            timer: core.metrics.request(face, name),
            span: core.traces.begin(request, connection.parent.as_ref()),
            core: core.clone(),
            requester,
            method: label.map_or(Cow::Owned(method), Cow::Borrowed),
            details: Vec::new(),
            since: Instant::now(),
            decision: None,
        };
        Responder {
            reply: None,
            record: Some(Box::new(record)),
            cancel: CancellationToken::new(),
            busy: None,
            is_audited: true,
            permits: Vec::new(),
        }
    }

    /// Sets the session that the request turned out to belong to.
    pub fn set_requester(&mut self, requester: Requester) {
        if let Some(record) = &mut self.record {
            record.requester = requester;
        }
    }

    /// Who makes the request; `None` once it is answered.
    pub fn requester(&self) -> Option<&Requester> {
        self.record.as_ref().map(|record| &record.requester)
    }

    /// Sets what the audit records of the parameters.
    pub fn set_details(&mut self, details: Details) {
        if let Some(record) = &mut self.record {
            record.details = details;
        }
    }

    /// Records the policy's decision. A second decision keeps the approval of the first.
    pub fn record_decision(&mut self, decision: PolicyOutcome) {
        if let Some(record) = &mut self.record {
            let approval = record.decision.take().and_then(|before| before.approval);
            record.decision = Some(PolicyOutcome { approval: approval.or(decision.approval), ..decision });
        }
    }

    /// Records how the approval that the policy demanded ended.
    pub fn record_approval(&mut self, approval: ApprovalRecord) {
        if let Some(decision) = self.record.as_mut().and_then(|record| record.decision.as_mut()) {
            decision.approval = Some(approval);
        }
    }

    /// Leaves the request out of the audit: it changes nothing and comes often, or its record cannot be kept.
    pub fn skip_audit(&mut self) {
        self.is_audited = false;
    }

    /// Counts the request as running in its session until it is answered.
    pub fn keep_busy(&mut self, busy: TaskTrackerToken) {
        self.busy = Some(busy);
    }

    /// Holds a permit, if there is one, until the response is queued.
    pub fn hold(&mut self, permit: Option<OwnedSemaphorePermit>) {
        self.permits.extend(permit);
    }

    /// Holds memory for the response until it is written.
    pub fn hold_memory(&mut self, memory: ReservedMemory) {
        self.permits.push(memory.session);
        if let Some(reply) = &mut self.reply {
            reply.count(memory.daemon);
        }
    }

    /// The id that the response carries, for code that encodes the whole response; `None` for a notification.
    pub fn id(&self) -> Option<Id> {
        self.reply.as_ref().and_then(|reply| reply.id().cloned())
    }

    /// Sends the result or the error, and returns when it is queued.
    pub fn send<T: Serialize>(self, result: Result<T, RpcError>) -> impl Future<Output = ()> + Send {
        self.send_json(to_json(result))
    }

    /// Sends the response, and returns when it was written to the connection.
    pub fn send_written<T: Serialize>(self, result: Result<T, RpcError>) -> impl Future<Output = ()> + Send {
        self.send_json_written(to_json(result))
    }

    /// Sends a result that is encoded, and returns when it is queued.
    pub(super) async fn send_json(mut self, result: JsonResult) {
        self.record(result.as_ref().err());
        if let Some(reply) = self.reply.take() {
            reply.send(result).await;
        }
    }

    /// Sends a result that is encoded, and returns when it was written to the connection.
    pub(super) async fn send_json_written(mut self, result: JsonResult) {
        self.record(result.as_ref().err());
        if let Some(reply) = self.reply.take() {
            // A closed connection is noticed where it is read.
            reply.send_written(result).await.ok();
        }
    }

    /// Sends an error as the response.
    pub async fn reject(self, error: RpcError) {
        self.send(Err::<(), _>(error)).await;
    }

    /// Sends a response that was already encoded with [`Responder::id`], or an error.
    pub async fn send_encoded(mut self, response: Result<Option<Vec<u8>>, RpcError>) {
        match response {
            Ok(Some(response)) => {
                self.record(None);
                if let Some(reply) = self.reply.take() {
                    reply.raw(response).await;
                }
            }
            Ok(None) => self.send(Ok(())).await,
            Err(error) => self.reject(error).await,
        }
    }

    fn record(&mut self, error: Option<&RpcError>) {
        let Some(record) = self.record.take() else { return };
        let Record { core, requester, method, details, since, timer, mut span, decision } = *record;
        // Denied where a path was opened: the decision is in the error.
        let denied = error.and_then(|error| error.data.get("rule")?.as_str().map(Arc::from));
        match error {
            Some(error) if error.code == code::RESOURCE_LIMIT => core.metrics.refused(RefusalReason::Busy),
            Some(_) if denied.is_some() => core.metrics.refused(RefusalReason::Policy),
            _ => {}
        }
        requester.session.iter().for_each(|session| span.session(session));
        span.end(error.map(|error| error.code));
        timer.done(match error {
            None => metrics::RequestOutcome::Ok,
            Some(error) if error.code == code::CANCELLED => metrics::RequestOutcome::Cancelled,
            Some(_) => metrics::RequestOutcome::Error,
        });
        if !self.is_audited {
            return;
        }
        let outcome = match error {
            None => AuditOutcome::Done(Cow::Borrowed("ok")),
            Some(error) => AuditOutcome::Failed { code: error.code, message: error.message.clone() },
        };
        let decision = decision
            .or_else(|| denied.map(|rule| PolicyOutcome { verdict: Verdict::Deny, rule, approval: None }));
        let mut record = requester.record(method, details, outcome, since.elapsed());
        record.decision = decision;
        core.audit.record(record);
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.record.is_some() {
            self.record(Some(&RpcError::internal("request abandoned")));
        }
    }
}

impl std::fmt::Debug for Responder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Responder").field("reply", &self.reply).finish_non_exhaustive()
    }
}
