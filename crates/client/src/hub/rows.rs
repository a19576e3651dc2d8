//! The rows of a hub's lists: hosts and runs.

use serde::{Deserialize, Serialize};

/// A host, as `GET /hosts` lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRow {
    /// The id of the host.
    pub id: String,
    /// The name of its machine.
    #[serde(default)]
    pub name: Option<String>,
    /// When the hub last received a message of it, RFC 3339.
    #[serde(default)]
    pub last_seen_at: Option<String>,
    /// Whether it is connected.
    #[serde(default)]
    pub online: bool,
    /// The version of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A run, as `GET /runs` lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// The id of the run.
    pub id: String,
    /// Its host.
    pub host_id: String,
    /// The tool.
    #[serde(default)]
    pub tool: Option<String>,
    /// The working directory.
    #[serde(default)]
    pub cwd: Option<String>,
    /// The command line. Sent by rexhub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// `running`, `awaiting_input`, `awaiting_approval` or `exited`.
    #[serde(default)]
    pub status: String,
    /// When it was started, RFC 3339.
    #[serde(default)]
    pub started_at: Option<String>,
    /// When its last event was stored, RFC 3339.
    #[serde(default)]
    pub last_active_at: Option<String>,
    /// The pending request for permission.
    #[serde(default)]
    pub pending_request_id: Option<String>,
    /// What the run waits for.
    #[serde(default)]
    pub pending_prompt: Option<String>,
    /// When it ended, RFC 3339.
    #[serde(default)]
    pub ended_at: Option<String>,
    /// The exit code; 128 plus the signal.
    #[serde(default)]
    pub exit_code: Option<i64>,
}
