//! A REXD server on a unix socket whose every message a test writes.
#![allow(dead_code, reason = "each test uses its part")]

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

/// One connection of a server whose every message the test writes.
pub(crate) struct Connection {
    requests: Lines<BufReader<OwnedReadHalf>>,
    output: OwnedWriteHalf,
}

impl Connection {
    pub(crate) async fn accept(listener: &UnixListener) -> Connection {
        let (stream, _): (UnixStream, _) = listener.accept().await.unwrap();
        let (input, output) = stream.into_split();
        Connection { requests: BufReader::new(input).lines(), output }
    }

    /// The next message, which must be of this method.
    pub(crate) async fn received(&mut self, method: &str) -> Value {
        let line = self.requests.next_line().await.unwrap().expect("a request");
        let request: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(request["method"], method, "{request}");
        request
    }

    /// The start of a command that was sent together with the request that opens the session, behind an acknowledgement.
    pub(crate) async fn early_start(&mut self) -> Value {
        let ack = self.received("session.ack").await;
        assert_eq!((&ack["params"]["session_id"], &ack["params"]["event_id"]), (&json!("@last"), &json!(0)));
        self.received("exec.start").await
    }

    /// The id of the next request, which must be of this method.
    pub(crate) async fn request(&mut self, method: &str) -> Value {
        self.received(method).await["id"].clone()
    }

    /// Responds to a request.
    pub(crate) async fn respond(&mut self, request: &Value, result: Value) {
        self.send(json!({ "id": request["id"], "result": result })).await;
    }

    /// Responds to a request with an error.
    pub(crate) async fn refuse(&mut self, request: &Value, code: i64, message: &str) {
        self.send(json!({ "id": request["id"], "error": { "code": code, "message": message } })).await;
    }

    pub(crate) async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
}

pub(crate) fn opened() -> Value {
    json!({
        "session_id": "s", "protocol": "rexd/1", "server_version": "1", "capabilities": [], "resume_token": "t",
        "limits": {
            "default_timeout_ms": 1, "hard_timeout_ms": 1, "max_output_bytes": 1, "max_file_read_bytes": 1,
            "max_processes_per_session": 1, "max_concurrent_sessions": 1,
        },
        "workspace_roots": ["/"], "server_name": "scripted", "implementation_version": "1",
    })
}

pub(crate) fn started() -> Value {
    json!({ "process_id": "p", "started_at": "2026-01-01T00:00:00Z" })
}

pub(crate) fn event(method: &str, mut params: Value) -> Value {
    (params["session_id"], params["process_id"]) = (json!("s"), json!("p"));
    json!({ "method": method, "params": params })
}

pub(crate) fn output(event_id: u64, cursor: u64, data: &str) -> Value {
    let params = json!({ "event_id": event_id, "cursor": cursor, "encoding": "utf8", "data": data });
    event("exec.stdout", params)
}

pub(crate) fn exit(event_id: u64) -> Value {
    event("exec.exit", json!({ "event_id": event_id, "exit_code": 0, "signal": null }))
}
