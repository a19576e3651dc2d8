//! Metrics: what the daemon has done and is doing, as numbers for Prometheus.
//!
//! A [`Metrics`] is cheap to clone and to count with: a few relaxed atomics, no lock and no allocation on the way of
//! a request. One that is off counts nothing. What goes up and down is held by a guard that lowers it when dropped,
//! so that no way out of a function can forget to.

mod cells;
mod gauges;
mod labels;
mod own;
mod queues;
mod render;
mod text;

pub use gauges::{ConnectionGauge, ProcessGauge, RequestTimer, SessionGauge};
pub use labels::{
    Direction, EndCause, OutputStream, ProcessOwner, RefusalReason, RequestOutcome, SessionState, Transport,
};
pub use queues::QueueGauge;

use std::sync::Arc;
use std::time::SystemTime;

use cells::{Cell, Cells, Histogram};
use labels::{Label as _, METHOD_COUNT};
use queues::Queues;

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Counts what happens. Clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    counts: Option<Arc<Counts>>,
}

/// Every number there is.
#[derive(Debug)]
struct Counts {
    started: SystemTime,
    requests: Vec<PerMethod>,
    in_flight: Cell,
    connections: Cells<Transport>,
    connections_total: Cells<Transport>,
    link_bytes: Vec<Cells<Direction>>,
    sessions: Cells<SessionState>,
    sessions_opened: Cell,
    sessions_resumed: Cell,
    processes: Cells<ProcessOwner>,
    processes_started: Cell,
    processes_ended: Cells<EndCause>,
    output_bytes: Cells<OutputStream>,
    lost_bytes: Cell,
    lost_events: Cell,
    refused: Cells<RefusalReason>,
    audit_lost: Cell,
    spans_exported: Cell,
    spans_dropped: Cell,
    queues: Arc<Queues>,
}

#[derive(Debug, Default)]
struct PerMethod {
    outcomes: Cells<RequestOutcome>,
    durations: Histogram,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// Counts from nothing.
    pub fn new() -> Metrics {
        let counts = Counts {
            started: SystemTime::now(),
            requests: (0..METHOD_COUNT).map(|_| PerMethod::default()).collect(),
            in_flight: Cell::default(),
            connections: Cells::default(),
            connections_total: Cells::default(),
            link_bytes: Transport::ALL.iter().map(|_| Cells::default()).collect(),
            sessions: Cells::default(),
            sessions_opened: Cell::default(),
            sessions_resumed: Cell::default(),
            processes: Cells::default(),
            processes_started: Cell::default(),
            processes_ended: Cells::default(),
            output_bytes: Cells::default(),
            lost_bytes: Cell::default(),
            lost_events: Cell::default(),
            refused: Cells::default(),
            audit_lost: Cell::default(),
            spans_exported: Cell::default(),
            spans_dropped: Cell::default(),
            queues: Arc::default(),
        };
        Metrics { counts: Some(Arc::new(counts)) }
    }

    /// Counts nothing and renders nothing: for a daemon that nobody can ask.
    pub fn off() -> Metrics {
        Metrics { counts: None }
    }

    /// A request has come; anything that is no method of REXD counts as `other`.
    pub fn request(&self, method: &str) -> RequestTimer {
        RequestTimer::start(self.counts.clone(), method)
    }

    /// A connection was taken. It counts as open until the guard is dropped.
    pub fn connection(&self, transport: Transport) -> ConnectionGauge {
        ConnectionGauge::open(self.counts.clone(), transport)
    }

    /// Bytes went over a connection, as they were on the wire.
    pub fn link_bytes(&self, transport: Transport, direction: Direction, bytes: u64) {
        if let Some(cells) =
            self.counts.as_deref().and_then(|counts| counts.link_bytes.get(transport.place()))
        {
            cells.add(direction, bytes);
        }
    }

    /// A session was opened, on a connection that holds it. It counts until the guard is dropped.
    pub fn session_opened(&self) -> SessionGauge {
        SessionGauge::open(self.counts.clone())
    }

    /// A process was started. It counts as running until the guard is dropped or told of the end.
    pub fn process_started(&self, ownership: ProcessOwner) -> ProcessGauge {
        self.with(|counts| counts.processes_started.add(1));
        self.process_found(ownership)
    }

    /// A process that somebody else started is known from now on: a keeper's, after the daemon came back.
    pub fn process_found(&self, ownership: ProcessOwner) -> ProcessGauge {
        ProcessGauge::running(self.counts.clone(), ownership)
    }

    /// A process wrote something.
    pub fn output_bytes(&self, stream: impl Into<OutputStream>, bytes: u64) {
        self.with(|counts| counts.output_bytes.add(stream.into(), bytes));
    }

    /// A reader was told that it will never see this much of the output.
    pub fn lost_bytes(&self, bytes: u64) {
        self.with(|counts| counts.lost_bytes.add(bytes));
    }

    /// A client was told that it will never see this many events.
    pub fn lost_events(&self, events: u64) {
        self.with(|counts| counts.lost_events.add(events));
    }

    /// A connection or a request was turned away.
    pub fn refused(&self, reason: RefusalReason) {
        self.with(|counts| counts.refused.add(reason, 1));
    }

    /// Records could not be written to the audit.
    pub fn audit_lost(&self, records: u64) {
        self.with(|counts| counts.audit_lost.add(records));
    }

    /// Spans reached their collector.
    pub fn spans_exported(&self, spans: u64) {
        self.with(|counts| counts.spans_exported.add(spans));
    }

    /// Spans were given up: the queue was full, or no collector took them.
    pub fn spans_dropped(&self, spans: u64) {
        self.with(|counts| counts.spans_dropped.add(spans));
    }

    /// Shows how many wait in a queue, until the guard is dropped. Queues of one name are shown as their sum.
    /// `depth` is called while the metrics are rendered: it only looks, and never waits.
    pub fn queue(&self, name: &'static str, depth: impl Fn() -> usize + Send + Sync + 'static) -> QueueGauge {
        match &self.counts {
            Some(counts) => counts.queues.watch(name, Box::new(depth)),
            None => QueueGauge::none(),
        }
    }

    /// The page for Prometheus; to be served as [`CONTENT_TYPE`]. Empty when off.
    pub fn render(&self) -> String {
        self.counts.as_deref().map(render::page).unwrap_or_default()
    }

    fn with(&self, count: impl FnOnce(&Counts)) {
        if let Some(counts) = self.counts.as_deref() {
            count(counts);
        }
    }
}

#[cfg(test)]
mod tests;
