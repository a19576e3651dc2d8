//! The one answer to a request, and its line in the audit.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use engine::audit::{self, AuditOutcome, AuditRecord, Detail, PolicyOutcome};
use link::{Outgoing, TryRespondError};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use wire::exec_server::ErrorObject;
use wire::exec_server::envelope;
use wire::jsonrpc::Id;

use super::methods::METHODS;
use super::{FACE, Service};
use crate::net::auth::Caller;
use crate::observe::metrics::{self, RequestTimer};
use crate::observe::traces::{self, Span};

/// What the audit keeps of a request.
pub(super) type Details = Vec<(Cow<'static, str>, Detail)>;

/// Who asks.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    pub(super) caller: Arc<Caller>,
    /// What the client calls itself.
    pub(super) client: Arc<str>,
    pub(super) session: Option<Arc<str>>,
}

/// Bytes that large answers of one connection may take before the peer has taken them: a permit each.
#[derive(Debug, Clone)]
pub(super) struct LargeAnswers(Arc<Semaphore>);

impl LargeAnswers {
    const MOST: u32 = 64 * 1024 * 1024;

    pub(super) fn new() -> LargeAnswers {
        LargeAnswers(Arc::new(Semaphore::new(LargeAnswers::MOST as usize)))
    }
}

/// Answers one request once and records what came of it. Dropped without an answer, it says so to both.
pub(super) struct Answer {
    id: Id,
    outgoing: Outgoing,
    service: Arc<Service>,
    asker: Asker,
    operation: String,
    details: Details,
    since: Instant,
    timer: Option<RequestTimer>,
    span: Option<Span>,
    judged: Option<PolicyOutcome>,
    is_answered: bool,
    /// The place it takes among those that run.
    place: Option<OwnedSemaphorePermit>,
    large: LargeAnswers,
    /// What it takes of that, until it is on its way.
    share: Option<OwnedSemaphorePermit>,
    /// Cancelled when nobody can read the answer any more.
    pub(super) cancel: CancellationToken,
}

impl Answer {
    pub(super) fn new(
        service: &Arc<Service>,
        (id, operation): (Id, String),
        (outgoing, large): (Outgoing, LargeAnswers),
        asker: Asker,
        (transport, cancel): (metrics::Transport, CancellationToken),
    ) -> Answer {
        let known = METHODS.iter().find(|method| **method == operation);
        let name = known.copied().unwrap_or(metrics::OTHER_METHOD);
        let asked = traces::RequestAttributes {
            face: FACE,
            name,
            method: &operation,
            caller: &asker.caller.name,
            transport,
        };
        Answer {
            timer: Some(service.metrics.request(FACE, name)),
            span: Some(service.traces.begin(asked, None)),
            service: service.clone(),
            id,
            outgoing,
            asker,
            operation,
            details: Vec::new(),
            since: Instant::now(),
            judged: None,
            is_answered: false,
            place: None,
            large,
            share: None,
            cancel,
        }
    }

    /// Waits until an answer of so many bytes may be made: those before it have to be on their way first. One that is
    /// larger than all of them together is made alone.
    pub(super) async fn afford(&mut self, bytes: u64) {
        let share = u32::try_from(bytes).unwrap_or(u32::MAX).min(LargeAnswers::MOST);
        // It is never closed.
        self.share = self.large.0.clone().acquire_many_owned(share).await.ok();
    }

    /// The id that a response must carry, for those who write it themselves.
    pub(super) fn id(&self) -> &Id {
        &self.id
    }

    /// Keeps its place until it is answered.
    pub(super) fn holds(&mut self, place: Option<OwnedSemaphorePermit>) {
        self.place = place;
    }

    /// Adds what the audit should know about the request.
    pub(super) fn describe(&mut self, details: Details) {
        self.details = details;
    }

    /// Says which session it turned out to belong to.
    pub(super) fn belongs_to(&mut self, asker: Asker) {
        self.asker = asker;
    }

    /// Adds what the policy said about it.
    pub(super) fn judged(&mut self, judged: PolicyOutcome) {
        self.judged = Some(judged);
    }

    /// Adds how the question ended that the policy had asked.
    pub(super) fn settled(&mut self, approval: audit::ApprovalRecord) {
        if let Some(judged) = &mut self.judged {
            judged.approval = Some(approval);
        }
    }

    /// Answers.
    pub(super) async fn send<T: Serialize>(self, result: Result<T, ErrorObject>) {
        let line = match &result {
            Ok(result) => envelope::response(&self.id, result),
            Err(error) => envelope::error_response(&self.id, error),
        };
        self.finish(line, result.as_ref().err()).await;
    }

    /// Answers with a whole response that was written already.
    pub(super) async fn send_raw(self, response: Vec<u8>) {
        self.finish(response, None).await;
    }

    async fn finish(mut self, line: Vec<u8>, error: Option<&ErrorObject>) {
        let (bytes, most) = (line.len(), self.outgoing.largest());
        if bytes > most {
            let message =
                format!("the answer has {bytes} bytes, and {most} pass here: ask for less at a time");
            let error = ErrorObject::internal(message);
            let line = envelope::error_response(&self.id, &error);
            return Box::pin(self.finish(line, Some(&error))).await;
        }
        self.record(error);
        self.is_answered = true;
        // A link that is gone is noticed where it is read.
        self.outgoing.respond(Bytes::from(line)).await.ok();
    }

    fn record(&mut self, error: Option<&ErrorObject>) {
        if let Some(mut span) = self.span.take() {
            self.asker.session.iter().for_each(|session| span.session(session));
            span.end(error.map(|error| error.code));
        }
        if let Some(timer) = self.timer.take() {
            timer.done(if error.is_none() {
                metrics::RequestOutcome::Ok
            } else {
                metrics::RequestOutcome::Error
            });
        }
        let outcome = match error {
            None => AuditOutcome::Done(Cow::Borrowed("ok")),
            Some(error) => AuditOutcome::Failed { code: error.code, message: error.message.clone() },
        };
        self.service.audit.record(AuditRecord {
            time: SystemTime::now(),
            caller: self.asker.caller.name.clone(),
            address: self.asker.caller.address.clone(),
            client: self.asker.client.clone(),
            face: FACE,
            session: self.asker.session.clone(),
            operation: Cow::Owned(std::mem::take(&mut self.operation)),
            details: std::mem::take(&mut self.details),
            outcome,
            exit: None,
            duration: self.since.elapsed(),
            decision: self.judged.take(),
        });
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let error = ErrorObject::internal("the request was given up");
        self.record(Some(&error));
        let line = Bytes::from(envelope::error_response(&self.id, &error));
        if let Err(TryRespondError::Full(line)) = self.outgoing.try_respond(line) {
            let outgoing = self.outgoing.clone();
            // Dropping cannot wait; this lives as long as the link at most.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { outgoing.respond(line).await });
            }
        }
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("id", &self.id).finish_non_exhaustive()
    }
}
