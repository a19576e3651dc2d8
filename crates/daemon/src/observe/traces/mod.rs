//! Traces: one OpenTelemetry span per request, if a collector is configured.
//!
//! A request starts a [`Span`] and ends it, which puts one small struct into a bounded queue. One task sends batches to
//! the collector as OTLP over HTTP, in JSON. If the collector is slow or unreachable, spans are dropped and counted; no
//! request waits for it.

mod context;
mod export;
mod otlp;
mod settings;
mod span;

pub use context::TraceParent;
pub use export::ExporterHandle;
pub use settings::{ExportTiming, TraceSettings, TraceSettingsError, check_endpoint};
pub use span::{RequestAttributes, Span};

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::observe::metrics::Metrics;
use context::IdGenerator;
use export::Exporter;
use span::FinishedSpan;

/// Capacity of the span queue: 2,048. When it is full, new spans are dropped and counted.
pub const QUEUE_CAPACITY: usize = 2_048;

/// Creates the spans of requests. Clones share one queue.
#[derive(Debug, Clone)]
pub struct Traces {
    queue: Option<Arc<SpanQueue>>,
}

#[derive(Debug)]
struct SpanQueue {
    spans: mpsc::Sender<FinishedSpan>,
    ids: IdGenerator,
    metrics: Metrics,
}

impl Traces {
    /// Traces that are off: spans are empty.
    pub fn off() -> Traces {
        Traces { queue: None }
    }

    /// Starts the exporter task. Requires a Tokio runtime; [`ExporterHandle::finish`] sends the remaining spans.
    pub fn start(settings: TraceSettings, metrics: Metrics) -> (Traces, ExporterHandle) {
        let (spans, queued) = mpsc::channel(QUEUE_CAPACITY);
        let ids = IdGenerator::default();
        let watched = {
            let spans = spans.downgrade();
            let depth = move || spans.upgrade().map_or(0, |spans| spans.max_capacity() - spans.capacity());
            metrics.queue("spans", depth)
        };
        let exporting = ExporterHandle::spawn(Exporter::new(settings, metrics.clone(), queued), watched);
        (Traces { queue: Some(Arc::new(SpanQueue { spans, ids, metrics })) }, exporting)
    }

    /// Whether spans are exported. If not, callers need not parse a trace parent.
    pub fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Starts the span of a request. It is not exported if the trace of `parent` is not sampled.
    pub fn begin(&self, request: RequestAttributes<'_>, parent: Option<&TraceParent>) -> Span {
        match &self.queue {
            Some(queue) if parent.is_none_or(TraceParent::is_sampled) => {
                Span::begin(queue.clone(), request, parent)
            }
            Some(_) | None => Span::none(),
        }
    }
}

impl SpanQueue {
    /// Queues a span without waiting; drops and counts it when the queue is full.
    fn put(&self, span: FinishedSpan) {
        if self.spans.try_send(span).is_err() {
            self.metrics.spans_dropped(1);
        }
    }
}

#[cfg(test)]
mod tests;
