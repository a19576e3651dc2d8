//! What to run: says nothing about who asked or how it was encoded.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Signal;
use super::tree::TreeMember;
use crate::files::RootedPath;
use crate::limits::OnOutputLimit;
use crate::sandbox::{Confinement, Denial};

/// Names one process within one engine. Opaque to everyone else.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub String);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A program and its arguments, or a line for the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Executed as it stands; the first element is looked up in `PATH`.
    Argv(Vec<String>),
    /// Handed to `sh -c`, or `sh -lc` for a login shell.
    Shell {
        /// The text the shell interprets.
        line: String,
        /// Whether the shell reads the login profile first.
        login: bool,
    },
}

impl Program {
    /// The arguments as the kernel gets them.
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

/// What the process finds on its standard input. A terminal's process always reads from the terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// A pipe that stays open until somebody closes it.
    #[default]
    Open,
    /// A pipe that holds these bytes and then ends.
    Given(Bytes),
    /// Nothing: reads end at once.
    Empty,
}

/// How much a process may write, and what happens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimit {
    /// Bytes of all streams together.
    pub bytes: u64,
    /// What happens at the limit.
    pub then: OnOutputLimit,
}

/// Everything there is to say about a process before it runs.
#[derive(Debug)]
pub struct ProcessSpec {
    /// What to execute.
    pub program: Program,
    /// What the program is told that it is called, if that is not its own name.
    pub arg0: Option<String>,
    /// Where. Opened when the child is made, so that nobody can swap it in between.
    pub cwd: RootedPath,
    /// The whole environment, already filtered.
    pub env: Vec<(OsString, OsString)>,
    /// A terminal of this size, or pipes.
    pub terminal: Option<TerminalSize>,
    /// What it reads.
    pub stdin: Stdin,
    /// When its tree is ended.
    pub stop_after: Option<Duration>,
    /// How much it may write.
    pub output_limit: Option<OutputLimit>,
    /// Who asked, for listings: the face's name.
    pub origin: Cow<'static, str>,
    /// What it may touch; without one, whatever its user may.
    pub confinement: Option<Arc<Confinement>>,
}

/// Where output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A terminal, which knows only one.
    Terminal,
}

/// How the leader of a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(Signal),
}

/// Why a process ended, as far as the engine had a hand in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCause {
    /// It ended by itself, or by something outside the engine.
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

/// The last fact about a process: nothing follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSummary {
    /// How its leader ended.
    pub exit: ExitStatus,
    /// Why.
    pub cause: ExitCause,
    /// From start to the leader's end.
    pub duration: Duration,
    /// Bytes written to standard output or the terminal.
    pub stdout_bytes: u64,
    /// Bytes written to standard error.
    pub stderr_bytes: u64,
    /// Bytes discarded because the output limit was reached and the process went on.
    pub truncated_bytes: u64,
    /// Processes that still held the output open when the engine stopped waiting for them.
    pub held_by: Vec<TreeMember>,
    /// Processes and threads it could not make because it had as many as it may.
    pub processes_refused: u64,
    /// What its confinement refused, if that is why it failed, as far as can be told.
    pub denied: Option<Denial>,
}
