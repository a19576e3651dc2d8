//! Results of `exec.*` and `pty.*`.

use serde::{Deserialize, Serialize};

/// `exec.start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecStartResult {
    /// The process.
    pub process_id: String,
    /// When it was started.
    pub started_at: String,
}

/// `exec.wait`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecWaitResult {
    /// `running`, `exited`, `killed` or `timed_out`.
    pub status: String,
    /// -1 when a signal ended it; `null` while it runs.
    pub exit_code: Option<i64>,
    /// `KILL`, `TERM`…
    pub signal: Option<String>,
    /// Written to its output so far.
    pub bytes_stdout: u64,
    /// Written to its error output so far.
    pub bytes_stderr: u64,
}

/// `exec.kill`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecKillResult {
    /// Whether there was anything to end.
    pub ok: bool,
    /// Who died.
    #[serde(default)]
    pub killed: Vec<KilledProcess>,
    /// Who did not, in time.
    #[serde(default)]
    pub left: Vec<KilledProcess>,
}

/// One process of a killed tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KilledProcess {
    /// Its number.
    pub pid: i64,
    /// Its name.
    pub name: String,
}

/// `exec.input` and `pty.input`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcceptedResult {
    /// Bytes taken, after decoding.
    pub accepted_bytes: u64,
}

/// `exec.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecListResult {
    /// Every process this daemon and the user's keepers know.
    pub processes: Vec<ListedProcess>,
}

/// One process of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListedProcess {
    /// The process.
    pub process_id: String,
    /// Its terminal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty_id: Option<String>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where it runs.
    pub cwd: String,
    /// Its number, once it has one.
    pub pid: Option<i64>,
    /// `running`, `exited`, `killed` or `timed_out`.
    pub status: String,
    /// `null` while it runs.
    pub exit_code: Option<i64>,
    /// What ended it.
    pub signal: Option<String>,
    /// When it was started.
    pub started_at: String,
    /// Whether it outlives its session.
    pub detached: bool,
    /// Through which face it was started.
    pub face: String,
    /// The end of its log.
    pub cursor: u64,
}

/// `exec.attach`.
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
    /// What ended it.
    pub signal: Option<String>,
    /// From where the events go on.
    pub cursor: u64,
    /// How much before that is gone.
    pub lost: u64,
}

/// `pty.open`.
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
