//! exec-server v0: commands that belong to their connection.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ByteChunk;

/// The version that `initialize` names.
pub const PROTOCOL_VERSION: &str = "exec-server.v0";

/// Methods and notifications.
pub mod method {
    /// Starts a process.
    pub const EXEC: &str = "command/exec";
    /// Writes to its terminal.
    pub const WRITE: &str = "command/exec/write";
    /// Ends it.
    pub const TERMINATE: &str = "command/exec/terminate";
    /// Output of it.
    pub const OUTPUT_DELTA: &str = "command/exec/outputDelta";
    /// Its end.
    pub const EXITED: &str = "command/exec/exited";
}

/// Params of `command/exec`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecParams {
    /// What the caller calls it, within the connection.
    pub process_id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where.
    pub cwd: String,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Whether it has a terminal; without one its standard input is empty.
    pub tty: bool,
    /// What the server may keep of each stream; it limits nothing that is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes_cap: Option<u64>,
    /// What the program is told that it is called.
    #[serde(default)]
    pub arg0: Option<String>,
}

/// Result of `command/exec`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecResponse {
    /// As in the request.
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

/// Params of `command/exec/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    /// Which process.
    pub process_id: String,
    /// What to write.
    pub chunk: ByteChunk,
}

/// Result of `command/exec/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteResponse {
    /// Always true.
    pub accepted: bool,
}

/// Params of `command/exec/terminate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateParams {
    /// Which process.
    pub process_id: String,
}

/// Result of `command/exec/terminate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TerminateResponse {
    /// Whether it was running.
    pub running: bool,
}

/// Where output came from; that of a terminal is `stdout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecOutputStream {
    /// Standard output, or the terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Params of `command/exec/outputDelta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecOutputDeltaNotification {
    /// Which process.
    pub process_id: String,
    /// Which stream.
    pub stream: ExecOutputStream,
    /// What it wrote.
    pub chunk: ByteChunk,
}

/// Params of `command/exec/exited`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecExitedNotification {
    /// Which process.
    pub process_id: String,
    /// Its status.
    pub exit_code: i32,
}
