//! An exec-server over streams whose every message a test writes.

use std::time::Duration;

use client::exec_server::{ExecServerClient, ExecServerClientConnectOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};

pub(crate) fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

/// A client, and the server's ends of its streams after the handshake.
pub(crate) async fn connected() -> (ExecServerClient, DuplexStream, DuplexStream) {
    let (ours, mut from_client) = duplex(256);
    let (mut to_client, theirs) = duplex(1 << 20);
    let options = ExecServerClientConnectOptions::default();
    let connecting = tokio::spawn(ExecServerClient::connect_stdio(ours, theirs, options));
    let mut lines = BufReader::new(&mut from_client).lines();
    lines.next_line().await.unwrap().unwrap();
    to_client.write_all(&line(&json!({"id": 1, "result": {"sessionId": "s"}}))).await.unwrap();
    lines.next_line().await.unwrap().unwrap();
    (connecting.await.unwrap().unwrap(), from_client, to_client)
}

/// Waits until all tasks are idle: the paused clock advances only then.
pub(crate) async fn settled() {
    tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>()).await.unwrap_err();
}
