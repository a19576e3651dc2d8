//! The limit on connections. Unauthenticated connections cannot exhaust it: the oldest of them is closed for a new one.
//! Neither can a single caller: it may have half of them.

use std::collections::{BTreeMap, HashMap};
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
    /// The caller of each connection that was authenticated for one.
    callers: HashMap<u64, Arc<str>>,
    /// The number of connections of each caller.
    counts: HashMap<Arc<str>, usize>,
}

/// A caller has as many connections as it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many connections of this caller (limit {limit})")]
pub struct TooManyOfCaller {
    /// The limit per caller.
    pub limit: usize,
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

    /// Connections that one caller may have: half of all, rounded up.
    pub fn limit_of_caller(&self) -> usize {
        self.limit.div_ceil(2)
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
    fn release(&mut self, number: u64) {
        self.unauthenticated.remove(&number);
        self.open -= 1;
        let Some(caller) = self.callers.remove(&number) else { return };
        match self.counts.get_mut(&caller) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.counts.remove(&caller)),
        }
    }

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

    /// Marks the connection as authenticated for a caller and counts it for that caller, if it has no other yet. At the
    /// caller's limit it stays unauthenticated: close it.
    pub fn authenticate_as(&self, caller: &Arc<str>) -> Result<(), TooManyOfCaller> {
        let (mut state, limit) = (self.limiter.state(), self.limiter.limit_of_caller());
        if !state.callers.contains_key(&self.number) {
            let count = state.counts.get(caller).copied().unwrap_or(0);
            if count >= limit {
                return Err(TooManyOfCaller { limit });
            }
            state.counts.insert(caller.clone(), count + 1);
            state.callers.insert(self.number, caller.clone());
        }
        state.unauthenticated.remove(&self.number);
        Ok(())
    }

    /// Waits until the connection has to be closed in favour of another.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.limiter.state();
        state.release(self.number);
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

    #[test]
    fn a_caller_at_its_limit_leaves_connections_to_others() {
        let limiter = ConnectionLimiter::new(5);
        let (greedy, other): (Arc<str>, Arc<str>) = (Arc::from("token:greedy"), Arc::from("token:other"));
        let mut slots: Vec<ConnectionSlot> = (0..3).map(|_| limiter.try_acquire().unwrap()).collect();
        for slot in &slots {
            slot.authenticate_as(&greedy).unwrap();
            // Further requests on the same connection count once.
            slot.authenticate_as(&greedy).unwrap();
        }
        let one_more = limiter.try_acquire().unwrap();
        assert_eq!(one_more.authenticate_as(&greedy), Err(TooManyOfCaller { limit: 3 }));
        let for_other = limiter.try_acquire().unwrap();
        for_other.authenticate_as(&other).unwrap();
        // The rejected one is unauthenticated, and is closed for a new one.
        let second = limiter.try_acquire().unwrap();
        assert!(one_more.evicted.is_cancelled());
        second.authenticate_as(&other).unwrap();
        slots.pop();
        drop(one_more);
        limiter.try_acquire().unwrap().authenticate_as(&greedy).unwrap();
        drop((slots, for_other, second));
        assert!(limiter.state().callers.is_empty() && limiter.state().counts.is_empty());
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
