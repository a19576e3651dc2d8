//! Closing ends soon, even if the server reads nothing or does not respond.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod scripted;

use std::time::Duration;

use client::{Session, SessionOptions, Target};
use scripted::{connected, line, settled};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, split};
use tokio::net::UnixListener;

/// More requests than may be pending at the same time.
const MANY: usize = 600;
/// More messages than a link queues.
const FLOOD: usize = 2_000;
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn an_exec_server_that_does_not_respond_does_not_keep_its_connection_open() {
    let (client, _unread, _to_client) = connected().await;
    for _ in 0..MANY {
        let client = client.clone();
        tokio::spawn(async move { client.environment_status().await });
    }
    settled().await;
    tokio::time::timeout(PATIENCE, client.close()).await.expect("it is closed").unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_exec_server_that_reads_nothing_does_not_keep_its_connection_open() {
    let (client, _unread, mut to_client) = connected().await;
    let mut notifications = client.notifications().await.unwrap();
    // The client responds to each of these, and the server does not read the responses.
    for id in 0..FLOOD {
        to_client.write_all(&line(&json!({"id": id, "method": "unknown"}))).await.unwrap();
    }
    to_client.write_all(&line(&json!({"method": "done"}))).await.unwrap();
    notifications.next().await.unwrap().unwrap();
    tokio::time::timeout(PATIENCE, client.close()).await.expect("it is closed").unwrap();
}

#[tokio::test]
async fn a_session_closes_although_many_responses_are_missing() {
    let directory = testkit::sandbox::Sandbox::new();
    let path = directory.path("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let (received, mut requests) = tokio::sync::mpsc::unbounded_channel();
    let serving = tokio::spawn(async move {
        let (input, mut output) = split(listener.accept().await.unwrap().0);
        let mut lines = BufReader::new(input).lines();
        while let Some(text) = lines.next_line().await.unwrap() {
            let request: Value = serde_json::from_str(&text).unwrap();
            let result = match request["method"].as_str().unwrap() {
                "session.open" => opened(),
                "session.close" => json!({}),
                _ => {
                    received.send(()).ok();
                    continue;
                }
            };
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
            output.write_all(&line(&answer)).await.unwrap();
        }
    });
    let session = Session::open(Target::Unix(path), SessionOptions::default()).await.unwrap();
    for _ in 0..MANY {
        let session = session.clone();
        tokio::spawn(async move { session.processes().await });
    }
    for _ in 0..512 {
        requests.recv().await.unwrap();
    }
    tokio::time::timeout(PATIENCE, session.close()).await.expect("it is closed").unwrap();
    serving.abort();
}

fn opened() -> Value {
    json!({
        "session_id": "s", "protocol": "rexd/1", "server_version": "1", "capabilities": [],
        "limits": {
            "default_timeout_ms": 1, "hard_timeout_ms": 1, "max_output_bytes": 1, "max_file_read_bytes": 1,
            "max_processes_per_session": 1, "max_concurrent_sessions": 1,
        },
        "workspace_roots": ["/"], "server_name": "scripted", "implementation_version": "1",
    })
}
