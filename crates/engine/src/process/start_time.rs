//! The pids of processes started since a point in time, so that not all of `/proc` has to be searched.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use super::proc;

/// Pids wrap around, but not within 250 ms: until then a newer process has a higher pid.
const SOON: Duration = Duration::from_millis(250);
/// Pids that are tried one by one: 32; with more of them all of `/proc` is read.
const FEW: i32 = 32;

/// A point in time, with the last pid that was assigned before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartTime {
    at: Instant,
    last_pid: Option<i32>,
}

impl StartTime {
    /// The current time and the last pid.
    pub(crate) fn now() -> StartTime {
        StartTime { at: Instant::now(), last_pid: proc::last_pid() }
    }

    /// All pids that a newer process can have; `None` if too much time has passed or there are too many.
    pub(super) fn numbers_since(&self) -> Option<RangeInclusive<i32>> {
        let before = self.last_pid?;
        let last = proc::last_pid()?;
        // Read after the pids, so that the time in between counts.
        let is_soon = self.at.elapsed() < SOON;
        let are_few = last >= before && last - before <= FEW;
        (is_soon && are_few).then(|| before + 1..=last)
    }

    /// Whether a process with this pid can be newer than this point in time.
    pub(super) fn may_precede(&self, pid: i32) -> bool {
        self.last_pid.is_none_or(|before| pid > before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_one_of_the_newer_pids() {
        // Other tests start processes too, so that more than 32 pids may be newer.
        let found = (0..50).find_map(|_| {
            let moment = StartTime::now();
            let mut child = std::process::Command::new("true").spawn().unwrap();
            let numbers = moment.numbers_since().map(Iterator::collect::<Vec<_>>);
            child.wait().unwrap();
            numbers.map(|numbers| (numbers, i32::try_from(child.id()).unwrap()))
        });
        let (numbers, child) = found.unwrap();
        assert!(numbers.contains(&child), "{child} is not in {numbers:?}");
        assert!(!numbers.contains(&i32::try_from(std::process::id()).unwrap()));
    }
}
