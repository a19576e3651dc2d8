//! Params of `exec.*` and `pty.*`.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

use super::decode::or_default;
use crate::binary::as_base64;

/// `exec.start`: run a command and stream its output.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecStart {
    /// The session.
    pub session_id: String,
    /// Program and arguments; not with `shell`.
    #[serde(default, deserialize_with = "or_default")]
    pub argv: Vec<String>,
    /// The working directory; the session's directory if absent.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Variables to set, or to unset when `null`.
    #[serde(default, deserialize_with = "or_default")]
    pub env: BTreeMap<String, Option<String>>,
    /// Input of the process, which is closed after it.
    #[serde(default)]
    pub stdin: Option<String>,
    /// `utf8` or `base64`.
    #[serde(default)]
    pub stdin_encoding: Option<String>,
    /// Whether the process reads from `/dev/null` instead of a pipe.
    #[serde(default, deserialize_with = "or_default")]
    pub no_stdin: bool,
    /// Whether standard error is written to standard output.
    #[serde(default, deserialize_with = "or_default")]
    pub merge_stderr: bool,
    /// The time limit.
    #[serde(default)]
    pub timeout_ms: Option<i64>,
    /// The output limit.
    #[serde(default)]
    pub max_output_bytes: Option<i64>,
    /// Whether a shell interprets `command`.
    #[serde(default, deserialize_with = "or_default")]
    pub shell: bool,
    /// The line for the shell.
    #[serde(default)]
    pub command: Option<String>,
    /// Whether the shell is a login shell.
    #[serde(default, deserialize_with = "or_default")]
    pub login: bool,
    /// Whether the process outlives its session.
    #[serde(default, deserialize_with = "or_default")]
    pub detach: bool,
    /// A name for it, unique among the user's running processes and accepted in place of its id.
    #[serde(default)]
    pub name: Option<String>,
    /// `read-only` or `workspace-write`.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// A second start with this key is not performed.
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
    /// The time limit of the wait.
    #[serde(default)]
    pub timeout_ms: Option<i64>,
}

/// The params of `exec.kill`.
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

/// The params of `exec.input`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecInput {
    /// The session.
    #[serde(default)]
    pub session_id: String,
    /// The process.
    pub process_id: String,
    /// The input, in the given encoding.
    #[serde(default, deserialize_with = "or_default")]
    pub data: String,
    /// `utf8`, `base64`, or `binary` for the payload of a binary message.
    #[serde(default)]
    pub encoding: Option<String>,
    /// Whether to close the input after it.
    #[serde(default, deserialize_with = "or_default")]
    pub eof: bool,
    /// A second input with this key is not performed.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// The payload of a binary message; it takes the place of `data`.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_base64")]
    pub payload: Option<Bytes>,
}

/// The params of `exec.list`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecList {
    /// The session.
    pub session_id: String,
}

/// The params of `exec.prune`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecPrune {
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
    /// The position to read from; 0 is the beginning.
    #[serde(default, deserialize_with = "or_default")]
    pub cursor: i64,
    /// Reads the output of the last milliseconds instead, to about a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Whether a terminal is shown by its screen instead of its output from `cursor` on.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub screen: bool,
}

/// `pty.open`: run a command in a terminal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PtyOpen {
    /// The session.
    pub session_id: String,
    /// Program and arguments.
    #[serde(default, deserialize_with = "or_default")]
    pub argv: Vec<String>,
    /// The line for the shell.
    #[serde(default)]
    pub command: Option<String>,
    /// Whether a shell interprets `command`.
    #[serde(default, deserialize_with = "or_default")]
    pub shell: bool,
    /// Whether the shell is a login shell; true if absent.
    #[serde(default)]
    pub login: Option<bool>,
    /// The working directory; the session's directory if absent.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Variables to set, or to unset when `null`.
    #[serde(default, deserialize_with = "or_default")]
    pub env: BTreeMap<String, Option<String>>,
    /// Columns of the terminal.
    #[serde(default)]
    pub cols: Option<i64>,
    /// Rows of the terminal.
    #[serde(default)]
    pub rows: Option<i64>,
    /// The time limit; none if absent.
    #[serde(default)]
    pub timeout_ms: Option<i64>,
    /// Whether the process outlives its session.
    #[serde(default, deserialize_with = "or_default")]
    pub detach: bool,
    /// A name for it, unique among the user's running processes and accepted in place of its ids.
    #[serde(default)]
    pub name: Option<String>,
    /// `read-only` or `workspace-write`.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// A second start with this key is not performed.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// The params of `pty.input`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PtyInput {
    /// The session.
    #[serde(default)]
    pub session_id: String,
    /// The terminal.
    pub pty_id: String,
    /// The input, in the given encoding.
    #[serde(default, deserialize_with = "or_default")]
    pub data: String,
    /// `utf8`, `base64`, or `binary` for the payload of a binary message.
    #[serde(default)]
    pub encoding: Option<String>,
    /// A second input with this key is not performed.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// The payload of a binary message; it takes the place of `data`.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_base64")]
    pub payload: Option<Bytes>,
}

/// The params of `pty.resize`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PtyResize {
    /// The session.
    #[serde(default)]
    pub session_id: String,
    /// The terminal.
    pub pty_id: String,
    /// Columns; 0 or absent keeps them.
    #[serde(default)]
    pub cols: Option<i64>,
    /// Rows; 0 or absent keeps them.
    #[serde(default)]
    pub rows: Option<i64>,
}

/// The params of `pty.close`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PtyClose {
    /// The session.
    #[serde(default)]
    pub session_id: String,
    /// The terminal.
    pub pty_id: String,
    /// Whether to end the process too; true if absent.
    #[serde(default)]
    pub kill: Option<bool>,
}

/// A signal by name or number.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Signal {
    /// `TERM`, `SIGTERM`, `term`, or digits.
    Name(String),
    /// The process id.
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
