//! The book: every question that waits, who may answer, and what was settled lately.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::grants::{Grant, Grants};
use super::{Answer, Approval, Approver, Holder, MAX_PENDING, Outcome, Question};
use crate::Error;

/// Settled questions remembered, so that who answers too late hears how it was settled; past it the oldest is forgotten.
const SETTLED_KEPT: usize = 256;

#[derive(Default)]
pub(super) struct Book {
    waiting: HashMap<Arc<str>, Waiting>,
    settled: VecDeque<(Arc<str>, Outcome)>,
    approvers: BTreeMap<u64, Arc<dyn Approver>>,
    next_seat: u64,
    grants: Grants,
}

struct Waiting {
    approval: Arc<Approval>,
    tell: oneshot::Sender<Outcome>,
}

/// A question that was settled just now, and who has to hear of it.
pub(super) struct Settled {
    pub(super) approval: Arc<Approval>,
    pub(super) outcome: Outcome,
    pub(super) hearers: Vec<Arc<dyn Approver>>,
    /// What has to be remembered beyond this daemon.
    pub(super) grant: Option<Grant>,
}

impl Book {
    pub(super) fn new(granted: Vec<Grant>) -> Book {
        Book { grants: Grants::new(granted), ..Book::default() }
    }

    pub(super) fn seat(&mut self, approver: Arc<dyn Approver>) -> u64 {
        self.next_seat += 1;
        self.approvers.insert(self.next_seat, approver);
        self.next_seat
    }

    pub(super) fn leave(&mut self, seat: u64) {
        self.approvers.remove(&seat);
    }

    pub(super) fn granted(&self, question: &Question) -> Option<Grant> {
        self.grants.find(question)
    }

    pub(super) fn forget(&mut self, session: &str) {
        self.grants.forget(session);
    }

    pub(super) fn pending(&self) -> Vec<Arc<Approval>> {
        self.waiting.values().map(|waiting| waiting.approval.clone()).collect()
    }

    /// Whether a question may be asked: somebody is there to answer, and not too many wait.
    pub(super) fn may_ask(&self, question: &Question) -> Result<(), Error> {
        if self.waiting.len() >= MAX_PENDING {
            return Err(Error::LimitReached { what: "pending approvals", limit: MAX_PENDING as u64 });
        }
        let mut able = self.approvers.values().filter(|approver| approver.may_answer(question));
        match able.any(|approver| approver.is_there()) {
            true => Ok(()),
            false => Err(Error::NoApprover {
                rule: question.rule.clone(),
                reason: "it needs an approval, and nobody who could give one is attached".to_owned(),
            }),
        }
    }

    /// Puts a question to everybody who may answer.
    pub(super) fn open(
        &mut self,
        approval: Arc<Approval>,
        tell: oneshot::Sender<Outcome>,
    ) -> Result<Vec<Arc<dyn Approver>>, Error> {
        self.may_ask(&approval.question)?;
        let hearers = self.hearers(&approval.question);
        self.waiting.insert(approval.id.clone(), Waiting { approval, tell });
        Ok(hearers)
    }

    /// Settles a question with an answer, if nobody was faster.
    pub(super) fn answer(
        &mut self,
        id: &str,
        answer: Answer,
        may_answer: impl Fn(&Question) -> bool,
    ) -> Result<Settled, Error> {
        let unknown = || Error::NoSuchApproval(id.to_owned());
        match self.waiting.get(id) {
            // To whoever may not see it, it does not exist.
            Some(waiting) if !may_answer(&waiting.approval.question) => return Err(unknown()),
            Some(_) => {}
            None => {
                let settled = self.settled.iter().find(|(name, _)| **name == *id);
                let (_, outcome) = settled.ok_or_else(unknown)?;
                return Err(Error::AlreadySettled { id: id.to_owned(), outcome: outcome.clone() });
            }
        }
        let mut settled = self.settle(id, Outcome::Answered(answer.clone())).ok_or_else(unknown)?;
        let grant = self.grants.grant(&settled.approval.question, &answer);
        settled.grant = grant.filter(|grant| matches!(grant.holder, Holder::Caller(_)));
        Ok(settled)
    }

    /// Settles a question that still waits.
    pub(super) fn settle(&mut self, id: &str, outcome: Outcome) -> Option<Settled> {
        let Waiting { approval, tell } = self.waiting.remove(id)?;
        if self.settled.len() >= SETTLED_KEPT {
            self.settled.pop_front();
        }
        self.settled.push_back((approval.id.clone(), outcome.clone()));
        // Whoever asked may have stopped waiting in this very moment: then nothing is done.
        tell.send(outcome.clone()).ok();
        let hearers = self.hearers(&approval.question);
        Some(Settled { approval, outcome, hearers, grant: None })
    }

    fn hearers(&self, question: &Question) -> Vec<Arc<dyn Approver>> {
        self.approvers.values().filter(|approver| approver.may_answer(question)).cloned().collect()
    }
}
