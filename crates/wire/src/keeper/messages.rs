//! The messages of the keeper's socket, as plain data. What version 1 and 2 have in common is all but `output`.

use serde::{Deserialize, Serialize};

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum KeeperRequest {
    /// The first line: the highest version the client speaks.
    Hello {
        /// Repeated in the answer.
        id: u64,
        /// That version.
        version: u32,
    },
    /// Everything from a place in the log on. Nothing else can be asked on this connection afterwards.
    Attach {
        /// Repeated in the answer.
        id: u64,
        /// That place; one behind the end means the end.
        cursor: u64,
    },
    /// Bytes for the process to read.
    Input {
        /// Repeated in the answer.
        id: u64,
        /// The bytes as base64.
        data: String,
        /// Whether nothing follows.
        #[serde(default)]
        eof: bool,
    },
    /// Another size for the terminal; 0 keeps a side as it is.
    Resize {
        /// Repeated in the answer.
        id: u64,
        /// Characters in a line.
        cols: u16,
        /// Lines on the screen.
        rows: u16,
    },
    /// A signal for the tree or the group.
    Kill {
        /// Repeated in the answer.
        id: u64,
        /// Its number.
        signal: i32,
    },
    /// What is known about the process.
    Status {
        /// Repeated in the answer.
        id: u64,
    },
}

impl KeeperRequest {
    /// What its answer repeats.
    pub fn id(&self) -> u64 {
        match self {
            KeeperRequest::Hello { id, .. }
            | KeeperRequest::Attach { id, .. }
            | KeeperRequest::Input { id, .. }
            | KeeperRequest::Resize { id, .. }
            | KeeperRequest::Kill { id, .. }
            | KeeperRequest::Status { id } => *id,
        }
    }
}

/// What a keeper says: answers, and after an attach what happens to the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum KeeperMessage {
    /// The version that is used from now on.
    Hello {
        /// The request's.
        id: u64,
        /// That version.
        version: u32,
    },
    /// The log follows.
    Attached {
        /// The request's.
        id: u64,
        /// Where it begins.
        cursor: u64,
    },
    /// Input was taken.
    Accepted {
        /// The request's.
        id: u64,
        /// How much.
        bytes: u64,
    },
    /// The terminal has its new size.
    Resized {
        /// The request's.
        id: u64,
    },
    /// The signal had its effect.
    Killed {
        /// The request's.
        id: u64,
        /// Who was alive and is gone.
        killed: Vec<TreeMember>,
        /// Who is still there.
        left: Vec<TreeMember>,
    },
    /// What is known about the process.
    Status {
        /// The request's.
        id: u64,
        /// The number of its leader.
        pid: Option<i32>,
        /// Where its log ends.
        end: u64,
        /// How its leader ended.
        #[serde(default)]
        exit: Option<LeaderExit>,
        /// The last fact, once there is one.
        #[serde(default)]
        closed: Option<CloseReport>,
    },
    /// The request could not be done.
    Error {
        /// The request's.
        id: u64,
        /// Why, for programs.
        kind: FailureKind,
        /// Why, for people.
        message: String,
    },
    /// Output; the bytes are in `data` (version 1) or follow the line, `bytes` of them (version 2).
    Output {
        /// Where it starts.
        start: u64,
        /// Where it came from.
        stream: OutputStream,
        /// The bytes as base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// How many bytes follow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<usize>,
    },
    /// Output before `next` is gone.
    Lost {
        /// How much.
        bytes: u64,
        /// Where it goes on.
        next: u64,
    },
    /// The leader has ended.
    Exited {
        /// How.
        exit: LeaderExit,
    },
    /// Nothing follows.
    Closed(CloseReport),
}

/// Why a request could not be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The process ended before it took the command.
    Gone,
    /// Standard input is closed.
    InputClosed,
    /// As many are served as can be.
    Busy,
    /// The request makes no sense here.
    Invalid,
    /// Anything else, also what a newer keeper may say.
    #[serde(other)]
    Failed,
}

/// Where output came from.
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

/// How a leader ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaderExit {
    /// With this status.
    Code(i32),
    /// By the signal of this number.
    Signal(i32),
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseCause {
    /// By itself, or by something outside.
    Itself,
    /// Somebody asked for its end.
    Killed,
    /// Its time was up.
    TimedOut,
    /// It wrote more than it may.
    OutputLimit,
    /// It used more memory than it may.
    MemoryLimit,
}

/// The last fact about a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseReport {
    /// How its leader ended.
    pub exit: LeaderExit,
    /// Why.
    pub cause: CloseCause,
    /// From start to the leader's end.
    pub duration_ms: u64,
    /// Bytes of standard output or the terminal.
    pub stdout_bytes: u64,
    /// Bytes of standard error.
    pub stderr_bytes: u64,
    /// Bytes discarded at the output limit.
    #[serde(default)]
    pub truncated_bytes: u64,
    /// Processes it could not make because it had as many as it may.
    #[serde(default)]
    pub processes_refused: u64,
    /// Who still held the output open.
    #[serde(default)]
    pub held_by: Vec<TreeMember>,
    /// What its confinement refused, if it failed at that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<DenialReport>,
}

/// Something a process failed at because of its confinement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenialReport {
    /// The path it was about, where one is known.
    pub path: Option<String>,
    /// What was refused.
    pub what: DeniedAccess,
}

/// What a confinement refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedAccess {
    /// Changing a file.
    Write,
    /// Reading or executing a file.
    Read,
    /// Reaching the network.
    Network,
    /// A system call.
    Call,
}

/// One process of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeMember {
    /// Its number.
    pub pid: i32,
    /// Its short name.
    pub name: String,
}
