//! Talk: one conversation with one daemon, shown as it happens.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::screen::Screen;

/// How long any single answer or event may take; all of them are there in milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Lines from the daemon that wait to be shown; past it the daemon waits.
const LINES_WAITING: usize = 64;

/// A conversation with one daemon.
pub(crate) struct Talk<'s> {
    pub(crate) daemon: Child,
    pub(crate) input: Option<ChildStdin>,
    lines: Receiver<Value>,
    last_id: i64,
    screen: &'s mut Screen,
}

impl<'s> Talk<'s> {
    pub(crate) fn start(rexd: &Path, place: &Path, root: &Path, screen: &'s mut Screen) -> Result<Self> {
        let mut command = Command::new(rexd);
        command.arg("--stdio").arg("--config").arg(place.join("config.toml")).arg("--root").arg(root);
        // What outlives the daemon is kept here, and not where the reader's own is.
        command.env("XDG_STATE_HOME", place.join("state"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut daemon = command.spawn().with_context(|| format!("cannot start {}", rexd.display()))?;
        let (input, output) = (daemon.stdin.take(), daemon.stdout.take().context("a piped output")?);
        let (lines, received) = sync_channel(LINES_WAITING);
        // Ends with the daemon's output, or when nobody listens any more.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "not_json": line }));
                if lines.send(value).is_err() {
                    return;
                }
            }
        });
        Ok(Talk { daemon, input, lines: received, last_id: 0, screen })
    }

    /// Asks for something that must be done, and returns its result.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        let mut answer = self.answer(method, params)?;
        ensure!(answer.get("error").is_none(), "{method} was refused: {}", answer["error"]);
        Ok(answer["result"].take())
    }

    /// Asks for something that must be refused, and returns the error.
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> Result<Value> {
        let mut answer = self.answer(method, params)?;
        ensure!(answer.get("error").is_some(), "{method} was not refused");
        Ok(answer["error"].take())
    }

    /// Asks for something, and returns the whole answer.
    pub(crate) fn answer(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.send(method, params)?;
        self.line(|line| line["id"] == id)
    }

    /// Asks for something without waiting for the answer; returns the number it will have.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> Result<i64> {
        self.last_id += 1;
        self.screen.sent(method, &params)?;
        let request = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        let input = self.input.as_mut().context("the connection is open")?;
        input.write_all(format!("{request}\n").as_bytes()).context("rexd reads no more")?;
        Ok(self.last_id)
    }

    /// The next line that fits.
    pub(crate) fn line(&mut self, fits: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            let line = self.next()?;
            if fits(&line) {
                return Ok(line);
            }
        }
    }

    /// The events of a process up to the first that is called `method`, and that one's params.
    pub(crate) fn until(&mut self, method: &str, process: &Value) -> Result<(Vec<Value>, Value)> {
        let mut events = Vec::new();
        loop {
            let mut line = self.next()?;
            if line["params"]["process_id"] != *process {
                continue;
            }
            if line["method"] == method {
                return Ok((events, line["params"].take()));
            }
            events.push(line);
        }
    }

    /// The next line of the daemon, which is shown.
    fn next(&mut self) -> Result<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                ensure!(line["jsonrpc"] == "2.0", "this is no line of the protocol: {line}");
                self.screen.received(&line)?;
                Ok(line)
            }
            Err(RecvTimeoutError::Timeout) => bail!("rexd said nothing for {} s", PATIENCE.as_secs()),
            Err(RecvTimeoutError::Disconnected) => bail!("rexd has ended early"),
        }
    }

    pub(crate) fn heading(&mut self, text: &str) -> Result<()> {
        self.screen.heading(text)
    }

    pub(crate) fn note(&mut self, text: &str) -> Result<()> {
        self.screen.note(text)
    }
}

impl Drop for Talk<'_> {
    fn drop(&mut self) {
        // Closing its input is how a daemon is told that its peer has gone; it ends its processes itself.
        drop(self.input.take());
        let _ended = self.daemon.wait();
    }
}
