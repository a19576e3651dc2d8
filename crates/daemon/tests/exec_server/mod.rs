//! A running `rexd exec-server` and a client that sends arbitrary messages.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each test uses its part, and may panic"
)]

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::lines::Lines;
use testkit::log::Log;
use testkit::sandbox::Sandbox;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

pub const PATIENCE: Duration = Duration::from_secs(120);

/// A daemon that serves exec-server.
pub struct ServedDaemon {
    pub child: Child,
    out: BufReader<ChildStdout>,
    pub address: SocketAddr,
    /// The HTTP listener of REXD, if there is one.
    pub http: Option<SocketAddr>,
}

impl ServedDaemon {
    /// `rexd exec-server` with more flags; without configured roots, so that it serves everything.
    pub fn start(sandbox: &Sandbox, flags: &[&str]) -> ServedDaemon {
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
        command.arg("exec-server").args(flags);
        ServedDaemon::spawn(command)
    }

    /// Anything that prints one URL of exec-server.
    pub fn spawn(mut command: Command) -> ServedDaemon {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (mut line, mut http) = (String::new(), None);
        while !line.contains("ws://") {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "it does not listen");
            let address = line.split_once("http://").map(|(_, address)| address.trim().trim_end_matches('/'));
            http = http.or(address.map(|address| address.parse().unwrap()));
        }
        let address = line.trim().rsplit("ws://").next().unwrap().parse().unwrap();
        ServedDaemon { child, out, address, http }
    }

    pub fn connect(&self) -> Codex {
        Codex::connect(self.address, &[]).unwrap()
    }

    /// A client that has done the handshake.
    pub fn client(&self) -> Codex {
        let mut codex = self.connect();
        codex.greet(json!({"clientName": "test"}));
        codex
    }

    /// The same, going on with a session.
    pub fn resumed(&self, session: &str) -> Codex {
        let mut codex = self.connect();
        let params = json!({"clientName": "test", "resumeSessionId": session});
        loop {
            // The old connection may not be seen as gone yet.
            match codex.ask("initialize", params.clone()) {
                Ok(result) => {
                    assert_eq!(result["sessionId"], session);
                    codex.session = session.to_owned();
                    codex.notify("initialized");
                    return codex;
                }
                Err(error) => assert_eq!(error["code"], -32010, "{error}"),
            }
        }
    }
}

impl Drop for ServedDaemon {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// `rexd serve` with exec-server beside REXD on a unix socket.
pub fn serve(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    command.arg("serve").arg("--config").arg(sandbox.config()).arg("--unix").arg(sandbox.path("rexd.sock"));
    command.args(["--exec-server", "ws://127.0.0.1:0"]);
    command
}

/// The same, running, and a client of REXD.
pub fn beside(sandbox: &Sandbox) -> (ServedDaemon, Client<Lines<UnixStream, UnixStream>>) {
    let served = ServedDaemon::spawn(serve(sandbox));
    let rexd = Client::new(Lines::connect(&sandbox.path("rexd.sock")).unwrap(), Log::new());
    (served, rexd)
}

/// A connection.
pub struct Codex {
    socket: WebSocket<TcpStream>,
    heard: VecDeque<Value>,
    next: u64,
    pub session: String,
}

impl Codex {
    pub fn connect(address: SocketAddr, headers: &[(&'static str, &str)]) -> Result<Codex, u16> {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = format!("ws://{address}/").into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        match tungstenite::client::client_with_config(request, stream, Some(config)) {
            Ok((socket, _answer)) => {
                Ok(Codex { socket, heard: VecDeque::new(), next: 0, session: String::new() })
            }
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                Err(answer.status().as_u16())
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub fn greet(&mut self, params: Value) {
        let result = self.call("initialize", params);
        self.session = result["sessionId"].as_str().unwrap().to_owned();
        self.notify("initialized");
    }

    pub fn send(&mut self, text: impl Into<String>) {
        self.socket.send(Message::text(text.into())).unwrap();
    }

    /// Sends until nobody takes it any more.
    pub fn flood(mut self, text: &str) {
        while self.socket.send(Message::text(text)).is_ok() {}
    }

    pub fn notify(&mut self, method: &str) {
        self.send(json!({"method": method, "params": {}}).to_string());
    }

    /// Sends a request and does not wait.
    pub fn request(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(json!({"id": id, "method": method, "params": params}).to_string());
        id
    }

    pub fn answer(&mut self, id: u64) -> Result<Value, Value> {
        let mut message = self.take(|message| message["id"] == id && message.get("method").is_none());
        match message.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(message["result"].take()),
        }
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.request(method, params);
        self.answer(id)
    }

    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The code of a request that is refused.
    pub fn refused(&mut self, method: &str, params: Value) -> i64 {
        self.ask(method, params).expect_err(method)["code"].as_i64().unwrap()
    }

    /// The next message that fits; others are kept for later.
    pub fn take(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.heard.iter().position(&fits) {
            return self.heard.remove(place).unwrap();
        }
        loop {
            let message = self.receive().expect("the connection has ended");
            if fits(&message) {
                return message;
            }
            self.heard.push_back(message);
        }
    }

    /// The next notification of a process.
    pub fn event(&mut self, method: &str, process: &str) -> Value {
        self.take(|message| message["method"] == method && message["params"]["processId"] == process)
    }

    /// Whatever comes next; nothing when the connection ends.
    pub fn receive(&mut self) -> Option<Value> {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) => return None,
                Ok(_control) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("nothing came for {PATIENCE:?}; heard: {:?}", self.heard)
                }
                Err(_gone) => return None,
            }
        }
    }

    /// Starts a shell line on pipes that can be written to.
    pub fn shell(&mut self, process: &str, line: &str) {
        self.call("process/start", start(process, &["sh", "-c", line]));
    }

    /// All output of a process up to its end, and its status.
    pub fn finish(&mut self, process: &str) -> (Vec<u8>, i64) {
        let (mut output, mut status, mut next) = (Vec::new(), None, None);
        loop {
            let fits = |message: &Value| {
                let method = message["method"].as_str().unwrap_or_default();
                message["params"]["processId"] == process && method.starts_with("process/")
            };
            let message = self.take(fits);
            let params = &message["params"];
            let seq = params["seq"].as_u64().unwrap();
            assert_eq!(*next.get_or_insert(seq), seq, "a gap in {message}");
            next = Some(seq + 1);
            match message["method"].as_str().unwrap() {
                "process/output" => output.extend(bytes(&params["chunk"])),
                "process/exited" => status = params["exitCode"].as_i64(),
                _ => return (output, status.expect("exited before closed")),
            }
        }
    }

    /// Ends the connection without a word.
    pub fn cut(self) {
        self.socket.get_ref().shutdown(std::net::Shutdown::Both).ok();
    }
}

/// Params that start a program with pipes.
pub fn start(process: &str, argv: &[&str]) -> Value {
    json!({
        "processId": process, "argv": argv, "cwd": "/", "tty": false, "pipeStdin": true, "arg0": null,
        "env": {"PATH": "/usr/bin:/bin"},
    })
}

pub fn bytes(chunk: &Value) -> Vec<u8> {
    wire::base64::decode(chunk.as_str().unwrap()).unwrap()
}

pub fn base64(bytes: impl AsRef<[u8]>) -> String {
    wire::base64::encode(bytes.as_ref())
}
