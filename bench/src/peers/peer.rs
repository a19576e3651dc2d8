//! A client for every server with JSON messages: rexd and Codex differ only in their dialect.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::json::{self, Splitter};
use super::wire::Wire;
use super::{Commands, Files, Sink, Terminals};
use crate::watchdog::Server;

/// Whether a command gets pipes or a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdioKind {
    /// Pipes for output and errors.
    Pipes,
    /// A terminal that echoes.
    Terminal,
}

/// A decoded message of the server.
#[derive(Debug)]
pub(crate) enum Meaning {
    /// The response to a request.
    Answer { id: u64 },
    /// Output of a process; whether it is base64.
    Output { process: String, base64: bool },
    /// The end of a process, after all of its output; `None` when no exit code came.
    Exit { process: String, code: Option<i64> },
    /// A message that the benchmark ignores.
    Other,
}

/// The requests and messages of one server.
pub(crate) trait Dialect {
    /// The name in the tables.
    fn name(&self) -> String;
    /// The text before a large string in a message.
    fn openings(&self) -> &'static [&'static str];
    /// A request as text.
    fn request(&self, id: u64, method: &str, params: &Value) -> String;
    /// Method and params that start a command; `number` is fresh.
    fn start(&self, number: u64, argv: &[&str], streams: StdioKind) -> (&'static str, Value);
    /// The name of the process, from the answer to `start` with that number.
    fn started(&self, number: u64, answer: &Value) -> Option<String>;
    /// The name under which a terminal takes input, from the answer to `start`.
    fn terminal(&self, number: u64, answer: &Value) -> Option<String>;
    /// Decodes a message.
    fn meaning(&mut self, message: &Value) -> Meaning;
    /// Method and params that read a file from an offset on.
    fn read(&self, path: &Path, offset: u64) -> (&'static str, Value);
    /// Whether a read's content is base64, and whether more of the file is left.
    fn content(&self, answer: &Value) -> (bool, bool);
    /// A request that replaces a file: the text before and after the base64 content.
    fn write(&self, id: u64, path: &Path) -> [String; 2];
    /// Method and params that type into a terminal.
    fn key(&self, terminal: &str, byte: u8) -> (&'static str, Value);
    /// Method and params that kill a process.
    fn kill(&self, process: &str) -> (&'static str, Value);
    /// Method and params that end a terminal.
    fn close(&self, terminal: &str) -> (&'static str, Value);
}

/// A server, the connection to it, and its dialect.
#[derive(Debug)]
pub(crate) struct JsonPeer<D> {
    /// How it is spoken to.
    pub(crate) dialect: D,
    // Dropped before the server, which then sees the end of its stdin.
    wire: Wire,
    /// The process behind the connection.
    pub(crate) server: Rc<Server>,
    splitter: Splitter,
    bytes: Vec<u8>,
    last_id: u64,
    terminal: Option<String>,
}

impl<D: Dialect> JsonPeer<D> {
    /// A peer over an open connection; the caller does the handshake.
    pub(crate) fn new(dialect: D, server: Rc<Server>, wire: Wire) -> Self {
        let splitter = Splitter::new(dialect.openings());
        Self { dialect, wire, server, splitter, bytes: Vec::new(), last_id: 0, terminal: None }
    }

    /// Sends a request and waits for its answer; events in between are dropped.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.send(method, params)?;
        self.answer(id)
    }

    /// Sends a request without waiting for its answer.
    pub(crate) fn send(&mut self, method: &str, params: &Value) -> Result<u64> {
        let id = self.fresh();
        let request = self.dialect.request(id, method, params);
        self.wire.send(&[request])?;
        Ok(id)
    }

    /// Sends text as it is.
    pub(crate) fn send_raw(&mut self, message: String) -> Result<()> {
        self.wire.send(&[message])
    }

    /// Waits for the answer to a request.
    pub(crate) fn answer(&mut self, id: u64) -> Result<Value> {
        loop {
            let mut message = self.splitter.split(self.wire.receive()?)?.rest;
            if matches!(self.dialect.meaning(&message), Meaning::Answer { id: got } if got == id) {
                return result(&mut message);
            }
        }
    }

    /// The bytes of the answer to a request that holds no payload string.
    pub(crate) fn raw_answer(&mut self, method: &str, params: &Value) -> Result<&[u8]> {
        self.send(method, params)?;
        self.wire.receive()
    }

    /// Starts a command and returns the name of its process.
    pub(crate) fn start(&mut self, argv: &[&str], streams: StdioKind) -> Result<String> {
        let (number, (method, params)) = self.prepare(argv, streams);
        let answer = self.call(method, &params)?;
        self.dialect.started(number, &answer).context("no process in the answer")
    }

    /// Hands on the output of a process until it has ended; returns its exit code.
    pub(crate) fn follow(&mut self, process: &str, out: Sink<'_>) -> Result<i64> {
        loop {
            let split = self.splitter.split(self.wire.receive()?)?;
            match self.dialect.meaning(&split.rest) {
                Meaning::Output { process: of, base64 } if of == process => {
                    let payload = split.payload.context("output without a payload")?;
                    out(if base64 { json::decode(payload, &mut self.bytes)? } else { payload })?;
                }
                Meaning::Exit { process: of, code } if of == process => return code.context("no exit code"),
                _ => {}
            }
        }
    }

    /// Starts a command without waiting for the answer.
    pub(crate) fn begin(&mut self, argv: &[&str]) -> Result<()> {
        let (_, (method, params)) = self.prepare(argv, StdioKind::Pipes);
        self.send(method, &params).map(drop)
    }

    /// Reads on until a process has ended, however it did.
    pub(crate) fn follow_to_end(&mut self, process: &str) -> Result<()> {
        loop {
            let split = self.splitter.split(self.wire.receive()?)?;
            if matches!(self.dialect.meaning(&split.rest), Meaning::Exit { process: of, .. } if of == process)
            {
                return Ok(());
            }
        }
    }

    fn fresh(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn prepare(&mut self, argv: &[&str], streams: StdioKind) -> (u64, (&'static str, Value)) {
        let number = self.fresh();
        (number, self.dialect.start(number, argv, streams))
    }
}

fn result(message: &mut Value) -> Result<Value> {
    match message.get("error") {
        Some(error) => bail!("refused: {error}"),
        None => Ok(message.get_mut("result").map(Value::take).unwrap_or_default()),
    }
}

impl<D: Dialect> Commands for JsonPeer<D> {
    fn name(&self) -> String {
        self.dialect.name()
    }

    fn run(&mut self, argv: &[&str], out: Sink<'_>) -> Result<i64> {
        let (number, (method, params)) = self.prepare(argv, StdioKind::Pipes);
        let id = self.send(method, &params)?;
        let (mut process, mut exit) = (None, None);
        loop {
            let split = self.splitter.split(self.wire.receive()?)?;
            match self.dialect.meaning(&split.rest) {
                Meaning::Answer { id: got } if got == id => {
                    let mut message = split.rest;
                    process = self.dialect.started(number, &result(&mut message)?);
                }
                Meaning::Output { base64, .. } => {
                    let payload = split.payload.context("output without a payload")?;
                    out(if base64 { json::decode(payload, &mut self.bytes)? } else { payload })?;
                }
                Meaning::Exit { process, code } => exit = Some((process, code)),
                _ => {}
            }
            // A server may announce the end before it answers the start.
            if let (Some(process), Some((of, code))) = (&process, &exit)
                && process == of
            {
                return code.context("no exit code");
            }
        }
    }

    fn burst(&mut self, argv: &[&str], total: usize, flight: usize) -> Result<usize> {
        let (mut begun, mut ended, mut wrong) = (0, 0, 0);
        let mut outgoing = Vec::new();
        while ended < total {
            while begun < total && begun - ended < flight {
                let (_, (method, params)) = self.prepare(argv, StdioKind::Pipes);
                let id = self.fresh();
                outgoing.push(self.dialect.request(id, method, &params));
                begun += 1;
            }
            self.wire.send(&outgoing)?;
            outgoing.clear();
            loop {
                let mut message = self.splitter.split(self.wire.receive()?)?.rest;
                match self.dialect.meaning(&message) {
                    Meaning::Exit { code, .. } => {
                        ended += 1;
                        wrong += usize::from(code != Some(0));
                    }
                    Meaning::Answer { .. } => drop(result(&mut message)?),
                    _ => {}
                }
                if !self.wire.has_more() {
                    break;
                }
            }
        }
        Ok(wrong)
    }
}

impl<D: Dialect> Files for JsonPeer<D> {
    fn name(&self) -> String {
        self.dialect.name()
    }

    fn read(&mut self, path: &Path, out: Sink<'_>) -> Result<()> {
        let mut offset = 0;
        loop {
            let (method, params) = self.dialect.read(path, offset);
            let id = self.send(method, &params)?;
            let split = self.splitter.split(self.wire.receive()?)?;
            ensure!(
                matches!(self.dialect.meaning(&split.rest), Meaning::Answer { id: got } if got == id),
                "no answer"
            );
            let mut message = split.rest;
            let (base64, more) = self.dialect.content(&result(&mut message)?);
            let payload = split.payload.context("no content in the answer")?;
            let bytes = if base64 { json::decode(payload, &mut self.bytes)? } else { payload };
            out(bytes)?;
            offset += bytes.len() as u64;
            if !more {
                return Ok(());
            }
            ensure!(!bytes.is_empty(), "the server promises more but sends nothing");
        }
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        let id = self.fresh();
        let [front, back] = self.dialect.write(id, path);
        let base64 = json::encode_into(content, &mut self.bytes);
        self.wire.send_parts([front.as_bytes(), base64, back.as_bytes()])?;
        self.answer(id).map(drop)
    }
}

impl<D: Dialect> Terminals for JsonPeer<D> {
    fn name(&self) -> String {
        self.dialect.name()
    }

    fn open(&mut self) -> Result<()> {
        if let Some(old) = self.terminal.take() {
            let (method, params) = self.dialect.close(&old);
            self.call(method, &params)?;
        }
        let (number, (method, params)) = self.prepare(&["/bin/cat"], StdioKind::Terminal);
        let answer = self.call(method, &params)?;
        self.terminal = self.dialect.terminal(number, &answer);
        ensure!(self.terminal.is_some(), "no terminal in the answer");
        Ok(())
    }

    fn key(&mut self, byte: u8) -> Result<Duration> {
        let terminal = self.terminal.as_deref().context("no terminal is open")?;
        let (method, params) = self.dialect.key(terminal, byte);
        let start = Instant::now();
        let id = self.send(method, &params)?;
        let (mut answered, mut echoed) = (false, None);
        loop {
            let split = self.splitter.split(self.wire.receive()?)?;
            match self.dialect.meaning(&split.rest) {
                Meaning::Answer { id: got } if got == id => {
                    let mut message = split.rest;
                    result(&mut message)?;
                    answered = true;
                }
                Meaning::Output { base64, .. } => {
                    let payload = split.payload.context("output without a payload")?;
                    let bytes = if base64 { json::decode(payload, &mut self.bytes)? } else { payload };
                    if bytes.contains(&byte) {
                        echoed.get_or_insert_with(|| start.elapsed());
                    }
                }
                _ => {}
            }
            if let (true, Some(time)) = (answered, echoed) {
                return Ok(time);
            }
        }
    }
}
