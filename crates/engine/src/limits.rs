//! Limits: all configurable limits of the engine, passed in as one value. No code reads a global.

use std::time::Duration;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// All configurable limits of the engine. `None` means "no limit".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How long a command may run if its request has no timeout.
    pub default_timeout: Option<Duration>,
    /// The largest timeout that a request may set.
    pub hard_timeout: Option<Duration>,
    /// Output of both streams together if its request has no limit.
    pub max_output_bytes: Option<u64>,
    /// The largest output limit that a request may set.
    pub hard_output_bytes: Option<u64>,
    /// Bytes that one file read returns.
    pub max_file_read_bytes: u64,
    /// Processes of one session that may run at the same time; the next start is refused.
    pub max_processes_per_session: usize,
    /// Sessions that one caller may have open at the same time; the next one is refused.
    pub max_concurrent_sessions: usize,
    /// What happens when a process reaches its output limit.
    pub on_output_limit: OnOutputLimit,
    /// Output kept in memory per process; beyond it the log spills to disk.
    pub log_bytes: usize,
    /// Output kept on disk per process; beyond it the process waits for its primary reader, or drops the oldest output if
    /// there is none.
    pub spill_bytes: u64,
    /// Finished processes retained per session; beyond it the oldest is removed.
    pub finished_kept: usize,
    /// How long a finished process is retained.
    pub finished_for: Duration,
    /// Input in a start request; more is rejected. Does not limit later input.
    pub stdin_start_bytes: usize,
    /// Commands queued for one process; when full, the sender waits.
    pub commands_waiting: usize,
    /// Time between TERM and KILL.
    pub kill_grace: Duration,
    /// Time without output, after the exit of the leader, after which a pipe that a descendant holds is abandoned.
    pub drain_idle: Duration,
    /// Longest wait for output after the exit of the leader.
    pub drain_max: Duration,
    /// How long one scan of the file system may take.
    pub scan_deadline: Duration,
}

/// What happens when a process reaches its output limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnOutputLimit {
    /// The whole tree is killed.
    #[default]
    Kill,
    /// Further output is dropped and the process continues.
    Truncate,
}

/// Limits requested by a session. Only lower values have an effect; `None` leaves the limit unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitsRequest {
    /// See [`Limits::default_timeout`].
    pub default_timeout: Option<Duration>,
    /// See [`Limits::hard_timeout`].
    pub hard_timeout: Option<Duration>,
    /// See [`Limits::max_output_bytes`].
    pub max_output_bytes: Option<u64>,
    /// See [`Limits::hard_output_bytes`].
    pub hard_output_bytes: Option<u64>,
    /// See [`Limits::max_file_read_bytes`].
    pub max_file_read_bytes: Option<u64>,
    /// See [`Limits::max_processes_per_session`].
    pub max_processes_per_session: Option<usize>,
    /// See [`Limits::max_concurrent_sessions`].
    pub max_concurrent_sessions: Option<usize>,
}

impl Limits {
    /// The documented defaults: low limits for a daemon without configuration.
    pub fn seed() -> Self {
        Self {
            default_timeout: Some(Duration::from_millis(30_000)),
            hard_timeout: Some(Duration::from_millis(300_000)),
            max_output_bytes: Some(MIB),
            hard_output_bytes: Some(64 * MIB),
            max_file_read_bytes: MIB,
            max_processes_per_session: 8,
            max_concurrent_sessions: 16,
            on_output_limit: OnOutputLimit::Kill,
            log_bytes: MIB as usize,
            spill_bytes: 256 * MIB,
            finished_kept: 1_000,
            finished_for: Duration::from_secs(600),
            stdin_start_bytes: MIB as usize,
            commands_waiting: 64,
            kill_grace: Duration::from_millis(400),
            drain_idle: Duration::from_millis(100),
            drain_max: Duration::from_millis(500),
            scan_deadline: Duration::from_secs(20),
        }
    }

    /// Only limits that protect the machine: time and output are limited only if a request sets a limit.
    pub fn open() -> Self {
        Self {
            default_timeout: None,
            hard_timeout: None,
            max_output_bytes: None,
            hard_output_bytes: None,
            max_file_read_bytes: 64 * MIB,
            max_processes_per_session: 1_024,
            max_concurrent_sessions: 1_024,
            ..Self::seed()
        }
    }

    /// These limits, lowered by the request of a session: no value becomes larger, and no default exceeds its maximum.
    pub fn lowered(&self, request: &LimitsRequest) -> Self {
        let hard_timeout = lower(self.hard_timeout, request.hard_timeout);
        let hard_output_bytes = lower(self.hard_output_bytes, request.hard_output_bytes);
        let sessions = request.max_concurrent_sessions.unwrap_or(usize::MAX);
        let processes = request.max_processes_per_session.unwrap_or(usize::MAX);
        Self {
            default_timeout: lower(lower(self.default_timeout, request.default_timeout), hard_timeout),
            hard_timeout,
            max_output_bytes: lower(
                lower(self.max_output_bytes, request.max_output_bytes),
                hard_output_bytes,
            ),
            hard_output_bytes,
            max_file_read_bytes: self
                .max_file_read_bytes
                .min(request.max_file_read_bytes.unwrap_or(u64::MAX)),
            max_processes_per_session: self.max_processes_per_session.min(processes),
            max_concurrent_sessions: self.max_concurrent_sessions.min(sessions),
            ..self.clone()
        }
    }

    /// The timeout of a command: the requested one up to the maximum, or the default.
    pub fn timeout(&self, asked: Option<Duration>) -> Option<Duration> {
        lower(asked.or(self.default_timeout), self.hard_timeout)
    }

    /// The timeout of a terminal or a detached process, which have no default.
    pub fn timeout_if_asked(&self, asked: Option<Duration>) -> Option<Duration> {
        asked.and_then(|asked| lower(Some(asked), self.hard_timeout))
    }

    /// The output limit of a command: the requested one up to the maximum, or the default.
    pub fn output_bytes(&self, asked: Option<u64>) -> Option<u64> {
        lower(asked.or(self.max_output_bytes), self.hard_output_bytes)
    }
}

/// The smaller of two limits, where `None` is larger than any value.
fn lower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ARCHITECTURE.md, invariant 22.
    #[test]
    fn a_session_lowers_limits_and_never_raises_them() {
        let request = LimitsRequest {
            default_timeout: Some(Duration::from_secs(900)),
            hard_timeout: Some(Duration::from_secs(10)),
            max_output_bytes: Some(10),
            max_file_read_bytes: Some(u64::MAX),
            max_processes_per_session: Some(2),
            ..LimitsRequest::default()
        };
        let lowered = Limits::seed().lowered(&request);
        assert_eq!(lowered.default_timeout, Some(Duration::from_secs(10)), "no default above its ceiling");
        assert_eq!(lowered.hard_timeout, Some(Duration::from_secs(10)));
        assert_eq!(lowered.max_output_bytes, Some(10));
        assert_eq!(lowered.hard_output_bytes, Some(64 * MIB));
        assert_eq!(lowered.max_file_read_bytes, MIB);
        assert_eq!(lowered.max_processes_per_session, 2);
        assert_eq!(lowered.max_concurrent_sessions, 16);
    }

    #[test]
    fn no_wish_changes_nothing() {
        for limits in [Limits::seed(), Limits::open()] {
            assert_eq!(limits.lowered(&LimitsRequest::default()), limits);
        }
    }

    #[test]
    fn a_wish_binds_where_nothing_was_bound() {
        let request =
            LimitsRequest { hard_timeout: Some(Duration::from_secs(1)), ..LimitsRequest::default() };
        let lowered = Limits::open().lowered(&request);
        assert_eq!(lowered.default_timeout, Some(Duration::from_secs(1)));
        assert_eq!(lowered.timeout(Some(Duration::from_secs(5))), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_request_gets_the_default_or_its_value_up_to_the_maximum() {
        let limits = Limits::seed();
        assert_eq!(limits.timeout(None), Some(Duration::from_secs(30)));
        assert_eq!(limits.timeout(Some(Duration::from_secs(60))), Some(Duration::from_secs(60)));
        assert_eq!(limits.timeout(Some(Duration::from_secs(6_000))), Some(Duration::from_secs(300)));
        assert_eq!(limits.output_bytes(None), Some(MIB));
        assert_eq!(limits.output_bytes(Some(8 * MIB)), Some(8 * MIB));
        assert_eq!(limits.output_bytes(Some(u64::MAX)), Some(64 * MIB));
        assert_eq!(Limits::open().timeout(None), None);
        assert_eq!(Limits::open().output_bytes(Some(u64::MAX)), Some(u64::MAX));
    }
}
