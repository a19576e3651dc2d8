//! Approval requests: their events, their list and the answers to them.

use wire::rexd::v1;

use crate::error::Error;
use crate::queue;
use crate::session::Session;

/// A change of an approval request.
#[derive(Debug, Clone)]
pub enum ApprovalEvent {
    /// An operation waits for approval.
    Requested(Box<v1::ApprovalRequested>),
    /// The request was answered by any approver.
    Decided(v1::ApprovalDecided),
}

/// The approval events of a session since the subscription.
#[derive(Debug)]
pub struct ApprovalSubscription {
    session: Session,
    events: queue::Receiver<ApprovalEvent>,
}

impl ApprovalSubscription {
    pub(crate) fn new(session: Session, events: queue::Receiver<ApprovalEvent>) -> ApprovalSubscription {
        ApprovalSubscription { session, events }
    }

    /// The next event; `None` when the session has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<ApprovalEvent> {
        self.events.recv().await
    }

    /// The session of the subscription, for answering requests.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

impl Session {
    /// Lists the pending approval requests that this client may answer.
    pub async fn pending_approvals(&self) -> Result<v1::ApprovalListResult, Error> {
        self.call(&v1::ApprovalList { session_id: self.id() }).await
    }

    /// Approves or denies a request. The scope is `once` unless it is `session` or `rule`.
    pub async fn decide(&self, approval_id: &str, approve: bool, scope: Option<&str>) -> Result<(), Error> {
        let decision = match approve {
            true => "approve",
            false => "deny",
        };
        let params = v1::ApprovalAnswer {
            session_id: self.id(),
            approval_id: approval_id.to_owned(),
            decision: decision.to_owned(),
            scope: scope.map(str::to_owned),
        };
        self.call(&params).await.map(drop)
    }
}
