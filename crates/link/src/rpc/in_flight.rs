//! The requests that run: how many there are, and how to withdraw one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use wire::jsonrpc::Id;

/// Every request of one connection that runs.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    next: u64,
    by_id: HashMap<Id, (u64, CancellationToken)>,
}

/// The place of one running request; dropping it gives the place free.
#[derive(Debug)]
pub(super) struct Slot {
    all: InFlight,
    id: Option<Id>,
    number: u64,
}

impl InFlight {
    /// Takes a place, unless `limit` are taken.
    pub(super) fn enter(&self, id: Option<&Id>, limit: usize, cancel: &CancellationToken) -> Option<Slot> {
        self.with(|state| {
            if state.running >= limit {
                return None;
            }
            state.running += 1;
            state.next += 1;
            let number = state.next;
            if let Some(id) = id {
                // A client that uses an id twice at once can only withdraw the later request.
                state.by_id.insert(id.clone(), (number, cancel.clone()));
            }
            Some(Slot { all: self.clone(), id: id.cloned(), number })
        })
    }

    /// Withdraws a request; false when none is called so.
    pub(super) fn cancel(&self, id: &Id) -> bool {
        let token = self.with(|state| state.by_id.get(id).map(|(_, token)| token.clone()));
        token.map(|token| token.cancel()).is_some()
    }

    /// How many run.
    pub(super) fn running(&self) -> usize {
        self.with(|state| state.running)
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        // Nothing in here can panic half way, so a poisoned state is still whole.
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.all.with(|state| {
            state.running -= 1;
            if let Some(id) = &self.id
                && state.by_id.get(id).is_some_and(|(number, _)| *number == self.number)
            {
                state.by_id.remove(id);
            }
        });
    }
}
