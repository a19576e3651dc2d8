//! Params of `session.*`, `approval.*`, `server.*` and `$/cancel`.

use serde::{Deserialize, Serialize};

use super::decode::or_default;

/// `session.open`: every member is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionOpen {
    /// Who calls; also the key of the table of client quirks.
    pub client_name: Option<String>,
    /// Its version.
    pub client_version: Option<String>,
    /// Roots the client would like to hear back.
    pub workspace_roots: Option<Vec<String>>,
    /// What the client would like to use.
    pub requested_capabilities: Option<Vec<serde_json::Value>>,
    /// Limits to lower for this session.
    pub limits: Option<RequestedLimits>,
    /// Keep the session for a while after its connection.
    #[serde(deserialize_with = "or_default")]
    pub resume: bool,
    /// `utf8` or `base64`.
    pub output_encoding: Option<String>,
    /// `zstd`.
    pub compress: Option<String>,
    /// The longest line the client can take.
    pub max_frame_bytes: Option<i64>,
    /// Whether the client can answer approvals; unless it says so, the table of client quirks does.
    pub approvals: Option<bool>,
    /// The sandbox of every process of this session that asks for no stricter one.
    pub sandbox: Option<String>,
}

/// Limits a session asks to have lowered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestedLimits {
    /// Timeout of a command that asks for none.
    pub default_timeout_ms: Option<i64>,
    /// Longest timeout a command may ask for.
    pub hard_timeout_ms: Option<i64>,
    /// Output of a command that asks for no other bound.
    pub max_output_bytes: Option<i64>,
    /// Most output a command may ask for.
    pub hard_output_bytes: Option<i64>,
    /// Bytes of one read.
    pub max_file_read_bytes: Option<i64>,
    /// Processes at the same time.
    pub max_processes_per_session: Option<i64>,
    /// Named for completeness; a session cannot lower it.
    pub max_concurrent_sessions: Option<i64>,
}

/// `session.resume`: take up a session after its connection was lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionResume {
    /// The session.
    pub session_id: String,
    /// What `session.open` gave out for this.
    pub resume_token: String,
    /// The last event the client saw; nothing means none.
    #[serde(default, deserialize_with = "or_default")]
    pub last_event_id: i64,
    /// Who calls.
    #[serde(default)]
    pub client_name: Option<String>,
}

/// `session.close`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionClose {
    /// The session.
    pub session_id: String,
}

/// `session.info`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The session.
    pub session_id: String,
}

/// `session.set_cwd`: where relative paths start from now on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSetCwd {
    /// The session.
    pub session_id: String,
    /// The directory.
    pub path: String,
}

/// `server.ping`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerPing {
    /// The session, for clients that name it in every call.
    pub session_id: Option<String>,
}

/// `approval.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalList {
    /// The session.
    pub session_id: String,
}

/// `approval.answer`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// The session.
    pub session_id: String,
    /// Which approval.
    pub approval_id: String,
    /// `approve` or `deny`.
    pub decision: String,
    /// `once`, `session` or `rule`.
    #[serde(default)]
    pub scope: Option<String>,
}

/// `$/cancel`: the caller withdraws one of its requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cancel {
    /// The request, as it was written.
    pub id: Box<serde_json::value::RawValue>,
}
