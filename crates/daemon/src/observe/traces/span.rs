//! The span of one request, from its arrival to its response.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::SpanQueue;
use super::context::TraceParent;
use crate::observe::metrics::Transport;

/// The maximal length of an attribute in bytes; longer text from a peer is cut.
const MAX_ATTRIBUTE_BYTES: usize = 256;

/// The attributes of a request that are known when its span starts.
#[derive(Debug, Clone, Copy)]
pub struct RequestAttributes<'a> {
    /// The face that received the request.
    pub face: &'static str,
    /// The span's name: the method's name in the table of its face, or [`OTHER_METHOD`](crate::observe::metrics::OTHER_METHOD).
    pub name: &'static str,
    /// The method as the peer wrote it.
    pub method: &'a str,
    /// The authenticated caller.
    pub caller: &'a str,
    /// The transport of its connection.
    pub transport: Transport,
}

/// The span of a request in progress. A span that is dropped reports the request as cancelled.
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

/// A span that is ready for export.
#[derive(Debug, Clone)]
pub(super) struct FinishedSpan {
    pub(super) trace_id: String,
    pub(super) span_id: String,
    pub(super) parent: Option<String>,
    pub(super) face: &'static str,
    pub(super) name: &'static str,
    pub(super) method: String,
    pub(super) caller: String,
    pub(super) transport: Transport,
    pub(super) session: Option<String>,
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
    pub(super) result: SpanOutcome,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SpanOutcome {
    Ok,
    Error(i64),
    Cancelled,
}

impl Span {
    pub(super) fn none() -> Span {
        Span { open: None }
    }

    pub(super) fn begin(
        queue: Arc<SpanQueue>,
        request: RequestAttributes<'_>,
        parent: Option<&TraceParent>,
    ) -> Span {
        let (own_trace, span_id) = queue.ids.next();
        let start = SystemTime::now();
        let span = FinishedSpan {
            trace_id: parent.map_or(own_trace, |parent| parent.trace_id.clone()),
            span_id,
            parent: parent.map(|parent| parent.span_id.clone()),
            face: request.face,
            name: request.name,
            method: truncated(request.method),
            caller: truncated(request.caller),
            transport: request.transport,
            session: None,
            start,
            end: start,
            result: SpanOutcome::Cancelled,
        };
        Span { open: Some(Box::new(OpenSpan { queue, span, since: Instant::now() })) }
    }

    /// Sets the session of the request.
    pub fn session(&mut self, session: &str) {
        if let Some(open) = &mut self.open {
            open.span.session = Some(truncated(session));
        }
    }

    /// Ends the span: the response is a result, or an error with this code.
    pub fn end(mut self, error_code: Option<i64>) {
        self.finish(error_code.map_or(SpanOutcome::Ok, SpanOutcome::Error));
    }

    fn finish(&mut self, result: SpanOutcome) {
        let Some(open) = self.open.take() else { return };
        let OpenSpan { queue, mut span, since } = *open;
        // From the monotonic clock: setting the system clock must not change the duration.
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

fn truncated(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_ATTRIBUTE_BYTES)].to_owned()
}
