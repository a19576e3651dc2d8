//! Params of `exec.*` and `pty.*`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

use super::decode::or_default;

/// `exec.start`: run a command and stream its output.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecStart {
    /// The session.
    pub session_id: String,
    /// Program and arguments; not with `shell`.
    #[serde(default, deserialize_with = "or_default")]
    pub argv: Vec<String>,
    /// Where it runs; the session's directory if absent.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Set in the environment, or taken from it when `null`.
    #[serde(default, deserialize_with = "or_default")]
    pub env: BTreeMap<String, Option<String>>,
    /// Written to its input, which is then closed.
    #[serde(default)]
    pub stdin: Option<String>,
    /// `utf8` or `base64`.
    #[serde(default)]
    pub stdin_encoding: Option<String>,
    /// How long it may run.
    #[serde(default)]
    pub timeout_ms: Option<i64>,
    /// How much it may write.
    #[serde(default)]
    pub max_output_bytes: Option<i64>,
    /// Let a shell interpret `command`.
    #[serde(default, deserialize_with = "or_default")]
    pub shell: bool,
    /// A line for the shell.
    #[serde(default)]
    pub command: Option<String>,
    /// Let the shell be a login shell.
    #[serde(default, deserialize_with = "or_default")]
    pub login: bool,
    /// Let it outlive its session.
    #[serde(default, deserialize_with = "or_default")]
    pub detach: bool,
    /// `read-only` or `workspace-write`.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// Two starts with one key are one start.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// `exec.wait`: until the process ends or the time is up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecWait {
    /// The session.
    #[serde(default)]
    pub session_id: String,
    /// The process.
    pub process_id: String,
    /// How long to wait.
    #[serde(default)]
    pub timeout_ms: Option<i64>,
}

/// `exec.kill`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecKill {
    /// The session.
    #[serde(default)]
    pub session_id: String,
    /// The process.
    pub process_id: String,
    /// `TERM` if absent.
    #[serde(default)]
    pub signal: Option<Signal>,
}

/// `exec.input`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecInput {
    /// The session.
    #[serde(default)]
    pub session_id: String,
    /// The process.
    pub process_id: String,
    /// What it reads.
    #[serde(default, deserialize_with = "or_default")]
    pub data: String,
    /// `utf8` or `base64`.
    #[serde(default)]
    pub encoding: Option<String>,
    /// Close its input afterwards.
    #[serde(default, deserialize_with = "or_default")]
    pub eof: bool,
    /// Two inputs with one key are one input.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// `exec.list`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecList {
    /// The session.
    pub session_id: String,
}

/// `exec.attach`: follow a process from a place in its output.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecAttach {
    /// The session.
    pub session_id: String,
    /// The process.
    pub process_id: String,
    /// From where; 0 is the beginning.
    #[serde(default, deserialize_with = "or_default")]
    pub cursor: i64,
}

/// `pty.open`: run a command in a terminal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PtyOpen {
    /// The session.
    pub session_id: String,
    /// Program and arguments.
    #[serde(default, deserialize_with = "or_default")]
    pub argv: Vec<String>,
    /// A line for the shell.
    #[serde(default)]
    pub command: Option<String>,
    /// Let a shell interpret `command`.
    #[serde(default, deserialize_with = "or_default")]
    pub shell: bool,
    /// Let the shell be a login shell; it is one if this is absent.
    #[serde(default)]
    pub login: Option<bool>,
    /// Where it runs; the session's directory if absent.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Set in the environment, or taken from it when `null`.
    #[serde(default, deserialize_with = "or_default")]
    pub env: BTreeMap<String, Option<String>>,
    /// Width.
    #[serde(default)]
    pub cols: Option<i64>,
    /// Height.
    #[serde(default)]
    pub rows: Option<i64>,
    /// How long it may run; no end if absent.
    #[serde(default)]
    pub timeout_ms: Option<i64>,
    /// Let it outlive its session.
    #[serde(default, deserialize_with = "or_default")]
    pub detach: bool,
    /// `read-only` or `workspace-write`.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// Two starts with one key are one start.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// `pty.input`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PtyInput {
    /// The session.
    #[serde(default)]
    pub session_id: String,
    /// The terminal.
    pub pty_id: String,
    /// What is typed.
    #[serde(default, deserialize_with = "or_default")]
    pub data: String,
    /// `utf8` or `base64`.
    #[serde(default)]
    pub encoding: Option<String>,
    /// Two inputs with one key are one input.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// `pty.resize`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PtyResize {
    /// The session.
    #[serde(default)]
    pub session_id: String,
    /// The terminal.
    pub pty_id: String,
    /// Width; 0 or absent keeps it.
    #[serde(default)]
    pub cols: Option<i64>,
    /// Height; 0 or absent keeps it.
    #[serde(default)]
    pub rows: Option<i64>,
}

/// `pty.close`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PtyClose {
    /// The session.
    #[serde(default)]
    pub session_id: String,
    /// The terminal.
    pub pty_id: String,
    /// End the process too; yes if absent.
    #[serde(default)]
    pub kill: Option<bool>,
}

/// A signal as clients write it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Signal {
    /// `TERM`, `SIGTERM`, `term`, or digits.
    Name(String),
    /// Its number.
    Number(i64),
}

impl<'de> Deserialize<'de> for Signal {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Signal, D::Error> {
        input.deserialize_any(SignalVisitor)
    }
}

struct SignalVisitor;

impl Visitor<'_> for SignalVisitor {
    type Value = Signal;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("signal name or number")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Signal, E> {
        Ok(Signal::Name(name.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Signal, E> {
        Ok(Signal::Number(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Signal, E> {
        let number =
            i64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))?;
        Ok(Signal::Number(number))
    }
}
