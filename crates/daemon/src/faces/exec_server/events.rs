//! Log entries of a process as notifications of exec-server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::process::{Cursor, ExitStatus, Item, LogReader, Process, ProcessId, Stream};
use tokio::time::Instant;
use wire::exec_server::{envelope, v0, v1};
use wire::jsonrpc::RpcError;

use super::sequence::{ProcessExit, SequenceIndex};
use crate::core::events::{self, EncodeEvent, LogEntry};
use crate::core::request::Details;
use crate::core::table::detail;

/// How long a client that resumed has to read the output it missed.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// The exit code of a killed process on a terminal.
const KILLED_ON_TERMINAL: i32 = 1;
/// What is added to the number of a signal.
const SIGNAL_BASE: i32 = 128;

/// The version of the protocol that a process was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// v0: no sequence numbers, and nothing after the exit.
    V0,
    /// v1: every notification has a sequence number.
    V1,
}

/// The notifications of one process.
#[derive(Debug)]
pub struct ExecServerEvents {
    pub(super) id: String,
    pub(super) protocol: Protocol,
    pub(super) index: Arc<SequenceIndex>,
    /// Output that was sent lately is kept for a client that resumed, until it has read.
    pub(super) hold: Option<OutputHold>,
}

/// Since how many reads, and until when, output is kept.
#[derive(Debug)]
pub(super) struct OutputHold {
    reads: u64,
    until: Instant,
}

impl ExecServerEvents {
    fn output(&self, process: &Process, stream: Stream, bytes: &[u8], next: Cursor) -> Vec<u8> {
        match self.protocol {
            Protocol::V0 => v1::encode_output_delta(&self.id, stream == Stream::Stderr, bytes),
            Protocol::V1 => {
                let start = Cursor(next.0 - bytes.len() as u64);
                let seq = self.index.output(stream, (start, next), process.first());
                let offset = self.index.state().has_lost.then_some(start.0);
                v1::encode_output(&self.id, (seq, offset), stream_name(stream), bytes)
            }
        }
    }

    fn exited(&self, process: &Process, status: ExitStatus, is_denied: bool) -> Vec<u8> {
        let exit_code = exit_code(status, process.description().has_terminal);
        let seq = self.index.exited(ProcessExit { exit_code, is_denied });
        let process_id = self.id.clone();
        let line = match self.protocol {
            Protocol::V0 => envelope::notification(
                v0::method::EXITED,
                &v0::ExecExitedNotification { process_id, exit_code },
            ),
            Protocol::V1 => {
                let sandbox_denied = Some(is_denied);
                let event = v1::ExecExitedNotification { process_id, seq, exit_code, sandbox_denied };
                envelope::notification(v1::PROCESS_EXITED, &event)
            }
        };
        line.unwrap_or_default()
    }

    fn closed(&self, cursor: Cursor) -> Option<Vec<u8>> {
        let seq = self.index.closed();
        if self.protocol == Protocol::V0 {
            return None;
        }
        let output_offset = self.index.state().has_lost.then_some(cursor.0);
        let event = v1::ExecClosedNotification { process_id: self.id.clone(), seq, output_offset };
        envelope::notification(v1::PROCESS_CLOSED, &event).ok()
    }
}

impl events::ProcessEvents for ExecServerEvents {
    fn encode(&mut self, entry: &LogEntry<'_>, _next_id: u64) -> Vec<Bytes> {
        let lines = match entry.item {
            Item::Output { stream, bytes, next } => vec![self.output(entry.process, *stream, bytes, *next)],
            // A v0 process is gone with its exit, so that is sent with its end.
            Item::Exited { status, is_denied } if self.protocol == Protocol::V1 => {
                vec![self.exited(entry.process, *status, *is_denied)]
            }
            Item::Closed(closed) => {
                let is_new = self.index.state().exited.is_none();
                let exited = is_new.then(|| self.exited(entry.process, closed.exit, closed.denied.is_some()));
                exited.into_iter().chain(self.closed(entry.reader.cursor())).collect()
            }
            Item::Lost { bytes, .. } => {
                // Sequence numbers have no gap; later chunks carry their offset instead.
                self.index.update(|state| state.has_lost = true);
                tracing::warn!(process = %self.id, bytes, "output was dropped while no client was connected");
                Vec::new()
            }
            Item::Exited { .. } | Item::Disconnected => Vec::new(),
        };
        lines.into_iter().map(Bytes::from).collect()
    }

    fn audit_end(&self, process: &Process) -> (&'static str, Details) {
        // `known_as` is the id under which other faces list the process.
        let details = [detail("process_id", &self.id), detail("known_as", &process.id().0)].concat();
        ("process/closed", details)
    }

    fn started(&mut self) {
        self.index.update(|state| state.is_running = true);
    }

    fn start_failed(&mut self, _process: &ProcessId, _error: &RpcError) -> Option<EncodeEvent> {
        self.index.update(|state| state.has_failed = true);
        None
    }

    fn resubscribed(&mut self, reader: &mut LogReader) {
        if self.protocol == Protocol::V1 {
            self.hold =
                Some(OutputHold { reads: self.index.state().reads, until: Instant::now() + READ_WITHIN });
            reader.hold(true);
        }
    }

    fn before_read(&mut self, reader: &mut LogReader) {
        let reads = self.index.state().reads;
        if self.hold.as_ref().is_some_and(|hold| hold.reads != reads || Instant::now() >= hold.until) {
            self.hold = None;
            reader.hold(false);
        }
    }
}

/// The protocol's name for a stream.
pub(super) fn stream_name(stream: Stream) -> v1::ExecOutputStream {
    match stream {
        Stream::Stdout => v1::ExecOutputStream::Stdout,
        Stream::Stderr => v1::ExecOutputStream::Stderr,
        Stream::Terminal => v1::ExecOutputStream::Pty,
    }
}

/// The exit code on the wire. A process on pipes that was killed has that of its signal; for one on a terminal the
/// signal is not reported.
fn exit_code(status: ExitStatus, has_terminal: bool) -> i32 {
    match status {
        ExitStatus::Code(code) => code,
        ExitStatus::Signal(_) if has_terminal => KILLED_ON_TERMINAL,
        ExitStatus::Signal(signal) => SIGNAL_BASE + signal.number(),
    }
}
