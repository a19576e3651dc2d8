//! Checks on every line that a daemon writes, in every test.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// Checks a connection and panics at the first invalid line.
#[derive(Debug, Default)]
pub struct Invariants {
    /// The limit on the length of a line.
    pub longest_line: Option<usize>,
    last_event: HashMap<String, u64>,
    last_seq: HashMap<(String, String), u64>,
    known: HashSet<String>,
    ended: HashSet<String>,
    /// Whether a response may have been lost with a connection.
    has_reconnected: bool,
    /// The streams with an event since events were lost; `None` if none were lost. The first event of a stream
    /// after that may have any higher number.
    seen_since_reconnect: Option<HashSet<(String, String)>>,
}

impl Invariants {
    /// Records a new connection: a response may have been lost with the old one, an event not.
    pub fn reconnected(&mut self) {
        self.has_reconnected = true;
    }

    /// Records that the daemon reported this many lost events of a session.
    pub fn lost(&mut self, session: &str, count: u64) {
        *self.last_event.entry(session.to_owned()).or_default() += count;
        if count > 0 {
            self.seen_since_reconnect = Some(HashSet::new());
        }
    }

    /// The number of the last event of a session.
    pub fn last_event(&self, session: &str) -> u64 {
        self.last_event.get(session).copied().unwrap_or(0)
    }

    /// Checks one line of the daemon.
    pub fn check(&mut self, line: &str, message: &Value) {
        if let Some(longest) = self.longest_line {
            assert!(line.len() < longest, "a line of {} bytes; {longest} kill this client", line.len());
        }
        match message {
            Value::Array(parts) => {
                assert!(!parts.is_empty(), "an empty batch of answers");
                parts.iter().for_each(|part| self.check_object(part));
            }
            other => self.check_object(other),
        }
    }

    fn check_object(&mut self, message: &Value) {
        assert!(message.is_object(), "not an object: {message}");
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        let is_response = message.get("id").is_some();
        let is_event = message["method"].is_string();
        assert!(is_response != is_event, "neither or both of id and method: {message}");
        match is_event {
            true => self.check_event(message),
            false => self.check_response(message),
        }
    }

    fn check_response(&mut self, message: &Value) {
        let (result, error) = (message.get("result"), message.get("error"));
        assert!(result.is_some() != error.is_some(), "neither or both of result and error: {message}");
        if let Some(error) = error {
            assert!(error["code"].is_i64(), "{message}");
            assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{message}");
        }
        let Some(result) = result else { return };
        if let Some(id) = result["process_id"].as_str() {
            self.known.insert(id.to_owned());
            if result.get("cursor").is_some() && result.get("lost").is_some() {
                // Attached: its events are sent again from the cursor on.
                self.ended.remove(id);
                self.last_seq.retain(|(process, _), _| process != id);
            }
        }
    }

    fn check_event(&mut self, message: &Value) {
        let params = &message["params"];
        let method = message["method"].as_str().unwrap_or_default();
        let session = params["session_id"].as_str().unwrap_or_else(|| panic!("no session: {message}"));
        let number = params["event_id"].as_u64().unwrap_or_else(|| panic!("no event_id: {message}"));
        let last = self.last_event.insert(session.to_owned(), number).unwrap_or(0);
        // A loss has the number of the last lost event.
        let gone = if method == "session.lost" { params["lost"].as_u64().expect("a number") } else { 1 };
        assert_eq!(number, last + gone, "event_id has a gap: {}", shorten(message));
        let Some(process) = params["process_id"].as_str() else { return };
        assert!(!self.ended.contains(process), "after the exit: {}", shorten(message));
        if method != "exec.error" && !self.has_reconnected {
            assert!(self.known.contains(process), "before the response: {}", shorten(message));
        }
        if let Some(seq) = params.get("seq") {
            let stream = (process.to_owned(), method.to_owned());
            let seq = seq.as_u64().expect("a number");
            let may_skip = self.seen_since_reconnect.as_mut().is_some_and(|seen| seen.insert(stream.clone()));
            let last = self.last_seq.insert(stream, seq).unwrap_or(0);
            assert!(seq == last + 1 || (may_skip && seq > last), "seq has a gap: {}", shorten(message));
            // Carriers show the payload of a binary message as a member.
            let is_known = match message.get("payload") {
                Some(_) => params["encoding"] == wire::binary::ENCODING,
                None => params["encoding"] == "utf8" || params["encoding"] == "base64",
            };
            assert!(is_known, "encoding: {}", shorten(message));
        }
        if matches!(method, "exec.exit" | "pty.exit") {
            assert!(params["exit_code"].is_i64(), "exit_code is no number: {message}");
            self.ended.insert(process.to_owned());
        }
    }
}

/// A message shortened for failure output.
pub fn shorten(message: &Value) -> String {
    shorten_text(&message.to_string())
}

/// A text shortened for failure output.
pub fn shorten_text(text: &str) -> String {
    match text.char_indices().nth(400) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}
