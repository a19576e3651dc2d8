//! Traces: one OpenTelemetry span per request, for operators who ask for it and nobody else.
//!
//! A request begins a [`Span`] and ends it; that costs one small struct and a place in a bounded queue. One task sends
//! what gathered to a collector as OTLP over HTTP, in JSON. A collector that is slow or gone costs spans, which are
//! counted, and never a request.

mod context;
mod export;
mod http;
mod otlp;
mod settings;
mod span;

pub use context::TraceParent;
pub use export::ExporterHandle;
pub use http::Endpoint;
pub use settings::{ExportTiming, TraceSettings, TraceSettingsError};
pub use span::{RequestAttributes, Span};

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::observe::metrics::Metrics;
use context::Ids;
use export::Exporter;
use span::FinishedSpan;

/// Spans that wait for the exporter; past it new ones are dropped and counted.
pub const SPANS_WAITING: usize = 2_048;

/// Where requests get their spans from. Clones share one queue.
#[derive(Debug, Clone)]
pub struct Traces {
    queue: Option<Arc<SpanQueue>>,
}

#[derive(Debug)]
struct SpanQueue {
    spans: mpsc::Sender<FinishedSpan>,
    ids: Ids,
    metrics: Metrics,
}

impl Traces {
    /// No traces: every span is empty and costs nothing.
    pub fn off() -> Traces {
        Traces { queue: None }
    }

    /// Starts exporting. Must be called within a runtime; [`ExporterHandle::finish`] sends the rest at the end.
    pub fn start(settings: TraceSettings, metrics: Metrics) -> std::io::Result<(Traces, ExporterHandle)> {
        let (spans, waiting) = mpsc::channel(SPANS_WAITING);
        let ids = Ids::seeded()?;
        let watched = {
            let spans = spans.downgrade();
            let depth = move || spans.upgrade().map_or(0, |spans| spans.max_capacity() - spans.capacity());
            metrics.queue("spans", depth)
        };
        let exporting = ExporterHandle::spawn(Exporter::new(settings, metrics.clone(), waiting), watched);
        Ok((Traces { queue: Some(Arc::new(SpanQueue { spans, ids, metrics })) }, exporting))
    }

    /// Whether anybody wants spans: then it is worth looking for a parent.
    pub fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Begins the span of a request. Whoever made `parent` decides whether it is kept.
    pub fn begin(&self, asked: RequestAttributes<'_>, parent: Option<&TraceParent>) -> Span {
        match &self.queue {
            Some(queue) if parent.is_none_or(TraceParent::is_sampled) => {
                Span::begin(queue.clone(), asked, parent)
            }
            _ => Span::none(),
        }
    }
}

impl SpanQueue {
    /// Never waits: a span that finds no room is dropped and counted.
    fn put(&self, span: FinishedSpan) {
        if self.spans.try_send(span).is_err() {
            self.metrics.spans_dropped(1);
        }
    }
}

#[cfg(test)]
mod tests;
