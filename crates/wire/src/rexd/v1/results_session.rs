//! Results of `session.*`, `approval.*` and `server.*`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Done, or not and no error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OkResult {
    /// Whether anything was done.
    pub ok: bool,
}

impl OkResult {
    /// It was done.
    pub const DONE: OkResult = OkResult { ok: true };
}

/// `session.open` and `session.resume`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionOpenResult {
    /// The session.
    pub session_id: String,
    /// Always [`super::PROTOCOL`].
    pub protocol: String,
    /// The version a client may test for.
    pub server_version: String,
    /// What the server can do.
    pub capabilities: Vec<String>,
    /// The limits in force. Some clients refuse anything but numbers here.
    pub limits: LimitsReport,
    /// The roots of the session, absolute.
    pub workspace_roots: Vec<String>,
    /// Which implementation this is.
    #[serde(default)]
    pub server_name: String,
    /// Its own version, whatever `server_version` says.
    #[serde(default)]
    pub implementation_version: String,
    /// Shown to take the session up again; only when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_token: Option<String>,
    /// How many events the client will not see; only from `session.resume`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// The effective encoding of output, when the client asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_encoding: Option<String>,
    /// The compression in use, when the client asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compress: Option<String>,
    /// The longest line that will be sent, when it is bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frame_bytes: Option<u64>,
    /// What confines every process of the session, if anything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxReport>,
}

/// The limits in force: numbers only, [`super::UNLIMITED`] where there is none. Servers may tell only the first and the
/// third.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitsReport {
    /// Timeout of a command that asks for none.
    pub default_timeout_ms: u64,
    /// Longest timeout a command may ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_timeout_ms: Option<u64>,
    /// Output of a command that asks for no other bound.
    pub max_output_bytes: u64,
    /// Most output a command may ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_output_bytes: Option<u64>,
    /// Bytes of one read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_file_read_bytes: Option<u64>,
    /// Processes at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_processes_per_session: Option<u64>,
    /// Sessions at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent_sessions: Option<u64>,
}

/// `session.info`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionInfoResult {
    /// The session.
    pub session_id: String,
    /// Where relative paths start.
    pub cwd: String,
    /// The roots of the session.
    pub workspace_roots: Vec<String>,
    /// How many processes run.
    pub running_processes: u64,
    /// The limits in force.
    pub limits: LimitsReport,
    /// Who opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// The last event sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_id: Option<u64>,
    /// What the server can do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
}

/// `session.set_cwd`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSetCwdResult {
    /// Always true.
    pub ok: bool,
    /// Where relative paths start now.
    pub cwd: String,
}

/// `server.ping`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerPingResult {
    /// The server's clock.
    pub time: String,
}

/// `approval.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalListResult {
    /// What waits for somebody.
    pub approvals: Vec<Approval>,
    /// Whether more wait than could be listed; the oldest are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// What confines the processes of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxReport {
    /// The profiles that hold, joined by `+`.
    pub profile: String,
    /// What this kernel cannot hold of them, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// Who wants what waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedBy {
    /// Who they have proved to be.
    pub caller: String,
    /// What their client calls itself.
    pub client_name: String,
    /// The face they came through.
    pub face: String,
    /// Their session.
    pub session_id: String,
}

/// One thing that waits for somebody to decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
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
    /// When it was asked.
    pub requested_at: String,
    /// When silence becomes a no.
    pub expires_at: Option<String>,
    /// `pending`, `approved`, `denied` or `expired`.
    pub state: String,
}
