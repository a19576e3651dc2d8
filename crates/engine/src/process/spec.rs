//! The specification of a process, independent of the caller and of any encoding.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Signal;
use super::side_channel::SidePipes;
use super::tree::TreeMember;
use crate::files::RootedPath;
use crate::limits::OnOutputLimit;
use crate::sandbox::{Confinement, Denial};

/// The id of a process within one engine. Opaque to callers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub String);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A program and its arguments, or a command line for the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Executed directly; the first element is searched in `PATH`.
    Argv(Vec<String>),
    /// Passed to `sh -c`, or `sh -lc` for a login shell.
    Shell {
        /// The text the shell interprets.
        line: String,
        /// Whether the shell reads the login profile first.
        login: bool,
    },
}

impl Program {
    /// The arguments as passed to the kernel.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Program::Argv(argv) => argv.clone(),
            Program::Shell { line, login } => {
                let flag = if *login { "-lc" } else { "-c" };
                vec!["sh".to_owned(), flag.to_owned(), line.clone()]
            }
        }
    }
}

/// Columns and rows of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters in a line.
    pub cols: u16,
    /// Lines on the screen.
    pub rows: u16,
}

/// Standard input of the process. A process with a terminal always reads from the terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// A pipe that stays open until a client closes it.
    #[default]
    Open,
    /// A pipe that holds these bytes and then ends.
    Given(Bytes),
    /// `/dev/null`: reads return the end of the file.
    Empty,
}

/// The output limit of a process, and what happens when it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimit {
    /// Bytes of all streams together.
    pub bytes: u64,
    /// What happens at the limit.
    pub then: OnOutputLimit,
}

/// The specification of a process that is to be started.
#[derive(Debug)]
pub struct ProcessSpec {
    /// The program to execute.
    pub program: Program,
    /// The first argument as the program sees it, if that is not its own name.
    pub arg0: Option<String>,
    /// The name that its user gave it. The caller ensures that it is unique.
    pub name: Option<String>,
    /// The working directory. Opened when the child is created, so that it cannot be swapped in between.
    pub cwd: RootedPath,
    /// The whole environment, already filtered.
    pub env: Vec<(OsString, OsString)>,
    /// A terminal of this size, or pipes.
    pub terminal: Option<TerminalSize>,
    /// Its standard input.
    pub stdin: Stdin,
    /// Whether standard error is the pipe of standard output, so that lines keep the order in which they were written. A
    /// terminal always has one stream.
    pub merges_stderr: bool,
    /// Two more pipes, for a program that the caller controls.
    pub side_pipes: Option<Arc<SidePipes>>,
    /// Time between TERM and KILL when its session ends, if it is not that of every process; zero for a program that
    /// ignores TERM.
    pub end_grace: Option<Duration>,
    /// The time after which its tree is killed.
    pub stop_after: Option<Duration>,
    /// How many bytes it may write.
    pub output_limit: Option<OutputLimit>,
    /// Whether its output is read as text: the beginning of a character waits up to 5 ms for the rest of it. Otherwise
    /// every byte is passed on at once.
    pub is_text: bool,
    /// The name of the face that started it, for listings.
    pub origin: Cow<'static, str>,
    /// Its sandbox; without one it may do all that its user may.
    pub confinement: Option<Arc<Confinement>>,
}

/// The stream that output was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A terminal, which has only one stream.
    Terminal,
}

/// How the leader of a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this status.
    Code(i32),
    /// It was killed by this signal.
    Signal(Signal),
}

/// Why a process ended, as far as the engine caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCause {
    /// It ended by itself, or for a reason outside the engine.
    Itself,
    /// It was killed on request.
    Killed,
    /// It reached its timeout.
    TimedOut,
    /// It exceeded its output limit.
    OutputLimit,
    /// It exceeded its memory limit.
    MemoryLimit,
}

/// The last entry of the log of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSummary {
    /// How its leader ended.
    pub exit: ExitStatus,
    /// Why the process ended.
    pub cause: ExitCause,
    /// Time from the start to the exit of the leader.
    pub duration: Duration,
    /// Bytes written to standard output or the terminal.
    pub stdout_bytes: u64,
    /// Bytes written to standard error.
    pub stderr_bytes: u64,
    /// Bytes dropped because the output limit was reached and the process continued.
    pub truncated_bytes: u64,
    /// Processes that still held the output open when the process was closed.
    pub held_by: Vec<TreeMember>,
    /// Processes and threads that could not be created because of the process limit.
    pub processes_refused: u64,
    /// The denial of its sandbox that probably made it fail.
    pub denied: Option<Denial>,
}
