//! Hosts and apps written from the protocol's document: they send and read envelopes as JSON, and share no code with ours.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use hub::auth::{Secret, UserRole, now};
use hub::passwords;
use hub::store::{NewToken, TokenKind};
use serde_json::{Value, json};
use testkit::daemon::PATIENCE;
use testkit::http::Answer;
use testkit::uninterrupted::Uninterrupted;
use tungstenite::client::IntoClientRequest as _;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket};

use super::Running;

/// A WebSocket that carries envelopes.
pub(crate) struct Envelopes {
    socket: WebSocket<Uninterrupted>,
    /// Received messages that no test has looked at.
    waiting: Vec<Value>,
}

impl Envelopes {
    /// Connects; the error is the status and the body of the response.
    pub(crate) fn dial(
        hub: &Running,
        target: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Envelopes, (u16, String)> {
        let stream = TcpStream::connect(hub.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = format!("ws://{}{target}", hub.address).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match tungstenite::client(request, Uninterrupted(stream)) {
            Ok((socket, _)) => Ok(Envelopes { socket, waiting: Vec::new() }),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => {
                let body = response.body().clone().unwrap_or_default();
                Err((response.status().as_u16(), String::from_utf8(body).unwrap()))
            }
            Err(error) => panic!("{target}: {error}"),
        }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).unwrap();
    }

    pub(crate) fn send_message(&mut self, message: Message) -> tungstenite::Result<()> {
        self.socket.send(message)
    }

    /// Queues a message without sending it yet.
    pub(crate) fn queue(&mut self, message: &Value) {
        self.socket.write(Message::text(message.to_string())).unwrap();
    }

    pub(crate) fn flush(&mut self) {
        self.socket.flush().unwrap();
    }

    /// Reads the next message.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Value {
        match self.read() {
            Ok(message) => message,
            Err(end) => panic!("the connection ended: {end:?}"),
        }
    }

    /// The next message, or the code and the reason of the close frame.
    fn read(&mut self) -> Result<Value, (u16, String)> {
        let deadline = Instant::now() + PATIENCE;
        // Pings arrive in any case.
        while Instant::now() < deadline {
            match self.socket.read() {
                Ok(Message::Text(text)) => return Ok(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(close)) => {
                    let close = close.map(|close| (u16::from(close.code), close.reason.to_string()));
                    return Err(close.unwrap_or_default());
                }
                Ok(_other) => {}
                Err(tungstenite::Error::Io(error))
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    break;
                }
                Err(error) => return Err((0, error.to_string())),
            }
        }
        panic!("no message; the others were {:#?}", self.waiting)
    }

    /// The next message of this type; others are kept for later.
    #[track_caller]
    pub(crate) fn next(&mut self, kind: &str) -> Value {
        self.find(|message| message["type"] == kind)
    }

    /// The next message of this type, or the end of the connection; others are dropped.
    pub(crate) fn try_next(&mut self, kind: &str) -> Result<Value, (u16, String)> {
        loop {
            let message = self.read()?;
            if message["type"] == kind {
                return Ok(message);
            }
        }
    }

    /// The next message that matches; others are kept for later.
    #[track_caller]
    pub(crate) fn find(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(position) = self.waiting.iter().position(&is_wanted) {
            return self.waiting.remove(position);
        }
        loop {
            let message = self.receive();
            if is_wanted(&message) {
                return message;
            }
            self.waiting.push(message);
        }
    }

    /// All messages up to one that matches, with those kept before.
    #[track_caller]
    pub(crate) fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let last = self.find(is_last);
        let mut all = std::mem::take(&mut self.waiting);
        all.push(last);
        all
    }

    /// Waits for the close frame, and returns its code.
    pub(crate) fn closed(&mut self) -> u16 {
        loop {
            match self.read() {
                Ok(_message) => {}
                Err((code, _)) => return code,
            }
        }
    }

    /// Sends a Close and returns the code of the answer.
    pub(crate) fn close(&mut self) -> u16 {
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        self.socket.close(Some(frame)).unwrap();
        self.closed()
    }
}

/// A host of the document: numbers its events and answers requests.
pub(crate) struct ScriptedHost {
    pub(crate) socket: Envelopes,
    pub(crate) id: String,
}

impl ScriptedHost {
    pub(crate) fn connect(hub: &Running, id: &str) -> ScriptedHost {
        ScriptedHost::try_connect(hub, id, "token").unwrap()
    }

    pub(crate) fn try_connect(hub: &Running, id: &str, token: &str) -> Result<ScriptedHost, (u16, String)> {
        let socket = Envelopes::dial(hub, &format!("/ws/host?host_id={id}&host_token={token}"), &[])?;
        Ok(ScriptedHost { socket, id: id.to_owned() })
    }

    /// Sends one event.
    pub(crate) fn event(&mut self, run: &str, seq: i64, kind: &str, data: Value) {
        let event = json!({ "type": kind, "ts": "2026-01-01T00:00:00Z", "host_id": self.id, "run_id": run, "seq": seq, "data": data });
        self.socket.send(&event);
    }

    pub(crate) fn output(&mut self, run: &str, seq: i64) {
        self.event(run, seq, "run.output", json!({ "stream": "stdout", "text": format!("line {seq}\n") }));
    }

    /// Sends a line, unless the connection has ended.
    pub(crate) fn try_output(&mut self, run: &str, seq: i64) -> tungstenite::Result<()> {
        let data = json!({ "stream": "stdout", "text": format!("line {seq}\n") });
        let event = json!({ "type": "run.output", "run_id": run, "seq": seq, "data": data });
        self.socket.send_message(Message::text(event.to_string()))
    }

    pub(crate) fn started(&mut self, run: &str) {
        self.event(run, 1, "run.started", json!({ "tool": "shell", "cwd": "/tmp", "command": "make" }));
    }

    /// Waits until the run is acknowledged up to an event.
    #[track_caller]
    pub(crate) fn acked(&mut self, run: &str, seq: i64) {
        self.socket.find(|message| {
            message["type"] == "run.ack"
                && message["data"]["run_id"] == run
                && message["data"]["last_seq"] == seq
        });
    }

    /// Answers a request.
    pub(crate) fn respond(&mut self, request: &Value, result: Value) {
        let mut response = json!({
            "type": "rpc.response",
            "ts": "2026-01-01T00:00:00Z",
            "host_id": self.id,
            "data": { "request_id": request["data"]["request_id"], "ok": true, "rpc_type": request["type"], "result": result },
        });
        if let Some(run) = request.get("run_id") {
            response["run_id"] = run.clone();
        }
        self.socket.send(&response);
    }
}

/// An app of the document, after `app.ready`.
pub(crate) fn app(hub: &Running, token: &str) -> Envelopes {
    let mut app = Envelopes::dial(hub, &format!("/ws/app?token={token}"), &[]).unwrap();
    app.next("app.ready");
    app
}

/// A message of an app about a run.
pub(crate) fn command(kind: &str, run: &str, data: Value) -> Value {
    json!({ "type": kind, "ts": "2026-01-01T00:00:00Z", "run_id": run, "data": data })
}

/// The text of the output events among messages.
pub(crate) fn output_of(messages: &[Value]) -> Vec<i64> {
    let outputs = messages.iter().filter(|message| message["type"] == "run.output");
    outputs.map(|message| message["seq"].as_i64().unwrap()).collect()
}

impl Running {
    /// Creates a user through the store, as the command line does.
    pub(crate) fn user(&self, name: &str, role: UserRole, password: &str) {
        let hash = passwords::hash(password).unwrap();
        self.with_store(async |store| store.add_user(name, role, Some(&hash), now()).await.unwrap());
    }

    /// A client token with a role, for tests that are not about signing in.
    pub(crate) fn client(&self, name: &str, role: UserRole) -> String {
        self.with_store(async |store| {
            let secret = Secret::random().unwrap();
            let (name, role, digest) = (name.to_owned(), Some(role), secret.digest());
            store
                .add_token(NewToken { name, kind: TokenKind::Client, role, digest, created: 1 })
                .await
                .unwrap();
            secret.expose().to_owned()
        })
    }

    pub(crate) fn get(&self, target: &str, token: &str) -> Answer {
        self.ask(target, &[format!("Authorization: Bearer {token}")], None)
    }

    /// The JSON of a successful response.
    pub(crate) fn get_json(&self, target: &str, token: &str) -> Value {
        let answer = self.get(target, token);
        assert_eq!(answer.head.status, 200, "{target}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    pub(crate) fn post(&self, target: &str, token: &str, body: &Value) -> Answer {
        let headers = if token.is_empty() { vec![] } else { vec![format!("Authorization: Bearer {token}")] };
        self.ask(target, &headers, Some(body.to_string().as_bytes()))
    }

    /// Any request; returns the status and the body.
    pub(crate) fn request(
        &self,
        method: &str,
        target: &str,
        token: &str,
        body: Option<&str>,
    ) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (address, text) = (self.address, body.unwrap_or_default());
        let length = text.len();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Signs in; returns the access token.
    pub(crate) fn login(&self, name: &str, password: &str) -> String {
        let answer = self.post("/auth/login", "", &json!({ "username": name, "password": password }));
        assert_eq!(answer.head.status, 200, "{}", answer.body);
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        body["access_token"].as_str().unwrap().to_owned()
    }
}
