//! Access to exec-server: origins, tokens, invalid messages, and its processes through other faces.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod exec_server;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use exec_server::{Codex, PATIENCE, ServedDaemon, beside, start};
use serde_json::json;
use testkit::client::Client;
use testkit::lines::Lines;
use testkit::log::Log;
use testkit::sandbox::Sandbox;

fn status(served: &ServedDaemon, request: &str) -> u16 {
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{request}\r\nHost: {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", served.address)
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn web_pages_are_rejected_and_readiness_can_be_queried() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    assert_eq!(status(&served, "GET /readyz HTTP/1.1"), 200);
    assert_eq!(status(&served, "GET / HTTP/1.1"), 400);
    assert_eq!(status(&served, "GET /other HTTP/1.1"), 404);
    let page = Codex::connect(served.address, &[("origin", "http://127.0.0.1")]);
    assert_eq!(page.err(), Some(403));
    let rebound = Codex::connect(served.address, &[("host", "evil.example")]);
    assert_eq!(rebound.err(), Some(403));
    assert!(Codex::connect(served.address, &[]).is_ok());
}

#[test]
fn a_token_is_needed_where_one_is_set_and_everywhere_but_on_loopback() {
    let sandbox = Sandbox::new();
    let token = sandbox.write("token", "a-secret-for-tests\n");
    let flags = ["--ws-auth", "capability-token", "--ws-token-file", token.to_str().unwrap()];
    let served = ServedDaemon::start(&sandbox, &flags);
    assert_eq!(Codex::connect(served.address, &[]).err(), Some(401));
    assert_eq!(Codex::connect(served.address, &[("authorization", "Bearer wrong")]).err(), Some(401));
    let mut codex =
        Codex::connect(served.address, &[("authorization", "Bearer a-secret-for-tests")]).unwrap();
    codex.greet(json!({"clientName": "test"}));
    let mut exposed = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    exposed.args(["exec-server", "--listen", "ws://0.0.0.0:0"]).stderr(Stdio::piped());
    let refused = exposed.output().unwrap();
    assert!(!refused.status.success() && refused.stdout.is_empty());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--ws-auth"), "{refused:?}");
}

#[test]
fn silent_unauthenticated_connections_are_closed_for_new_ones() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut known = served.client();
    let mut strangers: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    served.client();
    strangers[0].set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(
        strangers[0].read(&mut [0; 1]).unwrap(),
        0,
        "the first is sent away, long before its time is up"
    );
    assert_eq!(known.call("environment/status", json!({}))["status"], "ready");
}

#[test]
fn nonsense_is_answered_and_the_connection_lives() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut codex = served.connect();
    assert_eq!(codex.refused("process/start", start("p", &["true"])), -32600, "before the handshake");
    assert_eq!(codex.refused("initialize", json!({})), -32602);
    for nonsense in ["{", "[]", "null", r#"{"id":null,"method":"initialize"}"#, r#"{"id":1.5,"method":"a"}"#]
    {
        codex.send(nonsense);
        let answer = codex.receive().unwrap();
        assert_eq!(
            (answer["id"].as_i64(), answer["error"]["code"].as_i64()),
            (Some(-1), Some(-32600)),
            "{nonsense}"
        );
    }
    codex.greet(json!({"clientName": "test", "unknown": [1, 2]}));
    assert_eq!(codex.refused("initialize", json!({"clientName": "again"})), -32600);
    assert_eq!(codex.refused("no/such/method", json!({})), -32601);
    assert_eq!(codex.refused("process/write", json!({"processId": "p", "chunk": "not base64!"})), -32602);
    // Larger than any message that is taken.
    codex.send("x".repeat(130 * 1024 * 1024));
    let answer = codex.receive().unwrap();
    assert_eq!(answer["id"], -1);
    assert!(answer["error"]["message"].as_str().unwrap().contains("too large"), "{answer}");
    assert_eq!(codex.call("environment/status", json!({}))["status"], "ready");
}

#[test]
fn an_unexpected_notification_is_answered_and_ends_the_connection() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    for unexpected in [r#"{"method":"surprise"}"#, r#"{"id":7,"result":{}}"#] {
        let mut codex = served.client();
        codex.send(unexpected);
        let answer = codex.receive().unwrap();
        assert_eq!((answer["id"].as_i64(), answer["error"]["code"].as_i64()), (Some(-1), Some(-32600)));
        assert!(codex.receive().is_none(), "it goes on");
    }
    let mut early = served.connect();
    early.notify("initialized");
    assert_eq!(early.receive().unwrap()["id"], -1);
    assert!(early.receive().is_none(), "it goes on");
}

#[test]
fn the_file_can_ask_for_it_and_flags_win() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("token", "a-secret-for-tests\n");
    let section = format!("[exec_server]\nlisten = \"ws://127.0.0.1:0\"\nws_token_file = {file:?}\n");
    sandbox.configure(&section);
    let serve = |more: &[&str]| {
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
        command.arg("serve").arg("--config").arg(sandbox.config()).args(more);
        ServedDaemon::spawn(command)
    };
    let served = serve(&[]);
    assert_eq!(Codex::connect(served.address, &[]).err(), Some(401));
    let shown = ("authorization", "Bearer a-secret-for-tests");
    Codex::connect(served.address, &[shown]).unwrap().greet(json!({"clientName": "test"}));
    let other = "4d5c8e0a0c2b8f3c9b1a7e6f5d4c3b2a19080706050403020100ffeeddccbbaa";
    let served = serve(&["--ws-auth", "capability-token", "--ws-token-sha256", other]);
    assert_eq!(Codex::connect(served.address, &[shown]).err(), Some(401), "the flag asks for another one");
}

#[test]
fn the_file_can_have_it_register_and_a_refusal_leaves_the_other_faces_alone() {
    let registry = TcpListener::bind("127.0.0.1:0").unwrap();
    let sandbox = Sandbox::new();
    let token = sandbox.write("executor-token", "an-executor\n");
    let (url, unix) = (format!("http://{}", registry.local_addr().unwrap()), sandbox.path("rexd.sock"));
    sandbox.configure(&format!(
        "[server]\nunix = {unix:?}\n[exec_server]\nlisten = \"ws://127.0.0.1:0\"\nremote = {url:?}\n\
         executor_id = \"box\"\nremote_token_file = {token:?}\n"
    ));
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    command.arg("serve").arg("--config").arg(sandbox.config());
    let served = ServedDaemon::spawn(command);
    let (mut stream, _) = registry.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        asked.push(byte[0]);
    }
    let asked = String::from_utf8(asked).unwrap().to_lowercase();
    assert!(asked.starts_with("post /cloud/executor/box/register "), "{asked}");
    assert!(asked.contains("authorization: bearer an-executor\r\n"), "{asked}");
    write!(stream, "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").unwrap();
    drop(stream);
    served.client();
    Client::new(Lines::connect(&unix).unwrap(), Log::new()).open();
}

#[test]
fn a_process_of_codex_is_seen_attached_to_and_killed_through_another_face() {
    let sandbox = Sandbox::new();
    let (served, mut rexd) = beside(&sandbox);
    let mut codex = served.client();
    let mut params = start("p", &["sh", "-c", "echo from codex; exec sleep 1000"]);
    params["cwd"] = json!(sandbox.root());
    codex.call("process/start", params);
    codex.event("process/output", "p");
    let session = rexd.open();
    let listed = rexd.call("exec.list", json!({"session_id": session}));
    let found =
        listed["processes"].as_array().unwrap().iter().find(|found| found["face"] == "exec-server").unwrap();
    let process = found["process_id"].as_str().unwrap().to_owned();
    rexd.call("exec.attach", json!({"session_id": session, "process_id": process}));
    assert_eq!(rexd.event("exec.stdout", &process)["data"], "from codex\n");
    let killed =
        rexd.call("exec.kill", json!({"session_id": session, "process_id": process, "signal": "KILL"}));
    assert_eq!(killed["ok"], true);
    assert_eq!(codex.finish("p").1, 137);
}
