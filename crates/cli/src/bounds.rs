//! Bounds: the time and the output that a command had, so that whoever hit one hears which, and how large it is.

use std::time::Duration;

use client::{Session, v1};

/// What bounded a command.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    timeout: Timeout,
    hard_timeout_ms: Option<u64>,
    default_timeout_ms: u64,
    output: (&'static str, u64),
}

/// What is known about the time it was given.
#[derive(Debug, Clone, Copy)]
enum Timeout {
    /// We started it, with this if with any.
    Asked(Option<Duration>),
    /// Somebody else started it.
    Unknown,
}

impl Bounds {
    /// Those of a command that was started in this session.
    pub fn asked(session: &Session, timeout: Option<Duration>) -> Bounds {
        Bounds::new(session, Timeout::Asked(timeout))
    }

    /// Those of a command that somebody else may have started.
    pub fn unknown(session: &Session) -> Bounds {
        Bounds::new(session, Timeout::Unknown)
    }

    fn new(session: &Session, timeout: Timeout) -> Bounds {
        let limits = &session.open_result().limits;
        Bounds {
            timeout,
            hard_timeout_ms: limits.hard_timeout_ms,
            default_timeout_ms: limits.default_timeout_ms,
            // The most there is was asked for, where it is told.
            output: match limits.hard_output_bytes {
                Some(most) => ("hard_output_bytes", most),
                None => ("max_output_bytes", limits.max_output_bytes),
            },
        }
    }

    /// Why its time was up.
    pub fn time(&self) -> String {
        let hard = self.hard_timeout_ms.filter(|hard| *hard < v1::UNLIMITED);
        match (self.timeout, hard) {
            (Timeout::Asked(Some(asked)), hard)
                if hard.is_none_or(|hard| asked.as_millis() <= u128::from(hard)) =>
            {
                format!("its time was up: --timeout {}", shown(asked))
            }
            (Timeout::Asked(_), Some(hard)) => {
                format!("its time was up: the host ends commands after hard_timeout_ms = {hard}")
            }
            (Timeout::Asked(_), None) => {
                let usual = self.default_timeout_ms;
                format!("its time was up: the host ends commands after default_timeout_ms = {usual}")
            }
            (Timeout::Unknown, Some(hard)) => format!(
                "its time was up: the timeout it was started with, or the host's hard_timeout_ms = {hard}"
            ),
            (Timeout::Unknown, None) => "its time was up: the timeout it was started with".to_owned(),
        }
    }

    /// Why it was ended for what it wrote.
    pub fn output(&self) -> String {
        let (name, most) = self.output;
        match self.timeout {
            Timeout::Asked(_) => {
                format!("it wrote more than the host allows ({name} = {most}) and was ended")
            }
            Timeout::Unknown => "it wrote more than it may and was ended".to_owned(),
        }
    }
}

/// A time as it is written on the command line.
fn shown(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_that_was_hit_is_named_with_its_value() {
        let asked = |timeout: Option<u64>, hard: Option<u64>| Bounds {
            timeout: Timeout::Asked(timeout.map(Duration::from_millis)),
            hard_timeout_ms: hard,
            default_timeout_ms: 30_000,
            output: ("hard_output_bytes", 7),
        };
        for (bounds, words) in [
            (asked(Some(1_000), Some(2_000)), "--timeout 1s"),
            (asked(Some(1_500), None), "--timeout 1500ms"),
            (asked(Some(9_000), Some(2_000)), "hard_timeout_ms = 2000"),
            (asked(None, Some(2_000)), "hard_timeout_ms = 2000"),
            (asked(Some(1_000), Some(v1::UNLIMITED)), "--timeout 1s"),
            (asked(None, None), "default_timeout_ms = 30000"),
        ] {
            assert!(bounds.time().ends_with(words), "{bounds:?}: {}", bounds.time());
        }
        let found = Bounds { timeout: Timeout::Unknown, ..asked(None, Some(2_000)) };
        assert!(found.time().contains("started with, or the host's hard_timeout_ms = 2000"));
        assert!(asked(None, None).output().contains("hard_output_bytes = 7"));
    }
}
