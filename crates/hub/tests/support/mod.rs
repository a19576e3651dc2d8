//! A hub on its own thread, and peers that exchange relay frames with it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]
#![allow(dead_code, reason = "not every test needs everything")]

pub(crate) mod browser;
pub(crate) mod peers;
pub(crate) mod postgres;
pub(crate) mod push;

use std::io::{BufRead as _, BufReader, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use hub::auth::Secret;
use hub::config::{Config, Limits, PublicUrl, Storage};
use hub::serve::{Hub, open};
use hub::store::{NewToken, Retention, Store, TokenKind};
use hub::wakeups::{LocalWakeups, Wakeups};
use serde_json::Value;
use testkit::daemon::PATIENCE;
use testkit::http::{Answer, Http, bearer};
use testkit::uninterrupted::Uninterrupted;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tungstenite::client::IntoClientRequest as _;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket};
use wire::exec_server::relay::{Body, Data, RelayFrame};

/// A running hub.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    directory: tempfile::TempDir,
    config: Config,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
    wakeups: Arc<dyn Wakeups>,
    /// The program, if the hub does not run in this process.
    program: Option<Child>,
}

impl Running {
    pub(crate) fn start(limits: Limits) -> Running {
        Running::start_at(limits, None)
    }

    pub(crate) fn start_at(limits: Limits, public_url: Option<PublicUrl>) -> Running {
        Running::start_with(limits, |config| config.public_url = public_url)
    }

    /// Starts a hub with a changed configuration.
    pub(crate) fn start_with(limits: Limits, change: impl FnOnce(&mut Config)) -> Running {
        Running::start_node(limits, Arc::new(LocalWakeups::default()), change)
    }

    /// Starts one of several nodes, which share these wake-ups.
    pub(crate) fn start_node(
        limits: Limits,
        wakeups: Arc<dyn Wakeups>,
        change: impl FnOnce(&mut Config),
    ) -> Running {
        let (directory, mut config) = configuration(limits);
        change(&mut config);
        let (address, stop, thread) = serve(config.clone(), wakeups.clone());
        Running { address, directory, config, stop, thread: Some(thread), wakeups, program: None }
    }

    /// Starts the program, so that its use of processor and memory can be measured.
    pub(crate) fn program(start: impl FnOnce(&Path) -> Command) -> Running {
        let (directory, config) = configuration(Limits::default());
        let mut child = start(directory.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening http://").unwrap().parse().unwrap();
        let (stop, wakeups) = (CancellationToken::new(), Arc::new(LocalWakeups::default()));
        Running { address, directory, config, stop, thread: None, wakeups, program: Some(child) }
    }

    /// The process id of the program.
    pub(crate) fn pid(&self) -> u32 {
        self.program.as_ref().unwrap().id()
    }

    /// Stops the hub and starts it again with the same state, at another port.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let (address, stop, thread) = serve(self.config.clone(), self.wakeups.clone());
        (self.address, self.stop, self.thread) = (address, stop, Some(thread));
    }

    pub(crate) fn data(&self) -> &Path {
        self.directory.path()
    }

    /// Creates a token through the store, as the command line does.
    pub(crate) fn token(&self, name: &str, kind: TokenKind) -> String {
        self.with_store(async |store| {
            let secret = Secret::random().unwrap();
            let digest = secret.digest();
            store
                .add_token(NewToken { name: name.to_owned(), kind, role: None, digest, created: 1 })
                .await
                .unwrap();
            secret.expose().to_owned()
        })
    }

    pub(crate) fn remove_token(&self, name: &str) {
        self.with_store(async |store| assert!(store.remove_token(name).await.unwrap()));
    }

    pub(crate) fn with_store<T>(&self, act: impl AsyncFnOnce(Store) -> T) -> T {
        Runtime::new().unwrap().block_on(async { act(open(&self.config.storage).await.unwrap()).await })
    }

    pub(crate) fn ask(&self, target: &str, headers: &[String], body: Option<&[u8]>) -> Answer {
        Http::connect(self.address).unwrap().ask(target, headers, body).unwrap()
    }

    /// Registers an executor; returns the status and the body.
    pub(crate) fn register(&self, id: &str, token: Option<&str>) -> (u16, Value) {
        let answer = self.ask(&format!("/cloud/executor/{id}/register"), &bearer(token), Some(b""));
        (answer.head.status, serde_json::from_str(&answer.body).unwrap_or_default())
    }

    /// Registers an executor; returns its URL.
    pub(crate) fn ticket(&self, id: &str, token: &str) -> String {
        let (status, answer) = self.register(id, Some(token));
        assert_eq!((status, answer["executor_id"].as_str()), (200, Some(id)), "{answer}");
        answer["url"].as_str().unwrap().to_owned()
    }

    pub(crate) fn executor(&self, id: &str, token: &str) -> Peer {
        Peer::dial(self.address, &self.ticket(id, token), &[]).unwrap()
    }

    pub(crate) fn harness(&self, id: &str, token: &str) -> Peer {
        self.try_harness(id, token).unwrap()
    }

    pub(crate) fn try_harness(&self, id: &str, token: &str) -> Result<Peer, (u16, Value)> {
        let url = format!("ws://{}/cloud/executor/{id}/rendezvous?role=harness&token={token}", self.address);
        Peer::dial(self.address, &url, &[])
    }

    /// Stops the hub and waits for its end.
    pub(crate) fn stop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(mut program) = self.program.take() {
            program.kill().ok();
            program.wait().ok();
        }
    }
}

fn configuration(limits: Limits) -> (tempfile::TempDir, Config) {
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        listen: "127.0.0.1:0".to_owned(),
        storage: Storage::Directory(directory.path().to_owned()),
        enrolment: None,
        retention: Retention { age_ms: i64::MAX / 4, bytes: i64::MAX / 4 },
        tls: None,
        public_url: None,
        authority: None,
        push_allow_private: false,
        limits,
    };
    (directory, config)
}

/// Runs a hub on a thread of its own.
fn serve(config: Config, wakeups: Arc<dyn Wakeups>) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    let (sender, bound) = std::sync::mpsc::channel();
    let stop = CancellationToken::new();
    let until = stop.clone();
    let thread = std::thread::spawn(move || {
        Runtime::new().unwrap().block_on(async {
            let hub = Hub::bind(config).await.unwrap().with_wakeups(wakeups);
            sender.send(hub.address()).unwrap();
            hub.serve(until).await.unwrap();
        });
    });
    (bound.recv().unwrap(), stop, thread)
}

/// One end of a relay: an executor or a harness.
pub(crate) struct Peer {
    socket: WebSocket<Uninterrupted>,
}

/// A received frame or the end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Data(String, Bytes),
    Reset(String, String),
    /// The code and the reason of the close frame.
    Closed(u16, String),
}

impl Peer {
    /// Connects; the error is the status and the error code of the response.
    pub(crate) fn dial(
        address: SocketAddr,
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Peer, (u16, Value)> {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        match tungstenite::client::client_with_config(request, Uninterrupted(stream), Some(config)) {
            Ok((socket, _response)) => Ok(Peer { socket }),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => {
                let body = response.body().as_deref().unwrap_or_default();
                let error = serde_json::from_slice::<Value>(body).unwrap_or_default();
                Err((response.status().as_u16(), error["error"]["code"].clone()))
            }
            Err(error) => panic!("{url}: {error}"),
        }
    }

    pub(crate) fn send(&mut self, stream: &str, payload: impl Into<Bytes>) {
        self.try_send(stream, payload).unwrap();
    }

    pub(crate) fn try_send(&mut self, stream: &str, payload: impl Into<Bytes>) -> tungstenite::Result<()> {
        let data = Data { seq: 0, segment_index: 0, segment_count: 1, payload: payload.into() };
        self.send_raw(Message::Binary(RelayFrame::new(stream, Body::Data(data)).encode()))
    }

    pub(crate) fn reset(&mut self, stream: &str) {
        let body = Body::Reset { reason: "over".to_owned() };
        self.send_raw(Message::Binary(RelayFrame::new(stream, body).encode())).unwrap();
    }

    pub(crate) fn send_raw(&mut self, message: Message) -> tungstenite::Result<()> {
        self.socket.send(message)
    }

    /// The next message as it is.
    pub(crate) fn receive(&mut self) -> Message {
        self.socket.read().unwrap()
    }

    /// The next frame or the end.
    pub(crate) fn next(&mut self) -> Received {
        loop {
            match self.socket.read() {
                Ok(Message::Binary(bytes)) => {
                    let frame = RelayFrame::decode(bytes).unwrap();
                    match frame.body {
                        Body::Data(data) => return Received::Data(frame.stream_id, data.payload),
                        Body::Reset { reason } => return Received::Reset(frame.stream_id, reason),
                        other => panic!("{other:?}"),
                    }
                }
                Ok(Message::Close(Some(close))) => {
                    return Received::Closed(close.code.into(), close.reason.to_string());
                }
                Ok(_other) => {}
                Err(error) => panic!("no frame: {error}"),
            }
        }
    }

    /// Expects a message as the next frame.
    pub(crate) fn expect(&mut self, stream: &str, payload: impl Into<Bytes>) {
        assert_eq!(self.next(), Received::Data(stream.to_owned(), payload.into()));
    }

    /// Expects the end, and returns its code.
    pub(crate) fn closed(&mut self) -> u16 {
        match self.next() {
            Received::Closed(code, _reason) => code,
            other => panic!("not closed: {other:?}"),
        }
    }

    /// The stream below, for raw bytes.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.socket.get_ref().0
    }

    /// Waits for the end; the code of the close frame, if there is one.
    pub(crate) fn end(&mut self) -> Option<u16> {
        loop {
            match self.socket.read() {
                Ok(Message::Close(close)) => return close.map(|close| close.code.into()),
                Ok(_other) => {}
                Err(tungstenite::Error::Io(error))
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_gone) => return None,
            }
        }
    }

    /// Expects a reset, and returns its stream.
    pub(crate) fn reset_next(&mut self) -> String {
        match self.next() {
            Received::Reset(stream, _reason) => stream,
            other => panic!("not reset: {other:?}"),
        }
    }
}

/// A hub with these limits, the token of an executor and that of a harness.
pub(crate) fn hub_with_tokens(limits: Limits) -> (Running, String, String) {
    let hub = Running::start(limits);
    let (executor, harness) = (hub.token("e", TokenKind::Executor), hub.token("h", TokenKind::Harness));
    (hub, executor, harness)
}
