//! Input whose response is lost, at a server that recognises writes by their id and at one that does not.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use client::exec_server::v1::{WriteParams, WriteStatus};
use client::exec_server::{ByteChunk, ExecServerClient, ExecServerError, RemoteExecServerConnectArgs};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

type Peer = WebSocketStream<TcpStream>;

async fn receive(peer: &mut Peer) -> Option<Value> {
    loop {
        match peer.next().await?.ok()? {
            Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

/// A server that closes the connection after the first write instead of responding; it reports every write.
async fn serve(listener: TcpListener, handshake: Value, writes: mpsc::UnboundedSender<String>) {
    let mut is_first = true;
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let mut peer = tokio_tungstenite::accept_async(stream).await.unwrap();
        while let Some(message) = receive(&mut peer).await {
            let result = match message["method"].as_str().unwrap() {
                "initialize" => handshake.clone(),
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

/// The result of a write whose response was lost, and the ids of all writes that the server received.
async fn write_to(handshake: Value) -> (Result<WriteStatus, ExecServerError>, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let (writes, mut written) = mpsc::unbounded_channel();
    let serving = tokio::spawn(serve(listener, handshake, writes));
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
async fn a_write_is_sent_again_to_a_server_that_recognises_its_id() {
    let shell = json!({"name": "sh", "path": "/bin/sh"});
    let (status, names) = write_to(json!({"sessionId": "s", "environmentInfo": {"shell": shell}})).await;
    assert_eq!(status.unwrap(), WriteStatus::Accepted);
    assert_eq!(names, ["first", "first", "second"]);
}

#[tokio::test]
async fn a_write_is_not_sent_again_to_a_server_that_ignores_its_id() {
    let (status, names) = write_to(json!({"sessionId": "s"})).await;
    assert!(matches!(status, Err(ExecServerError::Ambiguous { method: "process/write", .. })), "{status:?}");
    assert_eq!(names, ["first", "second"]);
}
