//! ProcessOwner: which caller of a server started a detached process, so that another caller cannot use it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use link::listen::TokenDigest;

/// Detached processes whose caller is stored; beyond it, the oldest is dropped, and each caller who has its id can use it.
const MAX_OWNED: usize = 4_096;

/// The callers that started the detached processes of one server.
#[derive(Debug, Default)]
pub struct ProcessOwners(Mutex<VecDeque<(String, TokenDigest)>>);

impl ProcessOwners {
    fn all(&self) -> MutexGuard<'_, VecDeque<(String, TokenDigest)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One caller among the callers of a server.
#[derive(Debug, Clone)]
pub struct ProcessOwner {
    /// The token that the caller has presented.
    pub token: TokenDigest,
    /// The processes of all callers.
    pub owners: Arc<ProcessOwners>,
}

impl ProcessOwner {
    /// Stores that this caller started a process.
    pub(super) fn add(&self, id: &str) {
        let mut all = self.owners.all();
        if all.len() >= MAX_OWNED {
            all.pop_front();
        }
        all.push_back((id.to_owned(), self.token));
    }

    /// Whether another caller started a process.
    pub(super) fn is_of_another(&self, id: &str) -> bool {
        self.owners.all().iter().any(|(owned, token)| owned == id && *token != self.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_belongs_to_the_caller_that_started_it() {
        let owners = Arc::<ProcessOwners>::default();
        let [one, two] = ["one", "two"]
            .map(|token| ProcessOwner { token: TokenDigest::of(token), owners: owners.clone() });
        one.add("p_1");
        assert!(two.is_of_another("p_1") && !one.is_of_another("p_1"));
        assert!(!two.is_of_another("p_2"), "started outside of the server");
        for at in 0..MAX_OWNED {
            two.add(&format!("q_{at}"));
        }
        assert!(!two.is_of_another("p_1"), "the oldest is dropped");
        assert_eq!(owners.all().len(), MAX_OWNED);
    }
}
