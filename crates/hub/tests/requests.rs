//! Requests and decisions for hosts that disconnect, or that do not read.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use hub::auth::UserRole;
use hub::config::Limits;
use serde_json::{Value, json};
use support::Running;
use support::peers::{Envelopes, ScriptedHost, app, command};

/// A hub with a connected host that has a run, and an app.
fn connected() -> (Running, ScriptedHost, Envelopes) {
    let hub = Running::start(Limits::default());
    let token = hub.client("ann", UserRole::Operator);
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    host.acked("r", 1);
    let app = app(&hub, &token);
    (hub, host, app)
}

fn response_to(app: &mut Envelopes, id: &str) -> Value {
    let is_response =
        |message: &Value| message["type"] == "rpc.response" && message["data"]["request_id"] == id;
    app.find(is_response)["data"].clone()
}

/// A read fails at once. An operation that may wait for an approval is sent again when the host is back.
#[test]
fn a_request_in_flight_fails_or_is_sent_again_when_its_host_disconnects() {
    let (hub, mut host, mut app) = connected();
    app.send(&command("rpc.fs.read", "r", json!({ "request_id": "read", "path": "a" })));
    app.send(&command("rpc.bash", "r", json!({ "request_id": "bash", "cmd": "make" })));
    host.socket.next("rpc.fs.read");
    let first = host.socket.next("rpc.bash");
    drop(host);
    let failed = response_to(&mut app, "read");
    assert_eq!((&failed["ok"], &failed["error"]), (&json!(false), &json!("host offline")));
    assert_eq!(failed["rpc_type"], "rpc.fs.read");
    let mut host = ScriptedHost::connect(&hub, "h");
    host.socket.send(&json!({ "type": "host.heartbeat", "data": {} }));
    let again = host.socket.next("rpc.bash");
    assert_eq!(again, first, "the same request, with the same id");
    host.respond(&again, json!({ "stdout": "made" }));
    assert_eq!(response_to(&mut app, "bash")["result"]["stdout"], "made");
    // It is answered: the next connection does not get it.
    drop(host);
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("other");
    let received = host.socket.until(|message| message["type"] == "run.ack");
    assert!(received.iter().all(|message| message["type"] != "rpc.bash"), "{received:#?}");
}

/// Without a gap between two connections, both kinds of requests are sent again.
#[test]
fn a_new_connection_of_a_host_takes_over_the_requests_of_the_old_one() {
    let (hub, mut old, mut app) = connected();
    app.send(&command("rpc.fs.read", "r", json!({ "request_id": "read", "path": "a" })));
    old.socket.next("rpc.fs.read");
    let mut new = ScriptedHost::connect(&hub, "h");
    assert_eq!(old.socket.closed(), 4409);
    new.socket.send(&json!({ "type": "host.heartbeat", "data": {} }));
    let again = new.socket.next("rpc.fs.read");
    new.respond(&again, json!({ "content": "text" }));
    assert_eq!(response_to(&mut app, "read")["result"]["content"], "text");
}

/// Sends input until the queue of a host that does not read has no room, even for a small message.
fn fill(hub: &Running, token: &str) {
    let mut number = 0;
    loop {
        let before = number;
        for bytes in [256 << 10, 16 << 10, 1] {
            let text = "x".repeat(bytes);
            loop {
                let input = json!({ "input_id": format!("{number}"), "text": text });
                if hub.post("/runs/r/input", token, &input).head.status != 204 {
                    break;
                }
                number += 1;
                assert!(number < 30_000, "the queue has no limit");
            }
        }
        // Again after one that was accepted: the kernel may have taken a part of the queue meanwhile.
        if number == before {
            return;
        }
    }
}

/// A decision is recorded once; a host that was busy receives it on the same connection.
#[test]
fn a_decision_reaches_a_host_whose_queue_was_full() {
    let (hub, mut host, _app) = connected();
    let token = hub.client("olga", UserRole::Operator);
    let request = json!({ "request_id": "q", "reason": "permission", "prompt": "?", "op_tool": "bash", "approve_text": "" });
    host.event("r", 2, "run.permission_requested", request);
    host.acked("r", 2);
    fill(&hub, &token);
    assert_eq!(hub.post("/approvals/r/q", &token, &json!({ "decision": "approve" })).head.status, 204);
    let decided = loop {
        let message = host.socket.receive();
        if message["type"] != "run.send_input" {
            break message;
        }
    };
    assert_eq!(
        (&decided["type"], &decided["data"]["user"]),
        (&json!("run.permission.approve"), &json!("olga"))
    );
}

/// Another app that repeats a request without success does not take the response from the first one.
#[test]
fn a_repeat_that_fails_leaves_the_first_request_as_it_is() {
    let (hub, mut host, mut app) = connected();
    let (token, other) = (hub.client("olga", UserRole::Operator), hub.client("max", UserRole::Operator));
    let mut repeating = support::peers::app(&hub, &other);
    let read = command("rpc.fs.read", "r", json!({ "request_id": "read", "path": "a" }));
    app.send(&read);
    let request = host.socket.next("rpc.fs.read");
    fill(&hub, &token);
    repeating.send(&read);
    assert_eq!(response_to(&mut repeating, "read")["ok"], false);
    host.respond(&request, json!({ "content": "text" }));
    assert_eq!(response_to(&mut app, "read")["result"]["content"], "text");
}
