//! Held: guards for what goes up and down. Dropping one is enough to put things right.

use std::sync::Arc;
use std::time::Instant;

use super::Counts;
use super::labels::{EndCause, ProcessOwner, RequestOutcome, SessionState, Transport, method_place};

/// One request under way. Dropped without a word, it counts as cancelled.
#[derive(Debug)]
#[must_use = "the request counts as cancelled when this is dropped"]
pub struct RequestTimer {
    counts: Option<Arc<Counts>>,
    /// The place of the method, and when the request came; only looked at while counting.
    begun: Option<(usize, Instant)>,
}

impl RequestTimer {
    pub(super) fn start(counts: Option<Arc<Counts>>, method: &str) -> RequestTimer {
        let begun = counts.as_deref().map(|counts| {
            counts.in_flight.add(1);
            (method_place(method), Instant::now())
        });
        RequestTimer { counts, begun }
    }

    /// The request is answered.
    pub fn done(mut self, outcome: RequestOutcome) {
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: RequestOutcome) {
        let (Some(counts), Some((place, since))) = (self.counts.as_deref(), self.begun.take()) else {
            return;
        };
        counts.in_flight.lower();
        if let Some(method) = counts.requests.get(place) {
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

/// One open connection.
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

/// One session, attached to a connection or waiting for one.
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

    /// Its connection is gone; it waits to be resumed.
    pub fn waits(&mut self) {
        self.turn(SessionState::Waiting);
    }

    /// Somebody listens to it again.
    pub fn heard(&mut self) {
        self.turn(SessionState::Attached);
    }

    /// A connection took it up again.
    pub fn resumed(&mut self) {
        if let Some(counts) = &self.counts {
            counts.sessions_resumed.add(1);
        }
        self.turn(SessionState::Attached);
    }

    fn turn(&mut self, state: SessionState) {
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

/// One running process. Dropped without a word, it is no longer counted here, but not as ended: a keeper has it.
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

    /// The process has ended.
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
