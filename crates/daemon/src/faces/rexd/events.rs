//! Log entries of a process as notifications of REXD.

use std::sync::Arc;

use bytes::Bytes;
use engine::process::{ExitCause, Item, Process, ProcessId, ProcessSummary, Stream};
use engine::sandbox::{Denial, DenialKind};
use serde_json::json;
use wire::jsonrpc::RpcError;
use wire::rexd::v1::{self, Encoding, OutputEvent, codes, encode_event};

use super::convert::{exit_code, exit_signal, pty_id};
use super::errors::text;
use super::session::Session;
use crate::core::events::{self, EncodeEvent, LogEntry};
use crate::core::request::Details;
use crate::core::table::detail;

/// Output in one event, for clients without a frame limit.
const CHUNK_BYTES: usize = 256 * 1024;
/// The longest escape of a byte of text.
const MAX_ESCAPE: usize = 6;
/// What surrounds the data in an event.
const ENVELOPE_BYTES: usize = 1024;

/// The events of one process in one session.
#[derive(Debug)]
pub struct RexdEvents {
    session_id: Arc<str>,
    pty_id: Option<String>,
    encoding: Encoding,
    /// Events so far: of standard output or the terminal, and of standard error.
    seq: [u64; 2],
}

impl RexdEvents {
    /// The events of a process that this session follows from now on.
    pub(super) fn new(session: &Session, process: &Process) -> RexdEvents {
        RexdEvents {
            session_id: session.id.clone(),
            pty_id: process.description().has_terminal.then(|| pty_id(process.id())),
            encoding: session.state.client.encoding,
            seq: [0; 2],
        }
    }

    fn output(
        &mut self,
        process_id: &str,
        (stream, bytes, cursor): (Stream, &[u8], u64),
        event_id: u64,
    ) -> Bytes {
        let (method, index) = match stream {
            Stream::Stdout => ("exec.stdout", 0),
            Stream::Stderr => ("exec.stderr", 1),
            Stream::Terminal => ("pty.output", 0),
        };
        self.seq[index] += 1;
        let event = OutputEvent {
            method,
            session_id: &self.session_id,
            process_id,
            pty_id: self.pty_id.as_deref(),
            seq: self.seq[index],
            event_id,
            cursor: Some(cursor),
            bytes,
        };
        event.encode(self.encoding).into()
    }

    fn exit(&self, process_id: String, closed: &ProcessSummary, cursor: u64, event_id: u64) -> Bytes {
        let session_id = self.session_id.to_string();
        let (exit_code, signal) = (exit_code(closed.exit), exit_signal(closed.exit));
        let timed_out = closed.cause == ExitCause::TimedOut;
        let reason = limit_reason(closed.cause);
        let duration_ms = u64::try_from(closed.duration.as_millis()).unwrap_or(u64::MAX);
        let held_by = closed.held_by.iter().map(|member| i64::from(member.pid)).collect();
        let cursor = Some(cursor);
        let sandbox_denied = closed.denied.as_ref().map(sandbox_denied);
        let line = match self.pty_id.clone() {
            Some(pty_id) => encode_event(&v1::PtyExit {
                session_id,
                pty_id,
                process_id,
                exit_code,
                signal,
                timed_out,
                duration_ms,
                event_id,
                held_by,
                cursor,
                reason,
                sandbox_denied,
            }),
            None => encode_event(&v1::ExecExit {
                session_id,
                process_id,
                exit_code,
                signal,
                timed_out,
                duration_ms,
                bytes_stdout: closed.stdout_bytes,
                bytes_stderr: closed.stderr_bytes,
                event_id,
                output_limit_exceeded: exceeded_output(closed),
                held_by,
                cursor,
                reason,
                sandbox_denied,
            }),
        };
        line.into()
    }

    fn output_limit(&self, process_id: &str, closed: &ProcessSummary, event_id: u64) -> Bytes {
        encode_event(&v1::ExecError {
            session_id: self.session_id.to_string(),
            process_id: process_id.to_owned(),
            code: codes::OUTPUT_LIMIT_EXCEEDED,
            message: "output limit exceeded".to_owned(),
            data: json!({ "limit_bytes": closed.stdout_bytes + closed.stderr_bytes }),
            event_id,
        })
        .into()
    }
}

impl events::ProcessEvents for RexdEvents {
    fn encode(&mut self, entry: &LogEntry<'_>, next_id: u64) -> Vec<Bytes> {
        let process_id = &entry.process.id().0;
        match entry.item {
            Item::Output { stream, bytes, next } => {
                vec![self.output(process_id, (*stream, bytes, next.0), next_id)]
            }
            Item::Lost { bytes, next } => vec![
                encode_event(&v1::ExecLost {
                    session_id: self.session_id.to_string(),
                    process_id: process_id.clone(),
                    pty_id: self.pty_id.clone(),
                    stream: None,
                    bytes: *bytes,
                    cursor: next.0,
                    event_id: next_id,
                })
                .into(),
            ],
            // Clients wait for the end of the output, which `exec.exit` reports.
            Item::Exited { .. } | Item::Disconnected => Vec::new(),
            Item::Closed(closed) => {
                let limit = exceeded_output(closed).then(|| self.output_limit(process_id, closed, next_id));
                let exit_id = next_id + u64::from(limit.is_some());
                let exit = self.exit(process_id.clone(), closed, entry.reader.cursor().0, exit_id);
                limit.into_iter().chain([exit]).collect()
            }
        }
    }

    fn start_failed(&mut self, process: &ProcessId, error: &RpcError) -> Option<EncodeEvent> {
        let (session_id, process_id) = (self.session_id.to_string(), process.0.clone());
        let RpcError { code, message, data } = error.clone();
        Some(Box::new(move |event_id| {
            encode_event(&v1::ExecError { session_id, process_id, code, message, data, event_id })
        }))
    }

    fn audit_end(&self, process: &Process) -> (&'static str, Details) {
        let operation = if self.pty_id.is_some() { "pty.exit" } else { "exec.exit" };
        (operation, detail("process_id", &process.id().0))
    }
}

fn exceeded_output(closed: &ProcessSummary) -> bool {
    closed.cause == ExitCause::OutputLimit || closed.truncated_bytes > 0
}

fn sandbox_denied(denied: &Denial) -> v1::SandboxDenied {
    let access = match denied.kind {
        DenialKind::Write => "write",
        DenialKind::Read => "read",
        DenialKind::Network => "network",
        DenialKind::Call => "call",
    };
    v1::SandboxDenied { access: access.to_owned(), path: denied.path.as_deref().map(text) }
}

/// The limit that ended a process, if no other member of the event names it.
fn limit_reason(cause: ExitCause) -> Option<String> {
    match cause {
        ExitCause::MemoryLimit => Some("memory_limit".to_owned()),
        ExitCause::Itself | ExitCause::Killed | ExitCause::TimedOut | ExitCause::OutputLimit => None,
    }
}

/// How much output goes into one event, so that its line fits into the client's frame.
pub(super) fn chunk_bytes(encoding: Encoding, frame_bytes: Option<usize>) -> usize {
    let Some(frame) = frame_bytes else { return CHUNK_BYTES };
    let available = frame.saturating_sub(ENVELOPE_BYTES);
    let fits = match encoding {
        Encoding::Utf8 => available / MAX_ESCAPE,
        Encoding::Base64 => available / 4 * 3,
        Encoding::Binary => available,
    };
    fits.clamp(1024, CHUNK_BYTES)
}

/// The longest line that a chunk can become.
pub(super) fn line_bytes(encoding: Encoding, chunk: usize) -> usize {
    let data = match encoding {
        Encoding::Utf8 => chunk * MAX_ESCAPE,
        Encoding::Base64 => chunk.div_ceil(3) * 4,
        Encoding::Binary => chunk,
    };
    data + ENVELOPE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ARCHITECTURE.md, invariant 27.
    #[test]
    fn no_event_is_longer_than_the_client_can_take() {
        let worst = [
            (Encoding::Utf8, 0x01),
            (Encoding::Utf8, 0xff),
            (Encoding::Base64, b'a'),
            (Encoding::Binary, b'a'),
        ];
        for (encoding, byte) in worst {
            let bytes = vec![byte; chunk_bytes(encoding, Some(950_000))];
            let event = OutputEvent {
                method: "exec.stdout",
                session_id: "s_0123456789ab",
                process_id: "p_0123456789ab",
                pty_id: None,
                seq: u64::MAX,
                event_id: u64::MAX,
                cursor: Some(u64::MAX),
                bytes: &bytes,
            };
            let line = event.encode(encoding);
            assert!(line.len() <= 950_000, "{encoding:?} {byte} gave {}", line.len());
        }
    }
}
