//! Parsing of lines: every row of the JSON-RPC part of the spec, and hostile lines.

use proptest::prelude::*;
use wire::jsonrpc::{Id, Item, Message, parse};
use wire::limits::MAX_BATCH_CALLS;

/// An invalid line, the code of the error and the id of the response.
const REFUSED: &[(&str, i64, Option<&str>)] = &[
    ("", -32700, None),
    ("nonsense", -32700, None),
    ("{", -32700, None),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"", -32700, None),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"} {}", -32700, None),
    ("[{\"jsonrpc\":\"2.0\"", -32700, None),
    ("\u{feff}{}", -32700, None),
    ("1", -32600, None),
    ("\"text\"", -32600, None),
    ("null", -32600, None),
    ("[]", -32600, None),
    ("{}", -32600, None),
    ("{\"id\":7,\"method\":\"a\"}", -32600, Some("7")),
    ("{\"jsonrpc\":\"1.0\",\"id\":\"x\",\"method\":\"a\"}", -32600, Some("\"x\"")),
    ("{\"jsonrpc\":2.0,\"id\":1.50,\"method\":\"a\"}", -32600, Some("1.50")),
    ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600, Some("1")),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", -32600, Some("1")),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":null}", -32600, Some("1")),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}", -32600, Some("1")),
    ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"a\"}", -32600, None),
    ("{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"a\"}", -32600, None),
    ("{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"a\"}", -32600, None),
];

#[test]
fn an_invalid_request_has_the_right_code_and_id() {
    for (line, code, id) in REFUSED {
        let invalid = parse(line.as_bytes()).expect_err(line);
        assert_eq!((invalid.error.code, invalid.id), (*code, id.and_then(Id::from_json)), "{line}");
    }
    assert_eq!(parse(b"{\"a\":\"\xff\"}").unwrap_err().error.code, -32700);
}

/// A line and the id, method and params it is taken for.
const TAKEN: &[(&str, Option<&str>, &str, Option<&str>)] = &[
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}", Some("1"), "a", None),
    (
        " {\"method\":\"a\",\"params\": [1] ,\"id\":\"q\",\"jsonrpc\":\"2.0\"}\r",
        Some("\"q\""),
        "a",
        Some("[1]"),
    ),
    ("{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{\"b\": 1}}", None, "a", Some("{\"b\": 1}")),
    ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"a\",\"params\":null}", None, "a", None),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"a\",\"method\":\"b\"}", Some("2"), "b", None),
    (
        "{\"j\\u0073onrpc\":\"\\u0032.0\",\"\\u0069d\":-0.0e5,\"method\":\"\\u0061\"}",
        Some("-0.0e5"),
        "a",
        None,
    ),
    ("{\"jsonrpc\":\"2.0\",\"id\":1e999999,\"method\":\"a\",\"x\":1e999999}", Some("1e999999"), "a", None),
    ("{\"jsonrpc\":\"2.0\",\"id\":\"\\ud800\",\"method\":\"a\"}", Some("\"\\ud800\""), "a", None),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"result\":1}", Some("1"), "a", None),
];

#[test]
fn a_call_keeps_its_id_and_params_as_they_were_written() {
    for (line, id, method, params) in TAKEN {
        let Ok(Message::Single(Item::Call(call))) = parse(line.as_bytes()) else { panic!("{line}") };
        let read = (call.id.map(|id| id.to_string()), &*call.method, call.params.map(|raw| raw.get()));
        assert_eq!(read, (id.map(str::to_owned), *method, *params), "{line}");
    }
}

#[test]
fn a_method_without_escapes_and_the_params_are_borrowed_from_the_line() {
    let line = br#"{"jsonrpc":"2.0","id":1,"method":"fs.write","params":{"content":"x"}}"#;
    let Ok(Message::Single(Item::Call(call))) = parse(line) else { panic!() };
    assert!(matches!(call.method, std::borrow::Cow::Borrowed(_)));
    assert!(line.as_ptr_range().contains(&call.params.unwrap().get().as_ptr()));
}

#[test]
fn responses_are_distinguished_from_calls() {
    let Ok(Message::Single(Item::Response(answer))) =
        parse(br#"{"jsonrpc":"2.0","id":3,"result":{"ok":true}}"#)
    else {
        panic!()
    };
    assert_eq!((answer.id, answer.result.unwrap().get()), (Some(Id::from(3)), r#"{"ok":true}"#));
    let Ok(Message::Single(Item::Response(answer))) = parse(br#"{"jsonrpc":"2.0","id":null,"error":{}}"#)
    else {
        panic!()
    };
    assert!(answer.id.is_none() && answer.result.is_none() && answer.error.is_some());
}

#[test]
fn each_item_of_a_batch_is_checked_by_itself() {
    let line = br#"[{"jsonrpc":"2.0","id":1,"method":"a"}, 5, {"id":2}, {"jsonrpc":"2.0","method":"b"}, [], {"jsonrpc":"2.0","id":1,"result":1}]"#;
    let Ok(Message::Batch(parts)) = parse(line) else { panic!() };
    let seen: Vec<_> = parts
        .iter()
        .map(|part| match part {
            Ok(Item::Call(call)) => format!("call {}", call.method),
            Ok(Item::Response(_)) => "answer".to_owned(),
            Err(invalid) => format!("{} {:?}", invalid.error.code, invalid.id),
        })
        .collect();
    assert_eq!(seen, ["call a", "-32600 None", "-32600 Some(Id(2))", "call b", "-32600 None", "answer"]);
}

#[test]
fn a_batch_over_the_limit_is_an_error() {
    let batch = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    assert!(
        matches!(parse(batch(MAX_BATCH_CALLS).as_bytes()), Ok(Message::Batch(parts)) if parts.len() == MAX_BATCH_CALLS)
    );
    let invalid = parse(batch(MAX_BATCH_CALLS + 1).as_bytes()).unwrap_err();
    assert_eq!(
        (invalid.error.code, invalid.error.data["limit"].as_u64()),
        (-32008, Some(MAX_BATCH_CALLS as u64))
    );
}

/// ARCHITECTURE.md, invariant 25.
#[test]
fn deep_nesting_uses_no_stack_in_any_member() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(3_000_000), close.repeat(3_000_000));
    let arrays = deep("[", "]");
    let objects = format!("{}1{}", "{\"a\":".repeat(1_000_000), "}".repeat(1_000_000));
    // A batch with one faulty part.
    assert!(matches!(parse(arrays.as_bytes()), Ok(Message::Batch(parts)) if parts[0].is_err()));
    assert!(parse("[".repeat(3_000_000).as_bytes()).is_err());
    assert!(parse(objects.as_bytes()).is_err());
    for deep in [&arrays, &objects] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"fs.stat","x":{deep},"params":{{"session_id":{deep}}}}}"#
        );
        let Ok(Message::Single(Item::Call(call))) = parse(line.as_bytes()) else { panic!() };
        for method in wire::rexd::v1::METHODS {
            // Known members of the wrong type are refused, unknown ones are passed over; neither may recurse.
            drop(wire::rexd::v1::check_params(method.name, call.params.map(|raw| raw.get())));
        }
        let open = format!(r#"{{"requested_capabilities":[{deep}]}}"#);
        assert!(wire::rexd::v1::check_params("session.open", Some(&open)).is_err());
    }
}

proptest! {
    /// ARCHITECTURE.md, invariant 25.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(parse(&bytes));
    }

    #[test]
    fn anything_like_a_request_is_read_or_refused(
        line in r#"(\{|\[|\}|\]|:|,|"|\\|ud800|"jsonrpc":"2.0"|"id":|"method":"a"|"params":|null|1|-|1e9|\{"a":1\}| ){0,24}"#
    ) {
        drop(parse(line.as_bytes()));
        for method in wire::rexd::v1::METHODS {
            drop(wire::rexd::v1::check_params(method.name, Some(&line)));
        }
    }
}
