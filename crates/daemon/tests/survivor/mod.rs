//! Survivor: a client that comes back after every cut and resumes its session, as the protocol says.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::{AnyClient, Client};
use testkit::proxy::{CutKind, Direction, Proxy};
use testkit::serve::{CarrierKind, ServedDaemon};
use testkit::tries::Tries;

/// How long the daemon may hold on to a link that is gone.
const LETTING_GO: Duration = Duration::from_secs(20);
/// Bytes after which a planned cut is due, at the most: more than a conversation has.
const FARTHEST: u64 = 40_000;

/// Numbers that look random and are the same for the same seed.
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

    /// A way to cut that both ends can see.
    pub(crate) fn how(&mut self) -> CutKind {
        if self.below(2) == 0 { CutKind::Closed } else { CutKind::Reset }
    }
}

/// A client, its session and the bad link it uses.
pub(crate) struct Survivor {
    client: AnyClient,
    proxy: Proxy,
    way: CarrierKind,
    /// What `session.open` returned.
    session: Value,
    folder: PathBuf,
    events: VecDeque<Value>,
    /// Cuts that are still to come, each planned when the one before was made.
    planned: Vec<(Direction, usize, CutKind)>,
    /// Lines written without a key: whether each was answered.
    unkeyed: Vec<bool>,
    keyed: usize,
    /// Whether a client without a link comes back with a header alone; every other time it asks first.
    only_listens: bool,
    /// How often it was told to try again, while the daemon still believed in an old link.
    pub(crate) told_to_retry: usize,
}

impl Survivor {
    pub(crate) fn new(served: &ServedDaemon, proxy: Proxy, way: CarrierKind, folder: PathBuf) -> Survivor {
        std::fs::create_dir(&folder).unwrap();
        let carrier = proxy.addresses.connect(way).unwrap();
        let client = Client::new(carrier, served.log.clone());
        Survivor {
            client,
            proxy,
            way,
            session: Value::Null,
            folder,
            events: VecDeque::new(),
            planned: Vec::new(),
            unkeyed: Vec::new(),
            keyed: 0,
            only_listens: false,
            told_to_retry: 0,
        }
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Plans up to so many cuts, at any byte of either direction; many of them early.
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

    /// Opens the session. Nobody can come back to one whose answer never came: then another is opened.
    pub(crate) fn open(&mut self) {
        let params = json!({ "client_name": "survivor", "resume": true, "max_frame_bytes": 16_384 });
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

    /// A new connection, through which the next cut may come.
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

    /// Connects again and goes on after the last event that arrived whole.
    pub(crate) fn come_back(&mut self) {
        self.only_listens = self.way == CarrierKind::Http && !self.only_listens;
        if self.only_listens {
            return self.listen_again();
        }
        // The daemon learns of a cut when its kernel does, which is not now.
        let mut tries = Tries::within(LETTING_GO, "the daemon lets go of the old link");
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
                    self.told_to_retry += 1;
                    tries.again();
                }
                Ok(answer) if answer["result"]["session_id"] == session.as_str() => {
                    assert_eq!(answer["result"]["lost"], 0, "nothing had to be given up: {answer}");
                    return;
                }
                Ok(answer) => self.fail(&format!("not resumed: {answer}")),
            }
        }
    }

    /// Comes back as a browser does: a new stream of events, after the last that arrived whole.
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
                Err(_cut) => self.come_back(),
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

    /// Asks once; an error if the answer did not come.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> io::Result<Value> {
        self.client.ask(method, self.with_session(&params))
    }

    /// Asks for something that may be asked again, until it is answered well.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let mut tries = Tries::within(LETTING_GO, "the first request with this key is done");
        loop {
            match self.ask(method, params.clone()) {
                Err(_cut) => self.come_back(),
                Ok(mut answer) if answer.get("result").is_some() => return answer["result"].take(),
                // The first one is still being done; it was asked again before its end.
                Ok(answer) if answer["error"]["data"]["field"] == "idempotency_key" => {
                    tries.again();
                }
                Ok(answer) => self.fail(&format!("{method}: {answer}")),
            }
        }
    }

    /// Asks for something that does no harm when it is done twice, or comes too late.
    pub(crate) fn call_until_it_counts(&mut self, method: &str, params: Value) {
        while self.ask(method, params.clone()).is_err() {
            self.come_back();
        }
    }

    /// Adds lines to two files: one with a key each, asked until it is answered, one without, asked once.
    pub(crate) fn write_lines(&mut self, count: usize, dice: &mut Dice) {
        for _ in 0..count {
            let padding = "x".repeat(dice.below(300) as usize);
            let line = format!("keyed {} {padding}\n", self.keyed);
            let (path, key) = (self.folder.join("keyed"), format!("line {}", self.keyed));
            let params = json!({ "path": path, "content": line, "mode": "append", "idempotency_key": key });
            self.call("fs.write", params);
            self.keyed += 1;
            let line = format!("unkeyed {} {padding}\n", self.unkeyed.len());
            let params = json!({ "path": self.folder.join("unkeyed"), "content": line, "mode": "append" });
            let answer = self.ask("fs.write", params);
            self.unkeyed.push(answer.as_ref().is_ok_and(|answer| answer.get("result").is_some()));
            if answer.is_err() {
                self.come_back();
            }
        }
    }

    /// What was answered was done once; what was not, once or never.
    pub(crate) fn check_lines(&self) {
        let count = |name: &str, start: String| {
            let text = std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
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

    /// Ends the session, so that the next case finds the daemon as this one did.
    pub(crate) fn close(&mut self) {
        self.proxy.call_off();
        self.planned.clear();
        let answer = self.ask("session.close", json!({}));
        if answer.is_err() {
            self.come_back();
            self.call("session.close", json!({}));
        }
    }

    pub(crate) fn fail(&self, why: &str) -> ! {
        self.client.fail(why)
    }
}
