//! Gauges and timers that update their metrics when they are dropped.

use std::sync::Arc;
use std::time::Instant;

use super::Counts;
use super::labels::{EndCause, ProcessOwner, RequestOutcome, SessionState, Transport};

/// One request in progress. A timer that is dropped counts the request as cancelled.
#[derive(Debug)]
#[must_use = "the request counts as cancelled when this is dropped"]
pub struct RequestTimer {
    counts: Option<Arc<Counts>>,
    /// The index of the method in [`Counts::requests`] and the time of arrival; none while metrics are off.
    started: Option<(usize, Instant)>,
}

impl RequestTimer {
    pub(super) fn start(counts: Option<Arc<Counts>>, face: &'static str, method: &str) -> RequestTimer {
        let started = counts.as_deref().map(|counts| {
            counts.in_flight.add(1);
            (counts.method_index(face, method), Instant::now())
        });
        RequestTimer { counts, started }
    }

    /// Counts the request with its outcome and duration.
    pub fn done(mut self, outcome: RequestOutcome) {
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: RequestOutcome) {
        let (Some(counts), Some((index, since))) = (self.counts.as_deref(), self.started.take()) else {
            return;
        };
        counts.in_flight.lower();
        if let Some(method) = counts.requests.get(index) {
            method.outcomes.add(outcome, 1);
            method.durations.observe(since.elapsed());
        }
    }
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        self.finish(RequestOutcome::Cancelled);
    }
}

/// One open connection, counted until this is dropped.
#[derive(Debug)]
#[must_use = "the connection counts as closed when this is dropped"]
pub struct ConnectionGauge {
    counts: Option<Arc<Counts>>,
    transport: Transport,
}

impl ConnectionGauge {
    pub(super) fn open(counts: Option<Arc<Counts>>, transport: Transport) -> ConnectionGauge {
        if let Some(counts) = &counts {
            counts.connections.add(transport, 1);
            counts.connections_total.add(transport, 1);
        }
        ConnectionGauge { counts, transport }
    }
}

impl Drop for ConnectionGauge {
    fn drop(&mut self) {
        if let Some(counts) = &self.counts {
            counts.connections.lower(self.transport);
        }
    }
}

/// One session, attached to a connection or waiting to be resumed.
#[derive(Debug)]
#[must_use = "the session counts as gone when this is dropped"]
pub struct SessionGauge {
    counts: Option<Arc<Counts>>,
    state: SessionState,
}

impl SessionGauge {
    pub(super) fn open(counts: Option<Arc<Counts>>) -> SessionGauge {
        let state = SessionState::Attached;
        if let Some(counts) = &counts {
            counts.sessions.add(state, 1);
            counts.sessions_opened.add(1);
        }
        SessionGauge { counts, state }
    }

    /// Counts the session as waiting: its connection has ended.
    pub fn set_waiting(&mut self) {
        self.set_state(SessionState::Waiting);
    }

    /// Counts the session as attached again.
    pub fn set_attached(&mut self) {
        self.set_state(SessionState::Attached);
    }

    /// Counts a resume, and the session as attached.
    pub fn set_resumed(&mut self) {
        if let Some(counts) = &self.counts {
            counts.sessions_resumed.add(1);
        }
        self.set_state(SessionState::Attached);
    }

    fn set_state(&mut self, state: SessionState) {
        if let Some(counts) = &self.counts {
            counts.sessions.add(state, 1);
            counts.sessions.lower(self.state);
        }
        self.state = state;
    }
}

impl Drop for SessionGauge {
    fn drop(&mut self) {
        if let Some(counts) = &self.counts {
            counts.sessions.lower(self.state);
        }
    }
}

/// One running process. Dropping this stops counting it as running, but does not count it as ended: it may continue
/// under a keeper.
#[derive(Debug)]
#[must_use = "the process is no longer counted when this is dropped"]
pub struct ProcessGauge {
    counts: Option<Arc<Counts>>,
    ownership: ProcessOwner,
}

impl ProcessGauge {
    pub(super) fn running(counts: Option<Arc<Counts>>, ownership: ProcessOwner) -> ProcessGauge {
        if let Some(counts) = &counts {
            counts.processes.add(ownership, 1);
        }
        ProcessGauge { counts, ownership }
    }

    /// Counts the end of the process.
    pub fn ended(self, cause: impl Into<EndCause>) {
        if let Some(counts) = &self.counts {
            counts.processes_ended.add(cause.into(), 1);
        }
    }
}

impl Drop for ProcessGauge {
    fn drop(&mut self) {
        if let Some(counts) = &self.counts {
            counts.processes.lower(self.ownership);
        }
    }
}
