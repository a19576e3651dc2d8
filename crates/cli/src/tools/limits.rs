//! Describes the limit that ended a command, for a model.

use std::time::Duration;

use client::{ProcessExit, Session, v1};

/// The limits that a command ran under.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    asked: Option<Duration>,
    hard_timeout_ms: Option<u64>,
    output_bytes: Option<u64>,
}

impl Limits {
    /// The limits of a session, and the timeout of the call.
    pub fn of(session: &Session, asked: Option<Duration>) -> Limits {
        let limits = &session.open_result().limits;
        let held = |limit: u64| Some(limit).filter(|limit| *limit < v1::UNLIMITED);
        Limits {
            asked,
            hard_timeout_ms: limits.hard_timeout_ms.and_then(held),
            output_bytes: limits.hard_output_bytes.and_then(held),
        }
    }

    /// Describes the limit that ended the command, if any.
    pub fn named(&self, exit: &ProcessExit) -> Option<String> {
        if exit.timed_out {
            return Some(match (self.asked, self.hard_timeout_ms) {
                (Some(asked), hard) if hard.is_none_or(|hard| asked.as_millis() <= u128::from(hard)) => {
                    format!(
                        "timed out: killed after timeout_ms = {}, with everything it started",
                        asked.as_millis()
                    )
                }
                (_, Some(hard)) => {
                    format!("timed out: the limit of the machine is hard_timeout_ms = {hard}")
                }
                (_, None) => "timed out: killed with everything it started".to_owned(),
            });
        }
        if exit.output_limit_exceeded {
            return Some(match self.output_bytes {
                Some(bytes) => {
                    format!("killed: output exceeds the limit of the machine (hard_output_bytes = {bytes})")
                }
                None => "killed: output exceeds the limit".to_owned(),
            });
        }
        match exit.reason.as_deref() {
            Some("memory_limit") => Some("killed: memory use exceeds the limit of the machine".to_owned()),
            Some(other) => Some(format!("ended: {other}")),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_was_hit_is_named() {
        let exit = ProcessExit {
            code: -1,
            signal: Some("TERM".to_owned()),
            timed_out: true,
            output_limit_exceeded: false,
            reason: None,
            sandbox_denied: None,
            held_by: Vec::new(),
            duration: Duration::ZERO,
        };
        let limits = Limits {
            asked: Some(Duration::from_millis(50)),
            hard_timeout_ms: Some(300),
            output_bytes: Some(7),
        };
        assert!(limits.named(&exit).unwrap().contains("timeout_ms = 50"));
        let longer = Limits { asked: Some(Duration::from_secs(9)), ..limits };
        assert!(longer.named(&exit).unwrap().contains("hard_timeout_ms = 300"));
        let much = ProcessExit { timed_out: false, output_limit_exceeded: true, ..exit.clone() };
        assert!(limits.named(&much).unwrap().contains("hard_output_bytes = 7"));
        let fine = ProcessExit { timed_out: false, ..exit };
        assert_eq!(limits.named(&fine), None);
    }
}
