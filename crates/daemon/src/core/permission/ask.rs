//! Asking people, and waiting for what they say.

use std::sync::Arc;
use std::time::Duration;

use engine::Error;
use engine::approval::{Answer, Approvals, Choice, Holder, Outcome, Question, Scope};
use engine::audit::{self, ApprovalOutcome};
use tokio_util::sync::CancellationToken;

/// How long an answer is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits<'a> {
    /// At most so long.
    pub(crate) within: Duration,
    /// Unless the request is withdrawn.
    pub(crate) cancel: &'a CancellationToken,
    /// Or whoever asked is gone.
    pub(crate) over: &'a CancellationToken,
}

/// Asks, unless an earlier answer holds for this too. Tells what the audit keeps of it, and whether it may be done.
pub(crate) async fn settle(
    approvals: &Approvals,
    question: Question,
    waits: Waits<'_>,
) -> (Option<audit::ApprovalRecord>, Result<(), Error>) {
    let rule = question.rule.clone();
    if let Some(grant) = approvals.granted(&question) {
        let refused = Error::Refused { rule, approval: None, by: grant.by.clone() };
        let (outcome, result) = match grant.choice {
            Choice::Approve => (ApprovalOutcome::Approved, Ok(())),
            Choice::Deny => (ApprovalOutcome::Denied, Err(refused)),
        };
        let scope = match grant.holder {
            Holder::Session(_) => Scope::Session,
            Holder::Caller(_) => Scope::Rule,
        };
        let settled =
            audit::ApprovalRecord { id: None, by: Some(grant.by), scope: Some(scope.name()), outcome };
        return (Some(settled), result);
    }
    let asking = match approvals.ask(question, waits.within).await {
        Ok(asking) => asking,
        Err(error) => return (None, Err(error)),
    };
    let id = asking.approval().id.clone();
    let outcome = tokio::select! {
        biased;
        outcome = asking.settled() => outcome,
        () = waits.cancel.cancelled() => Outcome::Withdrawn,
        () = waits.over.cancelled() => Outcome::Abandoned,
    };
    let settled = |by: Option<Arc<str>>, scope: Option<Scope>, outcome| {
        Some(audit::ApprovalRecord { id: Some(id.clone()), by, scope: scope.map(Scope::name), outcome })
    };
    match outcome {
        Outcome::Answered(Answer { choice: Choice::Approve, by, scope }) => {
            (settled(Some(by), Some(scope), ApprovalOutcome::Approved), Ok(()))
        }
        Outcome::Answered(Answer { choice: Choice::Deny, by, scope }) => {
            let refused = Error::Refused { rule, approval: Some(id.clone()), by: by.clone() };
            (settled(Some(by), Some(scope), ApprovalOutcome::Denied), Err(refused))
        }
        Outcome::Expired => {
            let unanswered = Error::Unanswered { rule, approval: id.clone(), after: waits.within };
            (settled(None, None, ApprovalOutcome::TimedOut), Err(unanswered))
        }
        Outcome::Withdrawn => (settled(None, None, ApprovalOutcome::Withdrawn), Err(Error::Cancelled)),
        Outcome::Abandoned => (settled(None, None, ApprovalOutcome::Withdrawn), Err(Error::Gone)),
    }
}
