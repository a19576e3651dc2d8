//! From the keeper's words on the wire and on disk to the engine's, and back.

use std::path::PathBuf;
use std::time::Duration;

use engine::Error;
use engine::process::{ExitCause, ExitStatus, KillOutcome, ProcessSummary, Signal, Stream, TreeMember};
use engine::sandbox::{Denial, DenialKind};
use wire::keeper as told;

/// Holders that a status names: it is written into room that was taken when the process started.
const MOST_HOLDERS: usize = 32;
/// Characters of a path that it names, for the same reason.
const MOST_PATH: usize = 512;

pub(super) fn stream_told(stream: Stream) -> told::Stream {
    match stream {
        Stream::Stdout => told::Stream::Stdout,
        Stream::Stderr => told::Stream::Stderr,
        Stream::Terminal => told::Stream::Terminal,
    }
}

pub(super) fn stream(told: told::Stream) -> Stream {
    match told {
        told::Stream::Stdout => Stream::Stdout,
        told::Stream::Stderr => Stream::Stderr,
        told::Stream::Terminal => Stream::Terminal,
    }
}

pub(super) fn exit_told(exit: ExitStatus) -> told::Exit {
    match exit {
        ExitStatus::Code(code) => told::Exit::Code(code),
        ExitStatus::Signal(signal) => told::Exit::Signal(signal.number()),
    }
}

/// A signal that does not exist here reads as the one that nobody can refuse.
pub(super) fn exit(told: told::Exit) -> ExitStatus {
    match told {
        told::Exit::Code(code) => ExitStatus::Code(code),
        told::Exit::Signal(number) => ExitStatus::Signal(Signal::from_number(number).unwrap_or(Signal::KILL)),
    }
}

pub(super) fn closed_told(closed: &ProcessSummary) -> told::Closed {
    told::Closed {
        exit: exit_told(closed.exit),
        cause: match closed.cause {
            ExitCause::Itself => told::Cause::Itself,
            ExitCause::Killed => told::Cause::Killed,
            ExitCause::TimedOut => told::Cause::TimedOut,
            ExitCause::OutputLimit => told::Cause::OutputLimit,
            ExitCause::MemoryLimit => told::Cause::MemoryLimit,
        },
        duration_ms: u64::try_from(closed.duration.as_millis()).unwrap_or(u64::MAX),
        stdout_bytes: closed.stdout_bytes,
        stderr_bytes: closed.stderr_bytes,
        truncated_bytes: closed.truncated_bytes,
        processes_refused: closed.processes_refused,
        held_by: members_told(closed.held_by.get(..MOST_HOLDERS).unwrap_or(&closed.held_by)),
        denied: closed.denied.as_ref().map(|denied| told::Denied {
            path: denied.path.as_ref().map(|path| path.to_string_lossy().chars().take(MOST_PATH).collect()),
            what: match denied.kind {
                DenialKind::Write => told::Denial::Write,
                DenialKind::Read => told::Denial::Read,
                DenialKind::Network => told::Denial::Network,
                DenialKind::Call => told::Denial::Call,
            },
        }),
    }
}

pub(super) fn closed(told: told::Closed) -> ProcessSummary {
    ProcessSummary {
        exit: exit(told.exit),
        cause: match told.cause {
            told::Cause::Itself => ExitCause::Itself,
            told::Cause::Killed => ExitCause::Killed,
            told::Cause::TimedOut => ExitCause::TimedOut,
            told::Cause::OutputLimit => ExitCause::OutputLimit,
            told::Cause::MemoryLimit => ExitCause::MemoryLimit,
        },
        duration: Duration::from_millis(told.duration_ms),
        stdout_bytes: told.stdout_bytes,
        stderr_bytes: told.stderr_bytes,
        truncated_bytes: told.truncated_bytes,
        held_by: members(told.held_by),
        processes_refused: told.processes_refused,
        denied: told.denied.map(|denied| Denial {
            path: denied.path.map(PathBuf::from),
            kind: match denied.what {
                told::Denial::Write => DenialKind::Write,
                told::Denial::Read => DenialKind::Read,
                told::Denial::Network => DenialKind::Network,
                told::Denial::Call => DenialKind::Call,
            },
        }),
    }
}

pub(super) fn members_told(members: &[TreeMember]) -> Vec<told::Member> {
    members.iter().map(|member| told::Member { pid: member.pid, name: member.name.clone() }).collect()
}

pub(super) fn ended(killed: Vec<told::Member>, left: Vec<told::Member>) -> KillOutcome {
    KillOutcome { killed: members(killed), remaining: members(left) }
}

fn members(told: Vec<told::Member>) -> Vec<TreeMember> {
    told.into_iter().map(|member| TreeMember { pid: member.pid, name: member.name }).collect()
}

/// What a keeper says about a request that it could not do.
pub(super) fn failure_told(id: u64, error: &Error) -> told::Told {
    let kind = match error {
        Error::Gone => told::FailureKind::Gone,
        Error::InputClosed => told::FailureKind::InputClosed,
        _ => told::FailureKind::Failed,
    };
    told::Told::Error { id, kind, message: error.to_string() }
}

/// The same, heard by the one who asked.
pub(super) fn failure(kind: told::FailureKind, message: String) -> Error {
    match kind {
        told::FailureKind::Gone => Error::Gone,
        told::FailureKind::InputClosed => Error::InputClosed,
        told::FailureKind::Busy | told::FailureKind::Invalid | told::FailureKind::Failed => {
            Error::Unsupported { what: "the keeper", reason: message }
        }
    }
}
