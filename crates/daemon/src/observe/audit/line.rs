//! The JSON form of an audit record, with secrets replaced.

use std::io::Write;
use std::time::SystemTime;

use engine::audit::{AuditOutcome, AuditRecord, Detail, PolicyOutcome};
use engine::process::ExitStatus;
use serde_json::{Map, Value, json};

use super::chain::Hash;
use super::redact;

/// The maximal length of a string in bytes; the rest is cut and counted.
const MAX_TEXT: usize = 4_096;
/// The maximal number of elements of a list; the rest is cut and counted.
const MAX_ITEMS: usize = 256;

/// Writes a record as a JSON object without its closing brace.
pub(super) fn body(record: &AuditRecord, out: &mut Vec<u8>) {
    let params: Map<String, Value> =
        record.details.iter().map(|(name, detail)| (name.to_string(), value(name, detail))).collect();
    let mut fields = vec![
        ("timestamp", Value::from(timestamp(record.time))),
        ("session_id", record.session.as_deref().map_or(Value::Null, |session| text(session).into())),
        ("caller", text(&record.caller).into()),
        ("client_name", text(&record.client).into()),
        ("face", record.face.into()),
        ("method", text(&record.operation).into()),
        ("params", Value::Object(params)),
    ];
    if let Some(address) = &record.address {
        fields.push(("address", text(address).into()));
    }
    match &record.outcome {
        AuditOutcome::Done(summary) => fields.push(("result", text(&redact::redact_text(summary)).into())),
        AuditOutcome::Failed { code, message } => {
            let message = text(&redact::redact_text(message));
            fields.push(("error", json!({ "code": code, "message": message })));
        }
    }
    match record.exit {
        Some(ExitStatus::Code(code)) => fields.push(("exit_code", code.into())),
        Some(ExitStatus::Signal(signal)) => {
            fields.push(("exit_code", (-1).into()));
            fields.push(("signal", signal.number().into()));
        }
        None => {}
    }
    fields.push(("duration_us", u64::try_from(record.duration.as_micros()).unwrap_or(u64::MAX).into()));
    if let Some(outcome) = &record.decision {
        decision(outcome, &mut fields);
    }
    object(&fields, out);
}

/// The policy's decision, and the result of an approval.
fn decision(outcome: &PolicyOutcome, fields: &mut Vec<(&str, Value)>) {
    fields.push(("rule", text(&outcome.rule).into()));
    fields.push(("decision", outcome.verdict.name().into()));
    let Some(approval) = &outcome.approval else { return };
    if let Some(id) = &approval.id {
        fields.push(("approval_id", text(id).into()));
    }
    fields.push(("approval", approval.outcome.name().into()));
    if let Some(by) = &approval.by {
        fields.push(("approver", text(by).into()));
    }
    if let Some(scope) = approval.scope {
        fields.push(("approval_scope", scope.into()));
    }
}

/// Writes a line that accounts for bytes in the file that are not records.
pub(super) fn recovered(bytes: &[u8], out: &mut Vec<u8>) {
    let now = Value::from(timestamp(SystemTime::now()));
    let account = json!({ "bytes": bytes.len(), "sha256": Hash::of(&[bytes]).as_str() });
    object(&[("timestamp", now), ("recovered", account)], out);
}

/// Writes a line with the number of records that could not be written.
pub(super) fn lost(records: u64, out: &mut Vec<u8>) {
    object(&[("timestamp", timestamp(SystemTime::now()).into()), ("lost", records.into())], out);
}

/// Writes an object without its closing brace, with the fields in the given order.
fn object(fields: &[(&str, Value)], out: &mut Vec<u8>) {
    let mut separator = '{';
    for (name, value) in fields {
        // Writing to memory cannot fail.
        write!(out, "{separator}\"{name}\":{value}").unwrap_or_default();
        separator = ',';
    }
}

fn value(name: &str, detail: &Detail) -> Value {
    if redact::is_secret_name(name) {
        return redact::HIDDEN.into();
    }
    match detail {
        Detail::Text(plain) => text(&redact::redact_text(plain)).into(),
        Detail::Shell(line) => text(&redact::redact_text(line)).into(),
        Detail::Argv(argv) => list(redact::redact_argv(&argv[..argv.len().min(MAX_ITEMS)]), argv.len()),
        Detail::List(items) => list(
            items.iter().take(MAX_ITEMS).map(|item| redact::redact_text(item).into_owned()).collect(),
            items.len(),
        ),
        Detail::Number(number) => (*number).into(),
        Detail::Flag(flag) => (*flag).into(),
        Detail::Hidden { bytes } => json!({ "hidden_bytes": bytes }),
    }
}

fn list(kept: Vec<String>, count: usize) -> Value {
    let mut items: Vec<Value> = kept.iter().map(|item| text(item).into()).collect();
    if count > items.len() {
        items.push(format!("…{} more", count - items.len()).into());
    }
    items.into()
}

/// The text, cut to [`MAX_TEXT`].
fn text(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let cut = text.floor_char_boundary(MAX_TEXT);
    format!("{}…{} bytes more", &text[..cut], text.len() - cut)
}

/// RFC 3339 in UTC with nanoseconds.
fn timestamp(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map(|time| format!("{time:.9}")).unwrap_or_default()
}
