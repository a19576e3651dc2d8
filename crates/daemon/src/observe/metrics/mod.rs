//! Counters and gauges in the format of Prometheus.
//!
//! [`Metrics`] is cheap to clone. Counting takes a few relaxed atomic operations, no lock and no allocation. A gauge is
//! an object that lowers its count when it is dropped, so that every exit from a function lowers it.

mod cells;
mod gauges;
mod labels;
mod own;
mod queues;
mod render;
mod text;

pub use gauges::{ConnectionGauge, ProcessGauge, RequestTimer, SessionGauge};
pub use labels::{
    Direction, EndCause, FaceMethods, OTHER_METHOD, OutputStream, ProcessOwner, RefusalReason,
    RequestOutcome, SessionState, Transport,
};
pub use queues::QueueGauge;

use std::sync::Arc;
use std::time::SystemTime;

use cells::{Cell, Cells, Histogram};
use labels::Label as _;
use queues::Queues;

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of a daemon. Clones share the counters.
#[derive(Debug, Clone)]
pub struct Metrics {
    counts: Option<Arc<Counts>>,
}

/// All counters.
#[derive(Debug)]
struct Counts {
    started: SystemTime,
    requests: Vec<MethodCounts>,
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

/// The requests of one method of one face.
#[derive(Debug)]
struct MethodCounts {
    face: &'static str,
    method: &'static str,
    outcomes: Cells<RequestOutcome>,
    durations: Histogram,
}

impl Counts {
    /// The index of a method in `requests`; of its face's [`OTHER_METHOD`] if the method is unknown.
    fn method_index(&self, face: &str, method: &str) -> usize {
        let index = |method| self.requests.iter().position(|row| row.face == face && row.method == method);
        index(method).or_else(|| index(OTHER_METHOD)).unwrap_or(usize::MAX)
    }
}

impl MethodCounts {
    fn new(face: &'static str, method: &'static str) -> MethodCounts {
        MethodCounts { face, method, outcomes: Cells::default(), durations: Histogram::default() }
    }
}

impl Metrics {
    /// Counters at zero, with one set of request counters for each method of each face.
    pub fn new(faces: &[FaceMethods]) -> Metrics {
        let methods = faces.iter().flat_map(|FaceMethods { face, methods }| {
            methods.iter().chain([&OTHER_METHOD]).map(|method| MethodCounts::new(face, method))
        });
        let counts = Counts {
            started: SystemTime::now(),
            requests: methods.collect(),
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

    /// Metrics that count nothing and render an empty page, for a daemon without `/metrics`.
    pub fn off() -> Metrics {
        Metrics { counts: None }
    }

    /// Counts a request from now until the timer is finished. A method that the face did not register counts as
    /// [`OTHER_METHOD`], so that no peer can add a series.
    pub fn request(&self, face: &'static str, method: &str) -> RequestTimer {
        RequestTimer::start(self.counts.clone(), face, method)
    }

    /// Counts an accepted connection; it is open until the gauge is dropped.
    pub fn connection(&self, transport: Transport) -> ConnectionGauge {
        ConnectionGauge::open(self.counts.clone(), transport)
    }

    /// Counts bytes on the wire.
    pub fn link_bytes(&self, transport: Transport, direction: Direction, bytes: u64) {
        if let Some(cells) =
            self.counts.as_deref().and_then(|counts| counts.link_bytes.get(transport.index()))
        {
            cells.add(direction, bytes);
        }
    }

    /// Counts a new session, attached to a connection, until the gauge is dropped.
    pub fn session_opened(&self) -> SessionGauge {
        SessionGauge::open(self.counts.clone())
    }

    /// Counts a started process; it is running until the gauge is dropped or ended.
    pub fn process_started(&self, ownership: ProcessOwner) -> ProcessGauge {
        self.with(|counts| counts.processes_started.add(1));
        self.process_found(ownership)
    }

    /// Counts a running process that another daemon started under a keeper.
    pub fn process_found(&self, ownership: ProcessOwner) -> ProcessGauge {
        ProcessGauge::running(self.counts.clone(), ownership)
    }

    /// Counts output of a process.
    pub fn output_bytes(&self, stream: impl Into<OutputStream>, bytes: u64) {
        self.with(|counts| counts.output_bytes.add(stream.into(), bytes));
    }

    /// Counts output that was reported to a reader as lost.
    pub fn lost_bytes(&self, bytes: u64) {
        self.with(|counts| counts.lost_bytes.add(bytes));
    }

    /// Counts events that were reported to a client as lost.
    pub fn lost_events(&self, events: u64) {
        self.with(|counts| counts.lost_events.add(events));
    }

    /// Counts a refused connection or request.
    pub fn refused(&self, reason: RefusalReason) {
        self.with(|counts| counts.refused.add(reason, 1));
    }

    /// Counts audit records that could not be written.
    pub fn audit_lost(&self, records: u64) {
        self.with(|counts| counts.audit_lost.add(records));
    }

    /// Counts spans that the collector accepted.
    pub fn spans_exported(&self, spans: u64) {
        self.with(|counts| counts.spans_exported.add(spans));
    }

    /// Counts spans dropped because the queue was full or the collector did not accept them.
    pub fn spans_dropped(&self, spans: u64) {
        self.with(|counts| counts.spans_dropped.add(spans));
    }

    /// Reports the length of a queue until the gauge is dropped; queues of one name are summed. `depth` is called when
    /// the page is rendered and must not block.
    pub fn queue(&self, name: &'static str, depth: impl Fn() -> usize + Send + Sync + 'static) -> QueueGauge {
        match &self.counts {
            Some(counts) => counts.queues.watch(name, Box::new(depth)),
            None => QueueGauge::none(),
        }
    }

    /// The page for Prometheus, of type [`CONTENT_TYPE`]; empty when metrics are off.
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
