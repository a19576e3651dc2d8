//! Everybody who is connected: how many there may be, and who has to go when there are too many strangers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Connections that have not shown who they are. The oldest has to go when one more comes: whoever means to be served
/// shows it at once.
const MOST_STRANGERS: usize = 256;

/// Everybody who is connected.
#[derive(Debug)]
pub struct Crowd {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    here: usize,
    next: u64,
    strangers: BTreeMap<u64, CancellationToken>,
}

impl Crowd {
    /// Room for so many.
    pub fn new(most: usize) -> Arc<Crowd> {
        Arc::new(Crowd { most, state: Mutex::default() })
    }

    /// A place for one more, if need be that of the oldest stranger; nothing when there is none.
    pub fn enter(self: &Arc<Crowd>) -> Option<Place> {
        let mut state = self.state();
        if state.strangers.len() >= MOST_STRANGERS || state.here >= self.most {
            let has_room = state.send_away_one() || state.here < self.most;
            if !has_room {
                return None;
            }
        }
        let (number, evicted) = (state.next, CancellationToken::new());
        state.next += 1;
        state.here += 1;
        state.strangers.insert(number, evicted.clone());
        drop(state);
        Some(Place { crowd: self.clone(), number, evicted })
    }

    /// Sends the oldest stranger away, if there is one.
    pub fn make_room(&self) {
        self.state().send_away_one();
    }

    /// How many are here.
    pub fn here(&self) -> usize {
        self.state().here
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn send_away_one(&mut self) -> bool {
        let oldest = self.strangers.pop_first();
        if let Some((_, evicted)) = &oldest {
            evicted.cancel();
        }
        oldest.is_some()
    }
}

/// A place in the crowd, free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    crowd: Arc<Crowd>,
    number: u64,
    evicted: CancellationToken,
}

impl Place {
    /// They have shown who they are and are not sent away any more.
    pub fn known(&self) {
        self.crowd.state().strangers.remove(&self.number);
    }

    /// Waits until they have to go.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.crowd.state();
        state.strangers.remove(&self.number);
        state.here -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ARCHITECTURE.md, invariant 37.
    #[test]
    fn the_oldest_stranger_makes_room_and_the_known_stay() {
        let crowd = Crowd::new(1_000);
        let first = crowd.enter().unwrap();
        first.known();
        let strangers: Vec<Place> = (0..MOST_STRANGERS).map(|_| crowd.enter().unwrap()).collect();
        assert!(strangers.iter().all(|place| !place.evicted.is_cancelled()));
        let _one_more = crowd.enter().unwrap();
        let gone: Vec<bool> = strangers.iter().take(2).map(|place| place.evicted.is_cancelled()).collect();
        assert_eq!(gone, [true, false]);
        assert!(!first.evicted.is_cancelled());
    }

    #[test]
    fn a_full_house_of_known_callers_takes_nobody_until_one_leaves() {
        let crowd = Crowd::new(2);
        let places: Vec<Place> = (0..2).map(|_| crowd.enter().unwrap()).collect();
        places.iter().for_each(Place::known);
        assert!(crowd.enter().is_none());
        drop(places);
        assert_eq!(crowd.here(), 0);
        assert!(crowd.enter().is_some());
    }
}
