//! OTLP: spans as the JSON form of an `ExportTraceServiceRequest`.
//!
//! Its mapping of protobuf to JSON has three particulars: ids are hexadecimal, 64-bit numbers are texts, enums are
//! numbers.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::span::{FinishedSpan, SpanOutcome};
use crate::observe::metrics::Transport;

/// `SPAN_KIND_SERVER`.
const KIND_SERVER: u8 = 2;
/// `STATUS_CODE_ERROR`. Success is left unset: that is for applications to claim.
const STATUS_ERROR: u8 = 2;
/// The code that JSON-RPC peers give a cancelled request.
const CANCELLED: i64 = -32_800;

/// One request with all of these spans.
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

fn span(ended: &FinishedSpan) -> Value {
    let mut span = Map::new();
    let mut put = |key: &str, value: Value| span.insert(key.to_owned(), value);
    put("traceId", ended.trace_id.as_str().into());
    put("spanId", ended.span_id.as_str().into());
    if let Some(parent) = &ended.parent {
        put("parentSpanId", parent.as_str().into());
    }
    // The method goes into the name only if it is one: names are meant to be few.
    let known = wire::rexd::v1::method(&ended.method).map_or("other", |method| method.name);
    put("name", known.into());
    put("kind", KIND_SERVER.into());
    put("startTimeUnixNano", nanos(ended.start).into());
    put("endTimeUnixNano", nanos(ended.end).into());
    put("attributes", attributes(ended).into());
    let status = match &ended.result {
        SpanOutcome::Done => json!({}),
        SpanOutcome::Failed(code) => json!({ "code": STATUS_ERROR, "message": format!("error {code}") }),
        SpanOutcome::Cancelled => json!({ "code": STATUS_ERROR, "message": "cancelled" }),
    };
    put("status", status);
    Value::Object(span)
}

fn attributes(ended: &FinishedSpan) -> Vec<Value> {
    let mut attributes = vec![
        text("rpc.system", "jsonrpc"),
        text("rpc.jsonrpc.version", "2.0"),
        text("rpc.method", &ended.method),
        text("rexd.caller", &ended.caller),
        text("rexd.transport", ended.transport.word()),
        text("network.transport", network(ended.transport)),
    ];
    attributes.extend(ended.session.as_deref().map(|session| text("rexd.session", session)));
    let code = match ended.result {
        SpanOutcome::Done => None,
        SpanOutcome::Failed(code) => Some(code),
        SpanOutcome::Cancelled => Some(CANCELLED),
    };
    if let Some(code) = code {
        attributes
            .push(json!({ "key": "rpc.jsonrpc.error_code", "value": { "intValue": code.to_string() } }));
        attributes.push(text("error.type", &code.to_string()));
    }
    attributes
}

/// The word OpenTelemetry has for what is below.
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
