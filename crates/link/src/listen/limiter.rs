//! The limit on connections. Unauthenticated connections cannot exhaust it: the oldest of them is closed for a new one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Unauthenticated connections at a time; one more closes the oldest. A client that wants to be served authenticates with
/// its first request.
const MAX_UNAUTHENTICATED: usize = 256;

/// Counts the connections of one or more listeners.
#[derive(Debug)]
pub struct ConnectionLimiter {
    limit: usize,
    state: Mutex<LimiterState>,
    released: Notify,
}

#[derive(Debug, Default)]
struct LimiterState {
    open: usize,
    next: u64,
    unauthenticated: BTreeMap<u64, CancellationToken>,
}

impl ConnectionLimiter {
    /// Allows `limit` connections at a time.
    pub fn new(limit: usize) -> Arc<ConnectionLimiter> {
        Arc::new(ConnectionLimiter { limit, state: Mutex::default(), released: Notify::new() })
    }

    /// A slot for one more connection, if necessary that of the oldest unauthenticated one. `None` when all slots belong
    /// to authenticated connections.
    pub fn try_acquire(self: &Arc<ConnectionLimiter>) -> Option<ConnectionSlot> {
        let mut state = self.state();
        if state.unauthenticated.len() >= MAX_UNAUTHENTICATED || state.open >= self.limit {
            let has_slot = state.evict_oldest() || state.open < self.limit;
            if !has_slot {
                return None;
            }
        }
        let (number, evicted) = (state.next, CancellationToken::new());
        state.next += 1;
        state.open += 1;
        state.unauthenticated.insert(number, evicted.clone());
        drop(state);
        Some(ConnectionSlot { limiter: self.clone(), number, evicted })
    }

    /// Waits for a slot. Nothing is lost if this future is dropped.
    pub async fn acquire(self: &Arc<ConnectionLimiter>) -> ConnectionSlot {
        loop {
            let released = self.released.notified();
            if let Some(slot) = self.try_acquire() {
                return slot;
            }
            released.await;
        }
    }

    /// Closes the oldest unauthenticated connection, if there is one.
    pub fn evict_oldest(&self) {
        self.state().evict_oldest();
    }

    /// The number of slots in use.
    pub fn open(&self) -> usize {
        self.state().open
    }

    fn state(&self) -> MutexGuard<'_, LimiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LimiterState {
    fn evict_oldest(&mut self) -> bool {
        let oldest = self.unauthenticated.pop_first();
        if let Some((_, evicted)) = &oldest {
            evicted.cancel();
        }
        oldest.is_some()
    }
}

/// One connection's part of the limit, released when this is dropped. Begins as unauthenticated.
#[derive(Debug)]
pub struct ConnectionSlot {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
    evicted: CancellationToken,
}

impl ConnectionSlot {
    /// Marks the connection as authenticated: it is no longer closed in favour of another.
    pub fn authenticate(&self) {
        self.limiter.state().unauthenticated.remove(&self.number);
    }

    /// Waits until the connection has to be closed in favour of another.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.limiter.state();
        state.unauthenticated.remove(&self.number);
        state.open -= 1;
        drop(state);
        self.limiter.released.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ARCHITECTURE.md, invariant 37.
    #[test]
    fn a_new_connection_closes_the_oldest_unauthenticated_one_and_no_authenticated_one() {
        let limiter = ConnectionLimiter::new(1_000);
        let first = limiter.try_acquire().unwrap();
        first.authenticate();
        let slots: Vec<ConnectionSlot> =
            (0..MAX_UNAUTHENTICATED).map(|_| limiter.try_acquire().unwrap()).collect();
        assert!(slots.iter().all(|slot| !slot.evicted.is_cancelled()));
        let _one_more = limiter.try_acquire().unwrap();
        let evicted: Vec<bool> = slots.iter().take(2).map(|slot| slot.evicted.is_cancelled()).collect();
        assert_eq!(evicted, [true, false]);
        assert!(!first.evicted.is_cancelled());
    }

    #[tokio::test]
    async fn no_slot_is_free_while_all_belong_to_authenticated_connections() {
        let limiter = ConnectionLimiter::new(2);
        let slots: Vec<ConnectionSlot> = (0..2).map(|_| limiter.try_acquire().unwrap()).collect();
        slots.iter().for_each(ConnectionSlot::authenticate);
        assert!(limiter.try_acquire().is_none());
        let mut waiting = Box::pin(limiter.acquire());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(slots);
        let _slot = waiting.await;
        assert_eq!(limiter.open(), 1);
    }
}
