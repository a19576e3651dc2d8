//! A real host at the hub, and an app written from the document: the whole flow, and two hosts with one id.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use hub::auth::UserRole;
use hub::config::Limits;
use serde_json::{Value, json};
use support::Running;
use support::peers::{Envelopes, app, command};
use testkit::daemon::PATIENCE;
use testkit::programs::program;
use testkit::proxy::{CutKind, Proxy};
use testkit::sandbox::Sandbox;
use testkit::serve::Addresses;

/// `rexd host`; killed at the end of its test.
struct RealHost(Child);

impl RealHost {
    fn start(sandbox: &Sandbox, hub: SocketAddr) -> RealHost {
        let mut command = sandbox.command(program("rexd"));
        command.args(["host", "--hub", &format!("http://{hub}"), "--config"]).arg(sandbox.config());
        command.env("HOST_ID", "real").env("HOST_TOKEN", "the-token-of-this-host");
        RealHost(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for RealHost {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn addresses(http: SocketAddr, sandbox: &Sandbox) -> Addresses {
    Addresses { unix: sandbox.path("none.sock"), http, token: None }
}

fn response(app: &mut Envelopes, id: &str) -> Value {
    let is_response =
        |message: &Value| message["type"] == "rpc.response" && message["data"]["request_id"] == id;
    app.find(is_response)["data"].clone()
}

/// Waits for a question, and decides it.
fn decide(app: &mut Envelopes, run: &str, request: Option<&str>, word: &str) {
    let is_question = |message: &Value| {
        message["type"] == "run.permission_requested"
            && message["run_id"] == run
            && request.is_none_or(|request| message["data"]["request_id"] == request)
    };
    let question = app.find(is_question);
    let data = json!({ "request_id": question["data"]["request_id"] });
    app.send(&command(&format!("run.permission.{word}"), run, data));
}

/// Starts a run that asks, and then repeats every line; returns its id.
fn started(app: &mut Envelopes) -> String {
    let cmd = "stty -echo; printf 'Continue? [y/N] '; read answer; echo got-$answer; \
               while read line; do echo line-$line; done";
    let start = json!({ "request_id": "start", "host_id": "real", "tool": "shell", "cmd": cmd });
    app.send(&json!({ "type": "rpc.run.start", "data": start }));
    let started = response(app, "start");
    started["result"]["run_id"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned()
}

fn writes_and_commands_wait_for_a_person(app: &mut Envelopes, run: &str, sandbox: &Sandbox) {
    let write = json!({ "request_id": "w", "path": "a.txt", "content": "new\n" });
    app.send(&command("rpc.fs.write", run, write));
    decide(app, run, Some("w"), "approve");
    assert_eq!(response(app, "w")["ok"], true);
    assert_eq!(sandbox.read("root/a.txt"), "new\n");
    app.send(&command("rpc.bash", run, json!({ "request_id": "b", "cmd": "touch denied" })));
    decide(app, run, Some("b"), "deny");
    assert_eq!(response(app, "b")["error"], "denied");
    assert!(!sandbox.path("root/denied").exists());
}

/// The whole output of a run so far, as the hub has stored it.
fn output(hub: &Running, token: &str, run: &str) -> String {
    let messages = hub.get_json(&format!("/runs/{run}/messages?limit=500"), token);
    let output = messages.as_array().unwrap().iter().filter(|row| row["kind"] == "run.output");
    output.map(|row| row["text"].as_str().unwrap().to_owned()).collect()
}

/// Waits until the app has seen a text in the output of a run.
fn shown(app: &mut Envelopes, run: &str, text: &str) {
    let mut seen = String::new();
    while !seen.contains(text) {
        let event = app.find(|message| message["type"] == "run.output" && message["run_id"] == run);
        seen.push_str(event["data"]["text"].as_str().unwrap());
    }
}

/// A request to the local API of a host; its status.
fn post(socket: &Path, target: &str, body: &Value) -> u16 {
    let body = body.to_string();
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    let request = format!(
        "POST {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn the_whole_flow_works_with_a_real_host_and_survives_a_cut_and_a_restart() {
    let (mut hub, sandbox) = (Running::start(Limits::default()), Sandbox::new());
    hub.user("ann", UserRole::Operator, "word");
    let token = hub.login("ann", "word");
    let proxy = Proxy::start(&addresses(hub.address, &sandbox), &sandbox.path("outside"));
    let mut watching = app(&hub, &token);
    let _host = RealHost::start(&sandbox, proxy.addresses.http);
    // The second one has the name and the version of the greeting.
    watching.find(|message| message["type"] == "host.online" && message["data"]["version"].is_string());
    let info = json!({ "request_id": "info", "host_id": "real" });
    watching.send(&json!({ "type": "rpc.host.info", "data": info }));
    assert_eq!(response(&mut watching, "info")["ok"], true);
    let run = started(&mut watching);
    let run = run.as_str();
    decide(&mut watching, run, None, "approve");
    shown(&mut watching, run, "got-y");
    for _repeated in 0..2 {
        let input = json!({ "input_id": "i1", "text": "one\n" });
        assert_eq!(hub.post(&format!("/runs/{run}/input"), &token, &input).head.status, 204);
    }
    shown(&mut watching, run, "line-one");
    writes_and_commands_wait_for_a_person(&mut watching, run, &sandbox);

    // Without the hub, input on the machine itself works, and the hub has it later.
    hub.stop();
    proxy.cut(CutKind::Reset);
    let socket = sandbox.path("home/state/rexd/host.sock");
    let local = json!({ "input_id": "local", "text": "local\n" });
    assert_eq!(post(&socket, &format!("/runs/{run}/input"), &local), 204);
    hub.restart();
    proxy.redirect(&addresses(hub.address, &sandbox));
    let mut watching = app(&hub, &token);
    watching.send(&command("run.subscribe", run, json!({ "after_seq": 0 })));
    shown(&mut watching, run, "line-local");
    watching.send(&command("run.stop", run, json!({ "signal": "kill" })));
    let exit = watching.find(|message| message["type"] == "run.exited" && message["run_id"] == run);
    assert_eq!(exit["data"]["exit_code"], 137);
    let output = output(&hub, &token, run);
    for line in ["got-y", "line-one", "line-local"] {
        assert_eq!(output.matches(line).count(), 1, "{output:?}");
    }
    let row = hub.get_json(&format!("/runs/{run}"), &token);
    assert_eq!((&row["status"], &row["exit_code"]), (&json!("exited"), &json!(137)), "{row}");
}

/// The ids of the pending requests of a run.
fn pending(hub: &Running, token: &str, run: &str) -> Vec<String> {
    let requests = hub.get_json("/approvals", token);
    let of_run = requests.as_array().unwrap().iter().filter(|row| row["run_id"] == run);
    of_run.map(|row| row["request_id"].as_str().unwrap().to_owned()).collect()
}

/// A write that waits while its program ends, and one on a run that has ended, are still decided by a person.
#[test]
fn operations_on_an_ended_run_are_approved_and_carried_out() {
    let (hub, sandbox) = (Running::start(Limits::default()), Sandbox::new());
    let token = hub.client("ann", UserRole::Operator);
    let mut watching = app(&hub, &token);
    let _host = RealHost::start(&sandbox, hub.address);
    watching.find(|message| message["type"] == "host.online" && message["data"]["version"].is_string());
    let run = started(&mut watching);
    let run = run.as_str();
    let prompt = watching.find(|message| message["type"] == "run.permission_requested");
    let write = |app: &mut Envelopes, id: &str| {
        let data = json!({ "request_id": id, "path": format!("{id}.txt"), "content": id });
        app.send(&command("rpc.fs.write", run, data));
        app.find(|message| {
            message["type"] == "run.permission_requested" && message["data"]["request_id"] == id
        });
    };
    write(&mut watching, "before");
    watching.send(&command("run.stop", run, json!({ "signal": "kill" })));
    watching.find(|message| message["type"] == "run.exited" && message["run_id"] == run);
    write(&mut watching, "later");
    assert_eq!(pending(&hub, &token, run), ["before", "later"], "the prompt {prompt} is over");
    for id in ["before", "later"] {
        watching.send(&command("run.permission.approve", run, json!({ "request_id": id })));
        assert_eq!(response(&mut watching, id)["ok"], true);
        assert_eq!(sandbox.read(&format!("root/{id}.txt")), id);
    }
    let decided = ["before", "later"].map(|id| {
        watching.find(|message| {
            message["type"] == "run.permission_decided" && message["data"]["request_id"] == id
        })["data"]["user"]
            .clone()
    });
    assert_eq!((decided, pending(&hub, &token, run)), ([json!("ann"), json!("ann")], vec![]));
    assert_eq!(hub.get_json(&format!("/runs/{run}"), &token)["status"], "exited");
}

#[test]
fn a_second_host_with_the_same_id_is_reported_on_the_first_one() {
    let (hub, first, second) = (Running::start(Limits::default()), Sandbox::new(), Sandbox::new());
    let token = hub.client("o", UserRole::Operator);
    let mut watching = app(&hub, &token);
    let _first = RealHost::start(&first, hub.address);
    watching.find(|message| message["type"] == "host.online" && message["data"]["version"].is_string());
    let other = RealHost::start(&second, hub.address);
    let log = "home/state/rexd/host.log";
    first.gains(log, "give each its own --host-id", Instant::now() + PATIENCE);
    // The first one is back once it is alone.
    drop(other);
    let mut number = 0;
    loop {
        number += 1;
        let id = format!("info {number}");
        let info = json!({ "request_id": id, "host_id": "real" });
        watching.send(&json!({ "type": "rpc.host.info", "data": info }));
        if response(&mut watching, &id)["ok"] == true {
            break;
        }
        watching.next("host.online");
    }
    assert_eq!(hub.get_json("/hosts", &token).as_array().unwrap().len(), 1);
}
