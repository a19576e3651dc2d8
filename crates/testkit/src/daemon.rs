//! Rexd: a daemon under test, with its standard streams in the hands of the test.
//!
//! Nothing is read until the test asks for it, so a test can be a slow reader. Every wait has a deadline and ends in a
//! panic that shows what was said so far.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::{Value, json};

use crate::invariants::{Invariants, shorten, shorten_text};
use crate::proc::{wait_for, wait_readable, watch};
use crate::sandbox::Sandbox;
use crate::transcript::Transport;

/// How long a test waits for anything before it gives up. Never reached when all is well.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// What was said, as far as a person wants to read it.
const REMEMBERED_LINES: usize = 60;

/// A running daemon and the client's end of its connection.
#[derive(Debug)]
pub struct Rexd {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    buffer: Vec<u8>,
    /// Up to where the buffer was searched for a newline.
    scanned: usize,
    is_over: bool,
    inbox: VecDeque<Value>,
    next_id: u64,
    said: VecDeque<String>,
    /// What is checked on every line.
    pub invariants: Invariants,
    /// How long to wait for anything.
    pub patience: Duration,
}

/// What came of one command.
#[derive(Debug, Clone, Default)]
pub struct Finished {
    /// The process.
    pub process_id: String,
    /// What it wrote.
    pub stdout: Vec<u8>,
    /// What it wrote to its error output, or, for a terminal, nothing.
    pub stderr: Vec<u8>,
    /// The params of its exit event.
    pub exit: Value,
    /// The params of `exec.error`, if there was one.
    pub error: Option<Value>,
}

impl Finished {
    /// The output as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text")
    }
}

impl Rexd {
    /// Starts `rexd --stdio` with the sandbox's configuration.
    pub fn start(binary: &str, sandbox: &Sandbox) -> Rexd {
        let mut command = sandbox.command(binary);
        command.arg("--stdio").arg("--config").arg(sandbox.config());
        Rexd::spawn(command)
    }

    /// Starts `rexd --stdio --root ROOT`: no configuration, no ceilings. The audit goes to the sandbox's state.
    pub fn start_open(binary: &str, sandbox: &Sandbox) -> Rexd {
        let mut command = sandbox.command(binary);
        command.arg("--stdio").arg("--root").arg(sandbox.root());
        Rexd::spawn(command)
    }

    /// Starts any command that speaks REXD on its standard streams.
    pub fn spawn(mut command: Command) -> Rexd {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdin = child.stdin.take().expect("stdin");
        let stdout = child.stdout.take().expect("stdout");
        let stderr = child.stderr.take().expect("stderr");
        for fd in [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()] {
            let flags = fcntl_getfl(fd).expect("flags");
            fcntl_setfl(fd, flags | OFlags::NONBLOCK).expect("a pipe that does not block");
        }
        Rexd {
            child,
            stdin: Some(stdin),
            stdout: Some(stdout),
            stderr: Some(stderr),
            buffer: Vec::new(),
            scanned: 0,
            is_over: false,
            inbox: VecDeque::new(),
            next_id: 0,
            said: VecDeque::new(),
            invariants: Invariants::default(),
            patience: PATIENCE,
        }
    }

    /// The daemon's process number.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process number")
    }

    /// Opens a session as a client that no table knows, and returns its id.
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

    /// Sends a request that has to be refused, and returns the error.
    pub fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let mut response = self.response(id);
        match response.get_mut("error") {
            Some(error) => error.take(),
            None => self.fail(&format!("{method} was not refused: {}", shorten(&response))),
        }
    }

    /// Sends a request and returns its id at once.
    pub fn request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    /// Waits for the answer to a request; what comes before it is kept for later.
    pub fn response(&mut self, id: u64) -> Value {
        self.take(&format!("the answer to request {id}"), |message| message["id"] == id)
    }

    /// Waits for an event of one process; what comes before it is kept for later.
    pub fn event(&mut self, method: &str, process_id: &str) -> Value {
        let mut message = self.take(&format!("{method} of {process_id}"), |message| {
            message["method"] == method && message["params"]["process_id"] == process_id
        });
        message["params"].take()
    }

    /// Waits for a message that fits; what comes before it is kept for later.
    pub fn take(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.inbox.iter().position(&fits) {
            return self.inbox.remove(place).expect("it was just there");
        }
        let deadline = Instant::now() + self.patience;
        loop {
            let Some(message) = self.receive_until(deadline) else {
                self.fail(&format!("the daemon was done before {what}"))
            };
            if fits(&message) {
                return message;
            }
            self.inbox.push_back(message);
        }
    }

    /// The next message off the wire, past those that are kept; nothing at the end.
    pub fn receive(&mut self) -> Option<Value> {
        self.receive_until(Instant::now() + self.patience)
    }

    fn receive_until(&mut self, deadline: Instant) -> Option<Value> {
        let line = self.line_until(deadline)?;
        let message: Value = match serde_json::from_str(&line) {
            Ok(message) => message,
            Err(error) => self.fail(&format!("not JSON ({error}): {}", shorten_text(&line))),
        };
        self.invariants.check(&line, &message);
        Some(message)
    }

    /// The next line as it was written; nothing at the end.
    pub fn line(&mut self) -> Option<String> {
        self.line_until(Instant::now() + self.patience)
    }

    fn line_until(&mut self, deadline: Instant) -> Option<String> {
        match self.line_before(deadline) {
            Some(line) => line,
            None => self.fail("nothing was said in time"),
        }
    }

    /// The next line, or nothing at the end; nothing at all when the deadline comes first.
    fn line_before(&mut self, deadline: Instant) -> Option<Option<String>> {
        loop {
            let new = &self.buffer[self.scanned..];
            if let Some(end) = new.iter().position(|byte| *byte == b'\n') {
                let end = self.scanned + end;
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                self.scanned = 0;
                let line = String::from_utf8(line).expect("a line of UTF-8");
                self.remember('<', &line);
                return Some(Some(line));
            }
            self.scanned = self.buffer.len();
            if self.is_over {
                assert!(self.buffer.is_empty(), "the last line has no end: {:?}", self.buffer);
                return Some(None);
            }
            let stdout = self.stdout.as_ref().expect("stdout is open");
            if !wait_readable(stdout, deadline) {
                return None;
            }
            self.fill();
        }
    }

    /// Reads what is there, without waiting.
    fn fill(&mut self) {
        let Some(stdout) = self.stdout.as_mut() else { return };
        let start = self.buffer.len();
        self.buffer.resize(start + 64 * 1024, 0);
        let read = match stdout.read(&mut self.buffer[start..]) {
            Ok(0) => {
                self.is_over = true;
                0
            }
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            Err(error) => panic!("read from the daemon: {error}"),
        };
        self.buffer.truncate(start + read);
    }

    /// The bytes of one read, for tests of what is written together. The daemon must have been silent before.
    pub fn read_once(&mut self) -> Vec<u8> {
        assert!(self.buffer.is_empty(), "something was read already: {}", self.buffer.len());
        if !wait_readable(self.stdout.as_ref().expect("stdout"), Instant::now() + self.patience) {
            self.fail("nothing was said in time");
        }
        self.fill();
        self.buffer.clone()
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) {
        self.remember('>', line);
        self.send_bytes(line.as_bytes());
        self.send_bytes(b"\n");
    }

    /// Sends bytes as they are. While the daemon does not take them, what it says is put aside, so that neither waits
    /// for the other for ever.
    pub fn send_bytes(&mut self, mut bytes: &[u8]) {
        let deadline = Instant::now() + self.patience;
        while !bytes.is_empty() {
            let stdin = self.stdin.as_mut().expect("stdin is open");
            match stdin.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.fill();
                    let stdin = self.stdin.as_ref().expect("stdin is open");
                    let soon = Instant::now() + Duration::from_millis(20);
                    if !wait_for(stdin, PollFlags::OUT, soon) && Instant::now() > deadline {
                        self.fail("the daemon does not read");
                    }
                }
                Err(error) => self.fail(&format!("write to the daemon: {error}")),
            }
        }
    }

    /// Runs a command to its end. `params` are those of `exec.start`, the session included.
    pub fn run(&mut self, params: Value) -> Finished {
        let process_id = self.call("exec.start", params)["process_id"].as_str().expect("an id").to_owned();
        self.finish(&process_id)
    }

    /// Starts a command and returns its id.
    pub fn begin(&mut self, params: Value) -> String {
        self.call("exec.start", params)["process_id"].as_str().expect("an id").to_owned()
    }

    /// Gathers the output of a process up to its exit.
    pub fn finish(&mut self, process_id: &str) -> Finished {
        let mut finished = Finished { process_id: process_id.to_owned(), ..Finished::default() };
        loop {
            let mut message = self.take(&format!("the end of {process_id}"), |message| {
                message["method"].is_string() && message["params"]["process_id"] == process_id
            });
            let params = message["params"].take();
            match message["method"].as_str().unwrap_or_default() {
                "exec.stdout" | "pty.output" => finished.stdout.extend(data(&params)),
                "exec.stderr" => finished.stderr.extend(data(&params)),
                "exec.error" => finished.error = Some(params),
                "exec.exit" | "pty.exit" => {
                    finished.exit = params;
                    return finished;
                }
                other => panic!("unexpected {other}"),
            }
        }
    }

    /// Gathers the output of a process until it contains a text. What it says in the same piece after it is in the result.
    pub fn until(&mut self, process_id: &str, text: &str) -> String {
        let mut said = String::new();
        while !said.contains(text) {
            let message = self.take(&format!("{text:?} from {process_id} after {said:?}"), |message| {
                message["method"].is_string() && message["params"]["process_id"] == process_id
            });
            let method = message["method"].as_str().unwrap_or_default();
            if matches!(method, "exec.exit" | "pty.exit") {
                self.fail(&format!("{process_id} ended before it said {text:?}: {said:?}"));
            }
            said.push_str(&String::from_utf8_lossy(&data(&message["params"])));
        }
        said
    }

    /// Ends the client's side of the conversation.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Stops listening for good.
    pub fn close_output(&mut self) {
        self.stdout = None;
        self.is_over = true;
    }

    /// Closes the input, reads to the end and waits for the daemon. Messages not yet looked at come back too.
    pub fn end(mut self) -> (ExitStatus, Vec<Value>) {
        self.close_input();
        let mut rest: Vec<Value> = self.inbox.drain(..).collect();
        while let Some(message) = self.receive() {
            rest.push(message);
        }
        (self.wait(), rest)
    }

    /// Waits for the daemon to end.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + self.patience;
        if !watch(self.pid()).ends_before(deadline) {
            self.fail("the daemon does not end");
        }
        self.child.wait().expect("its status")
    }

    /// Sends a signal to the daemon.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).expect("a process number");
        rustix::process::kill_process(pid, signal).expect("a signal to the daemon");
    }

    /// What the daemon logged so far.
    pub fn log(&mut self) -> String {
        let mut text = Vec::new();
        if let Some(stderr) = self.stderr.as_mut() {
            // What is there is read; the end of a pipe that does not block is an error, and fine.
            let _enough = stderr.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    fn remember(&mut self, direction: char, line: &str) {
        if self.said.len() == REMEMBERED_LINES {
            self.said.pop_front();
        }
        self.said.push_back(format!("{direction} {}", shorten_text(line)));
    }

    /// Gives up, with what was said so far.
    pub fn fail(&mut self, why: &str) -> ! {
        let log = self.log();
        let kept: Vec<String> = self.inbox.iter().map(shorten).collect();
        let said: Vec<&str> = self.said.iter().map(String::as_str).collect();
        panic!("{why}\n--- said so far\n{}\n--- kept\n{}\n--- log\n{log}", said.join("\n"), kept.join("\n"));
    }
}

impl Drop for Rexd {
    fn drop(&mut self) {
        // A daemon whose test failed must not outlive it.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
    }
}

impl Transport for Rexd {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.send_bytes(bytes);
        Ok(())
    }

    fn recv_line(&mut self, within: Duration) -> anyhow::Result<Option<String>> {
        let Some(line) = self.line_before(Instant::now() + within) else {
            anyhow::bail!("nothing was said within {within:?}; the log: {}", self.log())
        };
        if let Some(message) = line.as_ref().and_then(|line| serde_json::from_str(line).ok()) {
            self.invariants.check(line.as_deref().unwrap_or_default(), &message);
        }
        Ok(line)
    }

    fn close(&mut self) -> anyhow::Result<()> {
        self.close_input();
        Ok(())
    }

    fn exit_code(&mut self) -> anyhow::Result<i32> {
        let status = self.wait();
        status.code().ok_or_else(|| anyhow::anyhow!("{status}; the log: {}", self.log()))
    }
}

/// The bytes of an output event.
pub fn data(params: &Value) -> Vec<u8> {
    let text = params["data"].as_str().unwrap_or_else(|| panic!("no data: {}", shorten(params)));
    match params["encoding"].as_str() {
        Some("utf8") => text.as_bytes().to_vec(),
        Some("base64") => wire::base64::decode(text).expect("base64"),
        other => panic!("encoding {other:?}"),
    }
}

/// Runs the binary with arguments to its end, for tests of the command line.
pub fn run(sandbox: &Sandbox, binary: &str, arguments: &[&str]) -> Ran {
    run_with_input(sandbox, binary, arguments, "")
}

/// The same, with something on its standard input.
pub fn run_with_input(sandbox: &Sandbox, binary: &str, arguments: &[&str], input: &str) -> Ran {
    let mut command = sandbox.command(Path::new(binary));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin.write_all(input.as_bytes()).or_else(is_broken_pipe).expect("its input");
    drop(stdin);
    let pid = i32::try_from(child.id()).expect("a process number");
    assert!(watch(pid).ends_before(Instant::now() + PATIENCE), "{arguments:?} does not end");
    let output = child.wait_with_output().expect("its output");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A program may end without reading its input.
fn is_broken_pipe(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
}

/// What came of running the binary.
#[derive(Debug)]
pub struct Ran {
    /// Its status, unless a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}
