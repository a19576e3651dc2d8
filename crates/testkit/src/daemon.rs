//! Rexd: a daemon under test on its standard streams.

use std::io::Write;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::carrier::Carrier as _;
use crate::client::Client;
use crate::invariants::shorten;
use crate::lines::Lines;
use crate::log::Log;
use crate::proc::watch;
use crate::sandbox::Sandbox;
use crate::transcript::Transport;

/// The deadline of every wait in a test; not reached unless a test fails. Longer than a client tries to reconnect.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The standard streams of a daemon, from the client's side.
pub type Pipes = Lines<ChildStdout, ChildStdin>;

/// A running daemon and the client's end of its connection.
#[derive(Debug)]
pub struct Rexd {
    child: Child,
    client: Client<Pipes>,
}

impl Deref for Rexd {
    type Target = Client<Pipes>;

    fn deref(&self) -> &Client<Pipes> {
        &self.client
    }
}

impl DerefMut for Rexd {
    fn deref_mut(&mut self) -> &mut Client<Pipes> {
        &mut self.client
    }
}

/// The outcome of one command.
#[derive(Debug, Clone, Default)]
pub struct CommandOutcome {
    /// The process.
    pub process_id: String,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error; empty for a terminal.
    pub stderr: Vec<u8>,
    /// The params of its exit event.
    pub exit: Value,
    /// The params of `exec.error`, if there was one.
    pub error: Option<Value>,
}

impl CommandOutcome {
    /// The output as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text")
    }

    /// Adds an event of the process; true for the last one.
    pub fn add(&mut self, mut message: Value) -> bool {
        let params = message["params"].take();
        match message["method"].as_str().unwrap_or_default() {
            "exec.stdout" | "pty.output" => self.stdout.extend(data(&params)),
            "exec.stderr" => self.stderr.extend(data(&params)),
            "exec.error" => self.error = Some(params),
            "exec.exit" | "pty.exit" => {
                self.exit = params;
                return true;
            }
            other => panic!("unexpected {other}"),
        }
        false
    }
}

impl Rexd {
    /// Starts `rexd --stdio` with the sandbox's configuration.
    pub fn start(binary: &str, sandbox: &Sandbox) -> Rexd {
        let mut command = sandbox.command(binary);
        command.arg("--stdio").arg("--config").arg(sandbox.config());
        Rexd::spawn(command)
    }

    /// Starts `rexd --stdio --root ROOT` without a configuration. The audit log is in the sandbox's state directory.
    pub fn start_open(binary: &str, sandbox: &Sandbox) -> Rexd {
        let mut command = sandbox.command(binary);
        command.arg("--stdio").arg("--root").arg(sandbox.root());
        Rexd::spawn(command)
    }

    /// Starts a command that serves REXD on its standard streams.
    pub fn spawn(mut command: Command) -> Rexd {
        let log = Log::new();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.stdio());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (stdout, stdin) = (child.stdout.take().expect("stdout"), child.stdin.take().expect("stdin"));
        Rexd { child, client: Client::new(Lines::new(stdout, stdin), log) }
    }

    /// The process id of the daemon.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// The bytes of one read, for tests of batched writes. No output may be pending before.
    pub fn read_once(&mut self) -> Vec<u8> {
        let deadline = Instant::now() + self.patience;
        self.carrier.read_once(deadline)
    }

    /// Closes the daemon's standard input.
    pub fn close_input(&mut self) {
        self.carrier.close_output();
    }

    /// Stops reading permanently.
    pub fn close_output(&mut self) {
        self.carrier.close_input();
    }

    /// Closes the input, reads to the end and waits for the daemon. Returns kept messages too.
    pub fn end(mut self) -> (ExitStatus, Vec<Value>) {
        self.close_input();
        let rest = self.rest();
        (self.wait(), rest)
    }

    /// Waits for the daemon to exit.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + self.patience;
        if !watch(self.pid()).ends_before(deadline) {
            self.fail("the daemon did not exit");
        }
        self.child.wait().expect("its status")
    }

    /// Sends a signal to the daemon.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("a signal to the daemon");
    }
}

impl Drop for Rexd {
    fn drop(&mut self) {
        // The daemon must not outlive a failed test.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
    }
}

impl Transport for Rexd {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.carrier.send(bytes)?)
    }

    fn recv_line(&mut self, within: Duration) -> anyhow::Result<Option<String>> {
        self.client.line_within(within)
    }

    fn close(&mut self) -> anyhow::Result<()> {
        Ok(self.carrier.finish()?)
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

/// Runs the binary with arguments until it exits, for tests of the command line.
pub fn run(sandbox: &Sandbox, binary: &str, arguments: &[&str]) -> ProgramOutcome {
    run_with_input(sandbox, binary, arguments, "")
}

/// The same, with text on its standard input.
pub fn run_with_input(sandbox: &Sandbox, binary: &str, arguments: &[&str], input: &str) -> ProgramOutcome {
    let mut command = sandbox.command(Path::new(binary));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin.write_all(input.as_bytes()).or_else(is_broken_pipe).expect("its input");
    drop(stdin);
    let pid = i32::try_from(child.id()).expect("a process id");
    assert!(watch(pid).ends_before(Instant::now() + PATIENCE), "{arguments:?} does not end");
    let output = child.wait_with_output().expect("its output");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    ProgramOutcome { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A program may exit without reading its input.
fn is_broken_pipe(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
}

/// The outcome of running the binary.
#[derive(Debug)]
pub struct ProgramOutcome {
    /// Its exit status; `None` after a signal.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}
