//! Spans: one request from its arrival to its answer.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::SpanQueue;
use super::context::TraceParent;
use crate::observe::metrics::Transport;

/// The longest text of an attribute; what a peer sends beyond it is cut.
const MAX_TEXT: usize = 256;

/// What a span says about its request from the start.
#[derive(Debug, Clone, Copy)]
pub struct RequestAttributes<'a> {
    /// The method as the peer wrote it.
    pub method: &'a str,
    /// Who asked, as proven.
    pub caller: &'a str,
    /// What carried it.
    pub transport: Transport,
}

/// A request under way. Dropped without an end, it says that it was cancelled.
#[derive(Debug)]
#[must_use = "the request counts as cancelled when this is dropped"]
pub struct Span {
    open: Option<Box<OpenSpan>>,
}

#[derive(Debug)]
struct OpenSpan {
    queue: Arc<SpanQueue>,
    span: FinishedSpan,
    since: Instant,
}

/// A span as it is exported.
#[derive(Debug, Clone)]
pub(super) struct FinishedSpan {
    pub(super) trace_id: String,
    pub(super) span_id: String,
    pub(super) parent: Option<String>,
    pub(super) method: String,
    pub(super) caller: String,
    pub(super) transport: Transport,
    pub(super) session: Option<String>,
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
    pub(super) result: SpanOutcome,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SpanOutcome {
    Done,
    Failed(i64),
    Cancelled,
}

impl Span {
    pub(super) fn none() -> Span {
        Span { open: None }
    }

    pub(super) fn begin(
        queue: Arc<SpanQueue>,
        asked: RequestAttributes<'_>,
        parent: Option<&TraceParent>,
    ) -> Span {
        let (own_trace, span_id) = queue.ids.next();
        let start = SystemTime::now();
        let span = FinishedSpan {
            trace_id: parent.map_or(own_trace, |parent| parent.trace_id.clone()),
            span_id,
            parent: parent.map(|parent| parent.span_id.clone()),
            method: cut(asked.method),
            caller: cut(asked.caller),
            transport: asked.transport,
            session: None,
            start,
            end: start,
            result: SpanOutcome::Cancelled,
        };
        Span { open: Some(Box::new(OpenSpan { queue, span, since: Instant::now() })) }
    }

    /// The session the request belongs to.
    pub fn session(&mut self, session: &str) {
        if let Some(open) = &mut self.open {
            open.span.session = Some(cut(session));
        }
    }

    /// The request is answered: with a result, or with an error of this code.
    pub fn end(mut self, error_code: Option<i64>) {
        self.finish(error_code.map_or(SpanOutcome::Done, SpanOutcome::Failed));
    }

    fn finish(&mut self, result: SpanOutcome) {
        let Some(open) = self.open.take() else { return };
        let OpenSpan { queue, mut span, since } = *open;
        // A clock that was set meanwhile does not make the request longer or shorter.
        span.end = span.start + since.elapsed();
        span.result = result;
        queue.put(span);
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.finish(SpanOutcome::Cancelled);
    }
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}
