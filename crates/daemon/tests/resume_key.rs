//! `session.open` with a `resume_key`: a client that lost its connection before the response continues the session that it
//! opened, or learns that this is not possible; no key opens two sessions.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod resuming_client;

use resuming_client::{REXD, ResumingClient, local, resume_socket};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::carrier::Carrier;
use testkit::client::Client;
use testkit::daemon::{PATIENCE, Rexd};
use testkit::proc;
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon};

const KEY: &str = "0123456789abcdef0123456789abcdef";

fn first() -> Value {
    json!({ "client_name": "test", "resume": true, "resume_key": KEY })
}

fn resent(after_ms: u64) -> Value {
    json!({ "client_name": "test", "resume": true, "resume_key": KEY, "resent_after_ms": after_ms })
}

/// Writes a line to the file `ran`, then waits.
fn start() -> Value {
    json!({ "argv": ["sh", "-c", "echo once >> ran; exec sleep 1000"], "idempotency_key": "start" })
}

fn waits_for_lines(sandbox: &Sandbox, count: usize) {
    let mut tries = testkit::tries::Tries::within(PATIENCE, "the commands have written their lines");
    while std::fs::read_to_string(sandbox.path("root/ran")).map_or(0, |text| text.lines().count()) < count {
        tries.again();
    }
}

/// Ends the process that was started.
fn kill(resuming: &mut ResumingClient<'_>, process: &Value) {
    resuming.call("exec.kill", json!({ "process_id": process["process_id"] }));
    resuming.client.take("the exit", |message| message["method"] == "exec.exit");
}

#[track_caller]
fn refused_as_used<C: Carrier>(client: &mut Client<C>, params: Value) {
    let error = client.refused("session.open", params);
    assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32001), &json!("resume_key")), "{error}");
    // What was sent together with it reaches no session.
    let start = client.refused("exec.start", json!({ "session_id": "@last", "argv": ["touch", "other"] }));
    assert_eq!(start["code"], -32602, "{start}");
}

/// ARCHITECTURE.md, invariant 32.
#[test]
fn a_session_is_continued_by_another_daemon_with_its_key() {
    let sandbox = Sandbox::new();
    let mut resuming = ResumingClient::open(|| local(&sandbox), first());
    assert!(resuming.opened["capabilities"].as_array().unwrap().contains(&json!("resume_key")));
    assert!(resume_socket(&sandbox, &resuming.session()).exists(), "before the response");
    let process = resuming.call("exec.start", start());
    resuming.disconnect();
    resuming.connect();
    let again = resuming.client.call("session.open", resent(1));
    let expected = (&resuming.opened["session_id"], &resuming.opened["resume_token"], &json!(0));
    assert_eq!((&again["session_id"], &again["resume_token"], &again["lost"]), expected);
    // By its name on this connection too.
    let mut same = start();
    same["session_id"] = json!("@last");
    assert_eq!(resuming.client.call("exec.start", same), process, "it was not started twice");
    waits_for_lines(&sandbox, 1);
    kill(&mut resuming, &process);
    assert_eq!(sandbox.read("root/ran"), "once\n");
    let path = resume_socket(&sandbox, &resuming.session());
    resuming.close();
    assert!(!path.exists(), "its client has closed it");
    assert!(!sandbox.read("audit.log").contains(KEY), "the key is a secret");
}

/// The first request arrives after the second, whose session has ended.
///
/// ARCHITECTURE.md, invariant 32.
#[test]
fn a_request_that_arrives_late_opens_no_session() {
    let sandbox = Sandbox::new();
    let mut late = Rexd::spawn(local(&sandbox));
    let mut resuming = ResumingClient::open(|| local(&sandbox), resent(1_000));
    assert_eq!(resuming.opened.get("lost"), None, "a new session");
    let process = resuming.call("exec.start", start());
    refused_as_used(&mut late, first());
    waits_for_lines(&sandbox, 1);
    kill(&mut resuming, &process);
    let path = resume_socket(&sandbox, &resuming.session());
    resuming.close();
    assert!(path.exists(), "another request with the key may be on its way");
    refused_as_used(&mut late, first());
    refused_as_used(&mut Rexd::spawn(local(&sandbox)), resent(2_000));
    assert_eq!(sandbox.read("root/ran"), "once\n");
    assert!(!sandbox.path("root/other").exists());
    // Other keys are not affected.
    assert_eq!(late.open().len(), 14);
}

/// The command may have run in part: it is not started again.
///
/// ARCHITECTURE.md, invariant 32.
#[test]
fn the_key_of_a_daemon_that_was_ended_opens_nothing() {
    for signal in [Signal::KILL, Signal::TERM] {
        let sandbox = Sandbox::new();
        let mut resuming = ResumingClient::open(|| local(&sandbox), first());
        resuming.call("exec.start", start());
        let daemon = rustix::process::Pid::from_raw(resuming.first()).unwrap();
        rustix::process::kill_process(daemon, signal).unwrap();
        assert_eq!(proc::survivors(&[proc::watch(resuming.first())], PATIENCE), [0; 0]);
        resuming.disconnect();
        resuming.connect();
        refused_as_used(&mut resuming.client, resent(1));
    }
}

#[test]
fn unusable_keys_are_refused() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::spawn(local(&sandbox));
    for (name, value) in [
        ("resume_key", json!("short")),
        ("resume_key", json!("x".repeat(129))),
        ("resent_after_ms", json!(-1)),
    ] {
        let mut params = first();
        params[name] = value;
        let error = rexd.refused("session.open", params);
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!(name)), "{error}");
    }
    // Longer than the time for which keys are remembered.
    refused_as_used(&mut rexd, resent(3_600_000));
    // Without `resume` there is nothing to continue.
    let opened = rexd.call("session.open", json!({ "resume_key": KEY }));
    assert_eq!(opened.get("resume_token"), None);
}

/// ARCHITECTURE.md, invariant 32.
#[test]
fn a_daemon_with_listeners_opens_one_session_for_a_key() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(REXD, &sandbox);
    for (index, way) in [CarrierKind::Unix, CarrierKind::WebSocket].into_iter().enumerate() {
        let key = format!("{way:?}-{KEY}");
        let with_key = |mut params: Value| {
            params["resume_key"] = json!(key);
            params
        };
        let mut one = served.client(way);
        let opened = one.call("session.open", with_key(first()));
        let mut params = start();
        params["session_id"] = opened["session_id"].clone();
        let process = one.call("exec.start", params.clone());
        let mut two = served.client(way);
        let before = two.open();
        refused_as_used(&mut two, with_key(first()));
        let attached = two.refused("session.open", with_key(resent(1)));
        assert_eq!((&attached["code"], &attached["data"]["retry"]), (&json!(-32006), &json!(true)));
        let start = json!({ "session_id": "@last", "argv": ["touch", "other"] });
        assert_eq!(two.refused("exec.start", start)["code"], -32602, "and not the session before");
        two.call("session.close", json!({ "session_id": before }));
        drop(one);
        let mut tries = testkit::tries::Tries::within(PATIENCE, "the session is continued");
        let again = loop {
            let response = two.request("session.open", with_key(resent(1)));
            let response = two.response(response);
            match response.get("result") {
                Some(result) => break result.clone(),
                None => tries.again(),
            }
        };
        assert_eq!((&again["session_id"], &again["lost"]), (&opened["session_id"], &json!(0)));
        assert_eq!(two.call("exec.start", params), process);
        // Another caller, who knows the key.
        let other = if way == CarrierKind::Unix { CarrierKind::WebSocket } else { CarrierKind::Unix };
        refused_as_used(&mut served.client(other), with_key(resent(1)));
        waits_for_lines(&sandbox, index + 1);
        two.call("session.close", json!({ "session_id": opened["session_id"] }));
        refused_as_used(&mut two, with_key(first()));
        refused_as_used(&mut two, with_key(resent(1)));
        // This daemon may not be the one that received the first request.
        let unknown = json!({ "resume": true, "resume_key": "x".repeat(32), "resent_after_ms": 3_600_000 });
        refused_as_used(&mut two, unknown);
    }
    assert_eq!(sandbox.read("root/ran"), "once\nonce\n");
}
