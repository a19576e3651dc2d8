//! The released executor of Codex 0.131.0: it registers at the hub, and two harnesses use it at once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hub::config::Limits;
use serde_json::{Value, json};
use support::{Peer, Received, Running, hub_with_tokens};
use testkit::daemon::PATIENCE;

/// The path of its program, which `make setup` downloads.
fn program() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let program = target.join("codex-clients/codex-0.131.0");
    assert!(program.exists(), "the released codex is missing: run `make setup`");
    program
}

/// The running executor; killed at the end of its test.
struct Released(Child);

impl Released {
    fn start(hub: &Running, token: &str, home: &Path) -> Released {
        let url = format!("http://{}", hub.address);
        let child = Command::new(program())
            .args(["exec-server", "--remote", &url, "--executor-id", "released"])
            .env("CODEX_HOME", home)
            .env("CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN", token)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Released(child)
    }
}

impl Drop for Released {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The next message of a stream.
fn next(harness: &mut Peer, stream: &str) -> Value {
    match harness.next() {
        Received::Data(of, payload) if of == stream => serde_json::from_slice(&payload).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Runs `echo` with a word on a new stream, and returns the response.
fn echo(harness: &mut Peer, stream: &str, word: &str) -> Value {
    let mut say = |message: Value| harness.send(stream, message.to_string());
    say(json!({ "id": 1, "method": "initialize", "params": { "clientName": "test" } }));
    say(json!({ "method": "initialized" }));
    let params = json!({ "processId": "1", "argv": ["echo", word], "cwd": "/", "env": {}, "tty": false });
    say(json!({ "id": 2, "method": "process/start", "params": params }));
    assert!(next(harness, stream)["result"]["sessionId"].is_string());
    loop {
        let message = next(harness, stream);
        if message["method"] == "process/output" {
            return message["params"]["chunk"].clone();
        }
    }
}

#[test]
fn the_released_executor_registers_and_serves_two_harnesses() {
    let (hub, executor, harness) = hub_with_tokens(Limits { executor_away: PATIENCE, ..Limits::default() });
    let home = tempfile::tempdir().unwrap();
    let released = Released::start(&hub, &executor, home.path());
    let (mut one, mut two) = (hub.harness("released", &harness), hub.harness("released", &harness));
    assert_eq!(echo(&mut one, "stream-1", "one"), "b25lCg==");
    assert_eq!(echo(&mut two, "stream-2", "two"), "dHdvCg==");
    drop(released);
    let ended = |harness: &mut Peer| loop {
        if let Received::Closed(code, _reason) = harness.next() {
            return code;
        }
    };
    assert_eq!((ended(&mut one), ended(&mut two)), (1012, 1012));
}
