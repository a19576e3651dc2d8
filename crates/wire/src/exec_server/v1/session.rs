//! The handshake.

use serde::{Deserialize, Serialize};

use super::EnvironmentInfo;

/// The request that opens or resumes a session.
pub const INITIALIZE: &str = "initialize";
/// The notification that follows its answer.
pub const INITIALIZED: &str = "initialized";

/// Params of `initialize`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// What the client calls itself.
    pub client_name: String,
    /// The session to go on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_session_id: Option<String>,
}

/// Result of `initialize`: what v0 and v1 answer, together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResponse {
    /// The version of the vocabulary without sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// The session; nothing from servers that know none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The machine, as in `environment/info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_info: Option<EnvironmentInfo>,
}
