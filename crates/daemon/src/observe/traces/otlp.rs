//! Spans as OTLP's JSON form of an `ExportTraceServiceRequest`.
//!
//! In this form ids are hexadecimal, 64-bit integers are strings and enums are numbers.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::span::{FinishedSpan, SpanOutcome};
use crate::observe::metrics::{Label as _, Transport};

/// `SPAN_KIND_SERVER`.
const KIND_SERVER: u8 = 2;
/// `STATUS_CODE_ERROR`. OpenTelemetry wants the status unset on success.
const STATUS_ERROR: u8 = 2;
/// The JSON-RPC error code of a cancelled request.
const CANCELLED: i64 = -32_800;

/// The export request for these spans.
pub(super) fn request(resource: &[(String, String)], spans: &[FinishedSpan]) -> Value {
    let attributes: Vec<Value> = resource.iter().map(|(key, value)| text(key, value)).collect();
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({
        "resourceSpans": [{
            "resource": { "attributes": attributes },
            "scopeSpans": [{
                "scope": { "name": "rexd", "version": env!("CARGO_PKG_VERSION") },
                "spans": spans,
            }],
        }],
    })
}

fn span(span: &FinishedSpan) -> Value {
    let mut json = Map::new();
    let mut put = |key: &str, value: Value| json.insert(key.to_owned(), value);
    put("traceId", span.trace_id.as_str().into());
    put("spanId", span.span_id.as_str().into());
    if let Some(parent) = &span.parent {
        put("parentSpanId", parent.as_str().into());
    }
    put("name", span.name.into());
    put("kind", KIND_SERVER.into());
    put("startTimeUnixNano", nanos(span.start).into());
    put("endTimeUnixNano", nanos(span.end).into());
    put("attributes", attributes(span).into());
    let status = match &span.result {
        SpanOutcome::Ok => json!({}),
        SpanOutcome::Error(code) => json!({ "code": STATUS_ERROR, "message": format!("error {code}") }),
        SpanOutcome::Cancelled => json!({ "code": STATUS_ERROR, "message": "cancelled" }),
    };
    put("status", status);
    Value::Object(json)
}

fn attributes(span: &FinishedSpan) -> Vec<Value> {
    let mut attributes = vec![
        text("rpc.system", "jsonrpc"),
        text("rpc.jsonrpc.version", "2.0"),
        text("rpc.method", &span.method),
        text("rexd.face", span.face),
        text("rexd.caller", &span.caller),
        text("rexd.transport", span.transport.word()),
        text("network.transport", network(span.transport)),
    ];
    attributes.extend(span.session.as_deref().map(|session| text("rexd.session", session)));
    let code = match span.result {
        SpanOutcome::Ok => None,
        SpanOutcome::Error(code) => Some(code),
        SpanOutcome::Cancelled => Some(CANCELLED),
    };
    if let Some(code) = code {
        attributes
            .push(json!({ "key": "rpc.jsonrpc.error_code", "value": { "intValue": code.to_string() } }));
        attributes.push(text("error.type", &code.to_string()));
    }
    attributes
}

/// OpenTelemetry's `network.transport` for a transport of ours.
fn network(transport: Transport) -> &'static str {
    match transport {
        Transport::Stdio => "pipe",
        Transport::Unix => "unix",
        Transport::Http | Transport::Ws => "tcp",
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
