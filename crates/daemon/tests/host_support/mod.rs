//! A scripted hub, written from the document, and a host that dials it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "each test uses its part"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use testkit::sandbox::Sandbox;
use testkit::tries::Tries;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

/// Longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A listener that hosts connect to.
pub struct ScriptedHub {
    pub listener: TcpListener,
}

impl ScriptedHub {
    pub async fn new() -> ScriptedHub {
        ScriptedHub { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    /// The next connection to `/ws/host`, before the first message.
    pub async fn accept(&self) -> HubConnection {
        loop {
            let connection = self.accept_any().await;
            if connection.uri.starts_with("/ws/host?") {
                return connection;
            }
        }
    }

    /// The next connection to any path.
    #[expect(clippy::result_large_err, reason = "the signature of the library")]
    pub async fn accept_any(&self) -> HubConnection {
        let (stream, _) = timeout(PATIENCE, self.listener.accept()).await.unwrap().unwrap();
        let (mut uri, mut headers) = (String::new(), BTreeMap::new());
        let note = |request: &Request, response: Response| {
            uri = request.uri().to_string();
            for (name, value) in request.headers() {
                headers.insert(name.to_string(), value.to_str().unwrap().to_owned());
            }
            Ok(response)
        };
        let socket =
            timeout(PATIENCE, tokio_tungstenite::accept_hdr_async(stream, note)).await.unwrap().unwrap();
        HubConnection { socket, uri, headers, is_acking: true }
    }

    /// The next connection as the reference server of the document accepts it: with the token in the query only.
    #[expect(clippy::result_large_err, reason = "the signature of the library")]
    pub async fn accept_as_reference(&self) -> HubConnection {
        loop {
            let (stream, _) = timeout(PATIENCE, self.listener.accept()).await.unwrap().unwrap();
            let mut uri = String::new();
            let check = |request: &Request, response: Response| {
                uri = request.uri().to_string();
                match uri.starts_with("/ws/host?") && uri.contains("host_token=") {
                    true => Ok(response),
                    false => {
                        let mut refused =
                            ErrorResponse::new(Some("missing host_id/host_token query params".to_owned()));
                        *refused.status_mut() = http::StatusCode::UNAUTHORIZED;
                        Err(refused)
                    }
                }
            };
            if let Ok(socket) = tokio_tungstenite::accept_hdr_async(stream, check).await {
                return HubConnection { socket, uri, headers: BTreeMap::new(), is_acking: false };
            }
        }
    }

    /// The next connection after its greeting was answered with what the hub has.
    pub async fn greeted(&self, has: &Stored) -> (HubConnection, Value) {
        let mut connection = self.accept().await;
        let hello = connection.next().await;
        assert_eq!(hello["type"], "host.hello", "{hello}");
        for run in hello["data"]["runs"].as_array().unwrap() {
            let run_id = run["run_id"].as_str().unwrap();
            connection.send("run.ack", None, json!({"run_id": run_id, "last_seq": has.last(run_id)})).await;
        }
        connection.send("hub.ready", None, json!({"version": "test", "generation": 1})).await;
        (connection, hello)
    }
}

/// One connection of a host.
pub struct HubConnection {
    pub socket: WebSocketStream<TcpStream>,
    pub uri: String,
    pub headers: BTreeMap<String, String>,
    /// Whether events are acknowledged when they are stored.
    pub is_acking: bool,
}

impl HubConnection {
    /// The next message, heartbeats excepted.
    pub async fn next(&mut self) -> Value {
        loop {
            let message = timeout(PATIENCE, self.socket.next()).await.unwrap();
            let Message::Text(text) = message.unwrap().unwrap() else { continue };
            let value: Value = serde_json::from_str(&text).unwrap();
            assert!(value["ts"].is_string(), "every message has a time: {value}");
            if value["type"] != "host.heartbeat" {
                return value;
            }
        }
    }

    pub async fn send(&mut self, kind: &str, run_id: Option<&str>, data: Value) {
        let mut message = json!({"type": kind, "ts": "2026-01-01T00:00:00Z", "data": data});
        if let Some(run_id) = run_id {
            message["run_id"] = json!(run_id);
        }
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Stores events until one satisfies `is_last`, and returns that message, which need not be an event.
    pub async fn until(&mut self, stored: &mut Stored, is_last: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().await;
            if let Some(run_id) = stored.add(&message).filter(|_| self.is_acking) {
                let last_seq = stored.last(&run_id);
                self.send("run.ack", None, json!({"run_id": run_id, "last_seq": last_seq})).await;
            }
            if is_last(&message) {
                return message;
            }
        }
    }

    /// Sends a request and returns the data of its response; events are stored meanwhile.
    pub async fn request(
        &mut self,
        stored: &mut Stored,
        kind: &str,
        run_id: Option<&str>,
        data: Value,
    ) -> Value {
        let request_id = data["request_id"].as_str().unwrap().to_owned();
        self.send(kind, run_id, data).await;
        let is_response = |message: &Value| {
            message["type"] == "rpc.response" && message["data"]["request_id"] == request_id
        };
        let response = self.until(stored, is_response).await;
        assert_eq!(response["data"]["rpc_type"], kind);
        response["data"].clone()
    }

    /// Starts a run and returns its id.
    pub async fn start(&mut self, stored: &mut Stored, cmd: &str) -> String {
        let data = json!({"request_id": format!("start {cmd}"), "tool": "shell", "cmd": cmd, "user": "ann"});
        let response = self.request(stored, "rpc.run.start", None, data).await;
        assert_eq!(response["ok"], true, "{response}");
        response["result"]["run_id"].as_str().unwrap().to_owned()
    }

    /// Stores events until the run has ended; returns its exit event.
    pub async fn exited(&mut self, stored: &mut Stored, run_id: &str) -> Value {
        if let Some(exit) = stored.of(run_id).into_iter().find(|event| event["type"] == "run.exited") {
            return exit;
        }
        self.until(stored, |message| message["type"] == "run.exited" && message["run_id"] == run_id).await
    }

    /// Stores events until the output of a run contains a text.
    pub async fn output(&mut self, stored: &mut Stored, run_id: &str, text: &str) {
        while !stored.text(run_id).contains(text) {
            self.until(stored, |message| message["type"] == "run.output").await;
        }
    }
}

/// Whether the host answers the request `list` on this connection; events are stored meanwhile.
pub async fn is_open(connection: &mut HubConnection, stored: &mut Stored) -> bool {
    loop {
        let Ok(Some(Ok(message))) = timeout(PATIENCE, connection.socket.next()).await else { return false };
        let Message::Text(text) = message else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        stored.add(&message);
        if message["data"]["request_id"] == "list" {
            return true;
        }
    }
}

/// The events that a hub has, by run and number.
#[derive(Default)]
pub struct Stored {
    pub runs: BTreeMap<String, BTreeMap<i64, Value>>,
    /// Frames with an event, repeated ones included.
    pub frames: usize,
}

impl Stored {
    /// Stores an event; a repeated one must be the same. Returns its run.
    pub fn add(&mut self, message: &Value) -> Option<String> {
        let (run_id, seq) = (message["run_id"].as_str()?, message["seq"].as_i64()?);
        self.frames += 1;
        let run = self.runs.entry(run_id.to_owned()).or_default();
        match run.get(&seq) {
            Some(known) => assert_eq!(known, message, "the same event under the same number"),
            None => drop(run.insert(seq, message.clone())),
        }
        Some(run_id.to_owned())
    }

    /// The last event before the first gap.
    pub fn last(&self, run_id: &str) -> i64 {
        let Some(run) = self.runs.get(run_id) else { return 0 };
        let mut last = 0;
        for (seq, event) in run {
            let first =
                event["data"]["first_seq"].as_i64().filter(|_| event["type"] == "run.lost").unwrap_or(*seq);
            if first > last + 1 {
                break;
            }
            last = *seq;
        }
        last
    }

    pub fn of(&self, run_id: &str) -> Vec<Value> {
        self.runs.get(run_id).map(|run| run.values().cloned().collect()).unwrap_or_default()
    }

    /// The types of all events of a run, without output.
    pub fn kinds(&self, run_id: &str) -> Vec<String> {
        let kinds = self.of(run_id).into_iter().map(|event| event["type"].as_str().unwrap().to_owned());
        kinds.filter(|kind| kind != "run.output").collect()
    }

    /// All output of a run.
    pub fn text(&self, run_id: &str) -> String {
        let output = self.of(run_id).into_iter().filter(|event| event["type"] == "run.output");
        output.map(|event| event["data"]["text"].as_str().unwrap().to_owned()).collect()
    }

    /// Asserts that the events of a run have all numbers from 1 on.
    pub fn assert_complete(&self, run_id: &str) {
        let numbers: Vec<i64> = self.runs[run_id].keys().copied().collect();
        let expected: Vec<i64> = (1..=numbers.len() as i64).collect();
        assert_eq!(numbers, expected);
    }
}

/// Connects to a socket whose file exists: its server may be about to listen.
pub async fn connect_unix(socket: &Path) -> UnixStream {
    let mut tries = Tries::within(PATIENCE, "somebody listens");
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => tries.again(),
            connected => return connected.unwrap(),
        }
    }
}

/// A connection of REXD over a unix socket.
pub struct RexdLines(BufReader<UnixStream>);

impl RexdLines {
    pub async fn connect(socket: &Path) -> RexdLines {
        RexdLines(BufReader::new(connect_unix(socket).await))
    }

    /// The result of a request; events are dropped.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
        self.0.get_mut().write_all(format!("{request}\n").as_bytes()).await.unwrap();
        loop {
            let mut line = String::new();
            timeout(PATIENCE, self.0.read_line(&mut line)).await.unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == method {
                assert!(message["error"].is_null(), "{message}");
                return message["result"].clone();
            }
        }
    }
}

/// A running `rexd host`.
pub struct HostProcess {
    pub child: Child,
}

impl HostProcess {
    pub fn start(sandbox: &Sandbox, hub: &str) -> HostProcess {
        HostProcess::start_with(sandbox, hub, |_| {})
    }

    pub fn start_with(sandbox: &Sandbox, hub: &str, adjust: impl FnOnce(&mut Command)) -> HostProcess {
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
        command
            .args(["host", "--hub", hub, "--config"])
            .arg(sandbox.config())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        adjust(&mut command);
        HostProcess { child: command.spawn().unwrap() }
    }

    /// Kills it without warning.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

/// A host with an ended run, a hub, and what the hub has.
pub async fn with_ended_run(sandbox: &Sandbox) -> (HostProcess, ScriptedHub, HubConnection, Stored, String) {
    let (hub, mut stored) = (ScriptedHub::new().await, Stored::default());
    let host = HostProcess::start(sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let run = connection.start(&mut stored, "true").await;
    connection.exited(&mut stored, &run).await;
    (host, hub, connection, stored, run)
}

/// Sends a request of a user about a run, with an id of its own unless it has one.
pub async fn rpc(
    connection: &mut HubConnection,
    stored: &mut Stored,
    run: &str,
    kind: &str,
    mut data: Value,
) -> Value {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    if data["request_id"].is_null() {
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        data["request_id"] = json!(format!("request {number}"));
    }
    data["user"] = json!("ann");
    connection.request(stored, kind, Some(run), data).await
}
