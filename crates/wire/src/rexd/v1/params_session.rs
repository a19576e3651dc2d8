//! Params of `session.*`, `approval.*`, `server.*` and `$/cancel`.

use serde::{Deserialize, Serialize};

use super::decode::or_default;

/// `session.open`: every member is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionOpen {
    /// The client's name; also the key of the table of client quirks.
    pub client_name: Option<String>,
    /// The client's version.
    pub client_version: Option<String>,
    /// Roots that the client requests.
    pub workspace_roots: Option<Vec<String>>,
    /// Capabilities that the client requests.
    pub requested_capabilities: Option<Vec<serde_json::Value>>,
    /// Limits that the session lowers.
    pub limits: Option<RequestedLimits>,
    /// Whether to keep the session for a limited time after its connection.
    #[serde(deserialize_with = "or_default")]
    pub resume: bool,
    /// A secret of the client, with `resume`: if the connection is lost before the response arrives, the same request with
    /// `resent_after_ms` continues the session that the first one opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_key: Option<String>,
    /// How long ago the first request with this `resume_key` was sent; absent in the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resent_after_ms: Option<i64>,
    /// `utf8` or `base64`.
    pub output_encoding: Option<String>,
    /// `zstd`.
    pub compress: Option<String>,
    /// `binary`: output, reads and writes as raw bytes, if the connection can carry them.
    pub frames: Option<String>,
    /// The longest line that the client accepts.
    pub max_frame_bytes: Option<i64>,
    /// Whether the client can answer approvals; if absent, the table of client quirks decides.
    pub approvals: Option<bool>,
    /// The sandbox of every process of this session that does not request a stricter one.
    pub sandbox: Option<String>,
}

/// The limits that a session lowers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestedLimits {
    /// The default timeout of a command.
    pub default_timeout_ms: Option<i64>,
    /// The longest timeout a command may request.
    pub hard_timeout_ms: Option<i64>,
    /// The default output limit of a command.
    pub max_output_bytes: Option<i64>,
    /// The largest output limit a command may request.
    pub hard_output_bytes: Option<i64>,
    /// The bytes of one read.
    pub max_file_read_bytes: Option<i64>,
    /// Processes at the same time.
    pub max_processes_per_session: Option<i64>,
    /// Part of the protocol; a session cannot lower it.
    pub max_concurrent_sessions: Option<i64>,
}

/// `session.resume`: take up a session after its connection was lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionResume {
    /// The session.
    pub session_id: String,
    /// The token from `session.open`.
    pub resume_token: String,
    /// The last event that the client received; 0 means none.
    #[serde(default, deserialize_with = "or_default")]
    pub last_event_id: i64,
    /// The client's name.
    #[serde(default)]
    pub client_name: Option<String>,
}

/// `session.ack`: the last event that the client received, and with it all before. From the first one on, the server
/// sends at most `resume_bytes` beyond the last acknowledged event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionAck {
    /// The session.
    pub session_id: String,
    /// The number of the event; 0 means none yet.
    pub event_id: i64,
}

/// The params of `session.close`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionClose {
    /// The session.
    pub session_id: String,
}

/// The params of `session.info`.
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

/// The params of `server.ping`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerPing {
    /// The session, for clients that name it in every call.
    pub session_id: Option<String>,
}

/// The params of `approval.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalList {
    /// The session.
    pub session_id: String,
}

/// The params of `approval.answer`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// The session.
    pub session_id: String,
    /// The id of the approval request.
    pub approval_id: String,
    /// `approve` or `deny`.
    pub decision: String,
    /// `once`, `session` or `rule`.
    #[serde(default)]
    pub scope: Option<String>,
}

/// The params of `$/cancel`, which cancels a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cancel {
    /// The id of the request, as it was written.
    pub id: Box<serde_json::value::RawValue>,
}
