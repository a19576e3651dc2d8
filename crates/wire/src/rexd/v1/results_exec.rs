//! Results of `exec.*` and `pty.*`.

use serde::{Deserialize, Serialize};

/// The result of `exec.start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecStartResult {
    /// The process.
    pub process_id: String,
    /// When it was started.
    pub started_at: String,
}

/// The result of `exec.wait`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecWaitResult {
    /// `running`, `exited`, `killed` or `timed_out`.
    pub status: String,
    /// -1 when a signal ended it; `null` while it runs.
    pub exit_code: Option<i64>,
    /// `KILL`, `TERM`…
    pub signal: Option<String>,
    /// Bytes of standard output so far.
    pub bytes_stdout: u64,
    /// Bytes of standard error so far.
    pub bytes_stderr: u64,
}

/// The result of `exec.kill`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecKillResult {
    /// Whether a process was running.
    pub ok: bool,
    /// The processes that ended.
    #[serde(default)]
    pub killed: Vec<KilledProcess>,
    /// The processes that did not end in time.
    #[serde(default)]
    pub left: Vec<KilledProcess>,
    /// Whether processes that cannot be found may still run: the tree is not in a cgroup. Left out when false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// One process of a killed tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KilledProcess {
    /// The process id.
    pub pid: i64,
    /// Its name.
    pub name: String,
}

/// The result of `exec.input` and `pty.input`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcceptedResult {
    /// The accepted bytes, after decoding.
    pub accepted_bytes: u64,
}

/// The result of `exec.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecListResult {
    /// The processes of this daemon and the user's keepers.
    pub processes: Vec<ListedProcess>,
    /// Whether there are more than fit into the client's frame; running and newer ones are listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// One process of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListedProcess {
    /// The process.
    pub process_id: String,
    /// Its name, if it was started with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its terminal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty_id: Option<String>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The working directory.
    pub cwd: String,
    /// The process id, once it has one.
    pub pid: Option<i64>,
    /// `running`, `exited`, `killed` or `timed_out`.
    pub status: String,
    /// `null` while it runs.
    pub exit_code: Option<i64>,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// When it was started.
    pub started_at: String,
    /// Whether it outlives its session.
    pub detached: bool,
    /// The face it was started through.
    pub face: String,
    /// The end of its log.
    pub cursor: u64,
    /// Whether `argv` was shortened to fit into the client's frame.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub argv_truncated: bool,
}

/// The result of `exec.prune`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecPruneResult {
    /// The processes whose logs were removed.
    pub removed: Vec<String>,
}

/// The result of `exec.attach`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecAttachResult {
    /// The process.
    pub process_id: String,
    /// Its terminal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty_id: Option<String>,
    /// `running`, `exited`, `killed` or `timed_out`.
    pub status: String,
    /// `null` while it runs.
    pub exit_code: Option<i64>,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// The position at which the events continue.
    pub cursor: u64,
    /// The dropped bytes before it.
    pub lost: u64,
    /// The screen of the terminal at `cursor`, if the request wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<TerminalScreen>,
}

/// The screen of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalScreen {
    /// Its columns.
    pub cols: u16,
    /// Its rows.
    pub rows: u16,
    /// Escape sequences that show it on a terminal of this size.
    pub text: String,
}

/// The result of `pty.open`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PtyOpenResult {
    /// The terminal.
    pub pty_id: String,
    /// The process in it.
    pub process_id: String,
    /// When it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
}
