//! exec-server v0: commands that belong to their connection.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ByteChunk;

/// The version in the response to `initialize`.
pub const PROTOCOL_VERSION: &str = "exec-server.v0";

/// Methods and notifications.
pub mod method {
    /// Starts a process.
    pub const EXEC: &str = "command/exec";
    /// Writes to its terminal.
    pub const WRITE: &str = "command/exec/write";
    /// Ends a process.
    pub const TERMINATE: &str = "command/exec/terminate";
    /// Output of a process.
    pub const OUTPUT_DELTA: &str = "command/exec/outputDelta";
    /// The exit of a process.
    pub const EXITED: &str = "command/exec/exited";
}

/// The params of `command/exec`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecParams {
    /// The id that the client chooses, unique in the connection.
    pub process_id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The working directory.
    pub cwd: String,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// Whether it has a terminal; without one its input is empty.
    pub tty: bool,
    /// Bytes that the server keeps of each stream; notifications are not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes_cap: Option<u64>,
    /// The value of `argv[0]`.
    #[serde(default)]
    pub arg0: Option<String>,
}

/// The result of `command/exec`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecResponse {
    /// The id from the request.
    pub process_id: String,
    /// Always true.
    pub running: bool,
    /// Always null.
    pub exit_code: Option<i32>,
    /// Always null.
    pub stdout: Option<String>,
    /// Always null.
    pub stderr: Option<String>,
}

/// The params of `command/exec/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    /// The id of the process.
    pub process_id: String,
    /// The bytes to write.
    pub chunk: ByteChunk,
}

/// The result of `command/exec/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteResponse {
    /// Always true.
    pub accepted: bool,
}

/// The params of `command/exec/terminate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateParams {
    /// The id of the process.
    pub process_id: String,
}

/// The result of `command/exec/terminate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TerminateResponse {
    /// Whether it was running.
    pub running: bool,
}

/// The source of output; that of a terminal is `stdout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecOutputStream {
    /// Standard output, or the terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The params of `command/exec/outputDelta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecOutputDeltaNotification {
    /// The id of the process.
    pub process_id: String,
    /// The output stream.
    pub stream: ExecOutputStream,
    /// The bytes it wrote.
    pub chunk: ByteChunk,
}

/// The params of `command/exec/exited`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecExitedNotification {
    /// The id of the process.
    pub process_id: String,
    /// The exit code.
    pub exit_code: i32,
}
