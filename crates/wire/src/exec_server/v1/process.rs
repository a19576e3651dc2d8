//! Processes: start, output, input, signals and exit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::FileSystemSandboxContext;
use crate::exec_server::ByteChunk;

/// Starts a process.
pub const PROCESS_START: &str = "process/start";
/// Reads the kept output of a process and its state.
pub const PROCESS_READ: &str = "process/read";
/// Writes to the input or terminal of a process.
pub const PROCESS_WRITE: &str = "process/write";
/// Ends a process.
pub const PROCESS_TERMINATE: &str = "process/terminate";
/// Interrupts a process.
pub const PROCESS_SIGNAL: &str = "process/signal";
/// Output of a process.
pub const PROCESS_OUTPUT: &str = "process/output";
/// The exit of a process.
pub const PROCESS_EXITED: &str = "process/exited";
/// The end of the output: the last event.
pub const PROCESS_CLOSED: &str = "process/closed";

/// The params of `process/start`. Members that are not here are ignored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecParams {
    /// The id that the client chooses, unique in the session.
    pub process_id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The working directory: a native path or a `file:` URI.
    pub cwd: String,
    /// How the server's environment is used; not at all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_policy: Option<ExecEnvPolicy>,
    /// Variables that are always set.
    pub env: BTreeMap<String, String>,
    /// Whether it has a terminal.
    pub tty: bool,
    /// Whether standard input is a pipe that can be written to.
    #[serde(default)]
    pub pipe_stdin: bool,
    /// The value of `argv[0]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arg0: Option<String>,
    /// The sandbox of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<FileSystemSandboxContext>,
    /// Whether the network is reached only through a proxy that the client manages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_managed_network: Option<bool>,
}

/// How a process's environment is made from the server's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecEnvPolicy {
    /// The variables to start with.
    pub inherit: EnvInherit,
    /// Whether to keep variables whose names look like secrets.
    pub ignore_default_excludes: bool,
    /// Patterns of names to remove.
    pub exclude: Vec<String>,
    /// Variables to set after that.
    pub r#set: BTreeMap<String, String>,
    /// Patterns of names to keep; empty means all.
    pub include_only: Vec<String>,
}

/// The variables that an environment starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvInherit {
    /// A few well-known names.
    Core,
    /// Everything is allowed.
    All,
    /// No access.
    None,
}

/// The result of `process/start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecResponse {
    /// The id from the request.
    pub process_id: String,
    /// The kind of sandbox: `none`, `linuxSeccomp` or that of another system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_type: Option<String>,
}

/// The params of `process/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadParams {
    /// The id of the process.
    pub process_id: String,
    /// Only events with a higher number.
    #[serde(default)]
    pub after_seq: Option<u64>,
    /// The largest number of bytes; the first chunk is always complete.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// The time limit for new events.
    #[serde(default)]
    pub wait_ms: Option<u64>,
}

/// The result of `process/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadResponse {
    /// Output, oldest first.
    pub chunks: Vec<ProcessOutputChunk>,
    /// The next number.
    pub next_seq: u64,
    /// Whether the process exited.
    pub exited: bool,
    /// The new text.
    pub exit_code: Option<i32>,
    /// Whether this is the end.
    pub closed: bool,
    /// Why the process failed.
    pub failure: Option<String>,
    /// Whether its sandbox seems to have denied an access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_denied: Option<bool>,
    /// An extension: the position in all output, sent only if earlier output was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_offset: Option<u64>,
}

/// A numbered chunk of output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessOutputChunk {
    /// The number of the event in the process, from 1.
    pub seq: u64,
    /// The output stream.
    pub stream: ExecOutputStream,
    /// The bytes of the chunk.
    pub chunk: ByteChunk,
    /// An extension: the position in all output, sent only if earlier output was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_offset: Option<u64>,
}

/// The source of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecOutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The terminal.
    Pty,
}

impl ExecOutputStream {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ExecOutputStream::Stdout => "stdout",
            ExecOutputStream::Stderr => "stderr",
            ExecOutputStream::Pty => "pty",
        }
    }
}

/// The params of `process/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    /// The id of the process.
    pub process_id: String,
    /// The bytes to write.
    pub chunk: ByteChunk,
    /// The id that the client chooses; a second write with it is not performed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_id: Option<String>,
}

/// The result of `process/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteResponse {
    /// The result or the error.
    pub status: WriteStatus,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteStatus {
    /// The bytes will be written.
    Accepted,
    /// The process does not exist.
    UnknownProcess,
    /// The input is closed.
    StdinClosed,
    /// The process is being started.
    Starting,
}

/// The params of `process/terminate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateParams {
    /// The id of the process.
    pub process_id: String,
}

/// The result of `process/terminate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TerminateResponse {
    /// Whether it was running.
    pub running: bool,
}

/// The params of `process/signal`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalParams {
    /// The id of the process.
    pub process_id: String,
    /// Which signal.
    pub signal: ProcessSignal,
}

/// A signal that can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessSignal {
    /// As Ctrl-C does.
    Interrupt,
}

/// The params of `process/output`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecOutputDeltaNotification {
    /// The id of the process.
    pub process_id: String,
    /// The number of the event in the process, from 1.
    pub seq: u64,
    /// The output stream.
    pub stream: ExecOutputStream,
    /// The bytes it wrote.
    pub chunk: ByteChunk,
    /// An extension: the position in all output, sent only if earlier output was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_offset: Option<u64>,
}

/// The params of `process/exited`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecExitedNotification {
    /// The id of the process.
    pub process_id: String,
    /// The number of the event in the process.
    pub seq: u64,
    /// The exit code; 128 plus the number of the signal if it was killed.
    pub exit_code: i32,
    /// Whether its sandbox seems to have denied an access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_denied: Option<bool>,
}

/// The params of `process/closed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecClosedNotification {
    /// The id of the process.
    pub process_id: String,
    /// The number of the last event of the process.
    pub seq: u64,
    /// An extension: the position in all output, sent only if earlier output was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_offset: Option<u64>,
}
