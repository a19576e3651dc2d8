//! Grants: answers that hold for more than one operation.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::{Choice, Question, Scope};

/// Grants remembered; past it the oldest is forgotten, and is asked about again.
const GRANTS_KEPT: usize = 4_096;

/// An answer that holds for more than one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// For whom.
    pub holder: Holder,
    /// For what.
    pub key: GrantKey,
    /// What was said.
    pub choice: Choice,
    /// Who said it.
    pub by: Arc<str>,
}

/// Whom a grant holds for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Holder {
    /// One session.
    Session(Arc<str>),
    /// One caller.
    Caller(Arc<str>),
}

/// What a grant is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GrantKey {
    /// Everything that a rule somebody wrote asks about, while the rule stays the same.
    Rule {
        /// The rule.
        name: String,
        /// What it was.
        mark: u64,
    },
    /// Exactly this operation: what no written rule asks about could be anything else the next time.
    Operation(String),
}

impl GrantKey {
    fn of(question: &Question) -> GrantKey {
        match question.rule_mark {
            Some(mark) => GrantKey::Rule { name: question.rule.clone(), mark },
            None => GrantKey::Operation(format!("{:?} {}", question.deed, question.whole)),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Grants {
    held: HashMap<(Holder, GrantKey), Grant>,
    oldest: VecDeque<(Holder, GrantKey)>,
}

impl Grants {
    pub(super) fn new(granted: Vec<Grant>) -> Grants {
        let mut grants = Grants::default();
        granted.into_iter().for_each(|grant| grants.add(grant));
        grants
    }

    fn add(&mut self, grant: Grant) {
        let key = (grant.holder.clone(), grant.key.clone());
        if self.held.insert(key.clone(), grant).is_none() {
            self.oldest.push_back(key);
        }
        if self.oldest.len() > GRANTS_KEPT
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.held.remove(&oldest);
        }
    }

    /// What the scope of an answer grants beyond the operation itself.
    pub(super) fn grant(&mut self, question: &Question, answer: &super::Answer) -> Option<Grant> {
        let holder = match answer.scope {
            Scope::Once => return None,
            Scope::Session => Holder::Session(question.asker.session.clone()),
            Scope::Rule => Holder::Caller(question.asker.caller.clone()),
        };
        let key = GrantKey::of(question);
        let grant = Grant { holder, key, choice: answer.choice, by: answer.by.clone() };
        self.add(grant.clone());
        Some(grant)
    }

    /// The grant that settles a question without asking; a session's own comes first.
    pub(super) fn find(&self, question: &Question) -> Option<Grant> {
        let key = GrantKey::of(question);
        let holders =
            [Holder::Session(question.asker.session.clone()), Holder::Caller(question.asker.caller.clone())];
        holders.into_iter().find_map(|holder| self.held.get(&(holder, key.clone())).cloned())
    }

    pub(super) fn forget(&mut self, session: &str) {
        let is_gone = |holder: &Holder| matches!(holder, Holder::Session(name) if **name == *session);
        self.held.retain(|(holder, _), _| !is_gone(holder));
        self.oldest.retain(|(holder, _)| !is_gone(holder));
    }
}
