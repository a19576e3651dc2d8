//! Tries: polling with a deadline, for conditions without a notification.

use std::time::{Duration, Instant};

/// The first pause; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Polling with a deadline.
#[derive(Debug)]
pub struct Tries {
    what: String,
    deadline: Instant,
    pause: Duration,
}

impl Tries {
    /// Starts polling; `what` names the condition in the failure.
    pub fn within(time: Duration, what: &str) -> Tries {
        Tries { what: what.to_owned(), deadline: Instant::now() + time, pause: FIRST_PAUSE }
    }

    /// Waits before the next attempt. Panics after the deadline.
    pub fn again(&mut self) {
        assert!(Instant::now() < self.deadline, "timed out: {}", self.what);
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}
