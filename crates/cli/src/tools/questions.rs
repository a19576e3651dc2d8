//! Questions: what policy leaves to somebody to decide, handed to the call that waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use client::{ApprovalEvent, ApprovalSubscription, Session, v1};
use tokio::sync::Notify;

/// Questions that wait; past it the oldest is left to run out.
const MOST_WAITING: usize = 256;

/// What waits for a decision, of all sessions of a toolbox.
#[derive(Debug, Default)]
pub struct Questions {
    waiting: Mutex<VecDeque<Waiting>>,
    news: Notify,
}

#[derive(Debug, Clone)]
struct Waiting {
    session: Session,
    request: Arc<v1::ApprovalRequested>,
}

/// A question that somebody has taken. Dropped without an answer it goes to whoever asks next.
#[derive(Debug)]
pub struct Question {
    waiting: Option<Waiting>,
    questions: Arc<Questions>,
}

impl Questions {
    /// Takes in what is asked in one session, until it ends.
    pub(super) async fn listen(self: Arc<Questions>, mut approvals: ApprovalSubscription) {
        while let Some(event) = approvals.next().await {
            match event {
                ApprovalEvent::Requested(request) => {
                    let session = approvals.session().clone();
                    self.put(Waiting { session, request: Arc::from(request) });
                }
                ApprovalEvent::Decided(decided) => {
                    self.waiting().retain(|waiting| waiting.request.approval_id != decided.approval_id);
                }
            }
        }
    }

    /// The next question that fits.
    pub async fn next(self: &Arc<Questions>, fits: impl Fn(&v1::ApprovalRequested) -> bool) -> Question {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            // From here on nothing slips through between looking and waiting.
            news.as_mut().enable();
            let found = {
                let mut waiting = self.waiting();
                let at = waiting.iter().position(|waiting| fits(&waiting.request));
                at.and_then(|at| waiting.remove(at))
            };
            if let Some(waiting) = found {
                return Question { waiting: Some(waiting), questions: self.clone() };
            }
            news.await;
        }
    }

    fn put(&self, waiting: Waiting) {
        let mut all = self.waiting();
        if all.len() >= MOST_WAITING {
            all.pop_front();
        }
        all.push_back(waiting);
        drop(all);
        self.news.notify_waiters();
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question {
    /// What is asked.
    pub fn request(&self) -> Option<&v1::ApprovalRequested> {
        self.waiting.as_ref().map(|waiting| waiting.request.as_ref())
    }

    /// Decides it. That somebody else was quicker is no failure.
    pub async fn decide(mut self, approve: bool, scope: Option<&str>) {
        if let Some(Waiting { session, request }) = self.waiting.take() {
            session.decide(&request.approval_id, approve, scope).await.ok();
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            self.questions.put(waiting);
        }
    }
}
