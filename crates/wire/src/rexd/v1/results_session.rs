//! Results of `session.*`, `approval.*` and `server.*`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A result that is only success or no effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OkResult {
    /// Whether the request had an effect.
    pub ok: bool,
}

impl OkResult {
    /// The result of a successful request.
    pub const DONE: OkResult = OkResult { ok: true };
}

/// The result of `session.open` and `session.resume`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionOpenResult {
    /// The session.
    pub session_id: String,
    /// Always [`super::PROTOCOL`].
    pub protocol: String,
    /// The version that clients check.
    pub server_version: String,
    /// The capabilities of the server.
    pub capabilities: Vec<String>,
    /// The limits in force. Some clients refuse anything but numbers here.
    pub limits: LimitsReport,
    /// The roots of the session, absolute.
    pub workspace_roots: Vec<String>,
    /// The name of the implementation.
    #[serde(default)]
    pub server_name: String,
    /// The version of the implementation, independent of `server_version`.
    #[serde(default)]
    pub implementation_version: String,
    /// The token to resume the session; only if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_token: Option<String>,
    /// The number of lost events; only from `session.resume`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// The encoding of output, if the client requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_encoding: Option<String>,
    /// The compression, if the client requested one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compress: Option<String>,
    /// `binary`, if the client requested it and the connection can carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<String>,
    /// The longest line that is sent, if it is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frame_bytes: Option<u64>,
    /// The sandbox of every process of the session, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxReport>,
}

/// The limits in force: numbers only, [`super::UNLIMITED`] where there is none. Servers may send only the first and the
/// third.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitsReport {
    /// The default timeout of a command.
    pub default_timeout_ms: u64,
    /// The longest timeout a command may request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_timeout_ms: Option<u64>,
    /// The default output limit of a command.
    pub max_output_bytes: u64,
    /// The largest output limit a command may request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_output_bytes: Option<u64>,
    /// The bytes of one read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_file_read_bytes: Option<u64>,
    /// Processes at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_processes_per_session: Option<u64>,
    /// Sessions at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent_sessions: Option<u64>,
}

/// The machine that a session works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInfo {
    /// Its host name.
    pub name: String,
    /// The operating system, its release and the architecture.
    pub os: String,
    /// The shell for commands: `bash`, or `sh` if there is no bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
}

/// The result of `session.info`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionInfoResult {
    /// The session.
    pub session_id: String,
    /// The directory that relative paths start at.
    pub cwd: String,
    /// The roots of the session.
    pub workspace_roots: Vec<String>,
    /// The number of running processes.
    pub running_processes: u64,
    /// The limits in force.
    pub limits: LimitsReport,
    /// The client's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// The last event sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_id: Option<u64>,
    /// The capabilities of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// The machine of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostInfo>,
}

/// The result of `session.set_cwd`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSetCwdResult {
    /// Always true.
    pub ok: bool,
    /// The directory that relative paths start at.
    pub cwd: String,
}

/// The result of `server.ping`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerPingResult {
    /// The server's clock.
    pub time: String,
}

/// The result of `approval.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalListResult {
    /// The pending approval requests.
    pub approvals: Vec<Approval>,
    /// Whether there are more; the oldest are listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The sandbox of the processes of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxReport {
    /// The profiles in effect, joined by `+`.
    pub profile: String,
    /// The parts that this kernel cannot enforce, for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// The requester of a pending operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedBy {
    /// The authenticated caller.
    pub caller: String,
    /// The client's name.
    pub client_name: String,
    /// The face of the request.
    pub face: String,
    /// The session of the request.
    pub session_id: String,
}

/// One pending or answered approval request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
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
    /// The time of the request.
    pub requested_at: String,
    /// The time at which the request is denied without an answer.
    pub expires_at: Option<String>,
    /// `pending`, `approved`, `denied` or `expired`.
    pub state: String,
}
