//! The one answer to a request, and its line in the audit.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use engine::audit::{self, AuditOutcome, AuditRecord, AuditSink, Detail, PolicyOutcome};
use engine::policy::Verdict;
use link::rpc::Reply;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use wire::jsonrpc::{Id, RpcError};
use wire::rexd::v1::codes;

use super::FACE;
use crate::net::auth::Caller;
use crate::observe::metrics::{self, Metrics, RefusalReason, RequestTimer};
use crate::observe::traces::Span;

/// Who asked, for the audit.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    /// Who they have proved to be.
    pub(super) caller: Arc<Caller>,
    /// What their client calls itself.
    pub(super) client: Arc<str>,
    pub(super) session: Option<Arc<str>>,
}

impl Asker {
    /// Somebody who has not opened a session.
    pub(super) fn new(caller: Arc<Caller>) -> Asker {
        Asker { caller, client: Arc::from(""), session: None }
    }
}

/// Answers one request once and records what came of it. Dropped without an answer, it records that too.
pub(super) struct Answer {
    reply: Option<Reply>,
    draft: Option<Draft>,
    /// Cancelled when the caller withdraws the request.
    pub(super) cancel: CancellationToken,
    /// While it is held, the session knows that somebody waits.
    busy: Option<TaskTrackerToken>,
}

struct Draft {
    sink: Arc<dyn AuditSink>,
    asker: Asker,
    operation: Cow<'static, str>,
    details: Vec<(Cow<'static, str>, Detail)>,
    since: Instant,
    observed: Observed,
    judged: Option<PolicyOutcome>,
}

/// How a request is counted and followed.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) metrics: Metrics,
    pub(super) timer: RequestTimer,
    pub(super) span: Span,
}

impl Observed {
    fn end(mut self, asker: &Asker, error: Option<&RpcError>) {
        if let Some(session) = &asker.session {
            self.span.session(session);
        }
        match error {
            Some(error) if error.code == codes::RESOURCE_LIMIT => self.metrics.refused(RefusalReason::Busy),
            Some(error) if error.data.get("rule").is_some() => self.metrics.refused(RefusalReason::Policy),
            _ => {}
        }
        self.span.end(error.map(|error| error.code));
        self.timer.done(match error {
            None => metrics::RequestOutcome::Ok,
            Some(error) if error.code == codes::CANCELLED => metrics::RequestOutcome::Cancelled,
            Some(_) => metrics::RequestOutcome::Error,
        });
    }
}

impl Answer {
    pub(super) fn new(
        (reply, cancel): (Reply, CancellationToken),
        sink: Arc<dyn AuditSink>,
        (method, observed): (String, Observed),
        asker: Asker,
    ) -> Answer {
        let draft = Draft {
            sink,
            asker,
            operation: Cow::Owned(method),
            details: Vec::new(),
            since: Instant::now(),
            observed,
            judged: None,
        };
        Answer { reply: Some(reply), draft: Some(draft), cancel, busy: None }
    }

    /// Adds what the audit should know about the request.
    pub(super) fn describe(&mut self, asker: Asker, details: Vec<(Cow<'static, str>, Detail)>) {
        if let Some(draft) = &mut self.draft {
            draft.asker = asker;
            draft.details = details;
        }
    }

    /// Says whose request it was, once that is known.
    pub(super) fn belongs_to(&mut self, asker: Asker) {
        if let Some(draft) = &mut self.draft {
            draft.asker = asker;
        }
    }

    /// Adds what the policy said about it. When judged again, the approval recorded before is kept.
    pub(super) fn judged(&mut self, judged: PolicyOutcome) {
        if let Some(draft) = &mut self.draft {
            let approval = draft.judged.take().and_then(|before| before.approval);
            draft.judged = Some(PolicyOutcome { approval: approval.or(judged.approval), ..judged });
        }
    }

    /// Adds how the question ended that the policy had asked.
    pub(super) fn settled(&mut self, approval: audit::ApprovalRecord) {
        if let Some(judged) = self.draft.as_mut().and_then(|draft| draft.judged.as_mut()) {
            judged.approval = Some(approval);
        }
    }

    /// Lets the session know that somebody waits until this is answered.
    pub(super) fn keeps_busy(&mut self, busy: TaskTrackerToken) {
        self.busy = Some(busy);
    }

    /// The id an answer must carry, for those who write it themselves.
    pub(super) fn id(&self) -> Option<Id> {
        self.reply.as_ref().and_then(|reply| reply.id().cloned())
    }

    /// Answers.
    pub(super) async fn send<T: Serialize>(mut self, result: Result<T, RpcError>) {
        self.record(result.as_ref().err());
        if let Some(reply) = self.reply.take() {
            reply.send(result).await;
        }
    }

    /// Answers, and returns when the kernel has the answer.
    pub(super) async fn send_written<T: Serialize>(mut self, result: Result<T, RpcError>) {
        self.record(result.as_ref().err());
        if let Some(reply) = self.reply.take() {
            // A link that is gone is noticed where it is read.
            reply.send_written(result).await.ok();
        }
    }

    /// Answers with a whole response that was written already.
    pub(super) async fn send_raw(mut self, response: Vec<u8>) {
        self.record(None);
        if let Some(reply) = self.reply.take() {
            reply.raw(response).await;
        }
    }

    fn record(&mut self, error: Option<&RpcError>) {
        let Some(draft) = self.draft.take() else { return };
        draft.observed.end(&draft.asker, error);
        let outcome = match error {
            None => AuditOutcome::Done(Cow::Borrowed("ok")),
            Some(error) => AuditOutcome::Failed { code: error.code, message: error.message.clone() },
        };
        let decision = draft.judged.or_else(|| {
            // Refused where a path was really opened.
            let rule = error?.data.get("rule")?.as_str().map(Arc::from)?;
            Some(PolicyOutcome { verdict: Verdict::Deny, rule, approval: None })
        });
        draft.sink.record(AuditRecord {
            time: SystemTime::now(),
            caller: draft.asker.caller.name.clone(),
            address: draft.asker.caller.address.clone(),
            client: draft.asker.client,
            face: FACE,
            session: draft.asker.session,
            operation: draft.operation,
            details: draft.details,
            outcome,
            exit: None,
            duration: draft.since.elapsed(),
            decision,
        });
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.draft.is_some() {
            self.record(Some(&RpcError::internal("the request was dropped without an answer")));
        }
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("reply", &self.reply).finish_non_exhaustive()
    }
}
