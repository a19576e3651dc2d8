//! The time and output limits of a command, so that the message about a limit names it and its value.

use std::time::Duration;

use client::{Session, v1};

/// The limits that a command ran under.
#[derive(Debug, Clone, Copy)]
pub struct CommandLimits {
    timeout: Timeout,
    hard_timeout_ms: Option<u64>,
    default_timeout_ms: u64,
    output: (&'static str, u64),
}

/// What is known about the timeout of the command.
#[derive(Debug, Clone, Copy)]
enum Timeout {
    /// This process started the command, with this timeout if any.
    Requested(Option<Duration>),
    /// Another client may have started the command.
    Unknown,
}

impl CommandLimits {
    /// The limits of a command that was started in this session.
    pub fn of_started(session: &Session, timeout: Option<Duration>) -> CommandLimits {
        CommandLimits::new(session, Timeout::Requested(timeout))
    }

    /// The limits of a command that another client may have started.
    pub fn of_existing(session: &Session) -> CommandLimits {
        CommandLimits::new(session, Timeout::Unknown)
    }

    fn new(session: &Session, timeout: Timeout) -> CommandLimits {
        let limits = &session.open_result().limits;
        CommandLimits {
            timeout,
            hard_timeout_ms: limits.hard_timeout_ms,
            default_timeout_ms: limits.default_timeout_ms,
            // `rex` requests the hard limit; older servers do not report it.
            output: match limits.hard_output_bytes {
                Some(limit) => ("hard_output_bytes", limit),
                None => ("max_output_bytes", limits.max_output_bytes),
            },
        }
    }

    /// Describes the limit that made the command time out.
    pub fn timeout_message(&self) -> String {
        let hard = self.hard_timeout_ms.filter(|hard| *hard < v1::UNLIMITED);
        match (self.timeout, hard) {
            (Timeout::Requested(Some(requested)), hard)
                if hard.is_none_or(|hard| requested.as_millis() <= u128::from(hard)) =>
            {
                format!("timed out: --timeout {}", duration_flag(requested))
            }
            (Timeout::Requested(_), Some(hard)) => {
                format!("timed out: the host limits commands to hard_timeout_ms = {hard}")
            }
            (Timeout::Requested(_), None) => {
                let default = self.default_timeout_ms;
                format!("timed out: the host limits commands to default_timeout_ms = {default}")
            }
            (Timeout::Unknown, Some(hard)) => {
                format!("timed out: the timeout it was started with, or the host's hard_timeout_ms = {hard}")
            }
            (Timeout::Unknown, None) => "timed out: the timeout it was started with".to_owned(),
        }
    }

    /// Describes the output limit that ended the command.
    pub fn output_message(&self) -> String {
        let (name, limit) = self.output;
        match self.timeout {
            Timeout::Requested(_) => {
                format!("command killed: output exceeds the host's limit {name} = {limit}")
            }
            Timeout::Unknown => "command killed: output exceeds its limit".to_owned(),
        }
    }
}

/// A duration as `--timeout` takes it.
fn duration_flag(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_ended_a_command_is_named_with_its_value() {
        let asked = |timeout: Option<u64>, hard: Option<u64>| CommandLimits {
            timeout: Timeout::Requested(timeout.map(Duration::from_millis)),
            hard_timeout_ms: hard,
            default_timeout_ms: 30_000,
            output: ("hard_output_bytes", 7),
        };
        for (limits, expected) in [
            (asked(Some(1_000), Some(2_000)), "--timeout 1s"),
            (asked(Some(1_500), None), "--timeout 1500ms"),
            (asked(Some(9_000), Some(2_000)), "hard_timeout_ms = 2000"),
            (asked(None, Some(2_000)), "hard_timeout_ms = 2000"),
            (asked(Some(1_000), Some(v1::UNLIMITED)), "--timeout 1s"),
            (asked(None, None), "default_timeout_ms = 30000"),
        ] {
            assert!(limits.timeout_message().ends_with(expected), "{limits:?}: {}", limits.timeout_message());
        }
        let found = CommandLimits { timeout: Timeout::Unknown, ..asked(None, Some(2_000)) };
        assert!(found.timeout_message().contains("started with, or the host's hard_timeout_ms = 2000"));
        assert!(asked(None, None).output_message().contains("hard_output_bytes = 7"));
    }
}
