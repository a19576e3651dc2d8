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
pub use export::Exporting;
pub use http::Endpoint;
pub use settings::{Pace, Settings, SettingsError};
pub use span::{Asked, Span};

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::observe::metrics::Metrics;
use context::Ids;
use export::Exporter;
use span::Ended;

/// Spans that wait for the exporter; past it new ones are dropped and counted.
pub const SPANS_WAITING: usize = 2_048;

/// Where requests get their spans from. Clones share one queue.
#[derive(Debug, Clone)]
pub struct Traces {
    queue: Option<Arc<Queue>>,
}

#[derive(Debug)]
struct Queue {
    spans: mpsc::Sender<Ended>,
    ids: Ids,
    metrics: Metrics,
}

impl Traces {
    /// No traces: every span is empty and costs nothing.
    pub fn off() -> Traces {
        Traces { queue: None }
    }

    /// Starts exporting. Must be called within a runtime; [`Exporting::finish`] sends the rest at the end.
    pub fn start(settings: Settings, metrics: Metrics) -> std::io::Result<(Traces, Exporting)> {
        let (spans, waiting) = mpsc::channel(SPANS_WAITING);
        let ids = Ids::seeded()?;
        let watched = {
            let spans = spans.downgrade();
            let depth = move || spans.upgrade().map_or(0, |spans| spans.max_capacity() - spans.capacity());
            metrics.queue("spans", depth)
        };
        let exporting = Exporting::spawn(Exporter::new(settings, metrics.clone(), waiting), watched);
        Ok((Traces { queue: Some(Arc::new(Queue { spans, ids, metrics })) }, exporting))
    }

    /// Whether anybody wants spans: then it is worth looking for a parent.
    pub fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Begins the span of a request. Whoever made `parent` decides whether it is kept.
    pub fn begin(&self, asked: Asked<'_>, parent: Option<&TraceParent>) -> Span {
        match &self.queue {
            Some(queue) if parent.is_none_or(TraceParent::is_sampled) => {
                Span::begin(queue.clone(), asked, parent)
            }
            _ => Span::none(),
        }
    }
}

impl Queue {
    /// Never waits: a span that finds no room is dropped and counted.
    fn put(&self, span: Ended) {
        if self.spans.try_send(span).is_err() {
            self.metrics.spans_dropped(1);
        }
    }
}

#[cfg(test)]
mod tests;
