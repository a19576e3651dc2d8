//! What a host does as it is configured: several hubs, what it shares, deadlines; and with the server of the document.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod host_support;

use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use host_support::{HostProcess, HubConnection, PATIENCE, ScriptedHub, Stored};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::sandbox::Sandbox;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn every_hub_gets_every_event_under_the_same_number() {
    let (sandbox, one, two) = (Sandbox::new(), ScriptedHub::new().await, ScriptedHub::new().await);
    let (mut stored, mut other) = (Stored::default(), Stored::default());
    let _host = HostProcess::start_with(&sandbox, &one.url(), |command| {
        command.args(["--hub", &two.url()]);
    });
    let (mut connection, _) = one.greeted(&stored).await;
    let (away, _) = two.greeted(&other).await;
    // The second hub is away while the run ends, and has it afterwards.
    drop(away);
    let run = connection.start(&mut stored, "echo one; echo two >&2").await;
    connection.exited(&mut stored, &run).await;
    let (mut back, _) = two.greeted(&other).await;
    back.exited(&mut other, &run).await;
    assert_eq!(other.of(&run), stored.of(&run));
    stored.assert_complete(&run);
    // A command of either hub takes effect.
    let run = back.start(&mut other, "exec sleep 600").await;
    connection.until(&mut stored, |message| message["run_id"] == run.as_str()).await;
    connection.send("run.stop", Some(&run), json!({"signal": "kill"})).await;
    assert_eq!(back.exited(&mut other, &run).await["data"]["exit_code"], 137);
}

#[tokio::test]
async fn a_host_shares_only_what_its_configuration_allows() {
    let sandbox = Sandbox::with_config("[host]\nshare = \"runs\"\nrexd = false\n");
    let (hub, mut stored) = (ScriptedHub::new().await, Stored::default());
    let socket = sandbox.path("rexd.sock");
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    command.args(["serve", "--hub", &hub.url(), "--config"]).arg(sandbox.config());
    command.arg("--unix").arg(&socket).stdout(Stdio::null());
    let _daemon = HostProcess { child: command.spawn().unwrap() };
    let (mut connection, _) = hub.greeted(&stored).await;
    sandbox.appears("rexd.sock", Instant::now() + PATIENCE);
    let mut client = host_support::RexdLines::connect(&socket).await;
    let opened = client.call("session.open", json!({"client_name": "test"})).await;
    let params = json!({"session_id": opened["session_id"], "argv": ["touch", "touched"]});
    client.call("exec.start", params).await;
    sandbox.appears("root/touched", Instant::now() + PATIENCE);
    let run = connection.start(&mut stored, "echo mine").await;
    connection.exited(&mut stored, &run).await;
    assert_eq!(stored.runs.keys().collect::<Vec<_>>(), [&run], "the process of REXD is no run");
    let relay = timeout(Duration::from_millis(300), hub.listener.accept()).await;
    assert!(relay.is_err(), "no connection for REXD");
}

/// Sends a request that waits for a person, and returns its question.
async fn ask(
    connection: &mut HubConnection,
    stored: &mut Stored,
    run: &str,
    kind: &str,
    data: &Value,
) -> Value {
    connection.send(kind, Some(run), data.clone()).await;
    let request_id = data["request_id"].clone();
    let is_question = move |message: &Value| {
        message["type"] == "run.permission_requested" && message["data"]["request_id"] == request_id
    };
    connection.until(stored, is_question).await["data"].clone()
}

#[tokio::test]
async fn a_write_that_nobody_approves_times_out_also_after_a_restart() {
    let sandbox = Sandbox::with_config("[approvals]\ntimeout_ms = 5000\n");
    sandbox.write("root/a.txt", "old\n");
    let (hub, mut stored) = (ScriptedHub::new().await, Stored::default());
    let mut host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let run = connection.start(&mut stored, "true").await;
    connection.exited(&mut stored, &run).await;
    let write = json!({"request_id": "w", "path": "a.txt", "content": "new\n", "user": "ann"});
    ask(&mut connection, &mut stored, &run, "rpc.fs.write", &write).await;
    host.kill();
    drop(connection);
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let answer = connection.request(&mut stored, "rpc.fs.write", Some(&run), write).await;
    assert_eq!((&answer["ok"], &answer["error"]), (&json!(false), &json!("timeout")), "{answer}");
    let is_result = |event: &Value| event["type"] == "tool.result" && event["data"]["request_id"] == "w";
    if !stored.of(&run).iter().any(is_result) {
        connection.until(&mut stored, is_result).await;
    }
    let decided: Vec<_> =
        stored.of(&run).into_iter().filter(|event| event["type"] == "run.permission_decided").collect();
    assert_eq!(decided.len(), 1, "{decided:?}");
    assert_eq!(decided[0]["data"]["decision"], "timeout");
    assert_eq!(sandbox.read("root/a.txt"), "old\n");
}

#[tokio::test]
async fn a_local_approver_answers_a_question_of_a_hub_user_and_a_denial_asks_nobody() {
    let rule = "[[policy.rules]]\nname = \"no-make\"\naction = \"deny\"\nargv = [\"make\", \"*\"]\n";
    let sandbox = Sandbox::with_config(rule);
    let (hub, mut stored) = (ScriptedHub::new().await, Stored::default());
    let socket = sandbox.path("rexd.sock");
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    command.args(["serve", "--hub", &hub.url(), "--config"]).arg(sandbox.config());
    command.arg("--unix").arg(&socket).stdout(Stdio::null());
    let _daemon = HostProcess { child: command.spawn().unwrap() };
    let (mut connection, _) = hub.greeted(&stored).await;
    let run = connection.start(&mut stored, "true").await;
    connection.exited(&mut stored, &run).await;
    let write = json!({"request_id": "w", "path": "a.txt", "content": "new\n", "user": "ann"});
    ask(&mut connection, &mut stored, &run, "rpc.fs.write", &write).await;
    sandbox.appears("rexd.sock", Instant::now() + PATIENCE);
    let mut client = host_support::RexdLines::connect(&socket).await;
    let session = client.call("session.open", json!({"client_name": "test"})).await["session_id"].clone();
    let listed = client.call("approval.list", json!({"session_id": session})).await;
    let approval = listed["approvals"][0]["approval_id"].clone();
    let answer = json!({"session_id": session, "approval_id": approval, "decision": "approve"});
    client.call("approval.answer", answer).await;
    let answer = connection.request(&mut stored, "rpc.fs.write", Some(&run), write).await;
    assert_eq!((&answer["ok"], sandbox.read("root/a.txt").as_str()), (&json!(true), "new\n"), "{answer}");
    // A response overtakes the events.
    let is_decision = |event: &Value| event["type"] == "run.permission_decided";
    if !stored.of(&run).iter().any(is_decision) {
        connection.until(&mut stored, is_decision).await;
    }
    let decided = stored.of(&run).into_iter().find(is_decision).unwrap();
    assert_eq!(decided["data"]["decision"], "approve");
    assert!(decided["data"]["user"].as_str().unwrap().starts_with("uid:"), "{decided}");
    // What the operator denies is no question.
    let bash = json!({"request_id": "b", "cmd": "make install", "user": "ann"});
    let denied = connection.request(&mut stored, "rpc.bash", Some(&run), bash).await;
    assert!(denied["error"].as_str().unwrap().contains("no-make"), "{denied}");
    let questions = stored.of(&run).into_iter().filter(|event| event["type"] == "run.permission_requested");
    assert_eq!(questions.count(), 1);
}

/// Leaves group and session, loses its parent, and ignores TERM.
const RUNAWAY: &str = "(setsid sh -c 'trap \"\" TERM; echo $$ > runaway; exec sleep 1000 >/dev/null 2>&1 </dev/null' &); \
                       exec sleep 1001";

#[tokio::test]
async fn a_stop_ends_the_whole_tree_and_a_heartbeat_comes_with_the_greeting() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let mut connection = hub.accept().await;
    let mut kinds = Vec::new();
    while kinds.len() < 2 {
        let message = timeout(PATIENCE, connection.socket.next()).await.unwrap().unwrap().unwrap();
        if let Message::Text(text) = message {
            kinds.push(serde_json::from_str::<Value>(&text).unwrap()["type"].clone());
        }
    }
    assert_eq!(kinds, ["host.hello", "host.heartbeat"]);
    connection.send("hub.ready", None, json!({"version": "test", "generation": 1})).await;
    for signal in ["term", "kill"] {
        let run = connection.start(&mut stored, &format!("{RUNAWAY} # {signal}")).await;
        sandbox.gains("root/runaway", "\n", Instant::now() + PATIENCE);
        let runaway: i32 = sandbox.read("root/runaway").trim().parse().unwrap();
        let stop = json!({"request_id": format!("stop {signal}"), "signal": signal});
        let stopped = connection.request(&mut stored, "rpc.run.stop", Some(&run), stop).await;
        assert_eq!(stopped["ok"], true, "{stopped}");
        assert!(!testkit::proc::is_alive(runaway), "{signal}");
        connection.exited(&mut stored, &run).await;
        std::fs::remove_file(sandbox.path("root/runaway")).unwrap();
    }
}

/// Older keepers do not remember inputs themselves; the journal of the host does.
#[tokio::test]
async fn with_older_keepers_a_repeated_input_takes_effect_once_also_after_a_restart() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let start = || {
        HostProcess::start_with(&sandbox, &hub.url(), |command| {
            command.env("REXD_KEEPER_PROTOCOL", "2");
        })
    };
    let mut host = start();
    let (mut connection, _) = hub.greeted(&stored).await;
    let cmd = "stty -echo; while read line; do echo got-$line; done";
    let run = connection.start(&mut stored, cmd).await;
    let one = json!({"input_id": "one", "text": "one\n"});
    for _repeated in 0..2 {
        connection.send("run.send_input", Some(&run), one.clone()).await;
    }
    connection.output(&mut stored, &run, "got-one").await;
    host.kill();
    drop(connection);
    let _host = start();
    let (mut connection, _) = hub.greeted(&stored).await;
    connection.send("run.send_input", Some(&run), one).await;
    connection.send("run.send_input", Some(&run), json!({"input_id": "two", "text": "two\n"})).await;
    connection.output(&mut stored, &run, "got-two").await;
    assert_eq!(stored.text(&run).matches("got-one").count(), 1, "{:?}", stored.text(&run));
    connection.send("run.stop", Some(&run), json!({"signal": "kill"})).await;
    connection.exited(&mut stored, &run).await;
    stored.assert_complete(&run);
}

#[tokio::test]
async fn what_a_tool_returns_is_stored_without_secrets() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    sandbox.write("root/.env", "user=ann\npassword=hunter2\n");
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let run = connection.start(&mut stored, "true").await;
    connection.exited(&mut stored, &run).await;
    let read = json!({"request_id": "r", "path": ".env"});
    let read = connection.request(&mut stored, "rpc.fs.read", Some(&run), read).await;
    assert!(read["result"]["content"].as_str().unwrap().contains("hunter2"), "the user sees it: {read}");
    let search = json!({"request_id": "s", "q": "hunter2"});
    connection.request(&mut stored, "rpc.fs.search", Some(&run), search).await;
    let is_last = |event: &Value| event["type"] == "tool.result" && event["data"]["request_id"] == "s";
    if !stored.of(&run).iter().any(is_last) {
        connection.until(&mut stored, is_last).await;
    }
    let result = stored.of(&run).into_iter().find(|event| event["type"] == "tool.result").unwrap();
    let content = result["data"]["result"]["content"].as_str().unwrap();
    assert!(content.contains("user=ann") && !content.contains("hunter2"), "{result}");
}

/// The server of the document reads no header, ignores the greeting, acknowledges each event by itself, and does not answer
/// a Close.
#[tokio::test]
async fn a_host_works_with_the_server_of_the_document() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let mut host = HostProcess::start(&sandbox, &hub.url());
    let mut connection = hub.accept_as_reference().await;
    assert!(connection.uri.contains("host_id=host-"), "{}", connection.uri);
    let run = connection.start(&mut stored, "read line; echo got-$line").await;
    connection.send("run.send_input", Some(&run), json!({"input_id": "i", "text": "x\n"})).await;
    loop {
        let event = connection.next().await;
        if stored.add(&event).is_none() {
            continue;
        }
        let ack = json!({"run_id": run, "last_seq": event["seq"]});
        connection.send("run.ack", None, ack).await;
        if event["type"] == "run.exited" {
            break;
        }
    }
    assert!(stored.text(&run).contains("got-x"));
    stored.assert_complete(&run);
    // It ends although nothing is read any more.
    kill_process(Pid::from_child(&host.child), Signal::TERM).unwrap();
    let ended = tokio::task::spawn_blocking(move || host.child.wait().unwrap());
    assert!(timeout(PATIENCE, ended).await.unwrap().unwrap().success());
    drop(connection);
}
