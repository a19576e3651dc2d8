//! Events: what the server says unasked. Output has an encoder of its own beside this one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AskedBy;

use crate::jsonrpc::notification;

/// Something the server says unasked.
pub trait Event: Serialize {
    /// What it is called on the wire.
    const METHOD: &'static str;
}

/// The notification for an event.
pub fn encode_event<E: Event>(event: &E) -> Vec<u8> {
    notification(E::METHOD, event)
}

/// `exec.exit`: a process ended and nothing more comes from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecExit {
    /// The session.
    pub session_id: String,
    /// The process.
    pub process_id: String,
    /// -1 when a signal ended it: clients take `null` for success.
    pub exit_code: i64,
    /// `KILL`, `TERM`… or `null`.
    pub signal: Option<String>,
    /// Whether its timeout ended it.
    #[serde(default)]
    pub timed_out: bool,
    /// How long it ran.
    #[serde(default)]
    pub duration_ms: u64,
    /// Written to its output.
    #[serde(default)]
    pub bytes_stdout: u64,
    /// Written to its error output.
    #[serde(default)]
    pub bytes_stderr: u64,
    /// The event's number in its session.
    #[serde(default)]
    pub event_id: u64,
    /// Whether the output limit ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_limit_exceeded: bool,
    /// Who still holds its output open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<i64>,
    /// The end of its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// `memory_limit` if it used up the memory it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the sandbox refused, if the command failed at that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_denied: Option<SandboxDenied>,
}

/// What the sandbox refused to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxDenied {
    /// `write`, `read`, `network` or `call`.
    pub access: String,
    /// The path it was about, where the command named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// `pty.exit`: a terminal's process ended and nothing more comes from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PtyExit {
    /// The session.
    pub session_id: String,
    /// The terminal.
    pub pty_id: String,
    /// The process.
    pub process_id: String,
    /// -1 when a signal ended it: a client drops the event if this is no number.
    pub exit_code: i64,
    /// `KILL`, `TERM`… or `null`.
    pub signal: Option<String>,
    /// Whether its timeout ended it.
    #[serde(default)]
    pub timed_out: bool,
    /// How long it ran.
    #[serde(default)]
    pub duration_ms: u64,
    /// The event's number in its session.
    #[serde(default)]
    pub event_id: u64,
    /// Who still holds the terminal open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<i64>,
    /// The end of its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// `memory_limit` if it used up the memory it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the sandbox refused, if the command failed at that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_denied: Option<SandboxDenied>,
}

/// `exec.error`: something happened to a process that is not its exit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecError {
    /// The session.
    pub session_id: String,
    /// The process.
    pub process_id: String,
    /// One of [`super::codes`].
    pub code: i64,
    /// What happened.
    pub message: String,
    /// What it happened to.
    #[serde(default)]
    pub data: Value,
    /// The event's number in its session.
    #[serde(default)]
    pub event_id: u64,
}

/// `exec.lost`: output that this reader will never see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecLost {
    /// The session.
    pub session_id: String,
    /// The process.
    pub process_id: String,
    /// The terminal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty_id: Option<String>,
    /// `stdout`, `stderr` or `pty`; `null` when it was some of each.
    pub stream: Option<String>,
    /// How much.
    pub bytes: u64,
    /// Where the log goes on.
    pub cursor: u64,
    /// The event's number in its session.
    pub event_id: u64,
}

/// `fs.changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsChanged {
    /// The session.
    pub session_id: String,
    /// The watch.
    pub watch_id: String,
    /// What changed.
    pub changes: Vec<Change>,
    /// Whether more changed than could be kept: look again.
    pub overflow: bool,
    /// The event's number in its session.
    pub event_id: u64,
}

/// One change of a watched file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The file.
    pub path: String,
    /// `created`, `modified`, `removed` or `renamed`.
    pub kind: String,
    /// Its new path, if it was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// `approval.requested`: something waits for somebody to decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// The session.
    pub session_id: String,
    /// What to answer to.
    pub approval_id: String,
    /// The method that waits.
    pub method: String,
    /// One line for a person.
    pub summary: String,
    /// The true operation: argv and cwd, or path and diff.
    pub operation: Value,
    /// The rule that asked.
    pub rule: Option<String>,
    /// Why it asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `low`, `medium` or `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
    /// Who wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<AskedBy>,
    /// When silence becomes a no.
    pub expires_at: Option<String>,
    /// The event's number in its session.
    pub event_id: u64,
}

/// `approval.decided`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalDecided {
    /// The session.
    pub session_id: String,
    /// Which approval.
    pub approval_id: String,
    /// `approve`, `deny`, `expired` or `withdrawn`.
    pub decision: String,
    /// For how long the decision holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Who decided.
    pub by: Option<String>,
    /// The event's number in its session.
    pub event_id: u64,
}

/// `session.closing`: the server ends, and the session with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionClosing {
    /// The session.
    pub session_id: String,
    /// Why: `shutdown`.
    pub reason: String,
    /// The event's number in its session.
    pub event_id: u64,
}

/// `session.lost`: events that a listener who came back will not see.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionLost {
    /// The session.
    pub session_id: String,
    /// How many.
    pub lost: u64,
    /// The number of the last of them.
    pub event_id: u64,
}

macro_rules! events {
    ($($name:ident $method:literal)*) => {
        $(impl Event for $name { const METHOD: &'static str = $method; })*
    };
}

events! {
    SessionClosing "session.closing"
    SessionLost "session.lost"
    ExecExit "exec.exit"
    PtyExit "pty.exit"
    ExecError "exec.error"
    ExecLost "exec.lost"
    FsChanged "fs.changed"
    ApprovalRequested "approval.requested"
    ApprovalDecided "approval.decided"
}
