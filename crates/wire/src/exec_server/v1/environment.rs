//! The description of the server's machine.

use serde::{Deserialize, Serialize};

/// Describes the server's machine.
pub const ENVIRONMENT_INFO: &str = "environment/info";
/// Reports whether the server is ready.
pub const ENVIRONMENT_STATUS: &str = "environment/status";

/// The result of `environment/info`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentInfo {
    /// The user's shell.
    pub shell: ShellInfo,
    /// The server's working directory as a `file:` URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Directories for temporary files as `file:` URIs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub temporary_directories: Vec<String>,
    /// The default directory for temporary files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp_dir: Option<String>,
    /// The server's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor_version: Option<String>,
    /// The user's home directory as a `file:` URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_home_dir: Option<String>,
    /// The operating system, such as `linux`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_os: Option<String>,
    /// The optional features of the server.
    #[serde(default)]
    pub capabilities: Capabilities,
}

/// The name and path of a shell.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ShellInfo {
    /// Its name: `bash`, `zsh`, `sh`.
    pub name: String,
    /// The path of the program.
    pub path: String,
}

/// The optional features of a server; absent ones are false.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// `fs/watchMissing`.
    pub fs_watch_missing: bool,
    /// Headers of `http/request` whose value is in a variable of the server.
    pub http_header_env_vars: bool,
    /// `fs/open` and block methods with a sandbox.
    pub sandboxed_file_streaming: bool,
    /// `fs/writeBlock`.
    pub file_write_streaming: bool,
}

/// The result of `environment/status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentStatus {
    /// `ready`.
    pub status: String,
}
