//! The messages of the keeper protocol. Versions 1 and 2 differ only in `output`; version 3 adds
//! `terminal` and keys of inputs.

use serde::{Deserialize, Serialize};

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum KeeperRequest {
    /// The first line: the highest version of the client.
    Hello {
        /// The id, repeated in the response.
        id: u64,
        /// The version number.
        version: u32,
    },
    /// Read the log from a position. No other request may follow on this connection.
    Attach {
        /// The id, repeated in the response.
        id: u64,
        /// The position; one after the end means the end.
        cursor: u64,
    },
    /// Input for the process.
    Input {
        /// The id, repeated in the response.
        id: u64,
        /// The bytes as base64.
        data: String,
        /// Whether this is the end.
        #[serde(default)]
        eof: bool,
        /// Takes effect once per key. Older keepers ignore it, so it is sent in version 3 only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Set the size of the terminal; 0 keeps a dimension.
    Resize {
        /// The id, repeated in the response.
        id: u64,
        /// The columns.
        cols: u16,
        /// The rows.
        rows: u16,
    },
    /// Send a signal to the tree or group.
    Kill {
        /// The id, repeated in the response.
        id: u64,
        /// The process id.
        signal: i32,
    },
    /// The state of the process.
    Status {
        /// The id, repeated in the response.
        id: u64,
    },
    /// The state of the terminal; from version 3 on.
    Terminal {
        /// The id, repeated in the response.
        id: u64,
    },
}

impl KeeperRequest {
    /// The id of the request.
    pub fn id(&self) -> u64 {
        match self {
            KeeperRequest::Hello { id, .. }
            | KeeperRequest::Attach { id, .. }
            | KeeperRequest::Input { id, .. }
            | KeeperRequest::Resize { id, .. }
            | KeeperRequest::Kill { id, .. }
            | KeeperRequest::Status { id }
            | KeeperRequest::Terminal { id } => *id,
        }
    }
}

/// A message of a keeper: a response, or an event after an attach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum KeeperMessage {
    /// The negotiated version.
    Hello {
        /// The id of the request.
        id: u64,
        /// The version number.
        version: u32,
    },
    /// The log follows this message.
    Attached {
        /// The id of the request.
        id: u64,
        /// The position of its start.
        cursor: u64,
    },
    /// The input was accepted.
    Accepted {
        /// The id of the request.
        id: u64,
        /// The number of bytes.
        bytes: u64,
        /// Whether an earlier input had this key, so that this one had no effect.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
    /// The terminal was resized.
    Resized {
        /// The id of the request.
        id: u64,
    },
    /// The signal was sent.
    Killed {
        /// The id of the request.
        id: u64,
        /// The processes that ended.
        killed: Vec<TreeMember>,
        /// The processes that are still running.
        left: Vec<TreeMember>,
        /// Whether these are all processes of the tree; false without a cgroup and from older keepers.
        #[serde(default)]
        complete: bool,
    },
    /// The state of the process.
    Status {
        /// The id of the request.
        id: u64,
        /// The process id of the leader.
        pid: Option<i32>,
        /// The end of the log.
        end: u64,
        /// The exit of the leader.
        #[serde(default)]
        exit: Option<LeaderExit>,
        /// The final report, once the process is closed.
        #[serde(default)]
        closed: Option<CloseReport>,
    },
    /// The state of the terminal.
    Terminal {
        /// The id of the request.
        id: u64,
        /// The columns.
        cols: u16,
        /// The rows.
        rows: u16,
        /// Whether it shows what is typed.
        echo: bool,
        /// Whether it delivers input by line.
        canonical: bool,
        /// What its foreground processes wait for; missing if that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait: Option<TerminalWait>,
    },
    /// The request failed.
    Error {
        /// The id of the request.
        id: u64,
        /// The kind of failure.
        kind: FailureKind,
        /// The reason for the user.
        message: String,
    },
    /// Output; the bytes are in `data` (version 1) or follow the line (version 2).
    Output {
        /// The position of the first byte.
        start: u64,
        /// The output stream.
        stream: OutputStream,
        /// The bytes as base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// The number of bytes that follow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<usize>,
    },
    /// The output before `next` was dropped.
    Lost {
        /// The number of bytes.
        bytes: u64,
        /// The position at which the output continues.
        next: u64,
    },
    /// The leader exited.
    Exited {
        /// Its exit.
        exit: LeaderExit,
    },
    /// The last message.
    Closed(CloseReport),
}

/// What the foreground processes of a terminal wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalWait {
    /// One is blocked in a read of the terminal.
    Read,
    /// One waits for several events, input of the terminal among them.
    Poll,
    /// None waits for input of the terminal.
    Elsewhere,
    /// A value of a newer keeper.
    #[serde(other)]
    Unknown,
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The process ended before it took the command.
    Gone,
    /// Standard input is closed.
    InputClosed,
    /// The keeper serves its maximum of connections.
    Busy,
    /// The request is invalid in this state.
    Invalid,
    /// Any other failure, including those of newer keepers.
    #[serde(other)]
    Failed,
}

/// The source of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A terminal.
    Terminal,
}

/// The exit of a leader process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaderExit {
    /// The exit code.
    Code(i32),
    /// The number of the signal.
    Signal(i32),
}

/// The cause of a process's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseCause {
    /// It exited, or another program ended it.
    Itself,
    /// It was ended by a request.
    Killed,
    /// It exceeded its time limit.
    TimedOut,
    /// It exceeded its output limit.
    OutputLimit,
    /// It exceeded its memory limit.
    MemoryLimit,
}

/// The final report of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseReport {
    /// The exit of the leader.
    pub exit: LeaderExit,
    /// The reason.
    pub cause: CloseCause,
    /// The time from start to the exit of the leader.
    pub duration_ms: u64,
    /// Bytes of standard output or the terminal.
    pub stdout_bytes: u64,
    /// Bytes of standard error.
    pub stderr_bytes: u64,
    /// Bytes discarded at the output limit.
    #[serde(default)]
    pub truncated_bytes: u64,
    /// Processes that its limit did not allow it to create.
    #[serde(default)]
    pub processes_refused: u64,
    /// Processes that still held the output open.
    #[serde(default)]
    pub held_by: Vec<TreeMember>,
    /// The access that its sandbox denied, if that made it fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<DenialReport>,
}

/// An access that the sandbox denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenialReport {
    /// The path of the access, if it is known.
    pub path: Option<String>,
    /// The kind of access.
    pub what: DeniedAccess,
}

/// The kinds of denied access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedAccess {
    /// Write access to a file.
    Write,
    /// Read or execute access to a file.
    Read,
    /// Access to the network.
    Network,
    /// A system call.
    Call,
}

/// One process of a process tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeMember {
    /// The process id.
    pub pid: i32,
    /// The command name.
    pub name: String,
}
