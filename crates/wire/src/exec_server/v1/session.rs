//! The handshake: `initialize` and `initialized`.

use serde::{Deserialize, Serialize};

use super::EnvironmentInfo;

/// The request that opens or resumes a session.
pub const INITIALIZE: &str = "initialize";
/// The notification after the response to `initialize`.
pub const INITIALIZED: &str = "initialized";

/// The params of `initialize`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The client's name.
    pub client_name: String,
    /// The session to resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_session_id: Option<String>,
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
}
