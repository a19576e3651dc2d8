//! REXD v1: loose params, errors that name the member, exact events.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use serde_json::{Value, json};
use wire::jsonrpc::{Item, Message, RpcError, parse};
use wire::rexd::v1::*;

fn decode<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, RpcError> {
    decode_params_text(Some(text))
}

#[test]
fn a_member_that_does_not_fit_is_named_with_the_expected_and_actual_type() {
    let cases: &[(&str, &str, &str)] = &[
        (r#"{"session_id":"s","timeout_ms":"x"}"#, "timeout_ms", "expected integer, got string \"x\""),
        (
            r#"{"session_id":"s","timeout_ms":1.5}"#,
            "timeout_ms",
            "expected integer, got floating point `1.5`",
        ),
        (
            r#"{"session_id":"s","timeout_ms":1e99}"#,
            "timeout_ms",
            "expected integer, got floating point `1e+99`",
        ),
        (r#"{"session_id":5}"#, "session_id", "expected string, got integer `5`"),
        (r#"{"session_id":"s","argv":"ls"}"#, "argv", "expected array, got string \"ls\""),
        (r#"{"session_id":"s","argv":["ls",1]}"#, "argv[1]", "expected string, got integer `1`"),
        (r#"{"session_id":"s","env":{"A":"b","C":1}}"#, "env.C", "expected string, got integer `1`"),
        (r#"{"session_id":"s","shell":"yes"}"#, "shell", "expected boolean, got string \"yes\""),
        (r#"{"argv":["ls"]}"#, "session_id", "missing"),
        (
            "{\"session_id\":\"s\",\n  \"env\": {\"é\": \"b\",\n \"C\" : [ ]}}",
            "env.C",
            "expected string, got sequence",
        ),
        (r#"{"session_id":"s","env":{"A":{"b":"x, expected y"}}}"#, "env.A", "expected string, got map"),
        (r#"{"session_id":"s","argv":["a, expected b",null]}"#, "argv[1]", "expected string, got null"),
    ];
    for (text, field, reason) in cases {
        let error = decode::<ExecStart>(text).unwrap_err();
        assert_eq!(
            (error.code, error.message),
            (-32602, format!("invalid params: {field}: {reason}")),
            "{text}"
        );
        assert_eq!(error.data["field"], json!(field), "{text}");
    }
    let error = decode::<ExecKill>(r#"{"process_id":"p","signal":[]}"#).unwrap_err();
    assert_eq!(error.message, "invalid params: signal: expected signal name or number, got sequence");
    let error = decode::<FsWrite>(r#"{"session_id":"s","path":"f","expected_mtime":"soon"}"#).unwrap_err();
    assert_eq!(
        error.message,
        "invalid params: expected_mtime: expected integer milliseconds, got string \"soon\""
    );
}

#[test]
fn a_long_invalid_value_is_shortened() {
    let text = json!({"session_id": "s", "timeout_ms": "é".repeat(100_000)}).to_string();
    let error = decode::<ExecStart>(&text).unwrap_err();
    assert!(error.message.len() < 1_000 && error.message.ends_with('…'), "{}", error.message);
}

#[test]
fn params_may_be_absent_or_null_but_not_an_array() {
    assert_eq!(decode_params::<SessionOpen>(None).unwrap(), SessionOpen::default());
    assert_eq!(decode::<SessionOpen>("null").unwrap(), SessionOpen::default());
    for text in ["[]", "[1]", "5", "\"x\"", "true"] {
        let error = decode::<SessionOpen>(text).unwrap_err();
        assert_eq!((error.code, &error.data["expected"]), (-32602, &json!("object")), "{text}");
    }
}

#[test]
fn null_counts_as_absent_and_unknown_members_are_ignored() {
    let start: ExecStart = decode(
        r#"{"session_id":"s","argv":null,"cwd":null,"env":null,"stdin":null,"timeout_ms":null,"shell":null,
            "login":null,"detach":null,"more":{"a":[1]}}"#,
    )
    .unwrap();
    assert_eq!(start, ExecStart { session_id: "s".into(), ..ExecStart::default() });
    let start: ExecStart =
        decode(r#"{"session_id":"s","env":{"SET":"","GONE":null},"timeout_ms":-5}"#).unwrap();
    assert_eq!(
        start.env.into_iter().collect::<Vec<_>>(),
        [("GONE".into(), None), ("SET".into(), Some("".into()))]
    );
    assert_eq!(start.timeout_ms, Some(-5), "a negative number is for the face to refuse");
}

#[test]
fn expected_mtime_is_a_number_a_string_of_digits_or_absent() {
    let read = |mtime: &str| {
        let text = format!(r#"{{"session_id":"s","path":"f","expected_mtime":{mtime}}}"#);
        decode::<FsWrite>(&text).map(|write| write.expected_mtime).map_err(|error| error.code)
    };
    assert_eq!(read("1700000000123"), Ok(Some(1_700_000_000_123)));
    assert_eq!(read("\"1700000000123\""), Ok(Some(1_700_000_000_123)));
    assert_eq!((read("0"), read("null"), read("\"0\"")), (Ok(None), Ok(None), Ok(None)));
    assert_eq!(
        (read("1.5"), read("18446744073709551615"), read("\"\"")),
        (Err(-32602), Err(-32602), Err(-32602))
    );
}

#[test]
fn a_signal_is_a_name_or_a_number() {
    let read = |signal: &str| {
        decode::<ExecKill>(&format!(r#"{{"session_id":"s","process_id":"p","signal":{signal}}}"#))
            .unwrap()
            .signal
    };
    assert_eq!(read("\"SIGKILL\""), Some(Signal::Name("SIGKILL".into())));
    assert_eq!(
        (read("9"), read("-1"), read("null")),
        (Some(Signal::Number(9)), Some(Signal::Number(-1)), None)
    );
}

fn output<'a>(bytes: &'a [u8], pty_id: Option<&'a str>) -> OutputEvent<'a> {
    let method = if pty_id.is_some() { "pty.output" } else { "exec.stdout" };
    OutputEvent {
        method,
        session_id: "s_1",
        process_id: "p_1",
        pty_id,
        seq: 3,
        event_id: 12,
        cursor: None,
        bytes,
    }
}

fn encoded(event: &OutputEvent<'_>, encoding: Encoding) -> Value {
    let out = event.encode(encoding);
    let Ok(Message::Single(Item::Call(call))) = parse(&out) else { panic!() };
    assert_eq!((call.id, &*call.method), (None, event.method));
    serde_json::from_str(call.params.unwrap().get()).unwrap()
}

/// ARCHITECTURE.md, invariant 12.
#[test]
fn output_is_text_where_it_is_text_and_base64_otherwise() {
    assert_eq!(
        encoded(&output(b"a\"\n\0", None), Encoding::Utf8),
        json!({"session_id": "s_1", "process_id": "p_1", "seq": 3, "event_id": 12, "encoding": "utf8", "data": "a\"\n\0"})
    );
    let cut = encoded(&output(b"\xc3", Some("pty_1")), Encoding::Utf8);
    assert_eq!(
        (&cut["encoding"], &cut["data"], &cut["pty_id"]),
        (&json!("base64"), &json!("ww=="), &json!("pty_1"))
    );
    let asked = encoded(&OutputEvent { cursor: Some(9), ..output(b"hi", None) }, Encoding::Base64);
    assert_eq!(
        (&asked["encoding"], &asked["data"], &asked["cursor"]),
        (&json!("base64"), &json!("aGk="), &json!(9))
    );
}

#[test]
fn a_long_chunk_of_zeros_is_sent_as_base64() {
    assert_eq!(encoded(&output(&[0; 4_096], None), Encoding::Utf8)["encoding"], json!("base64"));
    assert_eq!(encoded(&output(&[0; 100], None), Encoding::Utf8)["encoding"], json!("utf8"));
    let names = "some/path\0".repeat(1_000);
    assert_eq!(encoded(&output(names.as_bytes(), None), Encoding::Utf8)["data"], json!(names));
}

#[test]
fn output_decodes_to_the_client_type() {
    let value = encoded(&output("é\u{1}".as_bytes(), Some("pty_1")), Encoding::Utf8);
    let read: Output = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), value);
}

#[test]
fn an_event_of_ordinary_text_is_one_allocation() {
    let line = "an ordinary line of sixty bytes, as compilers and tests print.\n".repeat(1_000);
    let out = output(line.as_bytes(), None).encode(Encoding::Utf8);
    let first_reserve = 224 + 6 + line.len() + line.len() / 16;
    assert!(out.capacity() <= first_reserve + 64, "{} for {}", out.capacity(), line.len());
}

#[test]
fn an_exit_has_a_numeric_code_and_no_empty_members() {
    let exit =
        ExecExit { session_id: "s".into(), process_id: "p".into(), exit_code: -1, ..ExecExit::default() };
    let line: Value = serde_json::from_slice(&encode_event(&exit)).unwrap();
    assert_eq!(line["method"], json!("exec.exit"));
    let names: Vec<_> = line["params"].as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = [
        "bytes_stderr",
        "bytes_stdout",
        "duration_ms",
        "event_id",
        "exit_code",
        "process_id",
        "session_id",
        "signal",
        "timed_out",
    ];
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!((&line["params"]["exit_code"], &line["params"]["signal"]), (&json!(-1), &Value::Null));
}

#[test]
fn the_method_table_has_every_param_and_every_secret() {
    let mut names: Vec<_> = METHODS.iter().map(|info| info.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), METHODS.len());
    for info in METHODS {
        assert!(!(info.params)().is_empty() && !(info.result)().is_empty(), "{}", info.name);
    }
    let secrets = |name| method(name).unwrap().secrets().collect::<Vec<_>>();
    assert_eq!(secrets("exec.start"), ["env", "stdin"]);
    assert_eq!(secrets("fs.edit"), ["old_string", "new_string"]);
    assert_eq!(secrets("session.resume"), ["resume_token"]);
    for secret in SECRET_FIELDS {
        assert!(
            METHODS.iter().any(|info| (info.params)().contains(secret)),
            "{secret} is no param of any method"
        );
    }
    assert_eq!(ExecStart::NAME, "exec.start");
    assert!(
        method("exec.start").unwrap().changes
            && !method("fs.read").unwrap().changes
            && method("nope").is_none()
    );
}

#[test]
fn every_code_has_a_name() {
    for code in codes::ALL {
        assert!(codes::name(*code).is_some());
    }
    assert_eq!(codes::name(codes::PROCESS_NOT_FOUND), Some("process_not_found"));
}
