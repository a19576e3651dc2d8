//! Approvals: operations that wait until a person has decided.
//!
//! A question is asked once and settled once: by whoever answers first, by its deadline, or because nobody waits for
//! it any more. Everybody who may answer hears of both. What the ledger keeps survives the daemon; the operation does
//! not, since whoever asked for it is gone by then.

mod book;
mod grants;
mod question;

pub use grants::{Grant, GrantKey, Holder};
pub use question::{Action, Asker, Deed, Diff, Input, Question};

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Error;
use book::Book;

/// Questions that may wait at the same time; past it an operation is refused instead of asked about.
pub const MAX_PENDING: usize = 256;

/// What a person may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Do it.
    Approve,
    /// Do not.
    Deny,
}

/// For what else an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// For this operation only.
    #[default]
    Once,
    /// For what the same rule asks about in the same session.
    Session,
    /// For what the same rule asks the same caller about, until the rule changes.
    Rule,
}

impl Scope {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Once => "once",
            Scope::Session => "session",
            Scope::Rule => "rule",
        }
    }
}

/// An answer and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What was said.
    pub choice: Choice,
    /// For what else it holds.
    pub scope: Scope,
    /// Who said it, as they have proved to be.
    pub by: Arc<str>,
}

/// How a question was settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Somebody answered.
    Answered(Answer),
    /// Nobody answered in time.
    Expired,
    /// Whoever asked waits no more.
    Withdrawn,
    /// The daemon ended while it waited.
    Abandoned,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Answered(Answer { choice: Choice::Approve, by, .. }) => write!(f, "approved by {by}"),
            Outcome::Answered(Answer { choice: Choice::Deny, by, .. }) => write!(f, "denied by {by}"),
            Outcome::Expired => f.write_str("nobody answered in time"),
            Outcome::Withdrawn => f.write_str("whoever asked waits no more"),
            Outcome::Abandoned => f.write_str("the daemon ended while it waited"),
        }
    }
}

/// A question and when it was asked.
#[derive(Debug, Clone)]
pub struct Approval {
    /// Its name. Nobody can guess it.
    pub id: Arc<str>,
    /// The whole truth about the operation.
    pub question: Question,
    /// When it was asked.
    pub asked_at: SystemTime,
    /// When silence settles it.
    pub expires_at: SystemTime,
}

/// What approvers hear.
#[derive(Debug, Clone)]
pub enum News {
    /// Somebody has to decide.
    Requested(Arc<Approval>),
    /// It is settled.
    Decided(Arc<Approval>, Outcome),
}

/// Somebody who may answer, for as long as its [`Attendance`] is held.
pub trait Approver: Send + Sync {
    /// Whether it may see and answer a question.
    fn may_answer(&self, question: &Question) -> bool;
    /// Whether anybody is at the other end now.
    fn is_there(&self) -> bool;
    /// Hears what happens. Must not wait.
    fn hear(&self, news: &News);
}

/// Keeps what has to survive the daemon. Called on threads that may wait for a disk.
pub trait Ledger: Send + Sync {
    /// A question is about to be asked; if this fails it is not.
    fn opened(&self, approval: &Approval) -> std::io::Result<()>;
    /// A question was settled.
    fn settled(&self, approval: &Approval, outcome: &Outcome);
    /// An answer that holds until its rule changes was given.
    fn granted(&self, grant: &Grant);
    /// How a question of an earlier daemon was settled.
    fn earlier(&self, id: &str) -> Option<Outcome>;
}

/// The questions of one daemon. Cheap to clone.
#[derive(Clone)]
pub struct Approvals {
    shared: Arc<Shared>,
}

struct Shared {
    book: Mutex<Book>,
    ledger: Option<Arc<dyn Ledger>>,
}

impl Approvals {
    /// No questions yet; what was granted before still holds.
    pub fn new(ledger: Option<Arc<dyn Ledger>>, granted: Vec<Grant>) -> Approvals {
        Approvals { shared: Arc::new(Shared { book: Mutex::new(Book::new(granted)), ledger }) }
    }

    /// Lets somebody hear questions and answer them.
    pub fn attend(&self, approver: Arc<dyn Approver>) -> Attendance {
        Attendance { seat: self.book().seat(approver), approvals: self.clone() }
    }

    /// What was answered before for everything of this kind.
    pub fn granted(&self, question: &Question) -> Option<Grant> {
        self.book().granted(question)
    }

    /// Asks everybody who may answer. Fails at once if there is nobody, or if too many questions wait already.
    pub async fn ask(&self, question: Question, within: Duration) -> Result<Asking, Error> {
        let asked_at = SystemTime::now();
        let id = format!("a_{}", crate::session::random_name()?);
        let approval =
            Arc::new(Approval { id: Arc::from(id), question, asked_at, expires_at: asked_at + within });
        self.book().may_ask(&approval.question)?;
        if let Some(ledger) = self.shared.ledger.clone() {
            let record = approval.clone();
            let written = tokio::task::spawn_blocking(move || ledger.opened(&record)).await;
            written.unwrap_or_else(|_| Err(std::io::ErrorKind::Interrupted.into())).map_err(|source| {
                let reason = format!("the question cannot be written down: {source}");
                Error::NoApprover { rule: approval.question.rule.clone(), reason }
            })?;
        }
        let (tell, answered) = oneshot::channel();
        // Held from here on: whatever happens next, it is settled.
        let asking = Asking { approval: approval.clone(), answered, approvals: self.clone(), within };
        let opened = self.book().open(approval.clone(), tell);
        let hearers = match opened {
            Ok(hearers) => hearers,
            Err(error) => {
                // Whoever could have answered left while it was written down.
                drop(self.write_down(approval, Outcome::Withdrawn, None));
                return Err(error);
            }
        };
        let news = News::Requested(approval);
        hearers.iter().for_each(|approver| approver.hear(&news));
        Ok(asking)
    }

    /// Every question that waits, oldest first, that `may_see` lets pass.
    pub fn pending(&self, may_see: impl Fn(&Question) -> bool) -> Vec<Arc<Approval>> {
        let mut pending = self.book().pending();
        pending.retain(|approval| may_see(&approval.question));
        pending.sort_by_key(|approval| approval.asked_at);
        pending
    }

    /// Answers a question, and returns when the answer was written down. Of two who answer at once one is told that it was settled already, and how.
    pub async fn answer(
        &self,
        id: &str,
        answer: Answer,
        may_answer: impl Fn(&Question) -> bool,
    ) -> Result<Arc<Approval>, Error> {
        let settled = self.book().answer(id, answer, may_answer);
        match settled {
            Ok(settled) => {
                let approval = settled.approval.clone();
                if let Some(written) = self.tell(settled) {
                    // Whoever answered for longer than this daemon lives may rely on it. A failure was told already.
                    written.await.ok();
                }
                Ok(approval)
            }
            Err(Error::NoSuchApproval(id)) => Err(self.earlier(id).await),
            Err(error) => Err(error),
        }
    }

    /// What is known about a question that this daemon never asked.
    async fn earlier(&self, id: String) -> Error {
        let Some(ledger) = self.shared.ledger.clone() else { return Error::NoSuchApproval(id) };
        let look = {
            let id = id.clone();
            move || ledger.earlier(&id)
        };
        match tokio::task::spawn_blocking(look).await {
            Ok(Some(outcome)) => Error::AlreadySettled { id, outcome },
            _ => Error::NoSuchApproval(id),
        }
    }

    /// Forgets what was granted to a session that is over.
    pub fn forget(&self, session: &str) {
        self.book().forget(session);
    }

    /// Settles a question that nobody answered; nothing if somebody did after all.
    fn settle(&self, id: &str, outcome: Outcome) -> bool {
        let settled = self.book().settle(id, outcome);
        let is_settled = settled.is_some();
        if let Some(settled) = settled {
            drop(self.tell(settled));
        }
        is_settled
    }

    fn tell(&self, settled: book::Settled) -> Option<JoinHandle<()>> {
        let book::Settled { approval, outcome, hearers, grant } = settled;
        let written = self.write_down(approval.clone(), outcome.clone(), grant);
        let news = News::Decided(approval, outcome);
        hearers.iter().for_each(|approver| approver.hear(&news));
        written
    }

    /// Has the ledger keep how a question was settled. What comes back ends when it has.
    fn write_down(
        &self,
        approval: Arc<Approval>,
        outcome: Outcome,
        grant: Option<Grant>,
    ) -> Option<JoinHandle<()>> {
        let ledger = self.shared.ledger.clone()?;
        let write = move || {
            ledger.settled(&approval, &outcome);
            grant.iter().for_each(|grant| ledger.granted(grant));
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => Some(runtime.spawn_blocking(write)),
            // Dropped outside a runtime, when the daemon is over.
            Err(_none) => {
                write();
                None
            }
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing in here can panic half way, so a poisoned book is still whole.
        self.shared.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approvals").field("pending", &self.book().pending().len()).finish_non_exhaustive()
    }
}

/// An approver's seat; it hears nothing more when this is dropped.
pub struct Attendance {
    seat: u64,
    approvals: Approvals,
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.approvals.book().leave(self.seat);
    }
}

impl fmt::Debug for Attendance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attendance").field(&self.seat).finish()
    }
}

/// A question that was asked. Dropped before it is settled, it is withdrawn.
#[derive(Debug)]
pub struct Asking {
    approval: Arc<Approval>,
    answered: oneshot::Receiver<Outcome>,
    approvals: Approvals,
    within: Duration,
}

impl Asking {
    /// What was asked.
    pub fn approval(&self) -> &Arc<Approval> {
        &self.approval
    }

    /// Waits for an answer, no longer than was said when it was asked.
    pub async fn settled(mut self) -> Outcome {
        let in_time = tokio::time::timeout(self.within, &mut self.answered).await;
        if let Ok(outcome) = in_time {
            return outcome.unwrap_or(Outcome::Withdrawn);
        }
        if self.approvals.settle(&self.approval.id, Outcome::Expired) {
            return Outcome::Expired;
        }
        // Somebody answered in the last moment: their answer is on its way.
        self.answered.try_recv().unwrap_or(Outcome::Expired)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.approvals.settle(&self.approval.id, Outcome::Withdrawn);
    }
}

#[cfg(test)]
mod tests;
