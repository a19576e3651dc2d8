//! Grants: answers that apply to later operations too.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::{ApprovalAnswer, ApprovalRequest, Choice, Requester, Scope};

/// Limit on stored grants; beyond it the oldest is dropped, and its operations need an approval again.
const MAX_GRANTS: usize = 4_096;

/// An answer that applies to more than one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Session or caller that the grant applies to.
    pub holder: GrantHolder,
    /// Operations that the grant applies to.
    pub key: GrantKey,
    /// The approver's decision.
    pub choice: Choice,
    /// Authenticated name of the approver.
    pub by: Arc<str>,
}

/// The session or caller that a grant applies to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GrantHolder {
    /// One session.
    Session(Arc<str>),
    /// All sessions of one caller.
    Caller(Arc<str>),
}

/// The operations that a grant applies to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GrantKey {
    /// All operations that a configured rule asks about, until the rule changes.
    Rule {
        /// Name of the rule.
        name: String,
        /// Fingerprint of the rule when the grant was given.
        fingerprint: u64,
    },
    /// Exactly one operation. Without a configured rule, the next operation may have nothing in common with it.
    Operation(String),
}

impl GrantKey {
    fn of(request: &ApprovalRequest) -> GrantKey {
        match request.rule_fingerprint {
            Some(fingerprint) => GrantKey::Rule { name: request.rule.clone(), fingerprint },
            None => GrantKey::Operation(format!("{:?} {}", request.operation, request.fingerprint)),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Grants {
    by_key: HashMap<(GrantHolder, GrantKey), Grant>,
    /// Keys in the order in which they were added.
    order: VecDeque<(GrantHolder, GrantKey)>,
}

impl Grants {
    pub(super) fn new(grants: Vec<Grant>) -> Grants {
        let mut stored = Grants::default();
        grants.into_iter().for_each(|grant| stored.insert(grant));
        stored
    }

    fn insert(&mut self, grant: Grant) {
        let key = (grant.holder.clone(), grant.key.clone());
        if self.by_key.insert(key.clone(), grant).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MAX_GRANTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_key.remove(&oldest);
        }
    }

    /// Stores the grant that an answer gives; none if it applies to one operation only.
    pub(super) fn add(&mut self, request: &ApprovalRequest, answer: &ApprovalAnswer) -> Option<Grant> {
        let holder = match answer.scope {
            Scope::Once => return None,
            Scope::Session => GrantHolder::Session(request.requester.session.clone()),
            Scope::Rule => GrantHolder::Caller(request.requester.caller.clone()),
        };
        let key = GrantKey::of(request);
        let grant = Grant { holder, key, choice: answer.choice, by: answer.by.clone() };
        self.insert(grant.clone());
        Some(grant)
    }

    /// The grant that applies to a request; one of the session takes precedence over one of the caller.
    pub(super) fn find(&self, request: &ApprovalRequest) -> Option<Grant> {
        let key = GrantKey::of(request);
        let Requester { session, caller, .. } = &request.requester;
        let holders = [GrantHolder::Session(session.clone()), GrantHolder::Caller(caller.clone())];
        holders.into_iter().find_map(|holder| self.by_key.get(&(holder, key.clone())).cloned())
    }

    pub(super) fn remove_session(&mut self, session: &str) {
        let is_removed =
            |holder: &GrantHolder| matches!(holder, GrantHolder::Session(name) if **name == *session);
        self.by_key.retain(|(holder, _), _| !is_removed(holder));
        self.order.retain(|(holder, _)| !is_removed(holder));
    }
}
