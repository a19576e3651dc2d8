//! The requests that run: how many there are, and how to withdraw one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use wire::jsonrpc::Id;

use super::requests::RpcLimits;

/// Every request of one peer that runs. Cheap to clone; a peer that comes on many connections shares one.
#[derive(Debug, Clone, Default)]
pub struct InFlight {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    bytes: usize,
    next: u64,
    by_id: HashMap<Id, (u64, CancellationToken)>,
}

/// The place of one running request; dropping it gives the place free.
#[derive(Debug)]
pub(super) struct Slot {
    all: InFlight,
    id: Option<Id>,
    number: u64,
    bytes: usize,
}

/// What there is too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crowded {
    Requests,
    Bytes,
}

impl InFlight {
    /// Takes a place for a request of so many `bytes`, unless all that `limits` gives are taken. The first one is
    /// always let in, however large.
    pub(super) fn enter(
        &self,
        (id, bytes): (Option<&Id>, usize),
        limits: &RpcLimits,
        cancel: &CancellationToken,
    ) -> Result<Slot, Crowded> {
        self.with(|state| {
            if state.running >= limits.in_flight {
                return Err(Crowded::Requests);
            }
            if state.running > 0 && bytes > limits.in_flight_bytes.saturating_sub(state.bytes) {
                return Err(Crowded::Bytes);
            }
            state.running += 1;
            state.bytes += bytes;
            state.next += 1;
            let number = state.next;
            if let Some(id) = id {
                // A client that uses an id twice at once can only withdraw the later request.
                state.by_id.insert(id.clone(), (number, cancel.clone()));
            }
            Ok(Slot { all: self.clone(), id: id.cloned(), number, bytes })
        })
    }

    /// Withdraws a request; false when none is called so.
    pub(super) fn cancel(&self, id: &Id) -> bool {
        let token = self.with(|state| state.by_id.get(id).map(|(_, token)| token.clone()));
        token.map(|token| token.cancel()).is_some()
    }

    /// Withdraws every request that can be named.
    pub(super) fn cancel_all(&self) {
        let tokens: Vec<_> =
            self.with(|state| state.by_id.values().map(|(_, token)| token.clone()).collect());
        tokens.iter().for_each(CancellationToken::cancel);
    }

    /// How many run.
    pub fn running(&self) -> usize {
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
            state.bytes -= self.bytes;
            if let Some(id) = &self.id
                && state.by_id.get(id).is_some_and(|(number, _)| *number == self.number)
            {
                state.by_id.remove(id);
            }
        });
    }
}
