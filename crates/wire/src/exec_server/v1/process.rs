//! Processes: starting, reading, writing, ending.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::FileSystemSandboxContext;
use crate::exec_server::ByteChunk;

/// Starts a process.
pub const PROCESS_START: &str = "process/start";
/// Reads what is kept of its output, and its state.
pub const PROCESS_READ: &str = "process/read";
/// Writes to its standard input or terminal.
pub const PROCESS_WRITE: &str = "process/write";
/// Ends it.
pub const PROCESS_TERMINATE: &str = "process/terminate";
/// Interrupts it.
pub const PROCESS_SIGNAL: &str = "process/signal";
/// Output of it.
pub const PROCESS_OUTPUT: &str = "process/output";
/// The end of its leader.
pub const PROCESS_EXITED: &str = "process/exited";
/// The end of its output: nothing follows.
pub const PROCESS_CLOSED: &str = "process/closed";

/// Params of `process/start`. Members that are not here are ignored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecParams {
    /// What the caller calls it, within the session.
    pub process_id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where: a native path or a `file:` URI.
    pub cwd: String,
    /// How the server's own environment is used; without it not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_policy: Option<ExecEnvPolicy>,
    /// Variables that hold in any case.
    pub env: BTreeMap<String, String>,
    /// Whether it has a terminal.
    pub tty: bool,
    /// Whether standard input is a pipe that can be written to.
    #[serde(default)]
    pub pipe_stdin: bool,
    /// What the program is told that it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arg0: Option<String>,
    /// What confines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<FileSystemSandboxContext>,
    /// Whether all network must go through a proxy that the client manages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce_managed_network: Option<bool>,
}

/// How a process's environment is made from the server's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecEnvPolicy {
    /// What is taken over to begin with.
    pub inherit: EnvInherit,
    /// Whether names that look like secrets stay.
    pub ignore_default_excludes: bool,
    /// Patterns of names that go.
    pub exclude: Vec<String>,
    /// Variables that are set then.
    pub r#set: BTreeMap<String, String>,
    /// Patterns of names that stay at all; none means all.
    pub include_only: Vec<String>,
}

/// What a process's environment begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvInherit {
    /// A handful of well-known names.
    Core,
    /// Everything.
    All,
    /// Nothing.
    None,
}

/// Result of `process/start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecResponse {
    /// As in the request.
    pub process_id: String,
    /// What confines it: `none`, `linuxSeccomp` or the word of another system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_type: Option<String>,
}

/// Params of `process/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadParams {
    /// Which process.
    pub process_id: String,
    /// Only what has a higher number.
    #[serde(default)]
    pub after_seq: Option<u64>,
    /// How much at most; the first chunk comes whole in any case.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// How long to wait for something.
    #[serde(default)]
    pub wait_ms: Option<u64>,
}

/// Result of `process/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadResponse {
    /// Output, oldest first.
    pub chunks: Vec<ProcessOutputChunk>,
    /// What to read from next.
    pub next_seq: u64,
    /// Whether its leader ended.
    pub exited: bool,
    /// With what.
    pub exit_code: Option<i32>,
    /// Whether nothing follows.
    pub closed: bool,
    /// What went wrong with it.
    pub failure: Option<String>,
    /// Whether its sandbox seems to have been in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_denied: Option<bool>,
    /// Ours: where in all its output this is, said only if some before it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_offset: Option<u64>,
}

/// A piece of output with its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessOutputChunk {
    /// Its number among all facts of the process, from 1.
    pub seq: u64,
    /// Where it came from.
    pub stream: ExecOutputStream,
    /// What was written.
    pub chunk: ByteChunk,
    /// Ours: where in all its output this is, said only if some before it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_offset: Option<u64>,
}

/// Where output came from.
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
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ExecOutputStream::Stdout => "stdout",
            ExecOutputStream::Stderr => "stderr",
            ExecOutputStream::Pty => "pty",
        }
    }
}

/// Params of `process/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    /// Which process.
    pub process_id: String,
    /// What to write.
    pub chunk: ByteChunk,
    /// What the caller calls this write: a second one of the same name is not done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_id: Option<String>,
}

/// Result of `process/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteResponse {
    /// What came of it.
    pub status: WriteStatus,
}

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteStatus {
    /// It will be written.
    Accepted,
    /// There is no such process.
    UnknownProcess,
    /// Nobody reads there.
    StdinClosed,
    /// It does not run yet.
    Starting,
}

/// Params of `process/terminate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateParams {
    /// Which process.
    pub process_id: String,
}

/// Result of `process/terminate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TerminateResponse {
    /// Whether it was running.
    pub running: bool,
}

/// Params of `process/signal`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalParams {
    /// Which process.
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

/// Params of `process/output`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecOutputDeltaNotification {
    /// Which process.
    pub process_id: String,
    /// Its number among all facts of the process, from 1.
    pub seq: u64,
    /// Which stream.
    pub stream: ExecOutputStream,
    /// What it wrote.
    pub chunk: ByteChunk,
    /// Ours: where in all its output this is, said only if some before it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_offset: Option<u64>,
}

/// Params of `process/exited`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecExitedNotification {
    /// Which process.
    pub process_id: String,
    /// Its number among all facts of the process.
    pub seq: u64,
    /// The status; 128 and the signal's number for one that was killed.
    pub exit_code: i32,
    /// Whether its sandbox seems to have been in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_denied: Option<bool>,
}

/// Params of `process/closed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecClosedNotification {
    /// Which process.
    pub process_id: String,
    /// Its number among all facts of the process: the last one.
    pub seq: u64,
    /// Ours: where in all its output this is, said only if some before it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_offset: Option<u64>,
}
