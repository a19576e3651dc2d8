//! A client of `rexd --stdio` that reconnects through a new process and resumes its session.
#![allow(dead_code, reason = "each test uses its part")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::daemon::{CommandOutcome, PATIENCE, Pipes};
use testkit::lines::Lines;
use testkit::log::Log;
use testkit::proc::watch;
use testkit::sandbox::Sandbox;

pub(crate) const REXD: &str = env!("CARGO_BIN_EXE_rexd");

/// A client, its session, and the process of each of its connections.
pub(crate) struct ResumingClient<'a> {
    pub(crate) client: Client<Pipes>,
    /// What `session.open` returned.
    pub(crate) opened: Value,
    connections: Vec<Child>,
    start: Box<dyn Fn() -> Command + 'a>,
    log: Log,
}

/// `rexd --stdio` with the sandbox's configuration.
pub(crate) fn local(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.command(REXD);
    command.arg("--stdio").arg("--config").arg(sandbox.config());
    command
}

/// The path of a session's resume socket.
pub(crate) fn resume_socket(sandbox: &Sandbox, session: &str) -> PathBuf {
    sandbox.path(format!("home/state/rexd/sessions/{session}.sock"))
}

impl<'a> ResumingClient<'a> {
    /// Starts the command and opens a session that may be resumed.
    pub(crate) fn open(start: impl Fn() -> Command + 'a, more: Value) -> ResumingClient<'a> {
        let log = Log::new();
        let (child, pipes) = connect(start(), &log);
        let client = Client::new(pipes, log.clone());
        let mut this = ResumingClient {
            client,
            opened: Value::Null,
            connections: vec![child],
            start: Box::new(start),
            log,
        };
        let mut params = json!({ "client_name": "resuming", "resume": true });
        params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        this.opened = this.client.open_with(params);
        this
    }

    pub(crate) fn session(&self) -> String {
        self.opened["session_id"].as_str().unwrap().to_owned()
    }

    /// The params of a request in the session.
    pub(crate) fn with(&self, mut params: Value) -> Value {
        params["session_id"] = self.opened["session_id"].clone();
        params
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let params = self.with(params);
        self.client.call(method, params)
    }

    /// The params of `session.resume`.
    pub(crate) fn resume(&self) -> Value {
        let last = self.client.invariants.last_event(&self.session());
        json!({ "session_id": self.session(), "resume_token": self.opened["resume_token"], "last_event_id": last })
    }

    /// The process of the first connection: the daemon itself, or ssh.
    pub(crate) fn first(&self) -> i32 {
        i32::try_from(self.connections[0].id()).unwrap()
    }

    /// The process of the current connection.
    pub(crate) fn last(&mut self) -> &mut Child {
        self.connections.last_mut().unwrap()
    }

    /// Closes the connection without a message, as a killed client does.
    pub(crate) fn disconnect(&mut self) {
        self.client.carrier.close_output();
        self.client.carrier.close_input();
    }

    /// Kills the process of the connection, then closes the connection.
    pub(crate) fn kill_connection(&mut self) {
        self.last().kill().unwrap();
        self.disconnect();
    }

    /// Opens another connection. Messages in transit on the old one are lost.
    pub(crate) fn connect(&mut self) {
        let (child, pipes) = connect((self.start)(), &self.log);
        self.connections.push(child);
        self.client.reconnect(pipes);
    }

    /// Opens another connection and resumes the session.
    pub(crate) fn reconnect(&mut self) -> Value {
        self.connect();
        let params = self.resume();
        let resumed = self.client.call("session.resume", params);
        assert_eq!((&resumed["session_id"], &resumed["lost"]), (&self.opened["session_id"], &json!(0)));
        resumed
    }

    /// Reads until `bytes` bytes of output or the exit have arrived; returns whether the exit has.
    pub(crate) fn read_up_to(&mut self, finished: &mut CommandOutcome, bytes: usize) -> bool {
        let process_id = finished.process_id.clone();
        while finished.stdout.len() < bytes {
            let message =
                self.client.take("output", |message| message["params"]["process_id"] == *process_id);
            if finished.add(message) {
                return true;
            }
        }
        false
    }

    /// Closes the session and the connection, and checks that every process ends.
    pub(crate) fn close(mut self) {
        assert_eq!(self.call("session.close", json!({}))["ok"], true);
        self.client.carrier.close_output();
        assert_eq!(self.client.rest(), Vec::<Value>::new());
        let deadline = Instant::now() + PATIENCE;
        for process in &mut self.connections {
            let pid = i32::try_from(process.id()).unwrap();
            assert!(watch(pid).ends_before(deadline), "{pid} is left; the log:\n{}", self.log.text());
            process.wait().unwrap();
        }
    }
}

impl Drop for ResumingClient<'_> {
    fn drop(&mut self) {
        for process in &mut self.connections {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

fn connect(mut command: Command, log: &Log) -> (Child, Pipes) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.stdio());
    let mut child = command.spawn().unwrap();
    let pipes = Lines::new(child.stdout.take().unwrap(), child.stdin.take().unwrap());
    (child, pipes)
}
