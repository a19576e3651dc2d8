//! Hosts: enrolment, generations, acknowledgements, replay, bad input, and what survives restarts.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use hub::auth::UserRole;
use hub::config::{Enrolment, Limits, Storage};
use serde_json::{Value, json};
use support::Running;
use support::peers::{Envelopes, ScriptedHost, app, command, output_of};
use support::postgres::Postgres;
use tungstenite::Message;

#[test]
fn a_host_needs_its_id_and_its_token() {
    let hub = Running::start(Limits::default());
    let refused = |target: &str| Envelopes::dial(&hub, target, &[]).map(drop).unwrap_err();
    let missing = (401, "missing host_id/host_token query params".to_owned());
    let invalid = (401, "invalid host_id/host_token".to_owned());
    assert_eq!(refused("/ws/host"), missing);
    assert_eq!(refused("/ws/host?host_id=h"), missing);
    assert_eq!(refused("/ws/host?host_id=&host_token=t"), invalid);
    assert_eq!(refused("/ws/host?host_id=h&host_token="), invalid);
    let _first = ScriptedHost::connect(&hub, "h");
    assert_eq!(refused("/ws/host?host_id=h&host_token=other"), invalid, "the first token is kept");
    let header = [("authorization", "Bearer token")];
    Envelopes::dial(&hub, "/ws/host?host_id=h", &header).unwrap();
    assert_eq!(hub.ask("/ws/host?host_id=h&host_token=token", &[], None).head.status, 400, "no upgrade");
    assert_eq!(refused("/ws/app"), (401, "missing/invalid token".to_owned()));
    assert_eq!(refused("/ws/app?token=x"), (401, "missing/invalid token".to_owned()));
}

#[test]
fn with_codes_a_host_enrols_once_and_a_removed_host_is_out_at_once() {
    let hub = Running::start_with(Limits::default(), |config| config.enrolment = Some(Enrolment::Code));
    let admin = hub.client("a", UserRole::Admin);
    assert_eq!(ScriptedHost::try_connect(&hub, "h", "token").map(drop).unwrap_err().0, 401);
    let code = hub.post("/join-codes", &admin, &json!({}));
    let code: Value = serde_json::from_str(&code.body).unwrap();
    let shown = code["code"].as_str().unwrap().to_lowercase().replace('-', " ");
    let join = |id: &str, code: &str| {
        let headers = [("authorization", "Bearer token"), ("rexhub-join-code", code)];
        Envelopes::dial(&hub, &format!("/ws/host?host_id={id}"), &headers)
    };
    assert_eq!(join("h", "WRONG").map(drop).unwrap_err().0, 401);
    let mut host = join("h", &shown).unwrap();
    assert_eq!(join("h2", &shown).map(drop).unwrap_err().0, 401, "a code is valid once");
    // Once it is served, so that the next connection is the newer one.
    host.send(&json!({ "type": "host.hello", "data": { "name": "", "version": "", "runs": [] } }));
    host.next("hub.ready");
    let newer = ScriptedHost::connect(&hub, "h");
    assert_eq!(host.closed(), 4409);
    drop(newer);
    let mut host = ScriptedHost::connect(&hub, "h");
    // Once it is served, so that the removal ends it.
    host.started("r");
    host.acked("r", 1);
    let operator = hub.client("o", UserRole::Operator);
    assert_eq!(delete(&hub, "/hosts/h", &operator), 403);
    assert_eq!(delete(&hub, "/hosts/h", &admin), 204);
    assert_eq!(delete(&hub, "/hosts/h", &admin), 404);
    assert_eq!(host.socket.closed(), 1008);
    assert_eq!(ScriptedHost::try_connect(&hub, "h", "token").map(drop).unwrap_err().0, 401);
}

/// The status of a DELETE request.
fn delete(hub: &Running, target: &str, token: &str) -> u16 {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(hub.address).unwrap();
    let address = hub.address;
    let request = format!(
        "DELETE {target} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// The end of an old socket must not make a host offline whose new socket is connected.
#[test]
fn the_end_of_an_old_connection_changes_nothing() {
    let hub = Running::start(Limits::default());
    let token = hub.client("o", UserRole::Operator);
    let mut old = ScriptedHost::connect(&hub, "h");
    old.started("r");
    old.acked("r", 1);
    let mut app = app(&hub, &token);
    let mut new = ScriptedHost::connect(&hub, "h");
    assert_eq!(old.socket.closed(), 4409);
    drop(old);
    new.output("r", 2);
    new.acked("r", 2);
    let input = json!({ "input_id": "i", "text": "x" });
    assert_eq!(hub.post("/runs/r/input", &token, &input).head.status, 204);
    new.socket.next("run.send_input");
    assert_eq!(hub.get_json("/hosts", &token)[0]["online"], true);
    let seen = app.until(|message| message["seq"] == 2);
    assert!(seen.iter().all(|message| message["type"] != "host.offline"), "{seen:#?}");
    drop(new);
    app.next("host.offline");
    assert_eq!(hub.get_json("/hosts", &token)[0]["online"], false);
}

#[test]
fn another_host_cannot_take_over_a_run() {
    let hub = Running::start(Limits::default());
    let token = hub.client("o", UserRole::Operator);
    let (mut owner, mut thief) = (ScriptedHost::connect(&hub, "owner"), ScriptedHost::connect(&hub, "thief"));
    owner.started("r");
    owner.acked("r", 1);
    thief.event("r", 2, "run.started", json!({ "tool": "evil", "cwd": "/", "command": "x" }));
    let error = thief.socket.next("hub.error");
    assert_eq!((&error["data"]["code"], &error["run_id"]), (&json!("not_your_run"), &json!("r")));
    assert_eq!(
        hub.post("/runs/r/input", &token, &json!({ "input_id": "i", "text": "secret" })).head.status,
        204
    );
    assert_eq!(owner.socket.next("run.send_input")["data"]["text"], "secret");
    let row = hub.get_json("/sessions/r", &token);
    assert_eq!((&row["host_id"], &row["tool"]), (&json!("owner"), &json!("shell")));
    // The thief's own run is not affected, and it received nothing.
    thief.started("own");
    let received = thief.socket.until(|message| message["type"] == "run.ack");
    assert!(received.iter().all(|message| message["type"] != "run.send_input"), "{received:#?}");
}

#[test]
fn hello_is_answered_with_the_stored_positions() {
    let hub = Running::start(Limits::default());
    let mut host = ScriptedHost::connect(&hub, "h");
    for seq in [1, 2, 4] {
        host.output("r", seq);
    }
    host.acked("r", 2);
    drop(host);
    let mut host = ScriptedHost::connect(&hub, "h");
    let runs = json!([{ "run_id": "r", "last_seq": 4 }, { "run_id": "new", "last_seq": 1 }]);
    host.socket
        .send(&json!({ "type": "host.hello", "data": { "name": "box", "version": "1.2", "runs": runs } }));
    let (one, two, ready) = (host.socket.receive(), host.socket.receive(), host.socket.receive());
    assert_eq!(one["data"], json!({ "run_id": "r", "last_seq": 2 }));
    assert_eq!(two["data"], json!({ "run_id": "new", "last_seq": 0 }));
    assert_eq!((&ready["type"], &ready["data"]["generation"]), (&json!("hub.ready"), &json!(2)));
    assert!(one.get("run_id").is_none() && one["ts"].is_string(), "{one}");
    let row = &hub.get_json("/hosts", &hub.client("v", UserRole::Viewer))[0];
    assert_eq!((&row["name"], &row["version"]), (&json!("box"), &json!("1.2")));
}

/// Repeats change nothing: neither the state of a run nor what apps see. A gap is acknowledged when it is filled.
#[test]
fn repeated_and_early_events_are_seen_once_and_in_order() {
    let hub = Running::start(Limits::default());
    let token = hub.client("v", UserRole::Viewer);
    let (mut host, mut app) = (ScriptedHost::connect(&hub, "h"), app(&hub, &token));
    host.started("r");
    host.output("r", 2);
    host.output("r", 2);
    host.output("r", 5);
    host.output("r", 4);
    host.acked("r", 2);
    host.output("r", 3);
    host.acked("r", 5);
    host.event("r", 6, "run.exited", json!({ "exit_code": 0 }));
    host.acked("r", 6);
    // The whole run again, as a host does that has lost its acknowledgements.
    host.started("r");
    for seq in 2..=5 {
        host.output("r", seq);
    }
    host.event("r", 9, "run.lost", json!({ "first_seq": 7, "last_seq": 9, "bytes": 10 }));
    host.acked("r", 9);
    host.event("r", 10, "run.metadata", json!({ "last": true }));
    let messages = app.until(|message| message["type"] == "run.metadata");
    let seqs: Vec<i64> = messages.iter().filter_map(|message| message["seq"].as_i64()).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6, 9, 10]);
    assert_eq!(hub.get_json("/sessions/r", &token)["status"], "exited", "a repeat does not revive a run");
}

#[test]
fn bad_messages_get_an_error_and_the_rest_keeps_working() {
    let hub = Running::start(Limits { host_message_bytes: 1 << 20, ..Limits::default() });
    let token = hub.client("v", UserRole::Viewer);
    let mut host = ScriptedHost::connect(&hub, "h");
    let huge = format!(r#"{{"type":"run.output","run_id":"r","seq":1,"data":"{}"}}"#, "x".repeat(100 << 20));
    for (text, code) in [
        ("no json", "bad_message"),
        ("[]", "bad_message"),
        (r#"{"run_id":"r","seq":1}"#, "bad_message"),
        (r#"{"type":"run.output","run_id":"r","seq":0,"data":{}}"#, "bad_seq"),
        (r#"{"type":"run.output","run_id":"r","seq":-1,"data":{}}"#, "bad_seq"),
        (r#"{"type":"run.output","run_id":"r","data":{}}"#, "bad_seq"),
        (r#"{"type":"run.output","run_id":"r","seq":9007199254740000,"data":{}}"#, "bad_seq"),
        (r#"{"type":"run.output","run_id":"","seq":1,"data":{}}"#, "bad_message"),
        (huge.as_str(), "too_large"),
    ] {
        host.socket.send_text(text);
        let error = host.socket.next("hub.error");
        assert_eq!(error["data"]["code"], code, "{}", &text[..text.len().min(80)]);
    }
    host.socket.send_message(Message::binary(vec![0xff, 0xfe])).unwrap();
    host.socket.next("hub.error");
    // A clock that is off by a year, no time at all, and a time that is none.
    for (seq, ts) in [
        (1, json!("2099-01-01T00:00:00Z")),
        (2, json!("1999-01-01T00:00:00Z")),
        (3, Value::Null),
        (4, json!("noon")),
    ] {
        host.socket.send(
            &json!({ "type": "run.started", "ts": ts, "run_id": "r", "seq": seq, "data": { "tool": "t" } }),
        );
    }
    host.acked("r", 4);
    let row = hub.get_json("/sessions/r", &token);
    let year = &jiff::Timestamp::now().to_string()[..4];
    assert!(row["started_at"].as_str().unwrap().starts_with(year), "{row}");
    assert!(row["last_active_at"].as_str().unwrap().starts_with(year), "{row}");
    assert_eq!(hub.get_json("/runs/r/messages", &token).as_array().unwrap().len(), 4);
}

fn ask(host: &mut ScriptedHost, run: &str, seq: i64, request: &str) {
    let data = json!({ "request_id": request, "reason": "permission", "prompt": "?", "op_tool": "bash", "approve_text": "", "deny_text": "" });
    host.event(run, seq, "run.permission_requested", data);
}

/// Pending requests and prompts reach a new app at once, also after a restart of hub and host; a decision that the host
/// may have missed is sent again, and takes effect once.
#[test]
fn pending_requests_survive_restarts_and_are_decided_once() {
    let mut hub = Running::start(Limits::default());
    let operator = hub.client("ann", UserRole::Operator);
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    ask(&mut host, "r", 2, "q1");
    ask(&mut host, "r", 3, "q2");
    host.started("p");
    host.event("p", 2, "run.awaiting_input", json!({ "reason": "prompt", "prompt": "Name?" }));
    host.acked("p", 2);
    drop(host);
    hub.restart();
    let mut watching = app(&hub, &operator);
    let pending = [watching.receive(), watching.receive(), watching.receive()];
    let seen: Vec<_> = pending
        .iter()
        .map(|event| (event["run_id"].as_str().unwrap(), event["seq"].as_i64().unwrap()))
        .collect();
    assert_eq!(seen, [("r", 2), ("r", 3), ("p", 2)]);
    let approve = command("run.permission.approve", "r", json!({ "request_id": "q1" }));
    watching.send(&approve);
    assert_eq!(
        watching.next("app.error")["data"]["code"],
        "host_offline",
        "nothing is recorded that nobody received"
    );

    let mut host = ScriptedHost::connect(&hub, "h");
    watching.next("host.online");
    watching.send(&approve);
    host.socket.next("run.permission.approve");
    // The connection ends before the host confirms: the next one receives the decision again.
    drop(host);
    watching.next("host.offline");
    hub.restart();
    let mut host = ScriptedHost::connect(&hub, "h");
    host.socket.send(&json!({ "type": "host.heartbeat", "data": {} }));
    let repeated = host.socket.next("run.permission.approve");
    assert_eq!((&repeated["data"]["request_id"], &repeated["data"]["user"]), (&json!("q1"), &json!("ann")));
    host.event(
        "r",
        4,
        "run.permission_decided",
        json!({ "request_id": "q1", "decision": "approve", "user": "ann" }),
    );
    host.acked("r", 4);
    let decided = hub.get_json("/approvals?status=decided", &operator);
    assert_eq!((&decided[0]["request_id"], &decided[0]["decided_by"]), (&json!("q1"), &json!("ann")));
    let decision = json!({ "decision": "deny", "reason": "no" });
    assert_eq!(hub.post("/approvals/r/q1", &operator, &decision).head.status, 409);
    assert_eq!(hub.post("/approvals/r/none", &operator, &decision).head.status, 404);
    assert_eq!(hub.post("/approvals/r/q2", &hub.client("v", UserRole::Viewer), &decision).head.status, 403);
    assert_eq!(hub.post("/approvals/r/q2", &operator, &decision).head.status, 204);
    assert_eq!(host.socket.next("run.permission.deny")["data"]["reason"], "no");
    assert_eq!(hub.get_json("/approvals", &operator), json!([]));
    let audit = hub.get_json("/audit", &hub.client("admin", UserRole::Admin));
    let actions: Vec<_> =
        audit.as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions[..2], ["run.permission.deny", "run.permission.approve"]);
}

/// The decision of a newer request does not hide an older one that still waits.
#[test]
fn a_run_with_two_requests_waits_until_both_are_decided() {
    let hub = Running::start(Limits::default());
    let token = hub.client("v", UserRole::Viewer);
    let mut host = ScriptedHost::connect(&hub, "h");
    host.started("r");
    ask(&mut host, "r", 2, "older");
    ask(&mut host, "r", 3, "newer");
    let mut decided = |seq: i64, request: &str| {
        host.event("r", seq, "run.permission_decided", json!({ "request_id": request, "decision": "deny" }));
        host.acked("r", seq);
        hub.get_json("/runs/r", &token)
    };
    let row = decided(4, "newer");
    assert_eq!((&row["status"], &row["pending_request_id"]), (&json!("awaiting_approval"), &json!("older")));
    assert_eq!(row["pending_op_tool"], "bash", "{row}");
    let row = decided(5, "older");
    assert_eq!((&row["status"], &row["pending_request_id"]), (&json!("running"), &Value::Null));
}

/// The true text comes from the host and is not stored.
#[test]
fn an_approver_sees_the_true_text() {
    let hub = Running::start(Limits::default());
    let operator = hub.client("ann", UserRole::Operator);
    let mut host = ScriptedHost::connect(&hub, "h");
    ask(&mut host, "r", 1, "q");
    host.acked("r", 1);
    let row = std::thread::scope(|scope| {
        let asking = scope.spawn(|| hub.get_json("/approvals/r/q", &operator));
        let request = host.socket.next("rpc.approval.show");
        assert_eq!((&request["data"]["approval_id"], &request["data"]["user"]), (&json!("q"), &json!("ann")));
        host.respond(&request, json!({ "cmd": "curl -H 'token: hunter2'" }));
        asking.join().unwrap()
    });
    assert_eq!(
        (&row["shown"]["cmd"], &row["request"]["op_tool"]),
        (&json!("curl -H 'token: hunter2'"), &json!("bash"))
    );
    let stored = hub.with_store(async |store| store.events_after("r", (0, i64::MAX), 10).await.unwrap());
    assert!(!format!("{stored:?}").contains("hunter2"));
}

/// A host sends everything again after each cut; the store and the app have every line once.
fn every_line_arrives_once(mut hub: Running, mut disturb: impl FnMut(&mut Running, usize)) {
    let token = hub.client("v", UserRole::Viewer);
    let (rounds, lines) = (6, 40);
    let total = i64::try_from(rounds * lines).unwrap();
    let mut seen = Vec::new();
    for round in 0..rounds {
        let mut host = ScriptedHost::connect(&hub, "h");
        let held = json!([{ "run_id": "r", "last_seq": total }]);
        host.socket
            .send(&json!({ "type": "host.hello", "data": { "name": "", "version": "", "runs": held } }));
        let stored = host.socket.next("run.ack")["data"]["last_seq"].as_i64().unwrap();
        host.socket.next("hub.ready");
        // Stored behind all events of the connection before, so that none of them is published to the new app.
        let marker = i64::try_from(round + 1).unwrap();
        host.output("marker", marker);
        host.acked("marker", marker);
        let mut app = app(&hub, &token);
        let last = seen.last().copied().unwrap_or(0);
        if stored > 0 {
            app.send(&command("run.subscribe", "r", json!({ "after_seq": last })));
        }
        // An app that does not watch the run yet would receive new events before the stored ones.
        app.send(&json!({ "type": "app.ping" }));
        app.next("app.pong");
        let end = i64::try_from((round + 1) * lines).unwrap();
        // Some lines before the acknowledged ones, as a host sends them that does not know its position.
        for seq in (stored - 5).max(1)..=end {
            host.output("r", seq);
        }
        match round + 1 == rounds {
            true => seen.extend(output_of(&app.until(|message| message["seq"] == total))),
            false => {
                // The app reads some of it, and then everything is cut at once.
                let middle = end - 10;
                seen.extend(output_of(&app.until(|message| message["seq"] == middle)));
            }
        }
        drop((host, app));
        disturb(&mut hub, round);
    }
    assert_eq!(seen, (1..=total).collect::<Vec<_>>());
    let stored = hub.with_store(async |store| store.events_after("r", (0, i64::MAX), 10_000).await.unwrap());
    assert_eq!(stored.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=total).collect::<Vec<_>>());
}

#[test]
fn every_line_arrives_once_with_sqlite() {
    every_line_arrives_once(Running::start(Limits::default()), |hub, _round| hub.restart());
}

#[test]
fn every_line_arrives_once_with_postgresql_whose_connections_are_cut() {
    let postgres = Postgres::start();
    let database = postgres.database();
    let url = postgres.url(&database);
    let hub = Running::start_with(Limits::default(), |config| config.storage = Storage::Database(url));
    every_line_arrives_once(hub, |hub, round| {
        assert!(postgres.cut(&database) > 0);
        if round % 2 == 1 {
            hub.restart();
        }
    });
}
