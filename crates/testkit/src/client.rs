//! Client: sends requests to a daemon and receives responses and events, over any carrier.
//!
//! It reads only on request, so a test can be a slow reader. Every wait has a deadline and ends in a
//! panic that shows the conversation.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::carrier::{Carrier, Received};
use crate::daemon::{CommandOutcome, PATIENCE, data};
use crate::invariants::{Invariants, shorten, shorten_text};
use crate::log::Log;

/// The shortened conversation, for failures.
const REMEMBERED_LINES: usize = 60;

/// A client of any carrier.
pub type AnyClient = Client<Box<dyn Carrier + Send>>;

/// A client with one carrier.
#[derive(Debug)]
pub struct Client<C> {
    /// The carrier of its messages.
    pub carrier: C,
    inbox: VecDeque<Value>,
    next_id: u64,
    conversation: VecDeque<String>,
    log: Log,
    /// The checks on every line.
    pub invariants: Invariants,
    /// The deadline of every wait.
    pub patience: Duration,
}

impl<C: Carrier> Client<C> {
    /// Creates a client; failures show the daemon's log.
    pub fn new(carrier: C, log: Log) -> Client<C> {
        Client {
            carrier,
            inbox: VecDeque::new(),
            next_id: 0,
            conversation: VecDeque::new(),
            log,
            invariants: Invariants::default(),
            patience: PATIENCE,
        }
    }

    /// Continues on another carrier: received messages stay, and request ids are not reused.
    pub fn reconnect(&mut self, carrier: C) {
        self.carrier = carrier;
        self.invariants.reconnected();
        self.remember('|', "another connection");
    }

    /// Opens a session as an unknown client and returns its id.
    pub fn open(&mut self) -> String {
        self.open_as("test")
    }

    /// Opens a session under a client's name.
    pub fn open_as(&mut self, client: &str) -> String {
        self.open_with(json!({ "client_name": client }))["session_id"].as_str().expect("an id").to_owned()
    }

    /// Opens a session and returns the whole result.
    pub fn open_with(&mut self, params: Value) -> Value {
        self.call("session.open", params)
    }

    /// Sends a request and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let mut response = self.response(id);
        match response.get_mut("result") {
            Some(result) => result.take(),
            None => self.fail(&format!("{method} was refused: {}", shorten(&response))),
        }
    }

    /// Sends a request that must fail, and returns the error.
    pub fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let mut response = self.response(id);
        match response.get_mut("error") {
            Some(error) => error.take(),
            None => self.fail(&format!("{method} was not refused: {}", shorten(&response))),
        }
    }

    /// Sends a request and returns the whole response, or the error of the connection.
    pub fn ask(&mut self, method: &str, params: Value) -> io::Result<Value> {
        let id = self.number();
        self.try_send(&request(id, method, &params))?;
        self.try_take(&format!("the answer to {method}"), |message| message["id"] == id)
    }

    /// Sends a request and returns its id at once.
    pub fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.number();
        self.send(&request(id, method, &params));
        id
    }

    fn number(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Waits for the response to a request; other messages are kept.
    pub fn response(&mut self, id: u64) -> Value {
        self.take(&format!("the answer to request {id}"), |message| message["id"] == id)
    }

    /// Waits for an event of one process; other messages are kept.
    pub fn event(&mut self, method: &str, process_id: &str) -> Value {
        let mut message = self.take(&format!("{method} of {process_id}"), |message| {
            message["method"] == method && message["params"]["process_id"] == process_id
        });
        message["params"].take()
    }

    /// Waits for a matching message; other messages are kept.
    pub fn take(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        match self.try_take(what, fits) {
            Ok(message) => message,
            Err(error) => self.fail(&format!("waiting for {what}: {error}")),
        }
    }

    /// The same, or the error of the connection. Earlier messages are kept.
    pub fn try_take(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> io::Result<Value> {
        if let Some(index) = self.inbox.iter().position(&fits) {
            return Ok(self.inbox.remove(index).expect("it was just there"));
        }
        let deadline = Instant::now() + self.patience;
        loop {
            let Some(message) = self.receive_until(deadline)? else {
                let text = format!("the daemon was done before {what}");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            };
            if fits(&message) {
                return Ok(message);
            }
            self.inbox.push_back(message);
        }
    }

    /// Received messages that were not requested yet.
    pub fn kept(&mut self) -> Vec<Value> {
        self.inbox.drain(..).collect()
    }

    /// Receives the next message, ignoring kept ones; `None` at the end.
    pub fn receive(&mut self) -> Option<Value> {
        match self.receive_until(Instant::now() + self.patience) {
            Ok(message) => message,
            Err(error) => self.fail(&format!("the connection broke: {error}")),
        }
    }

    fn receive_until(&mut self, deadline: Instant) -> io::Result<Option<Value>> {
        let Some(line) = self.line_until(deadline)? else { return Ok(None) };
        let message: Value = match serde_json::from_str(&line) {
            Ok(message) => message,
            Err(error) => self.fail(&format!("not JSON ({error}): {}", shorten_text(&line))),
        };
        self.invariants.check(&line, &message);
        Ok(Some(message))
    }

    /// Receives the next line; `None` at the end.
    pub fn line(&mut self) -> Option<String> {
        match self.line_until(Instant::now() + self.patience) {
            Ok(line) => line,
            Err(error) => self.fail(&format!("the connection broke: {error}")),
        }
    }

    fn line_until(&mut self, deadline: Instant) -> io::Result<Option<String>> {
        match self.carrier.receive(deadline)? {
            Received::Message(line) => {
                self.remember('<', &line);
                Ok(Some(line))
            }
            Received::End => Ok(None),
            Received::Late => self.fail("no message in time"),
        }
    }

    /// Receives the next line for a replay, with the usual checks.
    pub(crate) fn line_within(&mut self, within: Duration) -> anyhow::Result<Option<String>> {
        let line = match self.carrier.receive(Instant::now() + within)? {
            Received::Message(line) => line,
            Received::End => return Ok(None),
            Received::Late => anyhow::bail!("no message within {within:?}; the log: {}", self.log()),
        };
        if let Ok(message) = serde_json::from_str(&line) {
            self.invariants.check(&line, &message);
        }
        Ok(Some(line))
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) {
        if let Err(error) = self.try_send(line) {
            self.fail(&format!("write to the daemon: {error}"));
        }
    }

    /// Sends a line, or returns the error of the connection.
    pub fn try_send(&mut self, line: &str) -> io::Result<()> {
        self.remember('>', line);
        self.carrier.send(format!("{line}\n").as_bytes())
    }

    /// Sends bytes without a newline.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        if let Err(error) = self.carrier.send(bytes) {
            self.fail(&format!("write to the daemon: {error}"));
        }
    }

    /// Runs a command to its end. `params` are those of `exec.start`, the session included.
    pub fn run(&mut self, params: Value) -> CommandOutcome {
        let process_id = self.begin(params);
        self.finish(&process_id)
    }

    /// Starts a command and returns its id.
    pub fn begin(&mut self, params: Value) -> String {
        self.call("exec.start", params)["process_id"].as_str().expect("an id").to_owned()
    }

    /// Collects the output of a process until its exit.
    pub fn finish(&mut self, process_id: &str) -> CommandOutcome {
        let mut finished = CommandOutcome { process_id: process_id.to_owned(), ..CommandOutcome::default() };
        loop {
            let message = self.take(&format!("the end of {process_id}"), |message| {
                message["method"].is_string() && message["params"]["process_id"] == process_id
            });
            if finished.add(message) {
                return finished;
            }
        }
    }

    /// Collects the output of a process until it contains a text. The rest of the same event is included.
    pub fn until(&mut self, process_id: &str, text: &str) -> String {
        let mut output = String::new();
        while !output.contains(text) {
            let message = self.take(&format!("{text:?} from {process_id} after {output:?}"), |message| {
                message["method"].is_string() && message["params"]["process_id"] == process_id
            });
            let method = message["method"].as_str().unwrap_or_default();
            if matches!(method, "exec.exit" | "pty.exit") {
                self.fail(&format!("{process_id} ended before it wrote {text:?}: {output:?}"));
            }
            output.push_str(&String::from_utf8_lossy(&data(&message["params"])));
        }
        output
    }

    /// Reads to the end. Returns kept messages too.
    pub fn rest(&mut self) -> Vec<Value> {
        let mut rest = self.kept();
        while let Some(message) = self.receive() {
            rest.push(message);
        }
        rest
    }

    /// The daemon's log so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    fn remember(&mut self, direction: char, line: &str) {
        if self.conversation.len() == REMEMBERED_LINES {
            self.conversation.pop_front();
        }
        self.conversation.push_back(format!("{direction} {}", shorten_text(line)));
    }

    /// Panics with the conversation so far.
    pub fn fail(&self, why: &str) -> ! {
        let log = self.log();
        let kept: Vec<String> = self.inbox.iter().map(shorten).collect();
        let lines: Vec<&str> = self.conversation.iter().map(String::as_str).collect();
        panic!(
            "{why}\n--- conversation\n{}\n--- kept\n{}\n--- log\n{log}",
            lines.join("\n"),
            kept.join("\n")
        );
    }
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}
