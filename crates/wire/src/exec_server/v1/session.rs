//! The handshake: `initialize` and `initialized`.

use serde::{Deserialize, Serialize};

use super::EnvironmentInfo;

/// The request that opens or resumes a session.
pub const INITIALIZE: &str = "initialize";
/// The notification after the response to `initialize`.
pub const INITIALIZED: &str = "initialized";

/// The notification of a client that it has received events; only between two peers that both support it.
pub const SESSION_ACK: &str = "session/ack";

/// The params of `initialize`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The client's name.
    pub client_name: String,
    /// The session to resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_session_id: Option<String>,
    /// Whether the client can send `session/ack`. Released peers do not know this member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ack: Option<bool>,
}

/// The result of `initialize` in v0 and v1.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResponse {
    /// The version of v0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// The session; absent from servers without sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The result of `environment/info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_info: Option<EnvironmentInfo>,
    /// Whether the server accepts `session/ack`; only if the client can send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ack: Option<bool>,
}

/// The params of `session/ack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionAckNotification {
    /// How many notifications about processes the client has received on this connection.
    pub received: u64,
}
