//! A command to run, and the request that starts it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use wire::jsonrpc;
use wire::rexd::v1::{self, LimitsReport, Method as _};

use crate::error::Error;
use crate::session::encoded;

/// A program or shell line to run, with its directory, environment, limits and terminal.
#[derive(Debug, Clone, Default)]
pub struct Command {
    program: Program,
    cwd: Option<String>,
    env: BTreeMap<String, Option<String>>,
    timeout: Option<Duration>,
    output_limit: Option<u64>,
    terminal: Option<TerminalSize>,
    is_detached: bool,
    name: Option<String>,
    sandbox: Option<String>,
    has_no_input: bool,
    reads_null: bool,
    merges_stderr: bool,
}

#[derive(Debug, Clone)]
enum Program {
    Argv(Vec<String>),
    Line {
        line: String,
        login: bool,
    },
    /// The user's login shell.
    Shell,
}

impl Default for Program {
    fn default() -> Program {
        Program::Argv(Vec::new())
    }
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns of the terminal.
    pub cols: u16,
    /// Rows of the terminal.
    pub rows: u16,
}

impl Command {
    /// Runs a program with arguments; no shell interprets them.
    pub fn argv(argv: impl IntoIterator<Item = impl Into<String>>) -> Command {
        let argv = argv.into_iter().map(Into::into).collect();
        Command { program: Program::Argv(argv), ..Command::default() }
    }

    /// Runs a line in the target's shell.
    pub fn line(line: impl Into<String>) -> Command {
        Command { program: Program::Line { line: line.into(), login: false }, ..Command::default() }
    }

    /// Runs the user's shell; without a [`terminal`](Command::terminal) it reads commands from its input.
    pub fn shell() -> Command {
        Command { program: Program::Shell, ..Command::default() }
    }

    /// Runs the line in a login shell.
    #[must_use]
    pub fn login(mut self) -> Command {
        if let Program::Line { login, .. } = &mut self.program {
            *login = true;
        }
        self
    }

    /// Sets the working directory; the default is the session's directory.
    #[must_use]
    pub fn cwd(self, cwd: impl Into<String>) -> Command {
        Command { cwd: Some(cwd.into()), ..self }
    }

    /// Sets an environment variable of the process.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Command {
        self.env.insert(name.into(), Some(value.into()));
        self
    }

    /// Sets the time limit; the default is the server's hard limit.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Command {
        Command { timeout: Some(timeout), ..self }
    }

    /// Sets the output limit; the default is the server's hard limit.
    #[must_use]
    pub fn output_limit(self, bytes: u64) -> Command {
        Command { output_limit: Some(bytes), ..self }
    }

    /// Runs the command in a terminal of this size.
    #[must_use]
    pub fn terminal(self, size: TerminalSize) -> Command {
        Command { terminal: Some(size), ..self }
    }

    /// Declares that no input will be written, for targets that can close the input only at the start. Other targets
    /// still need the input to be [closed](crate::ProcessControl::close_input).
    #[must_use]
    pub fn no_input(self) -> Command {
        Command { has_no_input: true, ..self }
    }

    /// Lets the command read from `/dev/null`, on servers with the capability `no_stdin`.
    #[must_use]
    pub fn null_input(self) -> Command {
        Command { reads_null: true, ..self }
    }

    /// Writes standard error to standard output, so that lines keep the order in which they were written, on servers with the
    /// capability `merge_stderr`.
    #[must_use]
    pub fn merge_stderr(self) -> Command {
        Command { merges_stderr: true, ..self }
    }

    /// Lets the process outlive the session, the connection and the daemon.
    #[must_use]
    pub fn detach(self) -> Command {
        Command { is_detached: true, ..self }
    }

    /// Gives the process a name, which is accepted in place of its id while it runs, on servers with the capability `name`.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Command {
        Command { name: Some(name.into()), ..self }
    }

    /// Sets the sandbox profile: `read-only` or `workspace-write`.
    #[must_use]
    pub fn sandbox(self, profile: impl Into<String>) -> Command {
        Command { sandbox: Some(profile.into()), ..self }
    }

    /// The request that starts it: without the limits of the session, with the largest ones that can be requested.
    pub(crate) fn request(
        self,
        session_id: String,
        limits: Option<&LimitsReport>,
        key: String,
    ) -> StartRequest {
        let key = Some(key);
        match self.terminal {
            Some(size) => StartRequest::Terminal(v1::PtyOpen {
                idempotency_key: key,
                ..self.pty_open(session_id, size)
            }),
            None => StartRequest::Pipes(v1::ExecStart {
                idempotency_key: key,
                ..self.exec_start(session_id, limits)
            }),
        }
    }

    fn pty_open(self, session_id: String, size: TerminalSize) -> v1::PtyOpen {
        let (argv, command, login) = match self.program {
            Program::Argv(argv) => (argv, None, None),
            Program::Line { line, login } => (Vec::new(), Some(line), Some(login)),
            Program::Shell => (Vec::new(), Some(LOGIN_SHELL.to_owned()), Some(false)),
        };
        v1::PtyOpen {
            session_id,
            argv,
            shell: command.is_some(),
            command,
            login,
            cwd: self.cwd,
            env: self.env,
            cols: Some(size.cols.into()),
            rows: Some(size.rows.into()),
            timeout_ms: self.timeout.map(milliseconds),
            detach: self.is_detached,
            name: self.name,
            sandbox: self.sandbox,
            idempotency_key: None,
        }
    }

    fn exec_start(self, session_id: String, limits: Option<&LimitsReport>) -> v1::ExecStart {
        let (argv, command, login) = match self.program {
            Program::Argv(argv) => (argv, None, false),
            Program::Line { line, login } => (Vec::new(), Some(line), login),
            Program::Shell => (Vec::new(), Some(LOGIN_SHELL.to_owned()), false),
        };
        // A detached process has no timeout by default; any other has the longest that the server allows.
        let (hard_timeout_ms, hard_output_bytes) = match limits {
            Some(limits) => (limits.hard_timeout_ms, limits.hard_output_bytes),
            None => (Some(v1::UNLIMITED), Some(v1::UNLIMITED)),
        };
        let longest = hard_timeout_ms.filter(|_| !self.is_detached);
        let timeout_ms = self.timeout.map(milliseconds).or_else(|| longest.and_then(limit_param));
        let output = self.output_limit.or(hard_output_bytes);
        v1::ExecStart {
            session_id,
            argv,
            shell: command.is_some(),
            command,
            login,
            cwd: self.cwd,
            env: self.env,
            timeout_ms,
            max_output_bytes: output.and_then(limit_param),
            stdin: self.has_no_input.then(String::new),
            no_stdin: self.reads_null,
            merge_stderr: self.merges_stderr,
            detach: self.is_detached,
            name: self.name,
            sandbox: self.sandbox,
            ..v1::ExecStart::default()
        }
    }
}

/// A request that starts a command.
#[derive(Debug)]
pub(crate) enum StartRequest {
    Pipes(v1::ExecStart),
    Terminal(v1::PtyOpen),
}

/// The ids of a process that was started.
#[derive(Debug)]
pub(crate) struct StartedIds {
    pub(crate) process_id: String,
    /// Of its terminal, if it has one.
    pub(crate) pty_id: Option<String>,
}

impl StartRequest {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            StartRequest::Pipes(_) => v1::ExecStart::NAME,
            StartRequest::Terminal(_) => v1::PtyOpen::NAME,
        }
    }

    pub(crate) fn is_detached(&self) -> bool {
        match self {
            StartRequest::Pipes(params) => params.detach,
            StartRequest::Terminal(params) => params.detach,
        }
    }

    pub(crate) fn set_session(&mut self, id: String) {
        match self {
            StartRequest::Pipes(params) => params.session_id = id,
            StartRequest::Terminal(params) => params.session_id = id,
        }
    }

    pub(crate) fn encode(&self, id: u64) -> Result<Bytes, Error> {
        let message = match self {
            StartRequest::Pipes(params) => jsonrpc::request(id, self.method(), params),
            StartRequest::Terminal(params) => jsonrpc::request(id, self.method(), params),
        };
        encoded(self.method(), message)
    }

    /// Decodes the result of the request.
    pub(crate) fn decoder(&self) -> fn(&[u8]) -> Result<StartedIds, Error> {
        match self {
            StartRequest::Pipes(_) => |result| {
                let started: v1::ExecStartResult = decoded(v1::ExecStart::NAME, result)?;
                Ok(StartedIds { process_id: started.process_id, pty_id: None })
            },
            StartRequest::Terminal(_) => |result| {
                let opened: v1::PtyOpenResult = decoded(v1::PtyOpen::NAME, result)?;
                Ok(StartedIds { process_id: opened.process_id, pty_id: Some(opened.pty_id) })
            },
        }
    }
}

fn decoded<T: DeserializeOwned>(method: &'static str, result: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(result).map_err(|error| Error::decode(method, error))
}

/// Starts the user's shell as a login does.
const LOGIN_SHELL: &str = r#"exec "${SHELL:-/bin/sh}" -l"#;

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A server limit as a request param. A limit that is off is the number it is reported as.
fn limit_param(limit: u64) -> Option<i64> {
    i64::try_from(limit.min(v1::UNLIMITED)).ok()
}
