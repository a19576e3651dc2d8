//! Input whose answer is cut off, at a server that knows writes by their names and at one that does not.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

use client::exec_server::v1::{WriteParams, WriteStatus};
use client::exec_server::{ByteChunk, ExecServerClient, ExecServerError, RemoteExecServerConnectArgs};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

type Peer = WebSocketStream<TcpStream>;

async fn hear(peer: &mut Peer) -> Option<Value> {
    loop {
        match peer.next().await?.ok()? {
            Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// A server that is cut off after the first write, before it answers it; it tells of every write that it gets.
async fn serve(listener: TcpListener, greeting: Value, writes: mpsc::UnboundedSender<String>) {
    let mut is_first = true;
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let mut peer = tokio_tungstenite::accept_async(stream).await.unwrap();
        while let Some(message) = hear(&mut peer).await {
            let result = match message["method"].as_str().unwrap() {
                "initialize" => greeting.clone(),
                "process/write" => {
                    writes.send(message["params"]["writeId"].as_str().unwrap().to_owned()).ok();
                    if std::mem::take(&mut is_first) {
                        break;
                    }
                    json!({"status": "accepted"})
                }
                _ => continue,
            };
            let answer = json!({"id": message["id"], "result": result});
            peer.send(Message::text(answer.to_string())).await.unwrap();
        }
    }
}

/// What became of a write that was cut off, and the names of all writes that the server got: one more is asked after it.
async fn write_to(greeting: Value) -> (Result<WriteStatus, ExecServerError>, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let (writes, mut written) = mpsc::unbounded_channel();
    let serving = tokio::spawn(serve(listener, greeting, writes));
    let args = RemoteExecServerConnectArgs::new(url, "tests");
    let client = ExecServerClient::connect_websocket(args).await.unwrap();
    let write = |name: &str| {
        client.write(WriteParams {
            process_id: "p".to_owned(),
            chunk: ByteChunk::from(b"input".to_vec()),
            write_id: Some(name.to_owned()),
        })
    };
    let status = write("first").await.map(|answer| answer.status);
    write("second").await.unwrap();
    serving.abort();
    let mut names = Vec::new();
    while let Some(name) = written.recv().await {
        names.push(name);
    }
    (status, names)
}

#[tokio::test]
async fn a_server_that_knows_writes_by_name_is_asked_again() {
    let shell = json!({"name": "sh", "path": "/bin/sh"});
    let (status, names) = write_to(json!({"sessionId": "s", "environmentInfo": {"shell": shell}})).await;
    assert_eq!(status.unwrap(), WriteStatus::Accepted);
    assert_eq!(names, ["first", "first", "second"]);
}

#[tokio::test]
async fn a_server_that_would_write_it_twice_is_not_asked_again() {
    let (status, names) = write_to(json!({"sessionId": "s"})).await;
    assert!(matches!(status, Err(ExecServerError::Ambiguous { method: "process/write", .. })), "{status:?}");
    assert_eq!(names, ["first", "second"]);
}
