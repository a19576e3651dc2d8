//! The events of a process: output, loss of output, errors and its exit.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use wire::rexd::v1;

use crate::error::Error;

/// One event of a process.
#[derive(Debug, Clone)]
pub struct ProcessEvent {
    /// The kind and content of the event.
    pub kind: ProcessEventKind,
    /// The position in the process's output at which the event ends.
    pub cursor: Option<u64>,
    /// The line of the event, if [`OutputMode::Verbatim`](crate::OutputMode::Verbatim) was requested.
    pub line: Option<Bytes>,
}

/// The kinds of events of a process.
#[derive(Debug, Clone)]
pub enum ProcessEventKind {
    /// Bytes written to standard output.
    Stdout(Bytes),
    /// Bytes written to standard error.
    Stderr(Bytes),
    /// Bytes written to the terminal.
    Terminal(Bytes),
    /// Output that was dropped and cannot be read.
    Lost(OutputLoss),
    /// An error that did not end the process.
    Error(ProcessError),
    /// The process ended; this is the last event.
    Exit(ProcessExit),
}

/// An event, or why no more events follow.
pub(crate) type EventResult = Result<ProcessEvent, Error>;

impl ProcessEventKind {
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut Bytes> {
        match self {
            ProcessEventKind::Stdout(bytes)
            | ProcessEventKind::Stderr(bytes)
            | ProcessEventKind::Terminal(bytes) => Some(bytes),
            ProcessEventKind::Lost(_) | ProcessEventKind::Error(_) | ProcessEventKind::Exit(_) => None,
        }
    }

    pub(crate) fn size(&self) -> usize {
        match self {
            ProcessEventKind::Stdout(bytes)
            | ProcessEventKind::Stderr(bytes)
            | ProcessEventKind::Terminal(bytes) => bytes.len(),
            ProcessEventKind::Lost(_) | ProcessEventKind::Error(_) | ProcessEventKind::Exit(_) => 0,
        }
    }
}

/// Output that was dropped and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputLoss {
    /// This many bytes of one stream.
    Bytes {
        /// `stdout`, `stderr` or `pty`.
        stream: String,
        /// The number of dropped bytes.
        bytes: u64,
    },
    /// This many events of the session, possibly of this process.
    Events(u64),
}

/// An error of a process that did not end it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessError {
    /// The error code; see [`v1::codes`].
    pub code: i64,
    /// The error message for the user.
    pub message: String,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessExit {
    /// The exit code; -1 when a signal ended the process.
    pub code: i64,
    /// The signal that ended the process, without `SIG`.
    pub signal: Option<String>,
    /// Whether the timeout ended the process.
    pub timed_out: bool,
    /// Whether the process exceeded its output limit.
    pub output_limit_exceeded: bool,
    /// Another limit that ended the process: `memory_limit`.
    pub reason: Option<String>,
    /// The access that the sandbox denied, if that made the command fail.
    pub sandbox_denied: Option<v1::SandboxDenied>,
    /// Processes that still hold its output open.
    pub held_by: Vec<i64>,
    /// The time from start to exit.
    pub duration: Duration,
}

impl ProcessExit {
    /// The status as a shell reports it: the exit code, or 128 plus the number of the signal.
    pub fn status(&self) -> i32 {
        match self.signal.as_deref().and_then(signal_number) {
            Some(number) => 128 + number,
            None => i32::try_from(self.code).unwrap_or(255),
        }
    }
}

/// The number of a signal by its name, with or without `SIG`.
pub fn signal_number(name: &str) -> Option<i32> {
    const NAMES: &[(&str, i32)] = &[
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ILL", 4),
        ("TRAP", 5),
        ("ABRT", 6),
        ("BUS", 7),
        ("FPE", 8),
        ("KILL", 9),
        ("USR1", 10),
        ("SEGV", 11),
        ("USR2", 12),
        ("PIPE", 13),
        ("ALRM", 14),
        ("TERM", 15),
        ("STKFLT", 16),
        ("CHLD", 17),
        ("CONT", 18),
        ("STOP", 19),
        ("TSTP", 20),
        ("TTIN", 21),
        ("TTOU", 22),
        ("URG", 23),
        ("XCPU", 24),
        ("XFSZ", 25),
        ("VTALRM", 26),
        ("PROF", 27),
        ("WINCH", 28),
        ("IO", 29),
        ("PWR", 30),
        ("SYS", 31),
    ];
    let plain = name.strip_prefix("SIG").unwrap_or(name);
    let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(plain)).map(|(_, number)| *number);
    known.or_else(|| plain.parse().ok().filter(|number| (1..=64).contains(number)))
}

impl fmt::Display for OutputLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputLoss::Bytes { stream, bytes } => {
                write!(f, "{bytes} bytes of {stream} were dropped")
            }
            OutputLoss::Events(events) => {
                write!(f, "{events} events were dropped; output may be missing here")
            }
        }
    }
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl From<v1::ExecLost> for OutputLoss {
    fn from(lost: v1::ExecLost) -> OutputLoss {
        OutputLoss::Bytes { stream: lost.stream.unwrap_or_else(|| "output".to_owned()), bytes: lost.bytes }
    }
}

impl From<v1::ExecError> for ProcessError {
    fn from(error: v1::ExecError) -> ProcessError {
        ProcessError { code: error.code, message: error.message }
    }
}

impl From<v1::ExecExit> for ProcessExit {
    fn from(exit: v1::ExecExit) -> ProcessExit {
        ProcessExit {
            code: exit.exit_code,
            signal: exit.signal,
            timed_out: exit.timed_out,
            output_limit_exceeded: exit.output_limit_exceeded,
            reason: exit.reason,
            sandbox_denied: exit.sandbox_denied,
            held_by: exit.held_by,
            duration: Duration::from_millis(exit.duration_ms),
        }
    }
}

impl From<v1::PtyExit> for ProcessExit {
    fn from(exit: v1::PtyExit) -> ProcessExit {
        ProcessExit {
            code: exit.exit_code,
            signal: exit.signal,
            timed_out: exit.timed_out,
            output_limit_exceeded: false,
            reason: exit.reason,
            sandbox_denied: exit.sandbox_denied,
            held_by: exit.held_by,
            duration: Duration::from_millis(exit.duration_ms),
        }
    }
}
