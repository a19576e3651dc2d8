//! Asking people, and waiting for what they say.

use std::sync::Arc;
use std::time::Duration;

use engine::Error;
use engine::approval::{ApprovalAnswer, ApprovalRequest, Approvals, Choice, GrantHolder, Resolution, Scope};
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
    request: ApprovalRequest,
    waits: Waits<'_>,
) -> (Option<audit::ApprovalRecord>, Result<(), Error>) {
    let rule = request.rule.clone();
    if let Some(grant) = approvals.find_grant(&request) {
        let refused = Error::Refused { rule, approval: None, by: grant.by.clone() };
        let (outcome, result) = match grant.choice {
            Choice::Approve => (ApprovalOutcome::Approved, Ok(())),
            Choice::Deny => (ApprovalOutcome::Denied, Err(refused)),
        };
        let scope = match grant.holder {
            GrantHolder::Session(_) => Scope::Session,
            GrantHolder::Caller(_) => Scope::Rule,
        };
        let settled =
            audit::ApprovalRecord { id: None, by: Some(grant.by), scope: Some(scope.name()), outcome };
        return (Some(settled), result);
    }
    let handle = match approvals.request(request, waits.within).await {
        Ok(handle) => handle,
        Err(error) => return (None, Err(error)),
    };
    let id = handle.approval().id.clone();
    let resolution = tokio::select! {
        biased;
        resolution = handle.resolution() => resolution,
        () = waits.cancel.cancelled() => Resolution::Withdrawn,
        () = waits.over.cancelled() => Resolution::Abandoned,
    };
    let settled = |by: Option<Arc<str>>, scope: Option<Scope>, outcome| {
        Some(audit::ApprovalRecord { id: Some(id.clone()), by, scope: scope.map(Scope::name), outcome })
    };
    match resolution {
        Resolution::Answered(ApprovalAnswer { choice: Choice::Approve, by, scope }) => {
            (settled(Some(by), Some(scope), ApprovalOutcome::Approved), Ok(()))
        }
        Resolution::Answered(ApprovalAnswer { choice: Choice::Deny, by, scope }) => {
            let refused = Error::Refused { rule, approval: Some(id.clone()), by: by.clone() };
            (settled(Some(by), Some(scope), ApprovalOutcome::Denied), Err(refused))
        }
        Resolution::Expired => {
            let unanswered = Error::Unanswered { rule, approval: id.clone(), after: waits.within };
            (settled(None, None, ApprovalOutcome::TimedOut), Err(unanswered))
        }
        Resolution::Withdrawn => (settled(None, None, ApprovalOutcome::Withdrawn), Err(Error::Cancelled)),
        Resolution::Abandoned => (settled(None, None, ApprovalOutcome::Withdrawn), Err(Error::Gone)),
    }
}
