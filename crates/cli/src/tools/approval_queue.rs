//! ApprovalQueue: pending approval requests, handed to the tool calls that they block.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use client::{ApprovalEvent, ApprovalSubscription, Session, v1};
use tokio::sync::Notify;

/// Requests in the queue; beyond it, the oldest is dropped and expires at the server.
const MAX_QUEUED: usize = 256;

/// The pending approval requests of all sessions of a toolbox.
#[derive(Debug, Default)]
pub struct ApprovalQueue {
    waiting: Mutex<VecDeque<QueuedApproval>>,
    status: Notify,
}

#[derive(Debug, Clone)]
struct QueuedApproval {
    session: Session,
    request: Arc<v1::ApprovalRequested>,
    /// The machine of the session.
    place: Arc<str>,
}

/// A request taken from the queue. Dropped without a decision, it returns to the queue.
#[derive(Debug)]
pub struct ClaimedApproval {
    waiting: Option<QueuedApproval>,
    approval_queue: Arc<ApprovalQueue>,
}

impl ApprovalQueue {
    /// Adds the requests of one session on the machine `place` until it ends.
    pub(super) async fn listen(self: Arc<ApprovalQueue>, mut approvals: ApprovalSubscription, place: String) {
        let place: Arc<str> = place.into();
        while let Some(event) = approvals.next().await {
            match event {
                ApprovalEvent::Requested(request) => {
                    let session = approvals.session().clone();
                    let place = place.clone();
                    self.put(QueuedApproval { session, request: Arc::from(request), place });
                }
                ApprovalEvent::Decided(decided) => {
                    self.waiting().retain(|waiting| waiting.request.approval_id != decided.approval_id);
                }
            }
        }
    }

    /// Waits for the next request that `fits`.
    pub async fn next(
        self: &Arc<ApprovalQueue>,
        fits: impl Fn(&v1::ApprovalRequested) -> bool,
    ) -> ClaimedApproval {
        loop {
            let status = self.status.notified();
            tokio::pin!(status);
            // Registered before the queue is checked, so that no notification is missed.
            status.as_mut().enable();
            let found = {
                let mut waiting = self.waiting();
                let at = waiting.iter().position(|waiting| fits(&waiting.request));
                at.and_then(|at| waiting.remove(at))
            };
            if let Some(waiting) = found {
                return ClaimedApproval { waiting: Some(waiting), approval_queue: self.clone() };
            }
            status.await;
        }
    }

    fn put(&self, waiting: QueuedApproval) {
        let mut all = self.waiting();
        if all.len() >= MAX_QUEUED {
            all.pop_front();
        }
        all.push_back(waiting);
        drop(all);
        self.status.notify_waiters();
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<QueuedApproval>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClaimedApproval {
    /// The request, until it is decided.
    pub fn request(&self) -> Option<&v1::ApprovalRequested> {
        self.waiting.as_ref().map(|waiting| waiting.request.as_ref())
    }

    /// The machine on which the operation will happen.
    pub fn place(&self) -> &str {
        self.waiting.as_ref().map_or("", |waiting| &*waiting.place)
    }

    /// Sends the decision. An error means that another approver was faster.
    pub async fn decide(mut self, approve: bool, scope: Option<&str>) {
        if let Some(QueuedApproval { session, request, .. }) = self.waiting.take() {
            session.decide(&request.approval_id, approve, scope).await.ok();
        }
    }
}

impl Drop for ClaimedApproval {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            self.approval_queue.put(waiting);
        }
    }
}
