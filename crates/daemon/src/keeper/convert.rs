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

pub(super) fn stream_told(stream: Stream) -> told::OutputStream {
    match stream {
        Stream::Stdout => told::OutputStream::Stdout,
        Stream::Stderr => told::OutputStream::Stderr,
        Stream::Terminal => told::OutputStream::Terminal,
    }
}

pub(super) fn stream(told: told::OutputStream) -> Stream {
    match told {
        told::OutputStream::Stdout => Stream::Stdout,
        told::OutputStream::Stderr => Stream::Stderr,
        told::OutputStream::Terminal => Stream::Terminal,
    }
}

pub(super) fn exit_told(exit: ExitStatus) -> told::LeaderExit {
    match exit {
        ExitStatus::Code(code) => told::LeaderExit::Code(code),
        ExitStatus::Signal(signal) => told::LeaderExit::Signal(signal.number()),
    }
}

/// A signal that does not exist here reads as the one that nobody can refuse.
pub(super) fn exit(told: told::LeaderExit) -> ExitStatus {
    match told {
        told::LeaderExit::Code(code) => ExitStatus::Code(code),
        told::LeaderExit::Signal(number) => {
            ExitStatus::Signal(Signal::from_number(number).unwrap_or(Signal::KILL))
        }
    }
}

pub(super) fn closed_told(closed: &ProcessSummary) -> told::CloseReport {
    told::CloseReport {
        exit: exit_told(closed.exit),
        cause: match closed.cause {
            ExitCause::Itself => told::CloseCause::Itself,
            ExitCause::Killed => told::CloseCause::Killed,
            ExitCause::TimedOut => told::CloseCause::TimedOut,
            ExitCause::OutputLimit => told::CloseCause::OutputLimit,
            ExitCause::MemoryLimit => told::CloseCause::MemoryLimit,
        },
        duration_ms: u64::try_from(closed.duration.as_millis()).unwrap_or(u64::MAX),
        stdout_bytes: closed.stdout_bytes,
        stderr_bytes: closed.stderr_bytes,
        truncated_bytes: closed.truncated_bytes,
        processes_refused: closed.processes_refused,
        held_by: members_told(closed.held_by.get(..MOST_HOLDERS).unwrap_or(&closed.held_by)),
        denied: closed.denied.as_ref().map(|denied| told::DenialReport {
            path: denied.path.as_ref().map(|path| path.to_string_lossy().chars().take(MOST_PATH).collect()),
            what: match denied.kind {
                DenialKind::Write => told::DeniedAccess::Write,
                DenialKind::Read => told::DeniedAccess::Read,
                DenialKind::Network => told::DeniedAccess::Network,
                DenialKind::Call => told::DeniedAccess::Call,
            },
        }),
    }
}

pub(super) fn closed(told: told::CloseReport) -> ProcessSummary {
    ProcessSummary {
        exit: exit(told.exit),
        cause: match told.cause {
            told::CloseCause::Itself => ExitCause::Itself,
            told::CloseCause::Killed => ExitCause::Killed,
            told::CloseCause::TimedOut => ExitCause::TimedOut,
            told::CloseCause::OutputLimit => ExitCause::OutputLimit,
            told::CloseCause::MemoryLimit => ExitCause::MemoryLimit,
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
                told::DeniedAccess::Write => DenialKind::Write,
                told::DeniedAccess::Read => DenialKind::Read,
                told::DeniedAccess::Network => DenialKind::Network,
                told::DeniedAccess::Call => DenialKind::Call,
            },
        }),
    }
}

pub(super) fn members_told(members: &[TreeMember]) -> Vec<told::TreeMember> {
    members.iter().map(|member| told::TreeMember { pid: member.pid, name: member.name.clone() }).collect()
}

pub(super) fn ended(killed: Vec<told::TreeMember>, left: Vec<told::TreeMember>) -> KillOutcome {
    KillOutcome { killed: members(killed), remaining: members(left) }
}

fn members(told: Vec<told::TreeMember>) -> Vec<TreeMember> {
    told.into_iter().map(|member| TreeMember { pid: member.pid, name: member.name }).collect()
}

/// What a keeper says about a request that it could not do.
pub(super) fn failure_told(id: u64, error: &Error) -> told::KeeperMessage {
    let kind = match error {
        Error::Gone => told::FailureKind::Gone,
        Error::InputClosed => told::FailureKind::InputClosed,
        _ => told::FailureKind::Failed,
    };
    told::KeeperMessage::Error { id, kind, message: error.to_string() }
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
