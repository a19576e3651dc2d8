//! Followed: one process whose log becomes the numbered events of a session, up to its end.

use std::time::SystemTime;

use bytes::Bytes;
use engine::audit::{self, AuditOutcome, AuditRecord};
use engine::process::{ExitCause, Item, Process, ProcessSummary, Stream};
use engine::sandbox::{Denial, DenialKind};
use serde_json::json;
use tokio::sync::oneshot;
use wire::rexd::v1::{self, OutputEvent, codes, encode_event};

use super::FACE;
use super::convert::{exit_code, exit_signal, pty_id};
use super::errors::text;
use super::events::{Follow, Telling};
use super::mailbox::{Letter, Notice};

/// A process that is followed.
pub(super) struct Followed {
    pub(super) follow: Follow,
    /// Which following of this process this is; only the latest tells.
    pub(super) serial: u64,
    /// Dropped on the other side when nobody is to hear it any more.
    until: oneshot::Receiver<()>,
    pty_id: Option<String>,
    /// Events so far: of standard output or the terminal, and of standard error.
    seq: [u64; 2],
}

/// Waits for what the log gives next.
pub(super) async fn step(mut followed: Followed, max: usize) -> (Followed, Item) {
    if let Some(moment) = followed.follow.not_before.take() {
        tokio::time::sleep_until(moment).await;
    }
    let item = tokio::select! {
        biased;
        item = followed.follow.reader.next(max) => item,
        _unwanted = &mut followed.until => Item::Disconnected,
    };
    (followed, item)
}

impl Followed {
    pub(super) fn new(mut follow: Follow, serial: u64, until: oneshot::Receiver<()>) -> Followed {
        let has_terminal = follow.process.description().has_terminal;
        let pty_id = has_terminal.then(|| pty_id(follow.process.id()));
        follow.reader.ignore_exit();
        Followed { follow, serial, until, pty_id, seq: [0; 2] }
    }

    /// What a log gave as events, each with the next number.
    pub(super) fn tell(&mut self, telling: &Telling, item: &Item, next_id: &mut u64) -> Vec<Bytes> {
        let mut number = || {
            let id = *next_id;
            *next_id += 1;
            id
        };
        let process_id = &self.follow.process.id().0;
        match item {
            Item::Output { stream, bytes, next } => {
                let (method, place) = match stream {
                    Stream::Stdout => ("exec.stdout", 0),
                    Stream::Stderr => ("exec.stderr", 1),
                    Stream::Terminal => ("pty.output", 0),
                };
                self.seq[place] += 1;
                let event = OutputEvent {
                    method,
                    session_id: &telling.session_id,
                    process_id,
                    pty_id: self.pty_id.as_deref(),
                    seq: self.seq[place],
                    event_id: number(),
                    cursor: Some(next.0),
                    bytes,
                };
                let mut line = Vec::new();
                event.encode(&mut line, telling.encoding);
                vec![line.into()]
            }
            Item::Lost { bytes, next } => vec![
                encode_event(&v1::ExecLost {
                    session_id: telling.session_id.to_string(),
                    process_id: process_id.clone(),
                    pty_id: self.pty_id.clone(),
                    stream: None,
                    bytes: *bytes,
                    cursor: next.0,
                    event_id: number(),
                })
                .into(),
            ],
            // The protocol reports the exit with the end.
            Item::Exited { .. } | Item::Disconnected => Vec::new(),
            Item::Closed(closed) => {
                let mut lines = Vec::new();
                if closed.cause == ExitCause::OutputLimit || closed.truncated_bytes > 0 {
                    lines.push(output_limit(telling, process_id, closed, number()));
                }
                lines.push(self.exit(telling, closed, number()));
                lines
            }
        }
    }

    fn exit(&self, telling: &Telling, closed: &ProcessSummary, event_id: u64) -> Bytes {
        let session_id = telling.session_id.to_string();
        let process_id = self.follow.process.id().0.clone();
        let (exit_code, signal) = (exit_code(closed.exit), exit_signal(closed.exit));
        let timed_out = closed.cause == ExitCause::TimedOut;
        let reason = limit_reached(closed.cause);
        let duration_ms = u64::try_from(closed.duration.as_millis()).unwrap_or(u64::MAX);
        let held_by = closed.held_by.iter().map(|member| i64::from(member.pid)).collect();
        let cursor = Some(self.follow.reader.cursor().0);
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
                output_limit_exceeded: closed.cause == ExitCause::OutputLimit || closed.truncated_bytes > 0,
                held_by,
                cursor,
                reason,
                sandbox_denied,
            }),
        };
        line.into()
    }
}

impl Telling {
    /// The process has ended and everybody who follows it knows: its session may forget it in time.
    pub(super) async fn ended(&self, process: &Process) {
        let notice = Letter::Notice(Notice::Finished(process.id().clone()));
        // The session may be over already; then nothing has to be remembered.
        self.letters.send(notice).await.ok();
    }

    /// Records the end of a process that this session started.
    pub(super) fn record_end(&self, process: &Process, closed: &ProcessSummary) {
        self.audit.record(AuditRecord {
            time: SystemTime::now(),
            caller: self.asker.caller.name.clone(),
            address: self.asker.caller.address.clone(),
            client: self.asker.client.clone(),
            face: FACE,
            session: self.asker.session.clone(),
            operation: if process.description().has_terminal {
                "pty.exit".into()
            } else {
                "exec.exit".into()
            },
            details: vec![("process_id".into(), audit::Detail::Text(process.id().0.clone()))],
            outcome: AuditOutcome::Done("ended".into()),
            exit: Some(closed.exit),
            duration: closed.duration,
            decision: None,
        });
    }
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

fn output_limit(telling: &Telling, process_id: &str, closed: &ProcessSummary, event_id: u64) -> Bytes {
    encode_event(&v1::ExecError {
        session_id: telling.session_id.to_string(),
        process_id: process_id.to_owned(),
        code: codes::OUTPUT_LIMIT_EXCEEDED,
        message: "output limit exceeded".to_owned(),
        data: json!({ "limit_bytes": closed.stdout_bytes + closed.stderr_bytes }),
        event_id,
    })
    .into()
}

/// The resource that was used up, if that ended a process and no older member says so.
fn limit_reached(cause: ExitCause) -> Option<String> {
    match cause {
        ExitCause::MemoryLimit => Some("memory_limit".to_owned()),
        ExitCause::Itself | ExitCause::Killed | ExitCause::TimedOut | ExitCause::OutputLimit => None,
    }
}
