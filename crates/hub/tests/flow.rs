//! The whole flow of the protocol's document, with a scripted host and scripted apps.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]
#![allow(clippy::too_many_lines, reason = "a flow is told in one piece")]

mod support;

use hub::auth::UserRole;
use hub::config::Limits;
use serde_json::{Value, json};
use support::Running;
use support::peers::{Envelopes, ScriptedHost, app, command, output_of};

#[test]
fn apps_see_whether_a_host_that_connects_is_older_than_the_hub() {
    let hub = Running::start(Limits::default());
    hub.user("ann", UserRole::Operator, "correct horse");
    let mut app = app(&hub, &hub.login("ann", "correct horse"));
    for (version, is_older) in [("0.0.1", true), (env!("CARGO_PKG_VERSION"), false)] {
        let mut host = ScriptedHost::connect(&hub, "host-1");
        let hello = json!({ "name": "box", "version": version, "runs": [] });
        host.socket.send(&json!({ "type": "host.hello", "data": hello }));
        let data = loop {
            let data = app.next("host.online")["data"].clone();
            // The first event says only that the host is connected.
            if data["version"] == version {
                break data;
            }
        };
        assert_eq!((&data["name"], &data["is_older"]), (&json!("box"), &json!(is_older)));
    }
}

/// Login, enrolment by first use, requests to a host, a run from start to exit, and its messages.
#[test]
fn a_run_is_started_watched_answered_and_stopped() {
    let hub = Running::start(Limits::default());
    hub.user("ann", UserRole::Operator, "correct horse");
    let token = hub.login("ann", "correct horse");
    let mut app = app(&hub, &token);
    let mut host = ScriptedHost::connect(&hub, "host-1");
    host.socket.send(&json!({ "type": "host.heartbeat", "ts": "2026-01-01T00:00:00Z", "data": {} }));
    assert_eq!(app.next("host.online")["host_id"], "host-1");

    // A request to a host.
    let info =
        json!({ "type": "rpc.host.info", "ts": "x", "data": { "request_id": "i-1", "host_id": "host-1" } });
    app.send(&info);
    let request = host.socket.next("rpc.host.info");
    assert_eq!((&request["data"]["user"], &request["host_id"]), (&json!("ann"), &json!("host-1")));
    host.respond(&request, json!({ "os": "linux" }));
    let response = app.next("rpc.response");
    assert_eq!(
        (&response["data"]["result"]["os"], &response["data"]["request_id"]),
        (&json!("linux"), &json!("i-1"))
    );
    assert_eq!(response.get("seq"), None);

    // Start: the app may see the response first.
    let start = json!({ "request_id": "s-1", "host_id": "host-1", "tool": "shell", "cmd": "make", "user": "mallory" });
    app.send(&json!({ "type": "rpc.run.start", "data": start }));
    let request = host.socket.next("rpc.run.start");
    assert_eq!(request["data"]["user"], "ann", "a client cannot choose its name");
    host.started("run-1");
    host.respond(&request, json!({ "run_id": "run-1" }));
    assert_eq!(app.next("rpc.response")["data"]["result"]["run_id"], "run-1");
    let started = app.next("run.started");
    assert_eq!(
        (&started["host_id"], &started["run_id"], &started["seq"]),
        (&json!("host-1"), &json!("run-1"), &json!(1))
    );
    host.acked("run-1", 1);

    // Output, a prompt, and its approval.
    host.output("run-1", 2);
    assert_eq!(app.next("run.output")["data"], json!({ "stream": "stdout", "text": "line 2\n" }));
    let asked = json!({ "request_id": "q-1", "reason": "prompt", "prompt": "Go on?", "approve_text": "y\n", "deny_text": "n\n" });
    host.event("run-1", 3, "run.permission_requested", asked.clone());
    host.event(
        "run-1",
        4,
        "run.awaiting_input",
        json!({ "request_id": "q-1", "reason": "prompt", "prompt": "Go on?" }),
    );
    assert_eq!(app.next("run.permission_requested")["data"], asked);
    app.next("run.awaiting_input");
    let row = hub.get_json("/sessions/run-1", &token);
    assert_eq!((&row["status"], &row["pending_request_id"]), (&json!("awaiting_approval"), &json!("q-1")));
    assert_eq!(
        (&row["pending_prompt"], &row["exit_code"], &row["tool"]),
        (&json!("Go on?"), &Value::Null, &json!("shell"))
    );
    app.send(&command("run.permission.approve", "run-1", json!({ "request_id": "q-1", "actor": "web" })));
    let decision = host.socket.next("run.permission.approve");
    assert_eq!((&decision["data"]["user"], &decision["data"]["actor"]), (&json!("ann"), &json!("web")));
    host.event(
        "run-1",
        5,
        "run.input",
        json!({ "actor": "web", "input_id": "q-1", "text_redacted": "y\n", "text_sha256": "0" }),
    );
    app.next("run.input");
    // A second decision has no effect.
    app.send(&command("run.permission.deny", "run-1", json!({ "request_id": "q-1" })));
    let error = app.next("app.error");
    assert_eq!(
        (&error["data"]["code"], &error["data"]["rejected_id"]),
        (&json!("already_decided"), &json!("q-1"))
    );

    // Input over HTTP and over the socket.
    let input = json!({ "input_id": "in-1", "text": "hello\n" });
    assert_eq!(hub.post("/runs/run-1/input", &token, &input).head.status, 204);
    let typed = host.socket.next("run.send_input");
    assert_eq!(
        typed["data"],
        json!({ "input_id": "in-1", "text": "hello\n", "actor": "web", "user": "ann" })
    );
    app.send(&command("run.send_input", "run-1", json!({ "input_id": "in-2", "text": "x" })));
    assert_eq!(host.socket.next("run.send_input")["data"]["input_id"], "in-2");
    for kind in ["run.send_stdin", "run.resize", "rpc.fs.read", "rpc.git.status"] {
        app.send(&command(kind, "run-1", json!({ "request_id": kind, "text": "k", "cols": 80, "rows": 24 })));
        assert_eq!(host.socket.next(kind)["run_id"], "run-1");
    }

    app.send(&command("run.stop", "run-1", json!({ "signal": "term" })));
    assert_eq!(host.socket.next("run.stop")["data"]["signal"], "term");
    host.event("run-1", 6, "run.exited", json!({ "exit_code": 143 }));
    assert_eq!(app.next("run.exited")["data"]["exit_code"], 143);
    let row = &hub.get_json("/runs", &token)[0];
    assert_eq!(
        (&row["status"], &row["exit_code"], &row["pending_request_id"]),
        (&json!("exited"), &json!(143), &Value::Null)
    );
    assert!(row["ended_at"].as_str().unwrap().ends_with("+00:00"), "{row}");
    assert_eq!(app.close(), 1000, "the hub answers a Close");
    assert_eq!(host.socket.close(), 1000);
}

#[test]
fn messages_are_paged_and_have_roles_and_texts() {
    let hub = Running::start(Limits::default());
    let token = hub.client("web", UserRole::Viewer);
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.output("r", 2);
    host.event("r", 3, "run.awaiting_input", json!({ "reason": "prompt" }));
    host.event(
        "r",
        4,
        "run.input",
        json!({ "actor": "cli", "user": "olga", "input_id": "i", "text_redacted": "y", "text_sha256": "" }),
    );
    host.event("r", 5, "tool.call", json!({ "request_id": "t", "tool": "rpc.fs.read", "actor": "web", "args": { "path": "é".repeat(3000) } }));
    host.event("r", 6, "tool.result", json!({ "request_id": "t", "tool": "rpc.fs.read", "actor": "web", "ok": false, "duration_ms": 3, "result": null, "error": "bad path" }));
    host.event("r", 7, "run.exited", json!({ "exit_code": 0 }));
    host.acked("r", 7);
    let messages = hub.get_json("/runs/r/messages", &token);
    let seen: Vec<_> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (m["role"].as_str().unwrap(), m["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(
        seen,
        [
            ("system", "run.started"),
            ("assistant", "run.output"),
            ("user", "run.input"),
            ("system", "tool.call"),
            ("system", "tool.result"),
            ("system", "run.exited"),
        ]
    );
    let text = |index: usize| messages[index]["text"].as_str().unwrap();
    assert_eq!((text(0), text(1), text(2), text(5)), ("run started", "line 2\n", "y", "run exited"));
    assert_eq!((&messages[2]["request_id"], &messages[2]["actor"]), (&json!("i"), &json!("cli")));
    assert_eq!(messages[1]["data"], json!({ "stream": "stdout" }));
    let input = json!({ "actor": "cli", "user": "olga", "input_id": "i", "text_sha256": "" });
    assert_eq!(messages[2]["data"], input, "who typed is known after a reload");
    assert!(text(3).starts_with("tool.call rpc.fs.read {\"path\":") && text(3).ends_with('…'));
    assert_eq!(text(3).chars().count(), 2001);
    assert_eq!(text(4), "tool.result rpc.fs.read ok=false duration_ms=3 bad path");
    let last = hub.get_json("/sessions/r/messages?limit=2", &token);
    assert_eq!(last.as_array().unwrap()[..], messages.as_array().unwrap()[4..]);
    let before = hub.get_json(&format!("/runs/r/messages?limit=2&before_id={}", last[0]["id"]), &token);
    assert_eq!(before.as_array().unwrap()[..], messages.as_array().unwrap()[2..4]);
    // Bytes that are no text are replayed exactly.
    host.event("bytes", 1, "run.output", json!({ "stream": "stdout", "text": "\u{fffd}", "base64": "/w==" }));
    host.acked("bytes", 1);
    let exact = &hub.get_json("/runs/bytes/messages", &token)[0];
    assert_eq!((&exact["text"], &exact["data"]["base64"]), (&json!("\u{fffd}"), &json!("/w==")));
    let quiet = hub.get_json("/runs/r/messages?include_output=false", &token);
    assert_eq!(quiet.as_array().unwrap().len(), 5);
    assert_eq!(hub.get_json("/runs/unknown/messages", &token), json!([]));
    assert_eq!(hub.get_json("/sessions/recent?limit=0", &token).as_array().unwrap().len(), 1);
    for (target, status, body) in [
        ("/sessions/none", 404, "unknown session_id"),
        ("/sessions/recent?limit=x", 400, ""),
        ("/runs", 200, ""),
        ("/hosts", 200, ""),
        ("/nothing", 404, ""),
    ] {
        let answer = hub.get(target, &token);
        assert_eq!(answer.head.status, status, "{target}");
        assert!(body.is_empty() || answer.body == body, "{target} {}", answer.body);
    }
    let host = &hub.get_json("/hosts", &token)[0];
    assert_eq!((&host["id"], &host["name"], &host["online"]), (&json!("h"), &Value::Null, &json!(true)));
    assert_eq!(hub.ask("/health", &[], None).head.status, 200);
    assert_eq!(hub.ask("/runs", &[], None).body, "missing bearer token");
    let answer = hub.get("/runs", "wrong");
    assert_eq!((answer.head.status, answer.body.as_str()), (401, "invalid token"));
}

#[test]
fn what_cannot_be_delivered_gets_an_error() {
    let hub = Running::start(Limits::default());
    let (operator, viewer) = (hub.client("o", UserRole::Operator), hub.client("v", UserRole::Viewer));
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.acked("r", 1);
    let mut app = app(&hub, &operator);
    let response = |app: &mut Envelopes, message: Value| {
        app.send(&message);
        let response = app.next("rpc.response");
        assert_eq!(
            (&response["data"]["ok"], &response["data"]["rpc_type"]),
            (&json!(false), &message["type"])
        );
        assert_eq!(response["data"]["request_id"], message["data"]["request_id"]);
        response["data"]["error"].as_str().unwrap().to_owned()
    };
    let read = |run: &str| command("rpc.fs.read", run, json!({ "request_id": "q", "path": "x" }));
    assert_eq!(response(&mut app, read("none")), "unknown run_id");
    let info =
        |host: &str| json!({ "type": "rpc.host.info", "data": { "request_id": "q", "host_id": host } });
    assert_eq!(response(&mut app, info("none")), "unknown host_id");
    app.send(&command("rpc.fs.read", "r", json!({ "path": "x" })));
    assert_eq!(app.next("rpc.response")["data"]["error"], "missing request_id");
    for (message, code) in [
        (command("run.send_input", "none", json!({ "input_id": "i", "text": "x" })), "unknown_run"),
        (command("run.permission.approve", "r", json!({ "request_id": "none" })), "unknown_request"),
        (command("no.such.type", "r", json!({})), "unknown_type"),
        (command("run.subscribe", "none", json!({ "after_seq": 0 })), "unknown_run"),
    ] {
        app.send(&message);
        let error = app.next("app.error");
        assert_eq!(
            (&error["data"]["code"], &error["data"]["rejected_type"]),
            (&json!(code), &message["type"])
        );
    }
    // A viewer watches and reads, and neither types nor approves.
    let mut watching = support::peers::app(&hub, &viewer);
    let bash = command("rpc.bash", "r", json!({ "request_id": "b", "cmd": "id" }));
    assert!(response(&mut watching, bash).starts_with("forbidden: operator"), "a viewer runs nothing");
    let start = json!({ "type": "rpc.run.start", "data": { "request_id": "b", "host_id": "h" } });
    assert!(response(&mut watching, start).starts_with("forbidden"));
    for kind in ["run.send_input", "run.send_stdin", "run.stop", "run.permission.approve", "run.resize"] {
        watching.send(&command(kind, "r", json!({ "input_id": "i", "request_id": "q", "text": "x" })));
        assert_eq!(watching.next("app.error")["data"]["code"], "forbidden", "{kind}");
    }
    let input = json!({ "input_id": "i", "text": "x" });
    assert_eq!(hub.post("/runs/r/input", &viewer, &input).head.status, 403);
    assert_eq!(hub.post("/runs/none/input", &operator, &input).body, "unknown run_id");
    assert_eq!(hub.post("/runs/r/input", &operator, &json!({ "text": "x" })).head.status, 422);
    let bearer = [format!("Authorization: Bearer {operator}")];
    assert_eq!(hub.ask("/runs/r/input", &bearer, Some(b"{")).head.status, 400);
    watching.send(&read("r"));
    assert_eq!(host.socket.next("rpc.fs.read")["data"]["user"], "v");
    // The host goes.
    drop(host);
    assert_eq!(app.next("host.offline")["host_id"], "h");
    assert_eq!(response(&mut app, read("r")), "host offline");
    let answer = hub.post("/runs/r/input", &operator, &input);
    assert_eq!((answer.head.status, answer.body.as_str()), (502, "host offline"));
    app.send_text("no json");
    assert_eq!(app.next("app.error")["data"]["code"], "bad_message");
}

#[test]
fn an_app_that_subscribed_is_filtered_and_one_that_did_not_gets_everything() {
    let hub = Running::start(Limits::default());
    let token = hub.client("web", UserRole::Viewer);
    let mut host = ScriptedHost::connect(&hub, "h");
    let (mut all, mut some) = (app(&hub, &token), app(&hub, &token));
    host.started("a");
    host.started("b");
    some.find(|message| message["run_id"] == "b");
    some.send(&command("run.subscribe", "a", json!({})));
    // The answer to an unknown type shows that the subscription was handled.
    some.send(&json!({ "type": "no.such.type" }));
    some.next("app.error");
    for run in ["a", "b"] {
        host.output(run, 2);
        host.event(
            run,
            3,
            "tool.call",
            json!({ "request_id": "t", "tool": "x", "actor": "web", "args": {} }),
        );
        host.event(run, 4, "run.exited", json!({ "exit_code": 0 }));
    }
    let is_last = |message: &Value| message["run_id"] == "b" && message["type"] == "run.exited";
    let kinds = |messages: Vec<Value>, run: &str| -> Vec<String> {
        let of_run = messages.iter().filter(|message| message["run_id"] == run && message["seq"] != 1);
        of_run.map(|message| message["type"].as_str().unwrap().to_owned()).collect()
    };
    let (all, some) = (all.until(is_last), some.until(is_last));
    for run in ["a", "b"] {
        assert_eq!(kinds(all.clone(), run), ["run.output", "tool.call", "run.exited"]);
    }
    assert_eq!(kinds(some.clone(), "a"), ["run.output", "tool.call", "run.exited"]);
    assert_eq!(kinds(some, "b"), ["run.exited"]);
}

#[test]
fn a_subscription_continues_without_gap_or_repeat() {
    let hub = Running::start(Limits::default());
    let token = hub.client("web", UserRole::Viewer);
    let mut host = ScriptedHost::connect(&hub, "h");
    let total = 2_000;
    for seq in 1..=500 {
        host.output("r", seq);
    }
    host.acked("r", 500);
    // Apps subscribe while events are sent, each from another position.
    let watchers: Vec<_> = (0..4)
        .map(|number| {
            let mut app = app(&hub, &token);
            let after = number * 150;
            app.send(&command("run.subscribe", "r", json!({ "after_seq": after })));
            std::thread::spawn(move || (after, app.until(|message| message["seq"] == total)))
        })
        .collect();
    for seq in 501..=total {
        host.output("r", seq);
    }
    for watcher in watchers {
        let (after, messages) = watcher.join().unwrap();
        let seen = output_of(&messages);
        let from = seen.iter().position(|seq| *seq == after + 1).unwrap();
        assert_eq!(seen[from..], (after + 1..=total).collect::<Vec<_>>(), "after {after}");
    }
}

/// Messages of an app that are none get an error; the next valid one works.
#[test]
fn bad_messages_of_an_app_get_an_error_and_the_rest_keeps_working() {
    let hub = Running::start(Limits { app_message_bytes: 1 << 20, ..Limits::default() });
    let token = hub.client("o", UserRole::Operator);
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.acked("r", 1);
    let mut app = app(&hub, &token);
    let huge = format!(r#"{{"type":"run.send_input","run_id":"r","data":"{}"}}"#, "x".repeat(100 << 20));
    for (text, code) in [
        ("no json", "bad_message"),
        ("[]", "bad_message"),
        (r#"{"run_id":"r","data":{}}"#, "bad_message"),
        (r#"{"type":"no.such.type","run_id":"r"}"#, "unknown_type"),
        (huge.as_str(), "too_large"),
    ] {
        app.send_text(text);
        assert_eq!(app.next("app.error")["data"]["code"], code, "{}", &text[..text.len().min(60)]);
    }
    app.send_message(tungstenite::Message::binary(vec![0xff, 0xfe])).unwrap();
    assert_eq!(app.next("app.error")["data"]["code"], "bad_message");
    app.send(&command("run.send_input", "r", json!({ "input_id": "i", "text": "x" })));
    assert_eq!(host.socket.next("run.send_input")["data"]["text"], "x");
}

/// `replace` ends the earlier subscriptions, and `run.unsubscribe` one of them.
#[test]
fn an_app_receives_output_of_its_subscriptions_only() {
    let hub = Running::start(Limits::default());
    let token = hub.client("v", UserRole::Viewer);
    let (mut host, mut app) = (ScriptedHost::connect(&hub, "h"), app(&hub, &token));
    for run in ["a", "b", "c"] {
        host.started(run);
        host.acked(run, 1);
    }
    let mut round = 0;
    let mut seen = |messages: &[Value]| -> Vec<String> {
        messages.iter().for_each(|message| app.send(message));
        app.send(&json!({ "type": "app.ping" }));
        app.next("app.pong");
        let last = 2 * round + 3;
        host.output("a", round + 2);
        host.output("b", round + 2);
        host.output("c", last - 1);
        // Every app receives what changes the state of a run.
        host.event("c", last, "run.awaiting_input", json!({ "reason": "prompt" }));
        let received = app.until(|message| message["run_id"] == "c" && message["seq"] == last);
        round += 1;
        let output = received.iter().filter(|message| message["type"] == "run.output");
        output.map(|message| message["run_id"].as_str().unwrap().to_owned()).collect()
    };
    let subscribe = |run: &str, data: Value| command("run.subscribe", run, data);
    assert_eq!(seen(&[]), ["a", "b", "c"]);
    assert_eq!(seen(&[subscribe("a", json!({})), subscribe("b", json!({}))]), ["a", "b"]);
    assert_eq!(seen(&[subscribe("c", json!({ "replace": true }))]), ["c"]);
    assert_eq!(seen(&[subscribe("b", json!({})), command("run.unsubscribe", "c", json!({}))]), ["b"]);
}

#[test]
fn a_token_of_a_client_that_does_not_refresh_is_valid_for_a_day() {
    let hub = Running::start(Limits::default());
    hub.user("ann", UserRole::Viewer, "right");
    let login = hub.post("/auth/login", "", &json!({ "username": "ann", "password": "right" }));
    let login: Value = serde_json::from_str(&login.body).unwrap();
    assert_eq!((&login["expires_in"], &login["refresh_token"]), (&json!(86_400), &Value::Null), "{login}");
}
