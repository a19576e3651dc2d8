//! An app written from the document of the hub's protocol: it subscribes to runs, and continues behind the last event after
//! each lost connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::carrier::{Carrier as _, Received};
use testkit::http::{Http, bearer};
use testkit::websocket::Socket;

use super::faults::last;
use super::view::{RunEvent, RunView, Violation};
use crate::counters::{Counters, Work};

/// How long one step waits for a message.
const STEP: Duration = Duration::from_millis(20);
/// The pause after a failed connection.
const RECONNECT: Duration = Duration::from_millis(100);

/// An app with its connection, if it has one.
pub(super) struct App {
    name: &'static str,
    address: SocketAddr,
    token: String,
    socket: Option<Socket>,
    /// Connections so far.
    pub(super) connections: u64,
    /// The runs that it watches; those of this connection are subscribed.
    views: BTreeMap<String, RunView>,
    subscribed: BTreeSet<String>,
    /// Responses by the ids of their requests.
    pub(super) responses: BTreeMap<String, Value>,
    /// Requests for permission that it has received, with their runs.
    pub(super) asked: BTreeMap<String, String>,
}

impl App {
    pub(super) fn new(name: &'static str, address: SocketAddr, token: &str) -> App {
        App {
            name,
            address,
            token: token.to_owned(),
            socket: None,
            connections: 0,
            views: BTreeMap::new(),
            subscribed: BTreeSet::new(),
            responses: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }

    /// Watches a run from its first event.
    pub(super) fn watch(&mut self, run: &str) {
        self.views.entry(run.to_owned()).or_default();
    }

    /// The events of a run so far.
    pub(super) fn view(&self, run: &str) -> &RunView {
        &self.views[run]
    }

    /// Connects and subscribes as needed, then handles the next message, if one comes soon.
    pub(super) fn step(&mut self, counters: &Counters) {
        if self.socket.is_none() {
            match Socket::connect_to(self.address, "/ws/app", Some(&self.token)) {
                Ok(socket) => {
                    self.socket = Some(socket);
                    self.connections += 1;
                    self.subscribed.clear();
                }
                Err(_refused) => return last(RECONNECT),
            }
        }
        self.subscribe();
        let Some(socket) = &mut self.socket else { return };
        match socket.receive(Instant::now() + STEP) {
            Ok(Received::Message(text)) => self.handle(&text, counters),
            Ok(Received::Late) => {}
            Ok(Received::End) | Err(_) => self.socket = None,
        }
    }

    fn subscribe(&mut self) {
        let new: Vec<String> =
            self.views.keys().filter(|run| !self.subscribed.contains(*run)).cloned().collect();
        for run in new {
            let after = self.views.get_mut(&run).map(RunView::connect);
            self.subscribed.insert(run.clone());
            self.send("run.subscribe", Some(&run), json!({ "after_seq": after }));
        }
    }

    /// Sends a message; false if there is no connection. A lost message is sent again by its caller.
    pub(super) fn send(&mut self, kind: &str, run: Option<&str>, data: Value) -> bool {
        let Some(socket) = &mut self.socket else { return false };
        let mut message = json!({ "type": kind, "ts": "2026-01-01T00:00:00Z", "data": data });
        if let Some(run) = run {
            message["run_id"] = run.into();
        }
        let is_sent = socket.send(format!("{message}\n").as_bytes()).is_ok();
        if !is_sent {
            self.socket = None;
        }
        is_sent
    }

    /// Sends input by HTTP. Its failure is that of a message.
    pub(super) fn post_input(&self, run: &str, id: &str, text: &str) {
        let body = json!({ "input_id": id, "text": text }).to_string();
        if let Ok(mut http) = Http::connect(self.address) {
            let headers = bearer(Some(&self.token));
            http.ask(&format!("/runs/{run}/input"), &headers, Some(body.as_bytes())).ok();
        }
    }

    fn handle(&mut self, text: &str, counters: &Counters) {
        let message: Value = serde_json::from_str(text).expect("messages are JSON");
        let data = &message["data"];
        match message["type"].as_str().unwrap_or_default() {
            "rpc.response" => {
                let id = data["request_id"].as_str().unwrap_or_default();
                self.responses.insert(id.to_owned(), data.clone());
            }
            // Messages were dropped: the next connection continues.
            "app.resync" => self.socket = None,
            _ => {}
        }
        let Some((run, event)) = message["run_id"].as_str().zip(RunEvent::parse(&message)) else { return };
        if event.kind == "run.permission_requested" {
            self.asked.insert(event.id.clone(), run.to_owned());
        }
        let Some(view) = self.views.get_mut(run) else { return };
        if let Err(violation) = view.add(event) {
            let note = |text: &str| format!("{} of {run}: {text}", self.name);
            match &violation {
                Violation::Gap(text) => counters.lost(Work::Runs, 1, note(text)),
                Violation::Repeated(text) => counters.twice(Work::Runs, 1, note(text)),
            }
            // The next connection continues behind the last good event.
            self.socket = None;
        }
    }
}
