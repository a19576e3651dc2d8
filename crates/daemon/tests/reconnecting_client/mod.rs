//! A client that reconnects after every interruption and resumes its session, as the protocol defines it.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::{AnyClient, Client};
use testkit::proxy::{CutKind, Direction, Proxy};
use testkit::serve::{CarrierKind, ServedDaemon};
use testkit::tries::Tries;

/// How long the daemon may take to detect an interrupted connection.
const DETECTION: Duration = Duration::from_secs(60);
/// Maximal position of a planned interruption: more bytes than a conversation has.
const FARTHEST: u64 = 40_000;

/// Pseudo-random numbers from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 3) % end.max(1)
    }

    /// A kind of interruption that both ends detect.
    pub(crate) fn how(&mut self) -> CutKind {
        if self.below(2) == 0 { CutKind::Closed } else { CutKind::Reset }
    }
}

/// A client, its session, and the proxy that interrupts its connections.
pub(crate) struct ReconnectingClient {
    client: AnyClient,
    proxy: Proxy,
    way: CarrierKind,
    /// What `session.open` returned.
    session: Value,
    directory: PathBuf,
    events: VecDeque<Value>,
    /// The remaining interruptions; each is armed after the one before.
    planned: Vec<(Direction, usize, CutKind)>,
    /// Lines written without a key: whether each was answered.
    unkeyed: Vec<bool>,
    keyed: usize,
    /// Over HTTP: whether the last reconnection used only a `Last-Event-ID` header. The two ways alternate.
    only_listens: bool,
    /// How often the server returned `data.retry`, because it had not detected the interruption.
    pub(crate) retries: usize,
}

impl ReconnectingClient {
    pub(crate) fn new(
        served: &ServedDaemon,
        proxy: Proxy,
        way: CarrierKind,
        directory: PathBuf,
    ) -> ReconnectingClient {
        std::fs::create_dir(&directory).unwrap();
        let carrier = proxy.addresses.connect(way).unwrap();
        let client = Client::new(carrier, served.log.clone());
        ReconnectingClient {
            client,
            proxy,
            way,
            session: Value::Null,
            directory,
            events: VecDeque::new(),
            planned: Vec::new(),
            unkeyed: Vec::new(),
            keyed: 0,
            only_listens: false,
            retries: 0,
        }
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Plans up to `most` interruptions at random bytes of either direction, many of them early.
    pub(crate) fn plan(&mut self, dice: &mut Dice, most: u64) {
        for _ in 0..=dice.below(most) {
            let toward = if dice.below(3) == 0 { Direction::Daemon } else { Direction::Client };
            let farthest = [300, 2_000, FARTHEST][dice.below(3) as usize];
            self.planned.push((toward, dice.below(farthest) as usize + 1, dice.how()));
        }
        self.arm();
    }

    fn arm(&mut self) {
        if let Some((toward, bytes, how)) = self.planned.pop() {
            self.proxy.cut_after(toward, bytes, how);
        }
    }

    /// Opens the session. If the response is lost, opens another one: without it, a session cannot be resumed.
    pub(crate) fn open(&mut self) {
        let params = json!({ "client_name": "reconnecting", "resume": true, "max_frame_bytes": 16_384 });
        loop {
            match self.client.ask("session.open", params.clone()) {
                Ok(mut answer) => {
                    self.session = answer["result"].take();
                    assert!(self.session["resume_token"].is_string(), "{answer}");
                    return;
                }
                Err(_cut) => self.connect(),
            }
        }
    }

    /// Opens a new connection and arms the next interruption.
    fn connect(&mut self) {
        self.keep_events();
        loop {
            self.arm();
            match self.proxy.addresses.connect(self.way) {
                Ok(carrier) => return self.client.reconnect(carrier),
                // Cut during the handshake.
                Err(error) => assert_ne!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
            }
        }
    }

    /// Reconnects and continues after the last event that arrived completely.
    pub(crate) fn reconnect(&mut self) {
        self.only_listens = self.way == CarrierKind::Http && !self.only_listens;
        if self.only_listens {
            return self.listen_again();
        }
        // The daemon may detect the interruption later.
        let mut tries = Tries::within(DETECTION, "the daemon detects the interruption");
        self.connect();
        loop {
            let session = self.session["session_id"].as_str().unwrap().to_owned();
            let last = self.client.invariants.last_event(&session);
            let token = &self.session["resume_token"];
            let params = json!({ "session_id": session, "resume_token": token, "last_event_id": last });
            match self.client.ask("session.resume", params) {
                Err(_cut) => self.connect(),
                Ok(answer) if answer["error"]["data"]["retry"] == true => {
                    assert_eq!(answer["error"]["code"], -32006, "{answer}");
                    self.retries += 1;
                    tries.again();
                }
                Ok(answer) if answer["result"]["session_id"] == session.as_str() => {
                    assert_eq!(answer["result"]["lost"], 0, "no event was lost: {answer}");
                    return;
                }
                Ok(answer) => self.fail(&format!("not resumed: {answer}")),
            }
        }
    }

    /// Reconnects like a browser: with a new event stream after the last event that arrived completely.
    fn listen_again(&mut self) {
        self.keep_events();
        let session = self.session["session_id"].as_str().unwrap().to_owned();
        let last = self.client.invariants.last_event(&session);
        loop {
            self.arm();
            match self.proxy.addresses.listen(&session, last) {
                Ok(carrier) => return self.client.reconnect(carrier),
                Err(error) => assert_ne!(error.kind(), io::ErrorKind::Other, "refused: {error}"),
            }
        }
    }

    fn keep_events(&mut self) {
        for message in self.client.kept() {
            if message.get("method").is_some() {
                self.events.push_back(message);
            }
        }
    }

    /// The next event, in order, each once.
    pub(crate) fn event(&mut self) -> Value {
        loop {
            self.keep_events();
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            match self.client.try_take("an event", |message| message.get("method").is_some()) {
                Ok(event) => return event,
                Err(_cut) => self.reconnect(),
            }
        }
    }

    /// The request as it is sent, for its length.
    pub(crate) fn text(&self, method: &str, params: &Value) -> String {
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": self.with_session(params) })
            .to_string()
    }

    fn with_session(&self, params: &Value) -> Value {
        let mut params = params.clone();
        params["session_id"] = self.session["session_id"].clone();
        params
    }

    /// Sends a request once; an error if the response was lost.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> io::Result<Value> {
        self.client.ask(method, self.with_session(&params))
    }

    /// Sends a repeatable request until it succeeds.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let mut tries = Tries::within(DETECTION, "the first request with this key is completed");
        loop {
            match self.ask(method, params.clone()) {
                Err(_cut) => self.reconnect(),
                Ok(mut answer) if answer.get("result").is_some() => return answer["result"].take(),
                // The first request with this key is still running.
                Ok(answer) if answer["error"]["data"]["field"] == "idempotency_key" => {
                    tries.again();
                }
                Ok(answer) => self.fail(&format!("{method}: {answer}")),
            }
        }
    }

    /// Sends a request until it is answered; it may be executed twice or fail.
    pub(crate) fn call_until_answered(&mut self, method: &str, params: Value) {
        while self.ask(method, params.clone()).is_err() {
            self.reconnect();
        }
    }

    /// Appends lines to two files: to one with a key and repeated until answered, to the other without a key and once.
    pub(crate) fn write_lines(&mut self, count: usize, dice: &mut Dice) {
        for _ in 0..count {
            let padding = "x".repeat(dice.below(300) as usize);
            let line = format!("keyed {} {padding}\n", self.keyed);
            let (path, key) = (self.directory.join("keyed"), format!("line {}", self.keyed));
            let params = json!({ "path": path, "content": line, "mode": "append", "idempotency_key": key });
            self.call("fs.write", params);
            self.keyed += 1;
            let line = format!("unkeyed {} {padding}\n", self.unkeyed.len());
            let params = json!({ "path": self.directory.join("unkeyed"), "content": line, "mode": "append" });
            let answer = self.ask("fs.write", params);
            self.unkeyed.push(answer.as_ref().is_ok_and(|answer| answer.get("result").is_some()));
            if answer.is_err() {
                self.reconnect();
            }
        }
    }

    /// Checks that answered writes were executed once, and unanswered ones at most once.
    pub(crate) fn check_lines(&self) {
        let count = |name: &str, start: String| {
            let text = std::fs::read_to_string(self.directory.join(name)).unwrap_or_default();
            text.lines().filter(|line| line.starts_with(&start)).count()
        };
        for number in 0..self.keyed {
            assert_eq!(count("keyed", format!("keyed {number} ")), 1, "keyed line {number}");
        }
        for (number, is_answered) in self.unkeyed.iter().enumerate() {
            let found = count("unkeyed", format!("unkeyed {number} "));
            assert!(found == 1 || (found == 0 && !is_answered), "unkeyed line {number}: {found} times");
        }
    }

    /// Ends the session, so that it does not affect the next case.
    pub(crate) fn close(&mut self) {
        self.proxy.call_off();
        self.planned.clear();
        let answer = self.ask("session.close", json!({}));
        if answer.is_err() {
            self.reconnect();
            self.call("session.close", json!({}));
        }
    }

    pub(crate) fn fail(&self, why: &str) -> ! {
        self.client.fail(why)
    }
}
