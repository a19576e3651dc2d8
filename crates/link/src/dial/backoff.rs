//! How long to wait before another try: longer each time, never for all at once.

use std::time::Duration;

/// The first wait.
const FIRST: Duration = Duration::from_secs(1);
/// The longest.
const MOST: Duration = Duration::from_secs(30);

/// The waits between tries: 1, 2, 4, 8, 16, 30 seconds, each up to a fifth shorter, so that many who lost the same
/// server do not come back in the same moment.
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
    /// The next wait, shortened by chance.
    pub fn wait(&mut self) -> Duration {
        let mut random = [0; 1];
        // Without chance all still goes well, only less evenly.
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

    /// It worked: the next wait is the first again.
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
