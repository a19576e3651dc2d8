//! Requests that need approval: approved, denied, answered twice, timed out, cancelled; each is executed at most once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::client::AnyClient;
use testkit::daemon::Rexd;
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon};
use testkit::tries::Tries;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
const SOON: Duration = Duration::from_secs(60);

/// Touching is asked about, and so is writing into `guarded`; removing what is in there is denied.
const ASKS: &str = r#"
[[policy.rules]]
name = "touching"
action = "ask"
argv = ["touch", "*"]
reason = "somebody should look"

[[policy.rules]]
name = "guarded"
action = "ask"
paths = ["$ROOT/guarded/**"]
access = "write"
"#;

fn sandbox(more: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.configure(&format!("{ASKS}{more}"));
    std::fs::create_dir(sandbox.path("root/guarded")).unwrap();
    sandbox
}

fn in_root(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.root().join(name)
}

fn touch(session: &str, name: &str) -> Value {
    json!({ "session_id": session, "argv": ["touch", name] })
}

fn requested(client: &mut AnyClient, session: &str) -> Value {
    let event = client.take("a question", |message| {
        message["method"] == "approval.requested" && message["params"]["session_id"] == session
    });
    event["params"].clone()
}

fn decided(client: &mut AnyClient, session: &str, id: &Value) -> Value {
    let event = client.take("a decision", |message| {
        message["method"] == "approval.decided"
            && message["params"]["session_id"] == session
            && message["params"]["approval_id"] == *id
    });
    event["params"].clone()
}

fn answer(session: &str, id: &Value, decision: &str) -> Value {
    json!({ "session_id": session, "approval_id": id, "decision": decision })
}

/// ARCHITECTURE.md, invariant 42.
#[test]
fn an_approved_command_runs_once_and_every_approver_sees_the_exact_command() {
    let sandbox = sandbox("");
    let served = ServedDaemon::start(REXD, &sandbox);
    for way in [CarrierKind::Unix, CarrierKind::WebSocket] {
        let name = format!("made-{way:?}");
        let (mut asks, mut other) = (served.client(way), served.client(CarrierKind::Unix));
        let (session, watcher) = (asks.open(), other.open());
        let mut params = touch(&session, &name);
        params["env"] = json!({ "API_TOKEN": "hunter2-hunter2" });
        let request = asks.request("exec.start", params);
        let question = requested(&mut other, &watcher);
        assert_eq!(question["operation"]["argv"], json!(["touch", name]));
        assert_eq!(question["operation"]["env"]["API_TOKEN"], "hunter2-hunter2", "approvers see the truth");
        assert_eq!(question["operation"]["cwd"], json!(sandbox.root()));
        assert_eq!(
            (&question["rule"], &question["reason"]),
            (&json!("touching"), &json!("somebody should look"))
        );
        assert_eq!(question["asked_by"]["session_id"], json!(session));
        assert!(question["risk"].is_string() && question["expires_at"].is_string());
        assert_eq!(requested(&mut asks, &session)["approval_id"], question["approval_id"]);
        let listed = other.call("approval.list", json!({ "session_id": watcher }));
        assert_eq!(listed["approvals"][0]["approval_id"], question["approval_id"]);
        assert!(!in_root(&sandbox, &name).exists(), "nothing happens before somebody has decided");
        other.call("approval.answer", answer(&watcher, &question["approval_id"], "approve"));
        let started = asks.response(request);
        assert_eq!(asks.finish(started["result"]["process_id"].as_str().unwrap()).exit["exit_code"], 0);
        assert!(in_root(&sandbox, &name).exists());
        let told = decided(&mut asks, &session, &question["approval_id"]);
        assert_eq!((&told["decision"], &told["scope"]), (&json!("approve"), &json!("once")));
        assert!(told["by"].as_str().unwrap().starts_with("uid:"), "{told}");
        let listed = other.call("approval.list", json!({ "session_id": watcher }));
        assert_eq!(listed["approvals"], json!([]));
    }
}

#[test]
fn a_denied_command_does_not_run_and_the_error_names_the_approver() {
    let sandbox = sandbox("");
    let mut client = Rexd::start(REXD, &sandbox);
    let session = client.open();
    let request = client.request("exec.start", touch(&session, "never"));
    let question = client.take("a question", |message| message["method"] == "approval.requested");
    let id = question["params"]["approval_id"].clone();
    client.call("approval.answer", answer(&session, &id, "deny"));
    let refused = client.response(request);
    assert_eq!(refused["error"]["code"], -32001, "{refused}");
    assert_eq!(refused["error"]["data"]["rule"], "touching");
    assert_eq!(refused["error"]["data"]["by"], "stdio");
    assert!(!in_root(&sandbox, "never").exists());
}

/// ARCHITECTURE.md, invariant 41.
#[test]
fn of_two_concurrent_answers_the_second_is_an_error() {
    let sandbox = sandbox("");
    let served = ServedDaemon::start(REXD, &sandbox);
    let (mut asks, mut one, mut two) = (
        served.client(CarrierKind::Unix),
        served.client(CarrierKind::Unix),
        served.client(CarrierKind::WebSocket),
    );
    let (session, first, second) = (asks.open(), one.open(), two.open());
    for round in 0..10 {
        let name = format!("round{round}");
        let request = asks.request("exec.start", json!({ "session_id": session, "argv": ["touch", name] }));
        let id = requested(&mut one, &first)["approval_id"].clone();
        requested(&mut two, &second);
        let yes = one.request("approval.answer", answer(&first, &id, "approve"));
        let no = two.request("approval.answer", answer(&second, &id, "deny"));
        let (yes, no) = (one.response(yes), two.response(no));
        let (won, lost) = match yes.get("result") {
            Some(_) => ("approve", no),
            None => ("deny", yes),
        };
        assert_eq!(lost["error"]["code"], -32006, "{lost}");
        let answered = asks.response(request);
        assert_eq!(answered.get("result").is_some(), won == "approve", "{answered}");
        if let Some(process) = answered["result"]["process_id"].as_str() {
            asks.finish(process);
        }
        assert_eq!(in_root(&sandbox, &name).exists(), won == "approve");
        assert_eq!(decided(&mut one, &first, &id)["decision"], won);
    }
}

/// ARCHITECTURE.md, invariant 41.
#[test]
fn silence_is_a_no() {
    let sandbox = sandbox("[approvals]\ntimeout_ms = 200\n");
    let mut client = Rexd::start(REXD, &sandbox);
    let session = client.open();
    let refused = client.refused("exec.start", touch(&session, "never"));
    assert_eq!(refused["code"], -32003, "{refused}");
    assert_eq!(refused["data"]["rule"], "touching");
    let late =
        client.refused("approval.answer", answer(&session, &refused["data"]["approval_id"], "approve"));
    assert_eq!(late["code"], -32006, "{late}");
    assert!(!in_root(&sandbox, "never").exists());
}

/// ARCHITECTURE.md, invariant 41.
#[test]
fn a_cancelled_or_disconnected_request_is_not_executed() {
    let sandbox = sandbox("");
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut watcher = served.client(CarrierKind::Unix);
    let watching = watcher.open();
    for way in [CarrierKind::Unix, CarrierKind::WebSocket] {
        let mut asks = served.client(way);
        let session = asks.open();
        asks.request("exec.start", touch(&session, "never"));
        let id = requested(&mut watcher, &watching)["approval_id"].clone();
        drop(asks);
        assert_eq!(decided(&mut watcher, &watching, &id)["decision"], "withdrawn", "{way:?}");
        let late = watcher.refused("approval.answer", answer(&watching, &id, "approve"));
        assert_eq!(late["code"], -32006, "{late}");
    }
    let mut asks = served.client(CarrierKind::Unix);
    let session = asks.open();
    let request = asks.request("exec.start", touch(&session, "never"));
    let id = requested(&mut watcher, &watching)["approval_id"].clone();
    asks.send(&json!({ "jsonrpc": "2.0", "method": "$/cancel", "params": { "id": request } }).to_string());
    assert_eq!(asks.response(request)["error"]["code"], -32800);
    assert_eq!(decided(&mut watcher, &watching, &id)["decision"], "withdrawn");
    assert!(!in_root(&sandbox, "never").exists());
}

#[test]
fn a_posted_request_waits_for_its_approval_and_another_post_answers_it() {
    let sandbox = sandbox("");
    let served = ServedDaemon::start(REXD, &sandbox);
    let (mut asks, mut answers) = (served.client(CarrierKind::Http), served.client(CarrierKind::Http));
    let session = asks.open();
    let own = answers.open();
    let asking = std::thread::spawn(move || asks.ask("exec.start", touch(&session, "posted")).unwrap());
    let mut tries = Tries::within(SOON, "the question is listed");
    let id = loop {
        let listed = answers.call("approval.list", json!({ "session_id": own }));
        match listed["approvals"].get(0) {
            Some(approval) => break approval["approval_id"].clone(),
            None => tries.again(),
        }
    };
    answers.call("approval.answer", answer(&own, &id, "approve"));
    let answer = asking.join().unwrap();
    assert!(answer["result"]["process_id"].is_string(), "{answer}");
}

#[test]
fn an_approver_that_leaves_is_replaced_by_the_next() {
    let sandbox = sandbox("[approvals]\nself_approval = false\napprovers = [\"token:*\"]\n");
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut asks = served.client(CarrierKind::Unix);
    let session = asks.open();
    let refused = asks.refused("exec.start", touch(&session, "made"));
    assert_eq!(refused["code"], -32001, "nobody can be asked: {refused}");
    assert_eq!(refused["data"]["rule"], "touching");
    let mut phone = served.client(CarrierKind::WebSocket);
    let on_phone = phone.open();
    let request = asks.request("exec.start", touch(&session, "made"));
    let id = requested(&mut phone, &on_phone)["approval_id"].clone();
    drop(phone);
    let own = asks.refused("approval.answer", answer(&session, &id, "approve"));
    assert_eq!(own["code"], -32001, "{own}");
    let mut tablet = served.client(CarrierKind::WebSocket);
    let on_tablet = tablet.open();
    let listed = tablet.call("approval.list", json!({ "session_id": on_tablet }));
    assert_eq!(listed["approvals"][0]["approval_id"], id);
    tablet.call("approval.answer", answer(&on_tablet, &id, "approve"));
    let started = asks.response(request);
    asks.finish(started["result"]["process_id"].as_str().unwrap());
    assert!(in_root(&sandbox, "made").exists());
}

#[test]
fn without_a_client_that_shows_approvals_the_request_fails_at_once() {
    let sandbox = sandbox("");
    let mut client = Rexd::start(REXD, &sandbox);
    for params in [json!({ "client_name": "opencode-rexd-target" }), json!({ "approvals": false })] {
        let opened = client.open_with(params);
        let refused = client.refused("exec.start", touch(opened["session_id"].as_str().unwrap(), "x"));
        assert_eq!(refused["code"], -32001, "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("no approver is connected"), "{refused}");
    }
}

/// ARCHITECTURE.md, invariant 42.
#[test]
fn a_write_is_shown_as_a_diff_and_done_only_if_it_still_is_that() {
    let sandbox = sandbox("");
    let mut client = Rexd::start(REXD, &sandbox);
    let session = client.open();
    sandbox.write("root/guarded/note", "one\ntwo\n");
    let params = json!({ "session_id": session, "path": "guarded/note", "content": "one\n2\n" });
    let ask = |client: &mut Rexd| {
        let request = client.request("fs.write", params.clone());
        let question = client.take("a question", |message| message["method"] == "approval.requested");
        (request, question["params"].clone())
    };
    let (request, question) = ask(&mut client);
    let diff = question["operation"]["diff"].as_str().unwrap();
    assert!(diff.contains("-two\n+2\n"), "{diff}");
    // Others pass it by while it waits.
    assert_eq!(
        client.call("fs.read", json!({ "session_id": session, "path": "guarded/note" }))["content"],
        "one\ntwo\n"
    );
    sandbox.write("root/guarded/note", "one\ntwo\nthree\n");
    client.call("approval.answer", answer(&session, &question["approval_id"], "approve"));
    let refused = client.response(request);
    assert_eq!(refused["error"]["data"]["reason"], "changed_since_shown", "{refused}");
    assert_eq!(sandbox.read("root/guarded/note"), "one\ntwo\nthree\n");
    let (request, question) = ask(&mut client);
    client.call("approval.answer", answer(&session, &question["approval_id"], "approve"));
    assert!(client.response(request)["result"].is_object());
    assert_eq!(sandbox.read("root/guarded/note"), "one\n2\n");
    // Each way to change a file is asked about, by where it really is.
    sandbox.link("root/door", sandbox.path("root/guarded"));
    let patch = "*** Begin Patch\n*** Add File: door/new\n+x\n*** End Patch";
    let ways = [
        ("fs.edit", json!({ "path": "door/note", "old_string": "2", "new_string": "3" })),
        ("fs.patch", json!({ "patch_text": patch })),
        ("fs.mkdir", json!({ "path": "door/directory" })),
        ("fs.remove", json!({ "path": "door/note" })),
        ("fs.rename", json!({ "from": "door/note", "to": "free" })),
        ("fs.copy", json!({ "from": "guarded/note", "to": "guarded/copy" })),
    ];
    for (method, mut params) in ways {
        params["session_id"] = json!(session);
        let request = client.request(method, params);
        let question = client.take("a question", |message| message["method"] == "approval.requested");
        let question = &question["params"];
        assert_eq!(question["method"], method);
        let paths = question["operation"]["paths"].to_string();
        assert!(paths.contains("guarded/"), "{method}: {paths}");
        client.call("approval.answer", answer(&session, &question["approval_id"], "deny"));
        assert_eq!(client.response(request)["error"]["code"], -32001, "{method}");
    }
    assert_eq!(sandbox.read("root/guarded/note"), "one\n2\n");
}

#[test]
fn an_approval_for_the_session_or_the_rule_is_not_requested_again() {
    let sandbox = sandbox("");
    let scoped = |scope: &str, count: usize| {
        let mut client = Rexd::start(REXD, &sandbox);
        let session = client.open();
        for round in 0..2 {
            let request = client.request("exec.start", touch(&session, &format!("{scope}{count}{round}")));
            if round == 0 && count == 0 {
                let question = client.take("a question", |message| message["method"] == "approval.requested");
                let mut said = answer(&session, &question["params"]["approval_id"], "approve");
                said["scope"] = json!(scope);
                client.call("approval.answer", said);
            }
            let started = client.response(request);
            client.finish(started["result"]["process_id"].as_str().unwrap());
        }
        let other = client.open();
        let mut params = touch(&other, "other");
        params["session_id"] = json!(other);
        let request = client.request("exec.start", params);
        let next = client.take("what comes next", |message| {
            message["method"] == "approval.requested" || message["id"] == request
        });
        assert_eq!(next["id"] == request, scope == "rule", "{next}");
    };
    scoped("session", 0);
    scoped("rule", 0);
    // It outlives the daemon, until the rule changes.
    scoped("rule", 1);
    sandbox.configure(&ASKS.replace("\"touch\", \"*\"", "\"touch\", \"-a\", \"*\""));
    let mut client = Rexd::start(REXD, &sandbox);
    let session = client.open();
    client.request("exec.start", json!({ "session_id": session, "argv": ["touch", "-a", "x"] }));
    client.take("a question", |message| message["method"] == "approval.requested");
}

/// ARCHITECTURE.md, invariant 41.
#[test]
fn a_daemon_killed_during_an_approval_executes_nothing_and_the_next_one_reports_it() {
    let sandbox = sandbox("");
    let mut served = ServedDaemon::start(REXD, &sandbox);
    let mut client = served.client(CarrierKind::Unix);
    let session = client.open();
    client.request(
        "exec.start",
        json!({
            "session_id": session, "argv": ["touch", "never", "--password=hunter2hunter2"],
        }),
    );
    let id = requested(&mut client, &session)["approval_id"].clone();
    let state = sandbox.path("home/state/rexd/approvals");
    let kept = std::fs::read_to_string(state.join(format!("{}.json", id.as_str().unwrap()))).unwrap();
    assert!(kept.contains("\"pending\"") && kept.contains("touch"), "{kept}");
    assert!(!kept.contains("hunter2"), "what is kept is redacted: {kept}");
    served.signal(Signal::KILL);
    served.wait(SOON);
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut client = served.client(CarrierKind::Unix);
    let session = client.open();
    assert_eq!(client.call("approval.list", json!({ "session_id": session }))["approvals"], json!([]));
    let late = client.refused("approval.answer", answer(&session, &id, "approve"));
    assert_eq!(late["code"], -32006, "{late}");
    assert!(late["message"].as_str().unwrap().contains("the daemon stopped"), "{late}");
    assert!(!in_root(&sandbox, "never").exists());
}

/// ARCHITECTURE.md, invariant 43.
#[test]
fn a_policy_is_read_again_without_dropping_anybody_and_a_bad_one_changes_nothing() {
    let sandbox = sandbox("");
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut client = served.client(CarrierKind::Unix);
    let session = client.open();
    let reload = |text: &str| {
        sandbox.configure(text);
        served.signal(Signal::HUP);
    };
    let until = |client: &mut AnyClient, code: Option<i64>| {
        let mut tries = Tries::within(SOON, "the policy is read again");
        loop {
            let answer =
                client.ask("exec.start", json!({ "session_id": session, "argv": ["true", "x"] })).unwrap();
            if answer["error"]["code"].as_i64() == code {
                return;
            }
            tries.again();
        }
    };
    until(&mut client, None);
    reload("[[policy.rules]]\nname = \"no\"\naction = \"deny\"\nargv = [\"true\", \"*\"]\n");
    until(&mut client, Some(-32001));
    reload("[[policy.rules]]\nname = \"x\"\naction = \"perhaps\"\nargv = [\"true\"]\n");
    let mut tries = Tries::within(SOON, "the bad file is noticed");
    while !served.log.text().contains("keeping the old one") {
        tries.again();
    }
    assert!(served.log.text().contains("config.toml:3:10"), "{}", served.log.text());
    until(&mut client, Some(-32001));
    reload("");
    until(&mut client, None);
}
