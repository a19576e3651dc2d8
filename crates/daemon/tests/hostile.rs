//! Clients that send invalid messages.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use serde_json::{Value, json};
use testkit::daemon::Rexd;
use testkit::proc;
use testkit::sandbox::Sandbox;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
const MIB: usize = 1024 * 1024;

/// The daemon still works: asked something, it answers.
fn still_serves(rexd: &mut Rexd) {
    assert!(rexd.call("server.ping", json!({}))["time"].is_string());
}

#[test]
fn a_line_over_the_limit_is_refused_and_the_next_one_works() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    let before = proc::held_bytes(rexd.pid());
    rexd.send_bytes(
        br#"{"jsonrpc":"2.0","id":77,"method":"fs.write","params":{"session_id":"x","path":"y","content":""#,
    );
    let chunk = vec![b'a'; MIB];
    for _ in 0..70 {
        rexd.send_bytes(&chunk);
    }
    rexd.send_bytes(b"\"}}\n");
    let refusal = rexd.receive().unwrap();
    assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!(null), &json!(-32008)), "{refusal}");
    assert_eq!(refusal["error"]["data"]["limit"], 64 * MIB, "{refusal}");
    still_serves(&mut rexd);
    let grown = proc::held_bytes(rexd.pid()).saturating_sub(before);
    assert!(grown < 16 * MIB as u64, "{grown} bytes are kept of a line that was refused");
    let read = rexd.call("fs.stat", json!({ "session_id": session, "path": "y" }));
    assert_eq!(read["exists"], false);
}

#[test]
fn a_large_line_below_the_limit_is_taken() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    let content = "0123456789abcdef".repeat(2 * MIB);
    let written = rexd.call("fs.write", json!({ "session_id": session, "path": "big", "content": content }));
    assert_eq!(written["bytes_written"], 32 * MIB);
    assert_eq!(std::fs::read(sandbox.root().join("big")).unwrap(), content.as_bytes());
}

#[test]
fn deep_nesting_costs_no_stack() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    let depth = 1_000_000;
    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
    for (line, codes) in [
        (format!("{open}{close}"), [-32600, -32700]),
        (open.clone(), [-32700, -32700]),
        (
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server.ping","params":{open}{close}}}"#),
            [-32602, -32700],
        ),
        (format!(r#"{{"a":{open}{close},"jsonrpc":"2.0","id":1,"method":"nope"}}"#), [-32601, -32700]),
        (
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"fs.stat","params":{{"session_id":"{session}","path":{open}{close}}}}}"#
            ),
            [-32602, -32700],
        ),
    ] {
        rexd.send(&line);
        let mut answer = rexd.receive().unwrap();
        if let Some(parts) = answer.as_array_mut() {
            answer = parts.remove(0);
        }
        let code = answer["error"]["code"].as_i64().unwrap_or_default();
        assert!(codes.contains(&code), "{codes:?} expected: {answer}");
        still_serves(&mut rexd);
    }
    // What nobody reads may be as deep as it likes.
    rexd.send(&format!(
        r#"{{"jsonrpc":"2.0","id":"deep","method":"fs.stat","params":{{"session_id":"{session}","path":"x","odd":{}}}}}"#,
        "[".repeat(100) + &"]".repeat(100)
    ));
    assert_eq!(rexd.receive().unwrap()["result"]["exists"], false);
}

#[test]
fn text_that_is_no_text_is_refused_and_the_connection_lives() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    rexd.open();
    for line in [
        b"\xff\xfe\x00\n".as_slice(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"fs.read\",\"params\":{\"path\":\"\xc3\"}}\n",
        b"\0\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1\n",
        b"\xef\xbb\xbf{}\n",
        b"{\"a\":1}{\"b\":2}\n",
        b"NaN\n",
        b"{'jsonrpc':'2.0'}\n",
    ] {
        rexd.send_bytes(line);
        let answer = rexd.receive().unwrap();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(null), &json!(-32700)),
            "{line:?}: {answer}"
        );
        still_serves(&mut rexd);
    }
}

#[test]
fn lone_surrogates_are_refused_where_they_would_become_text() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    for half in [r"\ud800", r"\udc00x", r"\udc00\ud800"] {
        rexd.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"fs.write","params":{{"session_id":"{session}","path":"a","content":"{half}"}}}}"#
        ));
        let answer = rexd.receive().unwrap();
        let code = answer["error"]["code"].as_i64().unwrap_or_default();
        assert!(matches!(code, -32602 | -32700), "{half}: {answer}");
        rexd.send(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{half}"}}"#));
        let answer = rexd.receive().unwrap();
        assert!(answer["error"]["code"].is_i64(), "{half}: {answer}");
        // An id is echoed as it was written; nobody reads it here.
        rexd.send(&format!(r#"{{"jsonrpc":"2.0","id":"{half}","method":"server.ping"}}"#));
        let line = rexd.line().unwrap();
        let echoes = line.contains(&format!(r#""id":"{half}""#)) && line.contains("\"result\"");
        assert!(echoes || line.contains("-32600"), "{half}: {line}");
        still_serves(&mut rexd);
    }
    let stat = rexd.call("fs.stat", json!({ "session_id": session, "path": "a" }));
    assert_eq!(stat["exists"], false, "nothing was written");
}

#[test]
fn ids_of_every_type_come_back_or_are_refused() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let long = format!("{:?}", "x".repeat(2_000));
    for (id, comes_back) in [
        ("0", true),
        ("-7", true),
        ("1.25", true),
        ("1e3", true),
        ("18446744073709551615", true),
        ("123456789012345678901234567890", true),
        ("\"\"", true),
        ("\"\\u0000\\\"\\\\\"", true),
        ("{}", false),
        ("[1]", false),
        ("true", false),
        ("false", false),
        (long.as_str(), false),
    ] {
        rexd.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"server.ping"}}"#));
        let line = rexd.line().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        match comes_back {
            true => {
                assert!(answer["result"]["time"].is_string(), "{id}: {line}");
                assert!(line.contains(&format!("\"id\":{id}")), "{id} is not what came back: {line}");
            }
            false => {
                assert_eq!(
                    (&answer["id"], &answer["error"]["code"]),
                    (&json!(null), &json!(-32600)),
                    "{id}: {line}"
                );
            }
        }
    }
}

#[test]
fn two_thousand_requests_at_once_are_all_answered() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    let process = rexd.begin(json!({ "session_id": session, "argv": ["cat"] }));
    let waits: Vec<u64> = (0..2_000)
        .map(|_| rexd.request("exec.wait", json!({ "session_id": session, "process_id": process })))
        .collect();
    // Quick requests of another kind get through or are refused at once; they never hang.
    let ping = rexd.request("server.ping", json!({}));
    let answer = rexd.response(ping);
    assert!(answer["error"]["code"] == -32008 || answer["result"].is_object(), "{answer}");
    rexd.send(
        r#"{"jsonrpc":"2.0","method":"exec.input","params":{"session_id":"x","process_id":"y","eof":true}}"#,
    );
    let mut refused = 0;
    let mut answered = 0;
    let mut has_cancelled = false;
    for id in waits {
        // The first ones run; what was over the limit was refused at once, so the rest is there already.
        if !has_cancelled {
            has_cancelled = true;
            rexd.send(&json!({ "jsonrpc": "2.0", "method": "$/cancel", "params": { "id": id } }).to_string());
            let cancelled = rexd.response(id);
            assert_eq!(cancelled["error"]["code"], -32800, "{cancelled}");
            let kill = rexd.request("exec.kill", json!({ "session_id": session, "process_id": process }));
            let killed = rexd.response(kill);
            assert_eq!(killed["result"]["ok"], true, "{killed}");
            continue;
        }
        let answer = rexd.response(id);
        match answer["error"]["code"].as_i64() {
            Some(-32008) => refused += 1,
            None => {
                assert_eq!(answer["result"]["status"], "killed", "{answer}");
                answered += 1;
            }
            Some(code) => panic!("{code}: {answer}"),
        }
    }
    assert_eq!(refused + answered, 1_999);
    assert!(answered >= 1_000, "only {answered} were taken at once");
    assert!(refused > 0, "there is a bound");
    still_serves(&mut rexd);
}

#[test]
fn a_scan_delays_no_other_request_and_can_be_cancelled() {
    let sandbox = Sandbox::with_config("[[security.allowed_roots]]\npath = \"/\"\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    // The whole machine takes far longer than the few requests behind it.
    for (method, params) in [
        ("fs.glob", json!({ "session_id": session, "pattern": "/**/no-such-name-anywhere" })),
        (
            "fs.grep",
            json!({ "session_id": session, "pattern": "no such text anywhere[0-9]", "path": "/", "hidden": true, "no_ignore": true }),
        ),
        ("fs.list", json!({ "session_id": session, "path": "/", "recursive": true })),
    ] {
        let scan = rexd.request(method, params);
        let path = sandbox.root().join("note.txt");
        let write = rexd.request("fs.write", json!({ "session_id": session, "path": path, "content": "x" }));
        let ping = rexd.request("server.ping", json!({}));
        for id in [ping, write] {
            let answer = rexd.response(id);
            assert!(answer["result"].is_object(), "{method}: {answer}");
        }
        rexd.send(&json!({ "jsonrpc": "2.0", "method": "$/cancel", "params": { "id": scan } }).to_string());
        let withdrawn = rexd.response(scan);
        assert_eq!(withdrawn["error"]["code"], -32800, "{method}: {withdrawn}");
    }
}

#[test]
fn unread_input_delays_no_other_request() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    let deaf = rexd.begin(json!({ "session_id": session, "argv": ["sleep", "1000"] }));
    let before = proc::held_bytes(rexd.pid());
    let data = "x".repeat(4 * MIB);
    let inputs: Vec<u64> = (0..8)
        .map(|_| {
            rexd.request("exec.input", json!({ "session_id": session, "process_id": deaf, "data": data }))
        })
        .collect();
    still_serves(&mut rexd);
    let other = rexd.run(json!({ "session_id": session, "argv": ["cat"], "stdin": "heard\n" }));
    assert_eq!(other.text(), "heard\n");
    let grown = proc::held_bytes(rexd.pid()).saturating_sub(before);
    assert!(grown < 96 * MIB as u64, "{grown} bytes are held of 32 MiB that nobody reads");
    let killed =
        rexd.call("exec.kill", json!({ "session_id": session, "process_id": deaf, "signal": "KILL" }));
    assert_eq!(killed["ok"], true);
    for id in inputs {
        let answer = rexd.response(id);
        assert!(answer["result"]["accepted_bytes"].is_u64() || answer["error"]["code"].is_i64(), "{answer}");
    }
    assert_eq!(rexd.event("exec.exit", &deaf)["signal"], "KILL");
}

#[test]
fn a_batch_that_is_too_long_is_refused_whole() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let calls: Vec<Value> =
        (0..1_025).map(|id| json!({ "jsonrpc": "2.0", "id": id, "method": "server.ping" })).collect();
    rexd.send(&Value::Array(calls.clone()).to_string());
    let answer = rexd.receive().unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(null), &json!(-32008)), "{answer}");
    rexd.send(&Value::Array(calls[..1_000].to_vec()).to_string());
    assert_eq!(rexd.receive().unwrap().as_array().map(Vec::len), Some(1_000));
}
