//! The times of a log: marks of which output was written when, so that a reader can start at a time.

use std::time::{Duration, SystemTime};

/// Marks of one log: 1,024. When there are more, neighbours are joined and the marks become coarser.
const MAX_MARKS: usize = 1024;
/// The time between two marks at first.
const SPACING: Duration = Duration::from_secs(1);

/// The time between two marks at most: about 24 days; then the oldest mark is dropped.
const MAX_SPACING: Duration = Duration::from_secs(1 << 21);

/// Marks with ascending positions. The output between two marks was written within `spacing` of the first one.
#[derive(Debug)]
pub(super) struct TimeMarks {
    marks: Vec<(SystemTime, u64)>,
    spacing: Duration,
}

impl Default for TimeMarks {
    fn default() -> TimeMarks {
        TimeMarks { marks: Vec::new(), spacing: SPACING }
    }
}

impl TimeMarks {
    /// Notes that output at `cursor` is written now.
    pub(super) fn note(&mut self, now: SystemTime, cursor: u64) {
        if self.marks.last().is_some_and(|(last, _)| is_within(*last, now, self.spacing)) {
            return;
        }
        self.marks.push((now, cursor));
        while self.marks.len() > MAX_MARKS {
            if self.spacing >= MAX_SPACING {
                // Joining does not help where the clock was set back again and again.
                self.marks.remove(0);
                continue;
            }
            self.spacing *= 2;
            let spacing = self.spacing;
            self.marks.dedup_by(|(next, _), (kept, _)| is_within(*kept, *next, spacing));
        }
    }

    /// The position of the first output since `time`, or of output that is at most `spacing` older; `None` if there is none.
    pub(super) fn since(&self, time: SystemTime) -> Option<u64> {
        let is_older =
            |written: SystemTime| time.duration_since(written).is_ok_and(|age| age >= self.spacing);
        self.marks.iter().find(|(written, _)| !is_older(*written)).map(|(_, cursor)| *cursor)
    }
}

/// Whether `next` is less than `spacing` after `first`; after the clock was set back, it is not.
fn is_within(first: SystemTime, next: SystemTime, spacing: Duration) -> bool {
    next.duration_since(first).is_ok_and(|passed| passed < spacing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn output_is_found_by_its_time_and_none_that_is_newer_is_left_out() {
        let mut marks = TimeMarks::default();
        for (seconds, cursor) in [(100.0, 0), (100.5, 10), (101.2, 20), (160.0, 30), (160.9, 40)] {
            marks.note(at(seconds), cursor);
        }
        for (since, cursor) in [
            (50.0, Some(0)),
            (100.9, Some(0)),
            (101.5, Some(20)),
            (130.0, Some(30)),
            (160.5, Some(30)),
            (161.5, None),
        ] {
            assert_eq!(marks.since(at(since)), cursor, "{since}");
        }
    }

    #[test]
    fn a_long_log_has_a_limited_number_of_coarser_marks() {
        let mut marks = TimeMarks::default();
        for second in 0..100_000_u32 {
            marks.note(at(f64::from(second)), u64::from(second));
        }
        assert!(marks.marks.len() <= MAX_MARKS);
        for since in [0_u32, 777, 50_000, 99_999] {
            let found = marks.since(at(f64::from(since))).unwrap();
            let oldest = u64::from(since).saturating_sub(marks.spacing.as_secs());
            assert!((oldest..=u64::from(since)).contains(&found), "{since}: {found}");
        }
        assert!(marks.spacing < Duration::from_secs(300));
    }

    #[test]
    fn a_clock_that_runs_backwards_takes_no_more_memory() {
        let mut marks = TimeMarks::default();
        for second in 0..3_000_u32 {
            marks.note(at(1e6 - f64::from(second)), u64::from(second));
        }
        assert_eq!(marks.marks.len(), MAX_MARKS);
    }

    #[test]
    fn sparse_output_keeps_its_times() {
        let mut marks = TimeMarks::default();
        for burst in 0..2_000_u32 {
            marks.note(at(f64::from(burst) * 3600.0), u64::from(burst));
        }
        let found = marks.since(at(1_999.0 * 3600.0)).unwrap();
        assert!((1_990..=1_999).contains(&found), "{found}");
    }
}
