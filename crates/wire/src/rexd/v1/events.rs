//! Events: the notifications of the server. Output events have their own encoder.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AskedBy;

use crate::jsonrpc::notification;

/// The params of a notification of the server.
pub trait Event: Serialize {
    /// The method name on the wire.
    const METHOD: &'static str;
}

/// Encodes the notification of an event.
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
    /// -1 if a signal ended it: clients treat `null` as success.
    pub exit_code: i64,
    /// `KILL`, `TERM`… or `null`.
    pub signal: Option<String>,
    /// Whether the timeout ended the process.
    #[serde(default)]
    pub timed_out: bool,
    /// The time from start to exit.
    #[serde(default)]
    pub duration_ms: u64,
    /// Bytes of standard output.
    #[serde(default)]
    pub bytes_stdout: u64,
    /// Bytes of standard error.
    #[serde(default)]
    pub bytes_stderr: u64,
    /// The event's number in its session.
    #[serde(default)]
    pub event_id: u64,
    /// Whether the output limit ended the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_limit_exceeded: bool,
    /// Processes that still hold the output open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<i64>,
    /// The end of its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// `memory_limit` if it exceeded its memory limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The access that the sandbox denied, if that made the command fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_denied: Option<SandboxDenied>,
}

/// An access that the sandbox denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxDenied {
    /// `write`, `read`, `network` or `call`.
    pub access: String,
    /// The path of the access, if it is known.
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
    /// -1 if a signal ended it: a client ignores the event if this is not a number.
    pub exit_code: i64,
    /// `KILL`, `TERM`… or `null`.
    pub signal: Option<String>,
    /// Whether the timeout ended the process.
    #[serde(default)]
    pub timed_out: bool,
    /// The time from start to exit.
    #[serde(default)]
    pub duration_ms: u64,
    /// The event's number in its session.
    #[serde(default)]
    pub event_id: u64,
    /// Processes that still hold the terminal open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<i64>,
    /// The end of its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// `memory_limit` if it exceeded its memory limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The access that the sandbox denied, if that made the command fail.
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
    /// The message for the user.
    pub message: String,
    /// Details, such as the path or limit.
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
    /// The number of bytes.
    pub bytes: u64,
    /// The position at which the output continues.
    pub cursor: u64,
    /// The event's number in its session.
    pub event_id: u64,
}

/// The params of `fs.changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsChanged {
    /// The session.
    pub session_id: String,
    /// The watch.
    pub watch_id: String,
    /// The changes.
    pub changes: Vec<Change>,
    /// Whether changes were dropped; list the directory again.
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

/// The params of `approval.requested`: an operation waits for approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// The session.
    pub session_id: String,
    /// The id for the answer.
    pub approval_id: String,
    /// The method of the request.
    pub method: String,
    /// One line for the approver.
    pub summary: String,
    /// The exact operation: argv and cwd, or path and diff.
    pub operation: Value,
    /// The rule that requires approval.
    pub rule: Option<String>,
    /// The reason of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `low`, `medium` or `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
    /// The requester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<AskedBy>,
    /// The time at which the request is denied without an answer.
    pub expires_at: Option<String>,
    /// The event's number in its session.
    pub event_id: u64,
}

/// The params of `approval.decided`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApprovalDecided {
    /// The session.
    pub session_id: String,
    /// The id of the approval request.
    pub approval_id: String,
    /// `approve`, `deny`, `expired` or `withdrawn`.
    pub decision: String,
    /// The scope of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The approver.
    pub by: Option<String>,
    /// The event's number in its session.
    pub event_id: u64,
}

/// The params of `session.closing`: the server stops and ends the session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionClosing {
    /// The session.
    pub session_id: String,
    /// Why: `shutdown`.
    pub reason: String,
    /// The event's number in its session.
    pub event_id: u64,
}

/// The params of `session.lost`: events that were dropped before a resume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionLost {
    /// The session.
    pub session_id: String,
    /// The number of events.
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
