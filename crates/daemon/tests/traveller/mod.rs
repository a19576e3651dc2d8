//! Traveller: a client of `rexd --stdio` whose link breaks, and who comes back over a new one.
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

/// A client, its session, and every program it ever spoke through.
pub(crate) struct Traveller<'a> {
    pub(crate) client: Client<Pipes>,
    /// What `session.open` returned.
    pub(crate) opened: Value,
    links: Vec<Child>,
    start: Box<dyn Fn() -> Command + 'a>,
    log: Log,
}

/// `rexd --stdio` with the sandbox's configuration.
pub(crate) fn local(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.command(REXD);
    command.arg("--stdio").arg("--config").arg(sandbox.config());
    command
}

/// Where the landing of a session is.
pub(crate) fn landing(sandbox: &Sandbox, session: &str) -> PathBuf {
    sandbox.path(format!("home/state/rexd/sessions/{session}.sock"))
}

impl<'a> Traveller<'a> {
    /// Starts the command and opens a session that may be resumed.
    pub(crate) fn open(start: impl Fn() -> Command + 'a, more: Value) -> Traveller<'a> {
        let log = Log::new();
        let (child, pipes) = connect(start(), &log);
        let client = Client::new(pipes, log.clone());
        let mut this =
            Traveller { client, opened: Value::Null, links: vec![child], start: Box::new(start), log };
        let mut params = json!({ "client_name": "traveller", "resume": true });
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

    /// What to say to come back.
    pub(crate) fn resume(&self) -> Value {
        let last = self.client.invariants.last_event(&self.session());
        json!({ "session_id": self.session(), "resume_token": self.opened["resume_token"], "last_event_id": last })
    }

    /// The program of the first link: the daemon itself, or the ssh that leads to it.
    pub(crate) fn first(&self) -> i32 {
        i32::try_from(self.links[0].id()).unwrap()
    }

    /// The program of the link that is in use.
    pub(crate) fn last(&mut self) -> &mut Child {
        self.links.last_mut().unwrap()
    }

    /// Lets go of the link without a word, as a client does that dies.
    pub(crate) fn vanish(&mut self) {
        self.client.carrier.close_output();
        self.client.carrier.close_input();
    }

    /// Kills the program at this end of the link, and only then lets go.
    pub(crate) fn kill_link(&mut self) {
        self.last().kill().unwrap();
        self.vanish();
    }

    /// Another link. Whatever was on the way on the one before is lost.
    pub(crate) fn connect(&mut self) {
        let (child, pipes) = connect((self.start)(), &self.log);
        self.links.push(child);
        self.client.reconnect(pipes);
    }

    /// Another link, and the session taken up there.
    pub(crate) fn come_back(&mut self) -> Value {
        self.connect();
        let params = self.resume();
        let resumed = self.client.call("session.resume", params);
        assert_eq!((&resumed["session_id"], &resumed["lost"]), (&self.opened["session_id"], &json!(0)));
        resumed
    }

    /// Reads on until so many bytes of output have come, or the exit; whether that has come.
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

    /// Closes the session and the link, and sees every program end.
    pub(crate) fn close(mut self) {
        assert_eq!(self.call("session.close", json!({}))["ok"], true);
        self.client.carrier.close_output();
        assert_eq!(self.client.rest(), Vec::<Value>::new());
        let deadline = Instant::now() + PATIENCE;
        for link in &mut self.links {
            let pid = i32::try_from(link.id()).unwrap();
            assert!(watch(pid).ends_before(deadline), "{pid} is left; the log:\n{}", self.log.text());
            link.wait().unwrap();
        }
    }
}

impl Drop for Traveller<'_> {
    fn drop(&mut self) {
        for link in &mut self.links {
            link.kill().ok();
            link.wait().ok();
        }
    }
}

fn connect(mut command: Command, log: &Log) -> (Child, Pipes) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.stdio());
    let mut child = command.spawn().unwrap();
    let pipes = Lines::new(child.stdout.take().unwrap(), child.stdin.take().unwrap());
    (child, pipes)
}
