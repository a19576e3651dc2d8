//! The settings of a run, from the environment.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::random::Random;

/// Work of the short run inside `cargo test`.
const SHORT: Duration = Duration::from_secs(10);
/// Its seed.
const SHORT_SEED: u64 = 1;
/// From this duration on, faults are included that take a minute to be noticed.
const LONG: Duration = Duration::from_secs(60);

/// The duration and the seed of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// How long faults are injected, at least; each occurs at least once.
    pub(crate) duration: Duration,
    seed: u64,
}

impl Settings {
    /// Reads `SOAK_SECONDS` and `SOAK_SEED`.
    pub(crate) fn from_environment() -> Settings {
        let number = |name: &str| {
            let value = std::env::var(name).ok()?;
            Some(value.parse().unwrap_or_else(|error| panic!("{name}={value}: {error}")))
        };
        let seconds = number("SOAK_SECONDS");
        let now = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            u64::from(since.subsec_nanos()) ^ since.as_secs() << 20
        };
        let seed = number("SOAK_SEED").unwrap_or_else(|| seconds.map_or(SHORT_SEED, |_| now()));
        Settings { duration: seconds.map_or(SHORT, Duration::from_secs), seed }
    }

    /// Whether slow faults are included.
    pub(crate) fn is_long(&self) -> bool {
        self.duration >= LONG
    }

    /// The random numbers of one part of the run. Each part has its own, so that they do not depend on the order of tasks.
    pub(crate) fn random(&self, part: u64) -> Random {
        Random::new(self.seed.wrapping_mul(1_000_003).wrapping_add(part))
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.duration.as_secs();
        write!(
            f,
            "{seconds} s of faults; repeat with SOAK_SEED={} SOAK_SECONDS={seconds} make soak",
            self.seed
        )
    }
}
