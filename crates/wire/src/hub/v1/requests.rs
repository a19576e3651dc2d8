//! `rpc.*` requests of apps to a host, their results, and `rpc.response`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The names of the requests.
pub mod rpc {
    /// Read a file.
    pub const FS_READ: &str = "rpc.fs.read";
    /// Search in files.
    pub const FS_SEARCH: &str = "rpc.fs.search";
    /// List a directory.
    pub const FS_LIST: &str = "rpc.fs.list";
    /// Write a file, after approval.
    pub const FS_WRITE: &str = "rpc.fs.write";
    /// Run a command, after approval.
    pub const BASH: &str = "rpc.bash";
    /// The state of the git work tree.
    pub const GIT_STATUS: &str = "rpc.git.status";
    /// Changes in the git work tree.
    pub const GIT_DIFF: &str = "rpc.git.diff";
    /// Start a run.
    pub const RUN_START: &str = "rpc.run.start";
    /// Stop a run.
    pub const RUN_STOP: &str = "rpc.run.stop";
    /// The screen of a run's terminal.
    pub const RUN_SCREEN: &str = "rpc.run.screen";
    /// The runs of a host.
    pub const RUNS_LIST: &str = "rpc.runs.list";
    /// The true text of a pending request for permission.
    pub const APPROVAL_SHOW: &str = "rpc.approval.show";
    /// The machine.
    pub const HOST_INFO: &str = "rpc.host.info";
    /// Checks of the machine.
    pub const HOST_DOCTOR: &str = "rpc.host.doctor";
    /// What the host supports.
    pub const HOST_CAPABILITIES: &str = "rpc.host.capabilities";
    /// The end of the host's log.
    pub const HOST_LOGS_TAIL: &str = "rpc.host.logs.tail";
    /// The directories of the host in which a run may start.
    pub const HOST_DIRECTORIES: &str = "rpc.host.directories";

    /// Every request, in the order of `rpc.host.capabilities`.
    pub const ALL: [&str; 17] = [
        FS_READ,
        FS_SEARCH,
        FS_LIST,
        FS_WRITE,
        BASH,
        GIT_STATUS,
        GIT_DIFF,
        RUN_START,
        RUN_STOP,
        RUN_SCREEN,
        RUNS_LIST,
        APPROVAL_SHOW,
        HOST_INFO,
        HOST_DOCTOR,
        HOST_CAPABILITIES,
        HOST_LOGS_TAIL,
        HOST_DIRECTORIES,
    ];

    /// Whether a request goes to the host in its `data.host_id`, not to the host of a run.
    pub fn is_for_host(name: &str) -> bool {
        let is_about_host =
            matches!(name, HOST_INFO | HOST_DOCTOR | HOST_CAPABILITIES | HOST_LOGS_TAIL | HOST_DIRECTORIES);
        is_about_host || name == RUN_START
    }
}

/// What every request has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcHeader {
    /// The id, repeated in the response. A repeated request runs once.
    #[serde(default)]
    pub request_id: String,
    /// The host, for requests without a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    /// `web`, `cli` or `system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The user, set by the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// The data of `rpc.response`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcResponse {
    /// The request.
    pub request_id: String,
    /// Whether it succeeded.
    pub ok: bool,
    /// The name of the request.
    pub rpc_type: String,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `rpc.fs.list`, `rpc.git.diff` and `rpc.host.directories`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathParams {
    /// Relative to the working directory of the run; absolute for `rpc.host.directories`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// The data of `rpc.git.diff`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitDiff {
    /// A file or directory, relative to the working directory of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The changes in the index, not those of the work tree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub staged: bool,
}

/// The result of `rpc.host.directories`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoriesResult {
    /// The directory of the request; absent if it named none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Absolute paths: the directories in it, or the roots.
    pub directories: Vec<String>,
    /// Whether there are more.
    pub truncated: bool,
}

/// The data of `rpc.fs.read`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsRead {
    /// Relative to the working directory of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `base64` for bytes; text without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// The first byte; 0 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

/// The result of `rpc.fs.read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsReadResult {
    /// The path of the request.
    pub path: String,
    /// The text, or the bytes in the encoding of the request.
    pub content: String,
    /// Whether the file is longer.
    pub truncated: bool,
}

/// The data of `rpc.fs.search`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsSearch {
    /// A regular expression.
    #[serde(default)]
    pub q: String,
}

/// The result of `rpc.fs.search`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsSearchResult {
    /// The matching lines.
    pub matches: Vec<SearchMatch>,
    /// Whether there are more.
    pub truncated: bool,
}

/// One line that matches a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchMatch {
    /// The file, relative to the working directory of the run.
    pub path: String,
    /// The line, from 1.
    pub line: u64,
    /// The column of the match, from 1.
    pub column: u64,
    /// The line's text.
    pub text: String,
}

/// The result of `rpc.fs.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsListResult {
    /// The path of the request.
    pub path: String,
    /// The entries by name.
    pub entries: Vec<DirEntry>,
    /// Whether there are more.
    pub truncated: bool,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// The name.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// The size of a regular file.
    pub size_bytes: Option<u64>,
}

/// The data of `rpc.fs.write`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsWrite {
    /// Relative to the working directory of the run.
    #[serde(default)]
    pub path: String,
    /// The text.
    #[serde(default)]
    pub content: String,
}

/// The result of `rpc.fs.write`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsWriteResult {
    /// The path of the request.
    pub path: String,
    /// The size of the file.
    pub bytes_written: u64,
    /// Always false: a file is written whole or not at all.
    pub truncated: bool,
}

/// The data of `rpc.bash`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bash {
    /// The command.
    #[serde(default)]
    pub cmd: String,
}

/// The result of `rpc.bash`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BashResult {
    /// The end of its standard output.
    pub stdout: String,
    /// The end of its standard error.
    pub stderr: String,
    /// The exit code; 128 plus the signal.
    pub exit_code: i64,
    /// Whether output was cut.
    pub truncated: bool,
}

/// The result of `rpc.git.status` and `rpc.git.diff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitResult {
    /// What git printed.
    pub stdout: String,
    /// Whether it was cut.
    pub truncated: bool,
}

/// The data of `rpc.run.start`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStart {
    /// The tool.
    #[serde(default)]
    pub tool: String,
    /// The command for `bash -lc`; empty starts the tool itself.
    #[serde(default)]
    pub cmd: String,
    /// The working directory; the first root if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Additional variables. Sent by our clients.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub env: std::collections::BTreeMap<String, String>,
    /// The size of the terminal. Sent by our clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// The size of the terminal. Sent by our clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
}

/// The result of `rpc.run.start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStartResult {
    /// The run.
    pub run_id: String,
}

/// The result of `rpc.run.screen`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunScreenResult {
    /// The last event that the screen contains.
    pub seq: i64,
    /// The columns.
    pub cols: u16,
    /// The rows.
    pub rows: u16,
    /// The screen as escape sequences.
    pub text: String,
}

/// The result of `rpc.runs.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunsListResult {
    /// The running ones.
    pub runs: Vec<RunSummary>,
}

/// One run of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run.
    pub run_id: String,
    /// The process id.
    pub pid: Option<i64>,
    /// The tool.
    pub tool: String,
    /// The working directory.
    pub cwd: String,
    /// Whether it waits for input.
    pub awaiting_input: bool,
    /// The pending request for permission.
    pub pending_request_id: Option<String>,
}

/// The data of `rpc.host.logs.tail`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsTail {
    /// The number of lines: 200, at most 2,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// The number of bytes: 200,000, at most 2,000,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

/// The result of `rpc.host.logs.tail`, and of the hub's `/server/logs/tail`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsTailResult {
    /// The log file.
    pub path: String,
    /// Its last lines.
    pub text: String,
    /// Whether the file is longer than `max_bytes`.
    pub truncated: bool,
}
