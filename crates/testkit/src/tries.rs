//! Tries: asking again, within bounds, for what nobody announces.

use std::time::{Duration, Instant};

/// The first pause between two tries; each is longer than the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Tries that end when the time is up.
#[derive(Debug)]
pub struct Tries {
    what: String,
    deadline: Instant,
    pause: Duration,
}

impl Tries {
    /// Tries for so long at the most, for what the failure will name.
    pub fn within(time: Duration, what: &str) -> Tries {
        Tries { what: what.to_owned(), deadline: Instant::now() + time, pause: FIRST_PAUSE }
    }

    /// Waits for the next try. Panics when the time is up.
    pub fn again(&mut self) {
        assert!(Instant::now() < self.deadline, "in vain: {}", self.what);
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}
