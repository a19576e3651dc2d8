//! The wait before another attempt to connect: exponential, with jitter.

use std::time::Duration;

/// The wait after the first failure.
const FIRST: Duration = Duration::from_secs(1);
/// The limit on the wait.
const MOST: Duration = Duration::from_secs(30);

/// The waits between attempts: 1, 2, 4, 8, 16, 30 seconds, each up to a fifth shorter, so that the clients of one server
/// do not reconnect at the same moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { next: FIRST }
    }
}

impl Backoff {
    /// The next wait, randomly shortened.
    pub fn wait(&mut self) -> Duration {
        let mut random = [0; 1];
        // Without random bytes the wait is not shortened.
        if let Err(error) = getrandom::fill(&mut random) {
            tracing::debug!(%error, "no random bytes");
        }
        self.wait_by(random[0])
    }

    /// The next wait, shortened by `chance` in 255 parts of a fifth.
    pub fn wait_by(&mut self, chance: u8) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(MOST);
        wait - wait / 5 * u32::from(chance) / 255
    }

    /// Starts again with the first wait, after a success.
    pub fn reset(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_a_minute_and_begin_again_after_a_success() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..7).map(|_| backoff.wait_by(0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        backoff.reset();
        assert_eq!(backoff.wait_by(255), Duration::from_millis(800));
        assert_eq!(backoff.wait_by(0), Duration::from_secs(2));
    }
}
