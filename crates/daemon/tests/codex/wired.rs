//! Wired: one connection to an exec-server, over a WebSocket or the standard streams of a child, frame by frame.

use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;
use testkit::carrier::{Carrier as _, Received};
use testkit::lines::Lines;
use testkit::log::Log;
use testkit::proc::watch;
use testkit::transcript::Transport;
use testkit::websocket::{Message, Socket};

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// How long a server may be silent and idle before it counts as such.
const SILENCE: Duration = Duration::from_secs(5);

/// What carries the frames.
#[derive(Debug)]
enum Below {
    Socket(Box<Socket>),
    Child { child: Child, lines: Lines<ChildStdout, ChildStdin>, log: Log },
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Wired {
    below: Below,
    /// All that came so far.
    pub(crate) heard: Vec<Value>,
    /// Whether the server ended it.
    pub(crate) is_over: bool,
}

impl Wired {
    /// Over a WebSocket.
    pub(crate) fn websocket(address: SocketAddr) -> Wired {
        let socket = Socket::connect_to(address, "/", None);
        let socket = socket.unwrap_or_else(|error| panic!("a connection to {address}: {error}"));
        Wired { below: Below::Socket(Box::new(socket)), heard: Vec::new(), is_over: false }
    }

    /// Over the standard streams of a server of its own.
    pub(crate) fn stdio(mut command: Command) -> Wired {
        let log = Log::new();
        command.args(["--listen", "stdio"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.stdio());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (stdout, stdin) = (child.stdout.take().expect("stdout"), child.stdin.take().expect("stdin"));
        let below = Below::Child { child, lines: Lines::new(stdout, stdin), log };
        Wired { below, heard: Vec::new(), is_over: false }
    }

    /// Sends one frame or line. A connection that is over takes nothing.
    pub(crate) fn say(&mut self, text: &str) {
        let said = match &mut self.below {
            Below::Socket(socket) => socket.frame(Message::text(text)),
            Below::Child { lines, .. } => lines.send(format!("{text}\n").as_bytes()),
        };
        self.is_over |= said.is_err();
    }

    /// Sends one binary frame; a line where there are none.
    pub(crate) fn say_binary(&mut self, text: &str) {
        match &mut self.below {
            Below::Socket(socket) => {
                let said = socket.frame(Message::binary(text.as_bytes().to_vec()));
                self.is_over |= said.is_err();
            }
            Below::Child { .. } => self.say(text),
        }
    }

    /// Hears messages until all of them together are enough; false when the end or the deadline came first.
    pub(crate) fn hear_until(&mut self, is_enough: impl Fn(&[Value]) -> bool) -> bool {
        self.hear_within(PATIENCE, is_enough)
    }

    fn hear_within(&mut self, time: Duration, is_enough: impl Fn(&[Value]) -> bool) -> bool {
        let deadline = Instant::now() + time;
        while !is_enough(&self.heard) {
            if self.is_over {
                return false;
            }
            let received = match &mut self.below {
                Below::Socket(socket) => socket.receive(deadline),
                Below::Child { lines, .. } => lines.receive(deadline),
            };
            match received {
                Ok(Received::Message(text)) => {
                    self.heard
                        .push(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")));
                }
                Ok(Received::Late) => return false,
                Ok(Received::End) | Err(_) => self.is_over = true,
            }
        }
        true
    }

    /// The answer to a request; nothing when there is none.
    pub(crate) fn answer(&mut self, id: &Value) -> Option<Value> {
        self.hear_until(|heard| heard.iter().any(|message| answers(message, id)));
        self.heard.iter().find(|message| answers(message, id)).cloned()
    }

    /// Whether anything is still answered. A released server on standard streams that has had enough says nothing and does
    /// not end either; there is no other sign of it than its silence.
    pub(crate) fn is_answered(&mut self) -> bool {
        let probe = Value::from("probe");
        self.say(r#"{"id":"probe","method":"nothing/such","params":{}}"#);
        let has_answer = |heard: &[Value]| heard.iter().any(|message| answers(message, &probe));
        let time = if matches!(self.below, Below::Socket(_)) { PATIENCE } else { SILENCE };
        let deadline = Instant::now() + PATIENCE;
        let lives = loop {
            let before = self.processor_time();
            let lives = self.hear_within(time, has_answer);
            // A server that starts or works on a busy machine is not silent.
            let is_idle = self.processor_time() == before;
            if lives || self.is_over || is_idle || Instant::now() > deadline {
                break lives;
            }
        };
        self.heard.retain(|message| !answers(message, &probe));
        if let (false, Below::Child { child, .. }) = (lives, &mut self.below) {
            self.is_over |= child.try_wait().is_ok_and(|status| status.is_some());
            child.kill().ok();
        }
        lives
    }

    /// The processor time that a server of its own has used so far.
    fn processor_time(&self) -> Option<Vec<String>> {
        let Below::Child { child, .. } = &self.below else { return None };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
        let fields = stat.get(stat.rfind(')')? + 2..)?.split(' ');
        Some(fields.skip(11).take(2).map(str::to_owned).collect())
    }

    /// Ends our side and hears the rest.
    pub(crate) fn finish(&mut self) {
        match &mut self.below {
            Below::Socket(socket) => socket.finish().ok(),
            Below::Child { lines, .. } => lines.finish().ok(),
        };
        self.hear_until(|_all| false);
    }
}

fn answers(message: &Value, id: &Value) -> bool {
    message.get("method").is_none() && message.get("id") == Some(id)
}

impl Drop for Wired {
    fn drop(&mut self) {
        if let Below::Child { child, lines, .. } = &mut self.below {
            lines.finish().ok();
            let pid = i32::try_from(child.id()).expect("a process number");
            if !watch(pid).ends_before(Instant::now() + PATIENCE) {
                child.kill().ok();
            }
            child.wait().ok();
        }
    }
}

impl Transport for Wired {
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(match &mut self.below {
            Below::Socket(socket) => socket.send(bytes),
            Below::Child { lines, .. } => lines.send(bytes),
        }?)
    }

    fn recv_line(&mut self, within: Duration) -> Result<Option<String>> {
        let deadline = Instant::now() + within;
        let received = match &mut self.below {
            Below::Socket(socket) => socket.receive(deadline),
            Below::Child { lines, .. } => lines.receive(deadline),
        };
        match received? {
            Received::Message(text) => Ok(Some(text)),
            Received::End => Ok(None),
            Received::Late => anyhow::bail!("nothing came within {within:?}"),
        }
    }

    fn close(&mut self) -> Result<()> {
        Ok(match &mut self.below {
            Below::Socket(socket) => socket.finish(),
            Below::Child { lines, .. } => lines.finish(),
        }?)
    }

    fn exit_code(&mut self) -> Result<i32> {
        let Below::Child { child, log, .. } = &mut self.below else { return Ok(0) };
        let pid = i32::try_from(child.id()).expect("a process number");
        anyhow::ensure!(watch(pid).ends_before(Instant::now() + PATIENCE), "it does not end: {}", log.text());
        let status = child.wait()?;
        status.code().ok_or_else(|| anyhow::anyhow!("{status}; the log: {}", log.text()))
    }
}
