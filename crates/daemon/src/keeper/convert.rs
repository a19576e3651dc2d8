//! Conversions between the keeper protocol and the engine's types.

use std::path::PathBuf;
use std::time::Duration;

use engine::Error;
use engine::process::{
    ExitCause, ExitStatus, ProcessSummary, Signal, Stream, TerminalSize, TerminalState, TerminalWait,
    TreeMember,
};
use engine::sandbox::{Denial, DenialKind};
use wire::keeper as protocol;

/// The maximal number of holders in a status: it must fit into the file that was reserved at the start.
const MAX_HOLDERS: usize = 32;
/// The maximal length of a path in a status, in characters, for the same reason.
const MAX_PATH_CHARS: usize = 512;

pub(super) fn stream_to_wire(stream: Stream) -> protocol::OutputStream {
    match stream {
        Stream::Stdout => protocol::OutputStream::Stdout,
        Stream::Stderr => protocol::OutputStream::Stderr,
        Stream::Terminal => protocol::OutputStream::Terminal,
    }
}

pub(super) fn stream_from_wire(stream: protocol::OutputStream) -> Stream {
    match stream {
        protocol::OutputStream::Stdout => Stream::Stdout,
        protocol::OutputStream::Stderr => Stream::Stderr,
        protocol::OutputStream::Terminal => Stream::Terminal,
    }
}

pub(super) fn exit_to_wire(exit: ExitStatus) -> protocol::LeaderExit {
    match exit {
        ExitStatus::Code(code) => protocol::LeaderExit::Code(code),
        ExitStatus::Signal(signal) => protocol::LeaderExit::Signal(signal.number()),
    }
}

/// An unknown signal number becomes KILL.
pub(super) fn exit_from_wire(exit: protocol::LeaderExit) -> ExitStatus {
    match exit {
        protocol::LeaderExit::Code(code) => ExitStatus::Code(code),
        protocol::LeaderExit::Signal(number) => {
            ExitStatus::Signal(Signal::from_number(number).unwrap_or(Signal::KILL))
        }
    }
}

pub(super) fn summary_to_wire(closed: &ProcessSummary) -> protocol::CloseReport {
    protocol::CloseReport {
        exit: exit_to_wire(closed.exit),
        cause: match closed.cause {
            ExitCause::Itself => protocol::CloseCause::Itself,
            ExitCause::Killed => protocol::CloseCause::Killed,
            ExitCause::TimedOut => protocol::CloseCause::TimedOut,
            ExitCause::OutputLimit => protocol::CloseCause::OutputLimit,
            ExitCause::MemoryLimit => protocol::CloseCause::MemoryLimit,
        },
        duration_ms: u64::try_from(closed.duration.as_millis()).unwrap_or(u64::MAX),
        stdout_bytes: closed.stdout_bytes,
        stderr_bytes: closed.stderr_bytes,
        truncated_bytes: closed.truncated_bytes,
        processes_refused: closed.processes_refused,
        held_by: members_to_wire(closed.held_by.get(..MAX_HOLDERS).unwrap_or(&closed.held_by)),
        denied: closed.denied.as_ref().map(|denied| protocol::DenialReport {
            path: denied
                .path
                .as_ref()
                .map(|path| path.to_string_lossy().chars().take(MAX_PATH_CHARS).collect()),
            what: match denied.kind {
                DenialKind::Write => protocol::DeniedAccess::Write,
                DenialKind::Read => protocol::DeniedAccess::Read,
                DenialKind::Network => protocol::DeniedAccess::Network,
                DenialKind::Call => protocol::DeniedAccess::Call,
            },
        }),
    }
}

pub(super) fn summary_from_wire(report: protocol::CloseReport) -> ProcessSummary {
    ProcessSummary {
        exit: exit_from_wire(report.exit),
        cause: match report.cause {
            protocol::CloseCause::Itself => ExitCause::Itself,
            protocol::CloseCause::Killed => ExitCause::Killed,
            protocol::CloseCause::TimedOut => ExitCause::TimedOut,
            protocol::CloseCause::OutputLimit => ExitCause::OutputLimit,
            protocol::CloseCause::MemoryLimit => ExitCause::MemoryLimit,
        },
        duration: Duration::from_millis(report.duration_ms),
        stdout_bytes: report.stdout_bytes,
        stderr_bytes: report.stderr_bytes,
        truncated_bytes: report.truncated_bytes,
        held_by: members_from_wire(report.held_by),
        processes_refused: report.processes_refused,
        denied: report.denied.map(|denied| Denial {
            path: denied.path.map(PathBuf::from),
            kind: match denied.what {
                protocol::DeniedAccess::Write => DenialKind::Write,
                protocol::DeniedAccess::Read => DenialKind::Read,
                protocol::DeniedAccess::Network => DenialKind::Network,
                protocol::DeniedAccess::Call => DenialKind::Call,
            },
        }),
    }
}

pub(super) fn terminal_to_wire(id: u64, state: &TerminalState) -> protocol::KeeperMessage {
    protocol::KeeperMessage::Terminal {
        id,
        cols: state.size.cols,
        rows: state.size.rows,
        echo: state.echoes,
        canonical: state.is_canonical,
        wait: state.wait.map(|wait| match wait {
            TerminalWait::Read => protocol::TerminalWait::Read,
            TerminalWait::Poll => protocol::TerminalWait::Poll,
            TerminalWait::Elsewhere => protocol::TerminalWait::Elsewhere,
        }),
    }
}

/// The state in a response; `None` if the response is another one.
pub(super) fn terminal_from_wire(message: &protocol::KeeperMessage) -> Option<TerminalState> {
    let &protocol::KeeperMessage::Terminal { cols, rows, echo, canonical, wait, .. } = message else {
        return None;
    };
    Some(TerminalState {
        size: TerminalSize { cols, rows },
        echoes: echo,
        is_canonical: canonical,
        wait: wait.and_then(|wait| match wait {
            protocol::TerminalWait::Read => Some(TerminalWait::Read),
            protocol::TerminalWait::Poll => Some(TerminalWait::Poll),
            protocol::TerminalWait::Elsewhere => Some(TerminalWait::Elsewhere),
            protocol::TerminalWait::Unknown => None,
        }),
    })
}

pub(super) fn members_to_wire(members: &[TreeMember]) -> Vec<protocol::TreeMember> {
    members.iter().map(|member| protocol::TreeMember { pid: member.pid, name: member.name.clone() }).collect()
}

pub(super) fn members_from_wire(members: Vec<protocol::TreeMember>) -> Vec<TreeMember> {
    members.into_iter().map(|member| TreeMember { pid: member.pid, name: member.name }).collect()
}

/// The error message for a request that failed in the keeper. Most errors are only reported to the user.
pub(super) fn error_to_wire(id: u64, error: &Error) -> protocol::KeeperMessage {
    let kind = match error {
        Error::Gone => protocol::FailureKind::Gone,
        Error::InputClosed => protocol::FailureKind::InputClosed,
        _ => protocol::FailureKind::Failed,
    };
    protocol::KeeperMessage::Error { id, kind, message: error.to_string() }
}

/// The engine error for a failure that a keeper reported.
pub(super) fn error_from_wire(kind: protocol::FailureKind, message: String) -> Error {
    match kind {
        protocol::FailureKind::Gone => Error::Gone,
        protocol::FailureKind::InputClosed => Error::InputClosed,
        protocol::FailureKind::Busy | protocol::FailureKind::Invalid | protocol::FailureKind::Failed => {
            Error::Unsupported { what: "the keeper", reason: message }
        }
    }
}
