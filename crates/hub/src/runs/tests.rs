//! Tests of the states of a run.

use serde_json::json;

use super::*;

fn event(kind: &str, seq: i64, data: &Value) -> HostEvent {
    let envelope = json!({ "type": kind, "run_id": "r", "seq": seq, "data": data }).to_string();
    HostEvent::parse(Envelope::parse(&envelope).unwrap(), "h", "2026-01-01T00:00:00Z").unwrap()
}

#[test]
fn a_late_event_does_not_change_a_status_that_a_later_one_set() {
    let mut run = Run::new("r", "h", 5);
    run.apply(&event(kind::RUN_EXITED, 4, &json!({ "exit_code": 3 })), 6);
    run.apply(&event(kind::RUN_STARTED, 1, &json!({ "tool": "t", "cwd": "/", "command": "c" })), 7);
    let request = json!({ "request_id": "q", "reason": "permission", "approve_text": "" });
    let changes = run.apply(&event(kind::RUN_PERMISSION_REQUESTED, 2, &request), 8);
    assert_eq!((run.status, run.exit_code, run.tool.as_deref()), (RunStatus::Exited, Some(3), Some("t")));
    assert_eq!(changes.last(), Some(&ApprovalChange::Withdrawn));
    assert_eq!(run.pending, None);
}

#[test]
fn a_request_about_an_ended_run_stays_pending() {
    let mut run = Run::new("r", "h", 5);
    run.apply(&event(kind::RUN_EXITED, 1, &json!({ "exit_code": 0 })), 6);
    let request = json!({ "request_id": "q", "op_tool": "rpc.fs.write", "approve_text": "" });
    let changes = run.apply(&event(kind::RUN_PERMISSION_REQUESTED, 2, &request), 7);
    assert!(matches!(changes.as_slice(), [ApprovalChange::Requested { seq: 2, .. }]), "{changes:?}");
    assert_eq!((run.status, run.pending), (RunStatus::Exited, None));
}

#[test]
fn a_request_of_a_host_whose_clock_is_off_by_a_year_expires_when_it_should() {
    let now: jiff::Timestamp = "2026-11-17T10:00:00Z".parse().unwrap();
    for (ts, expires) in [
        ("2026-11-17T10:00:00Z", "2026-11-17T10:05:00Z"),
        ("2025-11-17T10:00:00Z", "2025-11-17T10:05:00Z"),
        ("2027-11-17T10:00:00Z", "2027-11-17T10:05:00Z"),
    ] {
        let data = json!({ "request_id": "q", "approve_text": "y", "expires_at": expires });
        let request = HostEvent { ts: ts.to_owned(), ..event(kind::RUN_PERMISSION_REQUESTED, 1, &data) };
        let changes = Run::new("r", "h", 5).apply(&request, now.as_millisecond());
        let [ApprovalChange::Requested { expires_ms, .. }] = changes.as_slice() else {
            panic!("{changes:?}")
        };
        assert_eq!(*expires_ms, Some(now.as_millisecond() + 300_000), "{ts}");
    }
}

#[test]
fn an_operation_that_waits_in_the_host_is_not_answered_by_typing() {
    let mut run = Run::new("r", "h", 5);
    let request = json!({ "request_id": "q", "op_tool": "bash", "approve_text": "" });
    run.apply(&event(kind::RUN_PERMISSION_REQUESTED, 1, &request), 6);
    run.apply(&event(kind::RUN_INPUT, 2, &json!({ "input_id": "i" })), 6);
    assert_eq!(run.status, RunStatus::AwaitingApproval);
    run.apply(&event(kind::TOOL_RESULT, 3, &json!({ "request_id": "q", "ok": true })), 6);
    assert_eq!((run.status, run.pending), (RunStatus::Running, None));
}

#[test]
fn invalid_events_are_rejected() {
    for (text, code) in [
        (r#"{"type":"run.output","run_id":"r","seq":0}"#, "bad_seq"),
        (r#"{"type":"run.output","run_id":"r","seq":-1}"#, "bad_seq"),
        (r#"{"type":"run.output","run_id":"r"}"#, "bad_seq"),
        (r#"{"type":"run.output","run_id":"r","seq":9007199254740993}"#, "bad_seq"),
        (r#"{"type":"run.output","seq":1}"#, "bad_message"),
        (r#"{"type":"run.output","run_id":"","seq":1}"#, "bad_message"),
        (r#"{"type":"run.output","run_id":"a\u0000b","seq":1}"#, "bad_message"),
        (r#"{"type":"run.output","run_id":"r","seq":1,"data":[1]}"#, "bad_message"),
        (
            r#"{"type":"run.lost","run_id":"r","seq":5,"data":{"first_seq":2,"last_seq":4,"bytes":1}}"#,
            "bad_message",
        ),
    ] {
        let parsed = HostEvent::parse(Envelope::parse(text).unwrap(), "h", "now");
        assert_eq!(parsed.unwrap_err().code(), code, "{text}");
    }
}
