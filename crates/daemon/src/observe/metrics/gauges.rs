//! Gauges and timers that update their metrics when they are dropped.

use std::sync::Arc;
use std::time::Instant;

use engine::process::ExitCause;

use super::Counts;
use super::cells::GaugeGuard;
use super::labels::{ProcessOwner, RequestOutcome, SessionState};

/// One request in progress. A timer that is dropped counts the request as cancelled.
#[derive(Debug)]
#[must_use = "the request counts as cancelled when this is dropped"]
pub struct RequestTimer {
    counts: Arc<Counts>,
    /// The index of the method in [`Counts::requests`]; `None` if its face is not registered.
    method: Option<usize>,
    since: Instant,
    outcome: RequestOutcome,
}

impl RequestTimer {
    pub(super) fn start(counts: Arc<Counts>, face: &'static str, method: &str) -> RequestTimer {
        counts.in_flight.add(1);
        let method = counts.method_index(face, method);
        RequestTimer { counts, method, since: Instant::now(), outcome: RequestOutcome::Cancelled }
    }

    /// Counts the request with its outcome and duration.
    pub fn done(mut self, outcome: RequestOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        self.counts.in_flight.lower();
        if let Some(index) = self.method {
            let method = &self.counts.requests[index];
            method.outcomes.of(self.outcome).add(1);
            method.durations.observe(self.since.elapsed());
        }
    }
}

/// One session, attached to a connection or waiting to be resumed.
#[derive(Debug)]
#[must_use = "the session counts as gone when this is dropped"]
pub struct SessionGauge {
    pub(super) counts: Arc<Counts>,
    pub(super) state: GaugeGuard<SessionState>,
}

impl SessionGauge {
    /// Counts the session as waiting: its connection has ended.
    pub fn set_waiting(&mut self) {
        self.state = self.counts.sessions.raise(SessionState::Waiting);
    }

    /// Counts the session as attached again.
    pub fn set_attached(&mut self) {
        self.state = self.counts.sessions.raise(SessionState::Attached);
    }

    /// Counts a resume, and the session as attached.
    pub fn set_resumed(&mut self) {
        self.counts.sessions_resumed.add(1);
        self.set_attached();
    }
}

/// One running process. Dropping this stops counting it as running, but does not count it as ended: it may continue
/// under a keeper.
#[derive(Debug)]
#[must_use = "the process is no longer counted when this is dropped"]
pub struct ProcessGauge {
    pub(super) counts: Arc<Counts>,
    pub(super) _running: GaugeGuard<ProcessOwner>,
}

impl ProcessGauge {
    /// Counts the end of the process.
    pub fn ended(self, cause: ExitCause) {
        self.counts.processes_ended.of(cause).add(1);
    }
}
