//! The host beside its hub: the local API, `rexd run`, processes of other faces, and REXD through the hub.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod host_support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use host_support::{HostProcess, HubConnection, PATIENCE, RexdLines, ScriptedHub, Stored};
use serde_json::{Value, json};
use testkit::sandbox::Sandbox;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use wire::exec_server::relay::{Body, Data, RelayFrame};

/// One request to the local API: its status and its body.
async fn ask(socket: &Path, method: &str, path: &str, body: Value) -> (u16, String) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = host_support::connect_unix(socket).await;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn the_local_api_is_for_its_user_and_leaves_the_same_events() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    sandbox.write("root/a b.txt", "text\n");
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let socket = sandbox.path("home/state/rexd/host.sock");
    sandbox.appears("home/state/rexd/host.sock", Instant::now() + PATIENCE);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let (status, body) =
        ask(&socket, "POST", "/runs", json!({"cmd": "read x; echo got-$x; exec sleep 600"})).await;
    assert_eq!(status, 200, "{body}");
    let run = serde_json::from_str::<Value>(&body).unwrap()["run_id"].as_str().unwrap().to_owned();
    let (status, _) = ask(&socket, "POST", &format!("/runs/{run}/input"), json!({"text": "local\n"})).await;
    assert_eq!(status, 204);
    connection.output(&mut stored, &run, "got-local").await;
    let (status, body) =
        ask(&socket, "GET", &format!("/runs/{run}/fs/read?path=a%20b.txt"), json!(null)).await;
    assert_eq!((status, body.contains("text\\n")), (200, true), "{body}");
    let (status, body) = ask(&socket, "GET", &format!("/runs/{run}/fs/read?path=..%2Fx"), json!(null)).await;
    assert_eq!((status, body.as_str()), (400, "path contains .."));
    // A command waits for a person at the hub.
    let bash = {
        let (socket, run) = (socket.clone(), run.clone());
        link::task::OwnedTask::spawn(async move {
            ask(&socket, "POST", &format!("/runs/{run}/bash"), json!({"cmd": "true"})).await
        })
    };
    let is_question = |message: &Value| message["type"] == "run.permission_requested";
    let question = connection.until(&mut stored, is_question).await;
    let request_id = question["data"]["request_id"].clone();
    connection
        .send("run.permission.deny", Some(&run), json!({"request_id": request_id, "user": "bob"}))
        .await;
    assert_eq!(timeout(PATIENCE, bash.join()).await.unwrap().unwrap(), (403, "denied".to_owned()));
    let (status, _) = ask(&socket, "POST", &format!("/runs/{run}/stop"), json!({"signal": "kill"})).await;
    assert_eq!(status, 204);
    let exit = connection.exited(&mut stored, &run).await;
    assert_eq!(exit["data"]["exit_code"], 137);
    let call = stored.of(&run).into_iter().find(|event| event["type"] == "tool.call").unwrap();
    assert_eq!(call["data"]["actor"], "local", "{call}");
    let (status, body) = ask(&socket, "GET", "/runs/run-none", json!(null)).await;
    assert_eq!((status, body.as_str()), (404, "unknown run_id"));
}

#[tokio::test]
async fn rexd_run_prints_the_output_and_exits_as_the_command_does() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    sandbox.appears("home/state/rexd/host.sock", Instant::now() + PATIENCE);
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    command.args(["run", "--tool", "mine", "--", "sh", "-c", "read x; echo \"it's $x\"; exit 5"]);
    command.current_dir(sandbox.root()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"typed\n").unwrap();
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    let is_exit = |message: &Value| message["type"] == "run.exited";
    connection.until(&mut stored, is_exit).await;
    let ended = timeout(PATIENCE, ended).await.unwrap().unwrap();
    assert_eq!(ended.status.code(), Some(5), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stdout).contains("it's typed"), "{ended:?}");
    let run = stored.runs.keys().next().unwrap();
    assert_eq!(stored.of(run)[0]["data"]["tool"], "mine");
}

#[tokio::test]
async fn a_process_of_another_face_is_watched_typed_into_and_stopped() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let socket = sandbox.path("rexd.sock");
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    command.args(["serve", "--hub", &hub.url(), "--config"]).arg(sandbox.config());
    command.arg("--unix").arg(&socket).stdout(Stdio::null());
    let _daemon = HostProcess { child: command.spawn().unwrap() };
    let (mut connection, _) = hub.greeted(&stored).await;
    sandbox.appears("rexd.sock", Instant::now() + PATIENCE);
    let mut client = RexdLines::connect(&socket).await;
    let opened = client.call("session.open", json!({"client_name": "test"})).await;
    let script = "echo ready; read x; echo got-$x; exec sleep 600";
    let params = json!({"session_id": opened["session_id"], "argv": ["sh", "-c", script]});
    client.call("exec.start", params).await;
    let started = connection.until(&mut stored, |message| message["type"] == "run.started").await;
    let run = started["run_id"].as_str().unwrap().to_owned();
    assert_eq!(started["data"]["tool"], "rexd");
    connection.output(&mut stored, &run, "ready").await;
    connection.send("run.send_input", Some(&run), json!({"input_id": "i", "text": "hub\n"})).await;
    connection.output(&mut stored, &run, "got-hub").await;
    connection.send("run.stop", Some(&run), json!({"signal": "term", "user": "ann"})).await;
    let exit = connection.exited(&mut stored, &run).await;
    assert_eq!(exit["data"]["exit_code"], 143);
    stored.assert_complete(&run);
}

#[tokio::test]
async fn a_process_that_codex_started_through_the_same_daemon_is_watched_and_stopped() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    command.args(["serve", "--hub", &hub.url(), "--exec-server", "ws://127.0.0.1:0", "--config"]);
    let mut child = command.arg(sandbox.config()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let _daemon = HostProcess { child };
    let mut line = String::new();
    while !line.contains("ws://") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut out, &mut line).unwrap() > 0, "it does not listen");
    }
    let (mut connection, _) = hub.greeted(&stored).await;
    let address = line.trim().rsplit("ws://").next().unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut codex, _) = tokio_tungstenite::client_async(format!("ws://{address}"), stream).await.unwrap();
    let script = "echo ready; exec sleep 600";
    let start = json!({"processId": "p", "argv": ["sh", "-c", script], "cwd": sandbox.root(), "env": {},
        "tty": false, "arg0": null});
    for message in [
        json!({"id": 1, "method": "initialize", "params": {"clientName": "codex"}}),
        json!({"method": "initialized"}),
        json!({"id": 2, "method": "process/start", "params": start}),
    ] {
        codex.send(Message::text(message.to_string())).await.unwrap();
    }
    let started = connection.until(&mut stored, |message| message["type"] == "run.started").await;
    let run = started["run_id"].as_str().unwrap().to_owned();
    assert_eq!(started["data"]["tool"], "exec-server");
    connection.output(&mut stored, &run, "ready").await;
    connection.send("run.stop", Some(&run), json!({"signal": "kill", "user": "ann"})).await;
    assert_eq!(connection.exited(&mut stored, &run).await["data"]["exit_code"], 137);
    let exited = async {
        while let Some(message) = codex.next().await {
            let message: Value =
                serde_json::from_str(message.unwrap().to_text().unwrap_or("{}")).unwrap_or_default();
            if message["method"] == "process/exited" {
                return message["params"]["exitCode"].clone();
            }
        }
        Value::Null
    };
    assert_eq!(timeout(PATIENCE, exited).await.unwrap(), 137, "its own client learns it too");
}

#[tokio::test]
async fn a_process_of_stringd_is_stopped_but_neither_watched_nor_typed_into() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    command.args(["serve", "--hub", &hub.url(), "--stringd", "0", "--config"]);
    let mut child = command.arg(sandbox.config()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let _daemon = HostProcess { child };
    let mut line = String::new();
    while !line.contains("http://") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut out, &mut line).unwrap() > 0, "it does not listen");
    }
    let (mut connection, _) = hub.greeted(&stored).await;
    let address = line.trim().rsplit("http://").next().unwrap().parse().unwrap();
    let exec = tokio::task::spawn_blocking({
        let home = sandbox.root();
        move || {
            let mut http = testkit::http::Http::connect(address).unwrap();
            let headers = ["X-User-Id: u".to_owned()];
            let user = json!({ "id": "u", "home": home }).to_string();
            assert_eq!(http.ask("/users", &headers, Some(user.as_bytes())).unwrap().head.status, 200);
            let exec =
                json!({ "cmd": "/exec echo SECRET; touch ready; exec sleep 600", "topic": "file:main" });
            http.ask("/exec", &headers, Some(exec.to_string().as_bytes())).unwrap().body
        }
    });
    let started = connection.until(&mut stored, |message| message["type"] == "run.started").await;
    let run = started["run_id"].as_str().unwrap().to_owned();
    assert_eq!(started["data"]["tool"], "stringd");
    sandbox.appears("root/ready", std::time::Instant::now() + PATIENCE);
    connection.send("run.send_input", Some(&run), json!({"input_id": "i", "text": "typed\n"})).await;
    connection.send("run.send_stdin", Some(&run), json!({"text": "typed\r"})).await;
    connection.send("run.stop", Some(&run), json!({"signal": "kill", "user": "ann"})).await;
    assert_eq!(connection.exited(&mut stored, &run).await["data"]["exit_code"], 137);
    let events = stored.of(&run);
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run.started", "run.exited"]);
    assert!(!json!(events[1..]).to_string().contains("typed"), "{events:?}");
    let reply = timeout(PATIENCE, exec).await.unwrap().unwrap();
    assert!(reply.contains("SECRET") && reply.contains("EXIT_137"), "{reply}");
}

/// One message on a stream, and the next message that comes back on it.
async fn exchange(connection: &mut HubConnection, seq: u32, request: &Value) -> Value {
    let payload = Bytes::from(request.to_string());
    let data = Body::Data(Data { seq, segment_index: 0, segment_count: 1, payload });
    connection.socket.send(Message::Binary(RelayFrame::new("s1", data).encode())).await.unwrap();
    loop {
        let message = timeout(PATIENCE, connection.socket.next()).await.unwrap().unwrap().unwrap();
        let Message::Binary(bytes) = message else { continue };
        if let Body::Data(data) = RelayFrame::decode(bytes).unwrap().body {
            let message: Value = serde_json::from_slice(&data.payload).unwrap();
            if message["id"] == request["id"] {
                return message;
            }
        }
    }
}

#[tokio::test]
async fn a_viewer_reads_through_the_hub_and_can_neither_run_nor_approve() {
    let (sandbox, hub) = (Sandbox::new(), ScriptedHub::new().await);
    sandbox.write("root/file", "content");
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut control, mut relay) = (None, None);
    while control.is_none() || relay.is_none() {
        let connection = hub.accept_any().await;
        match connection.uri.starts_with("/ws/host/rexd?host_id=") {
            true => relay = Some(connection),
            false => control = Some(connection),
        }
    }
    let mut relay = relay.unwrap();
    assert!(relay.headers["authorization"].starts_with("Bearer "));
    let announced = json!({"stream_id": "s1", "user": "vera", "role": "viewer"});
    relay.socket.send(Message::text(announced.to_string())).await.unwrap();
    let open = json!({"jsonrpc": "2.0", "id": 1, "method": "session.open", "params": {"client_name": "t"}});
    let opened = exchange(&mut relay, 0, &open).await;
    let session = opened["result"]["session_id"].clone();
    let read = json!({"jsonrpc": "2.0", "id": 2, "method": "fs.read",
        "params": {"session_id": session, "path": sandbox.path("root/file")}});
    let read = exchange(&mut relay, 1, &read).await;
    assert_eq!(read["result"]["content"], "content", "{read}");
    for (number, (method, params)) in [
        ("exec.start", json!({"session_id": session, "argv": ["true"]})),
        ("pty.open", json!({"session_id": session, "argv": ["true"]})),
        ("exec.kill", json!({"session_id": session, "process_id": "p_000000000001"})),
        ("approval.answer", json!({"session_id": session, "approval_id": "a_1", "decision": "approve"})),
    ]
    .into_iter()
    .enumerate()
    {
        let request = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
        let refused = exchange(&mut relay, u32::try_from(number).unwrap() + 2, &request).await;
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("user:vera is not allowed"), "{refused}");
    }
}
