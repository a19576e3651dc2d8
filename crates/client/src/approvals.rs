//! What waits for somebody to decide, and the decisions.

use wire::rexd::v1;

use crate::error::Error;
use crate::queue;
use crate::session::Session;

/// Something about an approval.
#[derive(Debug, Clone)]
pub enum ApprovalEvent {
    /// Something waits for a decision.
    Requested(Box<v1::ApprovalRequested>),
    /// It was decided, by somebody.
    Decided(v1::ApprovalDecided),
}

/// Everything that waits for a decision from when this was made.
#[derive(Debug)]
pub struct ApprovalSubscription {
    session: Session,
    events: queue::Receiver<ApprovalEvent>,
}

impl ApprovalSubscription {
    pub(crate) fn new(session: Session, events: queue::Receiver<ApprovalEvent>) -> ApprovalSubscription {
        ApprovalSubscription { session, events }
    }

    /// The next request or decision; nothing when the session is over.
    pub async fn next(&mut self) -> Option<ApprovalEvent> {
        self.events.recv().await
    }

    /// The session they belong to, for answering.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

impl Session {
    /// Everything that waits now and that we may decide.
    pub async fn pending_approvals(&self) -> Result<v1::ApprovalListResult, Error> {
        self.call(&v1::ApprovalList { session_id: self.id() }).await
    }

    /// Decides. The scope is `once` unless it is given: `session` or `rule`.
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
