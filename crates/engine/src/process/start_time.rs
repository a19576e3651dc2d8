//! Newer: the few processes that can have come into being since a moment, so that not all of `/proc` has to be searched.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use super::proc;

/// Numbers are given in a circle. In so short a time nobody gets around it, so what is newer has a number behind the mark.
const SOON: Duration = Duration::from_millis(250);
/// More numbers than that are not tried one by one.
const FEW: i32 = 32;

/// A moment, as the numbers of processes know it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartTime {
    at: Instant,
    last_number: Option<i32>,
}

impl StartTime {
    /// This one.
    pub(crate) fn now() -> StartTime {
        StartTime { at: Instant::now(), last_number: proc::last_number() }
    }

    /// Every number that a process which is newer can have; nothing if it is too long ago, or if they are too many.
    pub(super) fn numbers_since(&self) -> Option<RangeInclusive<i32>> {
        let before = self.last_number?;
        let last = proc::last_number()?;
        // Asked after the numbers were: the time in between counts.
        let is_soon = self.at.elapsed() < SOON;
        let are_few = last >= before && last - before <= FEW;
        (is_soon && are_few).then(|| before + 1..=last)
    }

    /// Whether a process with this number can be newer than this moment.
    pub(super) fn may_precede(&self, pid: i32) -> bool {
        self.last_number.is_none_or(|before| pid > before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_one_of_the_newer_numbers() {
        // Others start processes too, and then more than a few are newer.
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
