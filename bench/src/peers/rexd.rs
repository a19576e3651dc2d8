//! rexd on stdio, with a configuration that raises every limit and keeps the audit on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::peer::{Dialect, JsonPeer, Meaning, StdioKind};
use super::wire::Wire;
use crate::watchdog::Server;

/// The encoding of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As JSON strings, which is the protocol's default.
    Utf8,
    /// As base64, which a client may ask for.
    Base64,
}

impl Encoding {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Utf8 => "utf8",
            Self::Base64 => "base64",
        }
    }
}

/// The configuration that rows vary; [`Setup::config`] has every key.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// The program.
    pub(crate) program: PathBuf,
    /// The only root, and where state and audit go.
    pub(crate) directory: PathBuf,
    /// The requested encoding of output.
    pub(crate) encoding: Encoding,
    /// Whether writes are synced.
    pub(crate) durable: bool,
    /// Output kept per process in memory.
    pub(crate) log_bytes: u64,
}

/// The default of output kept per process.
pub(crate) const LOG_BYTES: u64 = 1 << 20;

impl Setup {
    /// Base64 output, durable writes, the usual log.
    pub(crate) fn new(program: &Path, directory: &Path) -> Self {
        Self {
            program: program.to_owned(),
            directory: directory.to_owned(),
            encoding: Encoding::Base64,
            durable: true,
            log_bytes: LOG_BYTES,
        }
    }

    /// The configuration file's text.
    fn config(&self) -> String {
        let Self { directory, durable, log_bytes, .. } = self;
        let directory = directory.display();
        format!(
            "[limits]\n\
             default_timeout_ms = 600000\n\
             hard_timeout_ms = 0\n\
             max_output_bytes = 9007199254740991\n\
             hard_output_bytes = 0\n\
             max_file_read_bytes = 134217728\n\
             max_processes_per_session = 4096\n\
             max_concurrent_sessions = 4096\n\
             log_bytes = {log_bytes}\n\
             \n[files]\ndurable = {durable}\n\
             \n[security]\nallow_shell = true\n\
             \n[[security.allowed_roots]]\npath = \"{directory}\"\n\
             \n[keepers]\nlog_bytes = 268435456\n\
             \n[audit]\nenabled = true\npath = \"{directory}/audit.log\"\n"
        )
    }

    /// Writes the configuration and returns where it is.
    pub(crate) fn configured(&self) -> Result<PathBuf> {
        let name = format!("rexd-{}-{}-{}.toml", self.encoding.word(), self.durable, self.log_bytes);
        let config = self.directory.join(name);
        fs::write(&config, self.config())?;
        Ok(config)
    }

    /// Writes the configuration and returns the command that starts rexd on stdio with it.
    pub(crate) fn command(&self) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command
            .arg("--stdio")
            .arg("--config")
            .arg(self.configured()?)
            .env("XDG_STATE_HOME", self.directory.join("state"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(self.directory.join("rexd.stderr"))?);
        Ok(command)
    }

    /// Starts rexd and opens the session that everything runs in.
    pub(crate) fn start(&self) -> Result<JsonPeer<Rexd>> {
        self.start_with(&mut self.command()?)
    }

    /// The same with a prepared command, for a running clock.
    pub(crate) fn start_with(&self, command: &mut Command) -> Result<JsonPeer<Rexd>> {
        let mut server = Server::start(command)?;
        let wire = Wire::lines(server.stdin()?, server.stdout()?);
        let dialect = Rexd::new(self.encoding.word(), self.encoding);
        let mut peer = JsonPeer::new(dialect, Rc::new(server.ends_with_stdin()), wire);
        peer.open(json!({})).with_context(|| self.complaint())?;
        Ok(peer)
    }

    /// Starts the minimal server of the same protocol.
    pub(crate) fn start_minimal(&self) -> Result<JsonPeer<Rexd>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(super::minimal::ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = Server::start(&mut command)?;
        let wire = Wire::lines(server.stdin()?, server.stdout()?);
        let dialect =
            Rexd { session: String::new(), label: "minimal".to_owned(), encoding: Encoding::Base64 };
        let mut peer = JsonPeer::new(dialect, Rc::new(server.ends_with_stdin()), wire);
        peer.open(json!({})).context("the minimal server did not open a session")?;
        Ok(peer)
    }

    /// Starts rexd with a session whose commands run under this profile.
    pub(crate) fn start_confined(&self, profile: &str) -> Result<JsonPeer<Rexd>> {
        let mut server = Server::start(&mut self.command()?)?;
        let wire = Wire::lines(server.stdin()?, server.stdout()?);
        let dialect = Rexd::new(profile, self.encoding);
        let mut peer = JsonPeer::new(dialect, Rc::new(server.ends_with_stdin()), wire);
        peer.open(json!({ "sandbox": profile })).with_context(|| self.complaint())?;
        Ok(peer)
    }

    /// The standard error of rexd.
    pub(super) fn complaint(&self) -> String {
        let complaint = fs::read_to_string(self.directory.join("rexd.stderr")).unwrap_or_default();
        format!("rexd did not open a session: {}", complaint.trim())
    }
}

/// The dialect REXD v1.
#[derive(Debug)]
pub(crate) struct Rexd {
    /// The session that requests name.
    pub(crate) session: String,
    label: String,
    encoding: Encoding,
}

impl Rexd {
    /// A client without a session; the label is its name in the tables.
    pub(super) fn new(label: &str, encoding: Encoding) -> Self {
        Self { session: String::new(), label: label.to_owned(), encoding }
    }
}

impl JsonPeer<Rexd> {
    /// Opens the session for all requests with additional params; returns the result.
    pub(crate) fn open(&mut self, wishes: Value) -> Result<Value> {
        let answer = self.open_with(wishes)?;
        self.dialect.session = answer["session_id"].as_str().context("no session_id")?.to_owned();
        Ok(answer)
    }

    /// Opens another session and returns its id.
    pub(crate) fn open_session(&mut self) -> Result<String> {
        let answer = self.open_with(json!({}))?;
        answer["session_id"].as_str().map(str::to_owned).context("no session_id")
    }

    fn open_with(&mut self, mut params: Value) -> Result<Value> {
        params["client_name"] = json!("rexd-bench");
        params["output_encoding"] = json!(self.dialect.encoding.word());
        self.call("session.open", &params)
    }
}

impl Dialect for Rexd {
    fn name(&self) -> String {
        format!("rexd {}", self.label)
    }

    fn openings(&self) -> &'static [&'static str] {
        &["\"data\":\"", "\"content\":\""]
    }

    fn request(&self, id: u64, method: &str, params: &Value) -> String {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    }

    fn start(&self, _number: u64, argv: &[&str], streams: StdioKind) -> (&'static str, Value) {
        match streams {
            StdioKind::Pipes => ("exec.start", json!({"session_id": self.session, "argv": argv})),
            StdioKind::Terminal => {
                ("pty.open", json!({"session_id": self.session, "argv": argv, "cols": 80, "rows": 24}))
            }
        }
    }

    fn started(&self, _number: u64, answer: &Value) -> Option<String> {
        answer["process_id"].as_str().map(str::to_owned)
    }

    fn terminal(&self, _number: u64, answer: &Value) -> Option<String> {
        answer["pty_id"].as_str().map(str::to_owned)
    }

    fn meaning(&mut self, message: &Value) -> Meaning {
        let params = &message["params"];
        let process = || params["process_id"].as_str().unwrap_or_default().to_owned();
        match message["method"].as_str() {
            None => message["id"].as_u64().map_or(Meaning::Other, |id| Meaning::Answer { id }),
            Some("exec.stdout" | "pty.output") => {
                Meaning::Output { process: process(), base64: params["encoding"] == "base64" }
            }
            Some("exec.exit" | "pty.exit") => {
                Meaning::Exit { process: process(), code: params["exit_code"].as_i64() }
            }
            Some(_) => Meaning::Other,
        }
    }

    fn read(&self, path: &Path, offset: u64) -> (&'static str, Value) {
        let encoding = self.encoding.word();
        ("fs.read", json!({"session_id": self.session, "path": path, "offset": offset, "encoding": encoding}))
    }

    fn content(&self, answer: &Value) -> (bool, bool) {
        (answer["encoding"] == "base64", answer["truncated"] == true)
    }

    fn write(&self, id: u64, path: &Path) -> [String; 2] {
        let (session, path) = (json!(self.session), json!(path));
        let front = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"fs.write","params":{{"session_id":{session},"path":{path},"encoding":"base64","mode":"replace","atomic":true,"content":""#
        );
        [front, r#""}}"#.to_owned()]
    }

    fn key(&self, terminal: &str, byte: u8) -> (&'static str, Value) {
        let data = char::from(byte).to_string();
        ("pty.input", json!({"session_id": self.session, "pty_id": terminal, "data": data}))
    }

    fn kill(&self, process: &str) -> (&'static str, Value) {
        ("exec.kill", json!({"session_id": self.session, "process_id": process, "signal": "KILL"}))
    }

    fn close(&self, terminal: &str) -> (&'static str, Value) {
        ("pty.close", json!({"session_id": self.session, "pty_id": terminal}))
    }
}
