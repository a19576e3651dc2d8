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

pub use cells::GaugeGuard;
pub use gauges::{ProcessGauge, RequestTimer, SessionGauge};
pub use labels::{
    Direction, FaceMethods, Label, OTHER_METHOD, ProcessOwner, RefusalReason, RequestOutcome, SessionState,
    Transport,
};
pub use queues::QueueGauge;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use engine::process::{ExitCause, Stream};

use cells::{Cell, Cells, Histogram};
use queues::Queues;

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of a daemon. Clones share the counters.
#[derive(Debug, Clone)]
pub struct Metrics {
    counts: Arc<Counts>,
}

/// All counters.
#[derive(Debug, Default)]
struct Counts {
    /// The start of the daemon, since the Unix epoch.
    started: Duration,
    requests: Vec<MethodCounts>,
    in_flight: Cell,
    connections: Arc<Cells<Transport>>,
    connections_total: Cells<Transport>,
    link_bytes: [Cells<Direction>; Transport::ALL.len()],
    sessions: Arc<Cells<SessionState>>,
    sessions_opened: Cell,
    sessions_resumed: Cell,
    processes: Arc<Cells<ProcessOwner>>,
    processes_started: Cell,
    processes_ended: Cells<ExitCause>,
    output_bytes: Cells<Stream>,
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
    fn method_index(&self, face: &str, method: &str) -> Option<usize> {
        let index = |method| self.requests.iter().position(|row| row.face == face && row.method == method);
        index(method).or_else(|| index(OTHER_METHOD))
    }
}

impl Metrics {
    /// Counters at zero, with one set of request counters for each method of each face.
    pub fn new(faces: &[FaceMethods]) -> Metrics {
        let row = |face, method| MethodCounts {
            face,
            method,
            outcomes: Cells::default(),
            durations: Histogram::default(),
        };
        let rows = faces.iter().flat_map(|FaceMethods { face, methods }| {
            methods.iter().chain([&OTHER_METHOD]).map(move |method| row(face, method))
        });
        let (started, requests) = (UNIX_EPOCH.elapsed().unwrap_or_default(), rows.collect());
        Metrics { counts: Arc::new(Counts { started, requests, ..Counts::default() }) }
    }

    /// Metrics without request counters, for a daemon that does not serve `/metrics`.
    pub fn off() -> Metrics {
        Metrics::new(&[])
    }

    /// Counts a request from now until the timer is finished. A method that the face did not register counts as
    /// [`OTHER_METHOD`], so that no peer can add a series.
    pub fn request(&self, face: &'static str, method: &str) -> RequestTimer {
        RequestTimer::start(self.counts.clone(), face, method)
    }

    /// Counts an accepted connection; it is open until the guard is dropped.
    pub fn connection(&self, transport: Transport) -> GaugeGuard<Transport> {
        self.counts.connections_total.of(transport).add(1);
        self.counts.connections.raise(transport)
    }

    /// Counts bytes on the wire.
    pub fn link_bytes(&self, transport: Transport, direction: Direction, bytes: u64) {
        self.counts.link_bytes[transport.index()].of(direction).add(bytes);
    }

    /// Counts a new session, attached to a connection, until the gauge is dropped.
    pub fn session_opened(&self) -> SessionGauge {
        self.counts.sessions_opened.add(1);
        let state = self.counts.sessions.raise(SessionState::Attached);
        SessionGauge { counts: self.counts.clone(), state }
    }

    /// Counts a started process; it is running until the gauge is dropped or ended.
    pub fn process_started(&self, owner: ProcessOwner) -> ProcessGauge {
        self.counts.processes_started.add(1);
        ProcessGauge { counts: self.counts.clone(), _running: self.counts.processes.raise(owner) }
    }

    /// Counts output of a process.
    pub fn output_bytes(&self, stream: Stream, bytes: u64) {
        self.counts.output_bytes.of(stream).add(bytes);
    }

    /// Counts output that was reported to a reader as lost.
    pub fn lost_bytes(&self, bytes: u64) {
        self.counts.lost_bytes.add(bytes);
    }

    /// Counts events that were reported to a client as lost.
    pub fn lost_events(&self, events: u64) {
        self.counts.lost_events.add(events);
    }

    /// Counts a refused connection or request.
    pub fn refused(&self, reason: RefusalReason) {
        self.counts.refused.of(reason).add(1);
    }

    /// Counts audit records that could not be written.
    pub fn audit_lost(&self, records: u64) {
        self.counts.audit_lost.add(records);
    }

    /// Counts spans that the collector accepted.
    pub fn spans_exported(&self, spans: u64) {
        self.counts.spans_exported.add(spans);
    }

    /// Counts spans dropped because the queue was full or the collector did not accept them.
    pub fn spans_dropped(&self, spans: u64) {
        self.counts.spans_dropped.add(spans);
    }

    /// Reports the length of a queue until the gauge is dropped; queues of one name are summed. `depth` is called when
    /// the page is rendered and must not block.
    pub fn queue(&self, name: &'static str, depth: impl Fn() -> usize + Send + Sync + 'static) -> QueueGauge {
        self.counts.queues.watch(name, Box::new(depth))
    }

    /// The page for Prometheus, of type [`CONTENT_TYPE`].
    pub fn render(&self) -> String {
        render::page(&self.counts)
    }
}

#[cfg(test)]
mod tests;
