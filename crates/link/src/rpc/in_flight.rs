//! The running requests: their number, and the cancellation of one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use wire::jsonrpc::Id;

use super::requests::RpcLimits;

/// The running requests of one peer. Cheap to clone; several connections of one peer share it.
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

/// The slot of one running request, released when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    all: InFlight,
    id: Option<Id>,
    number: u64,
    bytes: usize,
}

/// The limit that is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExceededLimit {
    Requests,
    Bytes,
}

impl InFlight {
    /// A slot for a request of `bytes`, unless `limits` is exceeded. The first request is always accepted.
    pub(super) fn enter(
        &self,
        (id, bytes): (Option<&Id>, usize),
        limits: &RpcLimits,
        cancel: &CancellationToken,
    ) -> Result<Slot, ExceededLimit> {
        self.with(|state| {
            if state.running >= limits.in_flight {
                return Err(ExceededLimit::Requests);
            }
            if state.running > 0 && bytes > limits.in_flight_bytes.saturating_sub(state.bytes) {
                return Err(ExceededLimit::Bytes);
            }
            state.running += 1;
            state.bytes += bytes;
            state.next += 1;
            let number = state.next;
            if let Some(id) = id {
                // With the same id twice, only the later request can be cancelled.
                state.by_id.insert(id.clone(), (number, cancel.clone()));
            }
            Ok(Slot { all: self.clone(), id: id.cloned(), number, bytes })
        })
    }

    /// Cancels a request; false if there is none with this id.
    pub(super) fn cancel(&self, id: &Id) -> bool {
        let token = self.with(|state| state.by_id.get(id).map(|(_, token)| token.clone()));
        token.map(|token| token.cancel()).is_some()
    }

    /// Cancels every request with an id.
    pub(super) fn cancel_all(&self) {
        let tokens: Vec<_> =
            self.with(|state| state.by_id.values().map(|(_, token)| token.clone()).collect());
        tokens.iter().for_each(CancellationToken::cancel);
    }

    /// The number of running requests.
    pub fn running(&self) -> usize {
        self.with(|state| state.running)
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        // No operation panics half way, so a poisoned state is still consistent.
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
