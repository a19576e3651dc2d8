//! What the machine is like.

use serde::{Deserialize, Serialize};

/// Tells what the machine is like.
pub const ENVIRONMENT_INFO: &str = "environment/info";
/// Tells whether it can be used.
pub const ENVIRONMENT_STATUS: &str = "environment/status";

/// Result of `environment/info`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentInfo {
    /// The user's shell.
    pub shell: ShellInfo,
    /// Where the server was started, as a `file:` URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Where temporary files may go, as `file:` URIs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub temporary_directories: Vec<String>,
    /// Where they go by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp_dir: Option<String>,
    /// The server's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor_version: Option<String>,
    /// The user's home, as a `file:` URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_home_dir: Option<String>,
    /// `linux` and its like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_os: Option<String>,
    /// What the server can do beyond the usual.
    #[serde(default)]
    pub capabilities: Capabilities,
}

/// A shell.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ShellInfo {
    /// Its name: `bash`, `zsh`, `sh`.
    pub name: String,
    /// Where it is.
    pub path: String,
}

/// What a server can do beyond the usual; what is not named here it cannot.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// `fs/watchMissing`.
    pub fs_watch_missing: bool,
    /// Headers of `http/request` whose value is in a variable of the server.
    pub http_header_env_vars: bool,
    /// `fs/open` and its like within a sandbox.
    pub sandboxed_file_streaming: bool,
    /// `fs/writeBlock`.
    pub file_write_streaming: bool,
}

/// Result of `environment/status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentStatus {
    /// `ready`.
    pub status: String,
}
