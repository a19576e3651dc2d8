//! A minimal server of REXD on stdio: it spawns, reads and answers, without policy, limits, audit, trees or logs. Beside it,
//! the cost of what rexd adds is visible.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use serde_json::{Value, json};

/// The argument with which this program is the server.
pub(crate) const ARGUMENT: &str = "--minimal-server";
/// Bytes of one read.
const READ_BYTES: usize = 256 * 1024;

/// A running command: its output and, for a terminal, the end that takes input.
struct Running {
    id: String,
    child: Child,
    output: Option<File>,
    has_terminal: bool,
}

/// Serves standard input until it ends.
pub(crate) fn serve() -> Result<()> {
    let mut server = MinimalServer {
        requests: BufReader::with_capacity(
            READ_BYTES,
            File::from(std::io::stdin().as_fd().try_clone_to_owned()?),
        ),
        responses: File::from(std::io::stdout().as_fd().try_clone_to_owned()?),
        running: Vec::new(),
        started: 0,
        buffer: vec![0; READ_BYTES],
    };
    while server.step()? {}
    for running in &mut server.running {
        running.child.kill()?;
        running.child.wait()?;
    }
    Ok(())
}

struct MinimalServer {
    requests: BufReader<File>,
    responses: File,
    running: Vec<Running>,
    started: u64,
    buffer: Vec<u8>,
}

impl MinimalServer {
    /// Waits for requests and output and handles them; false at the end of the requests.
    fn step(&mut self) -> Result<bool> {
        let outputs = self.running.iter().filter_map(|running| running.output.as_ref());
        let watched = std::iter::once(self.requests.get_ref()).chain(outputs);
        let mut watched: Vec<PollFd<'_>> = watched.map(|file| PollFd::new(file, PollFlags::IN)).collect();
        poll(&mut watched, None)?;
        let ready: Vec<bool> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(watched);
        for index in (1..ready.len()).rev().filter(|index| ready[*index]) {
            self.forward(index - 1)?;
        }
        if ready.first() == Some(&true) {
            loop {
                let mut line = Vec::new();
                if self.requests.read_until(b'\n', &mut line)? == 0 {
                    return Ok(false);
                }
                self.answer(&serde_json::from_slice(&line)?)?;
                if self.requests.buffer().is_empty() {
                    break;
                }
            }
        }
        Ok(true)
    }

    fn answer(&mut self, request: &Value) -> Result<()> {
        let params = &request["params"];
        let result = match request["method"].as_str() {
            Some("session.open") => json!({ "session_id": "s_1", "protocol": "rexd/1" }),
            Some("exec.start") => self.start(params, false)?,
            Some("pty.open") => self.start(params, true)?,
            Some("pty.input") => self.input(params)?,
            Some("pty.close") => self.close(params)?,
            other => bail!("the minimal server has no method {other:?}"),
        };
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))
    }

    fn start(&mut self, params: &Value, has_terminal: bool) -> Result<Value> {
        let argv: Vec<&str> =
            params["argv"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let (program, rest) = argv.split_first().context("no program")?;
        let mut command = Command::new(program);
        command.args(rest);
        self.started += 1;
        let id = format!("p_{}", self.started);
        let (child, output) = match has_terminal {
            true => in_terminal(&mut command)?,
            false => {
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut child = command.spawn()?;
                let output = OwnedFd::from(child.stdout.take().context("no stdout")?);
                (child, File::from(output))
            }
        };
        self.running.push(Running { id: id.clone(), child, output: Some(output), has_terminal });
        Ok(json!({ "process_id": id, "pty_id": id }))
    }

    fn find(&mut self, params: &Value) -> Result<&mut Running> {
        let found = self.running.iter_mut().find(|running| params["pty_id"] == running.id);
        found.context("no such terminal")
    }

    fn input(&mut self, params: &Value) -> Result<Value> {
        let data = params["data"].as_str().unwrap_or_default();
        let terminal = self.find(params)?.output.as_mut().context("no terminal")?;
        terminal.write_all(data.as_bytes())?;
        Ok(json!({ "accepted_bytes": data.len() }))
    }

    fn close(&mut self, params: &Value) -> Result<Value> {
        self.find(params)?.child.kill()?;
        Ok(json!({ "ok": true }))
    }

    /// Sends what a command has written; at its end, the exit.
    fn forward(&mut self, index: usize) -> Result<()> {
        let running = &mut self.running[index];
        // A terminal without a process is an error instead of an end.
        let read = running.output.as_mut().map_or(Ok(0), |output| output.read(&mut self.buffer)).unwrap_or(0);
        let message = match read {
            0 => {
                let mut ended = self.running.swap_remove(index);
                self.forward_errors(&mut ended)?;
                let code = ended.child.wait().map(|status: ExitStatus| status.code().unwrap_or(-1))?;
                let method = if ended.has_terminal { "pty.exit" } else { "exec.exit" };
                json!({ "jsonrpc": "2.0", "method": method, "params": { "process_id": ended.id, "exit_code": code } })
            }
            read => {
                let data = base64_simd::STANDARD.encode_to_string(&self.buffer[..read]);
                let method = if running.has_terminal { "pty.output" } else { "exec.stdout" };
                let params = json!({ "process_id": running.id, "encoding": "base64", "data": data });
                json!({ "jsonrpc": "2.0", "method": method, "params": params })
            }
        };
        self.send(&message)
    }

    /// Sends what an ended command has written to stderr.
    fn forward_errors(&mut self, ended: &mut Running) -> Result<()> {
        let Some(mut stderr) = ended.child.stderr.take() else { return Ok(()) };
        let mut bytes = Vec::new();
        if stderr.read_to_end(&mut bytes)? == 0 {
            return Ok(());
        }
        let data = base64_simd::STANDARD.encode_to_string(&bytes);
        let params = json!({ "process_id": ended.id, "encoding": "base64", "data": data });
        self.send(&json!({ "jsonrpc": "2.0", "method": "exec.stderr", "params": params }))
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        Ok(self.responses.write_all(&line)?)
    }
}

/// Starts a command in a new terminal; returns the other end of it.
fn in_terminal(command: &mut Command) -> Result<(Child, File)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let near = openpt(flags)?;
    grantpt(&near)?;
    unlockpt(&near)?;
    let far = ioctl_tiocgptpeer(&near, flags)?;
    let end = |far: &OwnedFd| far.try_clone().map(Stdio::from);
    let child = command.stdin(end(&far)?).stdout(end(&far)?).stderr(end(&far)?).spawn()?;
    Ok((child, File::from(near)))
}
