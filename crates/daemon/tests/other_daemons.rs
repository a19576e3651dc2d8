//! Several daemons of one user: approvals and attached processes of each are reached through the others.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::client::AnyClient;
use testkit::daemon::Rexd;
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon};
use testkit::tries::Tries;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
const PATIENCE: Duration = Duration::from_secs(60);
/// The sockets of the daemons, below the sandbox.
const SOCKETS: &str = "home/state/rexd/daemons";

/// `touch` needs an approval.
const ASKS: &str = "[[policy.rules]]\nname = \"touching\"\naction = \"ask\"\nargv = [\"touch\", \"*\"]\n";

fn sandbox(more: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.configure(&format!("{ASKS}{more}"));
    sandbox
}

/// A daemon with its session. `approvals` says whether its client answers approvals.
fn open(sandbox: &Sandbox, approvals: bool) -> (Rexd, String) {
    let mut client = Rexd::start(REXD, sandbox);
    let opened = client.open_with(json!({ "client_name": "test", "approvals": approvals }));
    let session = opened["session_id"].as_str().unwrap().to_owned();
    (client, session)
}

/// The same for a client that watches approvals: other daemons find it once it has listed them.
fn watcher(sandbox: &Sandbox) -> (Rexd, String) {
    let (mut client, session) = open(sandbox, true);
    client.call("approval.list", json!({ "session_id": session }));
    (client, session)
}

fn touch(client: &mut Rexd, session: &str, name: &str) -> u64 {
    client.request("exec.start", json!({ "session_id": session, "argv": ["touch", name] }))
}

fn event(client: &mut Rexd, method: &str, session: &str) -> Value {
    let event = client.take(method, |message| message["method"] == method);
    assert_eq!(event["params"]["session_id"], session, "{event}");
    event["params"].clone()
}

/// The pending approvals, once there is one.
fn listed(client: &mut Rexd, session: &str) -> Value {
    let mut tries = Tries::within(PATIENCE, "a pending approval");
    loop {
        let list = client.call("approval.list", json!({ "session_id": session }));
        if let Some(first) = list["approvals"].as_array().unwrap().first() {
            return first.clone();
        }
        tries.again();
    }
}

/// ARCHITECTURE.md, invariant 64.
#[test]
fn an_approval_is_seen_and_answered_through_any_daemon_of_the_user() {
    let sandbox = sandbox("");
    let (mut watches, watching) = watcher(&sandbox);
    let (mut asks, asking) = open(&sandbox, false);
    let request = touch(&mut asks, &asking, "made");
    let requested = event(&mut watches, "approval.requested", &watching);
    assert_eq!(requested["operation"]["argv"], json!(["touch", "made"]));
    assert_eq!(requested["operation"]["cwd"], json!(sandbox.root()));
    assert_eq!(requested["asked_by"]["session_id"], json!(asking));
    // A daemon that is started later finds it too.
    let (mut later, deciding) = open(&sandbox, true);
    let found = listed(&mut later, &deciding);
    assert_eq!(found["approval_id"], requested["approval_id"]);
    let answer =
        json!({ "session_id": deciding, "approval_id": found["approval_id"], "decision": "approve" });
    later.call("approval.answer", answer.clone());
    let process = asks.response(request)["result"]["process_id"].as_str().unwrap().to_owned();
    assert_eq!(asks.finish(&process).exit["exit_code"], 0);
    assert!(sandbox.path("root/made").exists());
    let decided = event(&mut watches, "approval.decided", &watching);
    assert_eq!((&decided["approval_id"], &decided["decision"]), (&found["approval_id"], &json!("approve")));
    assert_eq!(later.refused("approval.answer", answer)["code"], -32006, "it was answered before");
    // A second request finds the watcher again, and its answer arrives as well.
    let request = touch(&mut asks, &asking, "never");
    let id = event(&mut watches, "approval.requested", &watching)["approval_id"].clone();
    watches.call("approval.answer", json!({ "session_id": watching, "approval_id": id, "decision": "deny" }));
    let refused = asks.response(request);
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["data"]["by"]),
        (&json!(-32001), &json!("stdio"))
    );
    assert!(!sandbox.path("root/never").exists());
    for client in [watches, asks, later] {
        client.end();
    }
    assert_eq!(std::fs::read_dir(sandbox.path(SOCKETS)).unwrap().count(), 0, "every socket is removed");
}

#[test]
fn without_an_approver_in_any_daemon_a_request_is_denied_at_once() {
    let sandbox = sandbox("");
    // It answers only what its own session requests.
    let (mut other, _) = open(&sandbox, true);
    let (mut asks, asking) = open(&sandbox, false);
    let refused = asks.refused("exec.start", json!({ "session_id": asking, "argv": ["touch", "x"] }));
    assert!(refused.to_string().contains("no approver is connected"), "{refused}");
    assert!(other.kept().iter().all(|message| message["method"] != "approval.requested"));
}

#[test]
fn the_configuration_of_the_daemon_that_asks_decides_who_may_answer() {
    let strict = sandbox("[approvals]\napprovers = [\"token:phone\"]\n");
    let (mut watches, watching) = watcher(&strict);
    let (mut asks, asking) = open(&strict, false);
    let refused = asks.refused("exec.start", json!({ "session_id": asking, "argv": ["touch", "x"] }));
    assert!(refused.to_string().contains("no approver is connected"), "{refused}");
    let list = watches.call("approval.list", json!({ "session_id": watching }));
    assert_eq!(list["approvals"], json!([]));
    // A daemon with another file beside it: there the rule does not exist.
    let mut command: Command = strict.command(REXD);
    command.arg("--stdio").arg("--root").arg(strict.root());
    let mut free = Rexd::spawn(command);
    let session = free.open();
    assert_eq!(free.run(json!({ "session_id": session, "argv": ["touch", "free"] })).exit["exit_code"], 0);
}

#[test]
fn an_approval_is_withdrawn_everywhere_when_its_daemon_is_killed() {
    let sandbox = sandbox("");
    let (mut watches, watching) = watcher(&sandbox);
    let (mut asks, asking) = open(&sandbox, false);
    touch(&mut asks, &asking, "never");
    let id = event(&mut watches, "approval.requested", &watching)["approval_id"].clone();
    asks.signal(Signal::KILL);
    let decided = event(&mut watches, "approval.decided", &watching);
    assert_eq!((&decided["approval_id"], &decided["decision"]), (&id, &json!("withdrawn")));
    let list = watches.call("approval.list", json!({ "session_id": watching }));
    assert_eq!(list["approvals"], json!([]));
}

/// The process with this id in the list of a daemon, once it is there.
fn found(client: &mut AnyClient, session: &str, id: &str) -> Value {
    let mut tries = Tries::within(PATIENCE, "a process of another daemon");
    loop {
        let list = client.call("exec.list", json!({ "session_id": session }));
        let processes = list["processes"].as_array().unwrap();
        if let Some(process) = processes.iter().find(|process| process["process_id"] == id) {
            let ids: Vec<&Value> = processes.iter().map(|process| &process["process_id"]).collect();
            assert_eq!(ids.iter().filter(|other| **other == id).count(), 1, "listed once: {ids:?}");
            return process.clone();
        }
        tries.again();
    }
}

/// ARCHITECTURE.md, invariant 64.
#[test]
fn an_attached_process_is_listed_and_killed_through_another_daemon() {
    let sandbox = sandbox("");
    let (mut owner, owning) = open(&sandbox, false);
    let id = owner.begin(json!({ "session_id": owning, "argv": ["sh", "-c", "sleep 1000 & sleep 1000"] }));
    let served = ServedDaemon::start(REXD, &sandbox);
    for way in [CarrierKind::Unix, CarrierKind::WebSocket] {
        let mut other = served.client(way);
        let session = other.open();
        let process = found(&mut other, &session, &id);
        assert_eq!((&process["detached"], &process["status"]), (&json!(false), &json!("running")));
    }
    let mut other = served.client(CarrierKind::Unix);
    let session = other.open();
    let unknown = json!({ "session_id": session, "process_id": "p_000000000000" });
    assert_eq!(other.refused("exec.kill", unknown)["code"], -32005);
    let killed = other.call("exec.kill", json!({ "session_id": session, "process_id": id }));
    assert_eq!(killed["ok"], true, "{killed}");
    assert_eq!(killed["killed"].as_array().unwrap().len(), 3, "the whole tree: {killed}");
    assert_eq!(owner.finish(&id).exit["signal"], "TERM");
}

#[test]
fn a_caller_that_is_not_the_user_reaches_only_what_is_below_its_roots() {
    let sandbox = Sandbox::new();
    let wide = || {
        let mut command = sandbox.command(REXD);
        command.arg("--stdio").arg("--root").arg("/");
        let mut client = Rexd::spawn(command);
        let session = client.open();
        (client, session)
    };
    let (mut owner, owning) = wide();
    let sleeping =
        |cwd: std::path::PathBuf| json!({ "session_id": owning, "argv": ["sleep", "1000"], "cwd": cwd });
    let outside = owner.begin(sleeping(sandbox.outside()));
    let inside = owner.begin(sleeping(sandbox.root()));
    // Its roots are the sandbox's root; over WebSocket the caller is a token.
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut token = served.client(CarrierKind::WebSocket);
    let session = token.open();
    found(&mut token, &session, &inside);
    let list = token.call("exec.list", json!({ "session_id": session }));
    assert!(!list.to_string().contains(&outside), "{list}");
    let kill = json!({ "session_id": session, "process_id": outside });
    assert_eq!(token.refused("exec.kill", kill)["code"], -32005);
    let mut user = served.client(CarrierKind::Unix);
    let session = user.open();
    found(&mut user, &session, &outside);
}
