//! The end of a session: it leaves no process and does not wait for processes of other sessions and of keepers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use serde_json::{Value, json};
use testkit::client::AnyClient;
use testkit::daemon::Rexd;
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon};

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
/// More than a keeper lets watch at the same time.
const MANY: usize = 40;
/// Longer than a session without a link and without a listener is kept.
const PATIENCE: &str = "sleep 4";

fn detached(rexd: &mut Rexd, session: &str, line: &str) -> String {
    let params = json!({ "session_id": session, "command": line, "shell": true, "detach": true });
    rexd.call("exec.start", params)["process_id"].as_str().unwrap().to_owned()
}

fn kill(rexd: &mut Rexd, session: &str, process: &str) {
    let killed = rexd.call("exec.kill", json!({ "session_id": session, "process_id": process }));
    assert_eq!(killed["ok"], true, "{killed}");
}

/// Lets a little of the daemon's time pass; returns what came meanwhile.
fn meanwhile(client: &mut AnyClient) -> Vec<Value> {
    let session = client.open();
    client.run(json!({ "session_id": session, "argv": ["sleep", "0.2"] }));
    client.kept()
}

#[test]
fn a_session_that_only_attached_ends_at_once_and_sends_no_more_events() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut owner = served.client(CarrierKind::Unix);
    let own = owner.open();
    let line = "while :; do echo line; sleep 0.005; done";
    let process = owner.begin(json!({ "session_id": own, "argv": ["sh", "-c", line] }));

    let mut guest = served.client(CarrierKind::Unix);
    let session = guest.open();
    let named = json!({ "session_id": session, "process_id": process });
    guest.call("exec.attach", named.clone());
    guest.until(&process, "line\n");
    let waits = guest.request("exec.wait", named);
    guest.call("session.close", json!({ "session_id": session }));
    let waited = guest.response(waits);
    assert_eq!(waited["result"]["status"], "running", "{waited}");
    // What was on its way when it ended.
    meanwhile(&mut guest);
    let late = meanwhile(&mut guest);
    assert!(late.iter().all(|message| message["params"]["session_id"] != *session), "{late:?}");
    assert_eq!(owner.call("exec.kill", json!({ "session_id": own, "process_id": process }))["ok"], true);
}

#[test]
fn waiting_for_a_detached_process_does_not_hold_up_the_end() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    let process = detached(&mut rexd, &session, "sleep 1000");
    let waits = rexd.request("exec.wait", json!({ "session_id": session, "process_id": process }));
    rexd.close_input();
    let waited = rexd.response(waits);
    assert_eq!(waited["result"]["status"], "running", "{waited}");
    assert_eq!(rexd.end().0.code(), Some(0));

    let mut next = Rexd::start_open(REXD, &sandbox);
    let session = next.open();
    kill(&mut next, &session, &process);
}

#[test]
fn a_detached_start_is_answered_without_further_requests() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    let params = json!({ "session_id": session, "argv": ["sleep", "1000"], "detach": true });
    let starts = rexd.request("exec.start", params);
    rexd.close_input();
    let started = rexd.response(starts);
    let process = started["result"]["process_id"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    rexd.end();

    let mut next = Rexd::start_open(REXD, &sandbox);
    let session = next.open();
    kill(&mut next, &session, &process);
}

#[test]
fn input_to_a_process_that_is_being_attached_keeps_its_order() {
    let sandbox = Sandbox::new();
    let mut first = Rexd::start_open(REXD, &sandbox);
    let session = first.open();
    let process = detached(&mut first, &session, "cat");
    first.end();

    let mut next = Rexd::start_open(REXD, &sandbox);
    let session = next.open();
    let typed: Vec<String> = (0..MANY).map(|number| format!("{number}\n")).collect();
    let asked: Vec<u64> = typed
        .iter()
        .map(|text| {
            let params = json!({ "session_id": session, "process_id": process, "data": text });
            next.request("exec.input", params)
        })
        .collect();
    for id in asked {
        let answer = next.response(id);
        assert!(answer["result"].is_object(), "{answer}");
    }
    next.call("exec.attach", json!({ "session_id": session, "process_id": process }));
    assert_eq!(next.until(&process, typed.last().unwrap()), typed.concat());
    kill(&mut next, &session, &process);
}

#[test]
fn attaching_again_and_again_takes_one_place_only() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    let process = detached(&mut rexd, &session, "cat");
    let named = json!({ "session_id": session, "process_id": process });
    for _ in 0..MANY {
        rexd.call("exec.attach", named.clone());
    }
    let mut other = Rexd::start_open(REXD, &sandbox);
    let theirs = other.open();
    other.call("exec.attach", json!({ "session_id": theirs, "process_id": process }));
    rexd.call("exec.input", json!({ "session_id": session, "process_id": process, "data": "hello\n" }));
    rexd.until(&process, "hello\n");
    other.until(&process, "hello\n");
    kill(&mut rexd, &session, &process);
}

#[test]
fn following_an_end_twice_makes_no_room_for_more_processes() {
    let sandbox = Sandbox::with_config("[limits]\nmax_processes_per_session = 2\n");
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    let ended = rexd.begin(json!({ "session_id": session, "argv": ["true"] }));
    rexd.finish(&ended);
    for _ in 0..5 {
        rexd.call("exec.attach", json!({ "session_id": session, "process_id": ended }));
        rexd.finish(&ended);
    }
    let params = json!({ "session_id": session, "argv": ["sleep", "1000"] });
    rexd.begin(params.clone());
    rexd.begin(params.clone());
    assert_eq!(rexd.refused("exec.start", params)["code"], -32008);
}

#[test]
fn a_listener_that_is_refused_does_not_end_the_session_of_the_one_that_listens() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut client = served.client(CarrierKind::Http);
    let session = client.open();
    let process = client.begin(
        json!({ "session_id": session, "argv": ["sh", "-c", format!("echo on; {PATIENCE}; echo still")] }),
    );
    client.until(&process, "on\n");
    assert!(served.addresses.listen(&session, 1_000_000).is_err(), "an event that has not happened");
    client.until(&process, "still\n");
    assert_eq!(client.finish(&process).exit["exit_code"], 0);
}
