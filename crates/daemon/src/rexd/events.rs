//! What a session is told: one task reads the logs of its processes in turn and numbers every event.
//!
//! The event lane of the link has few places. While the client does not read, this task waits there, the logs hold
//! the output, and nothing else waits: answers have a lane of their own.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use engine::audit::{self, AuditRecord, AuditSink, Outcome};
use engine::process::{Cause, Closed, Exit, Item, LogReader, Process, Stream};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use link::Outgoing;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use wire::rexd::v1::{self, Encoding, OutputEvent, codes, encode_event};

use super::FACE;
use super::answer::Asker;
use super::connection::Notice;
use super::convert::{exit_code, exit_signal, pty_id};

/// Orders that wait for the events task; past it whoever gives one waits.
const ORDERS_WAITING: usize = 64;
/// One event's worth of output, where the client takes lines of any length.
const CHUNK_BYTES: usize = 256 * 1024;
/// The worst that escaping does to a byte of text.
const WORST_ESCAPE: usize = 6;
/// What surrounds the data in an event.
const ENVELOPE_BYTES: usize = 1024;

/// What the events task is asked to do.
pub(super) enum EventOrder {
    /// Tell what this process writes and how it ends.
    Follow(Box<Follow>),
    /// Tell one thing; it gets its number when it is its turn.
    Tell(Box<dyn FnOnce(u64) -> Vec<u8> + Send>),
}

/// A process to be followed.
pub(super) struct Follow {
    pub(super) process: Process,
    pub(super) reader: LogReader,
    /// Output is held back until then, for clients that lose what comes too early.
    pub(super) not_before: Option<Instant>,
}

/// What every event of a session shares.
pub(super) struct Telling {
    pub(super) session_id: Arc<str>,
    pub(super) asker: Asker,
    pub(super) outgoing: Outgoing,
    pub(super) encoding: Encoding,
    pub(super) frame_bytes: Option<usize>,
    pub(super) audit: Arc<dyn AuditSink>,
    pub(super) notices: mpsc::Sender<Notice>,
}

/// A way to the events task of a session.
pub(super) type Events = mpsc::Sender<EventOrder>;

/// A channel to a task that is to `run`.
pub(super) fn channel() -> (Events, mpsc::Receiver<EventOrder>) {
    mpsc::channel(ORDERS_WAITING)
}

struct Followed {
    follow: Follow,
    pty_id: Option<String>,
    /// Events so far: of standard output or the terminal, and of standard error.
    seq: [u64; 2],
}

/// Runs until nobody can give orders any more and all that is followed has ended, or until the link is gone.
pub(super) async fn run(telling: Telling, mut orders: mpsc::Receiver<EventOrder>) {
    let max = chunk_bytes(telling.encoding, telling.frame_bytes);
    let mut following = FuturesUnordered::new();
    let mut next_id = 1;
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(EventOrder::Follow(follow)) => following.push(step(Followed::new(*follow), max)),
                Some(EventOrder::Tell(encode)) => {
                    let line = encode(next_id);
                    next_id += 1;
                    if telling.outgoing.event(line.into()).await.is_err() {
                        return;
                    }
                }
                None if following.is_empty() => return,
                None => orders.close(),
            },
            Some((mut followed, item)) = following.next(), if !following.is_empty() => {
                for line in followed.tell(&telling, &item, &mut next_id) {
                    if telling.outgoing.event(line).await.is_err() {
                        return;
                    }
                }
                match item {
                    Item::Closed(closed) => telling.ended(&followed.follow.process, &closed).await,
                    Item::Output { .. } | Item::Lost { .. } => following.push(step(followed, max)),
                }
                if orders.is_closed() && orders.is_empty() && following.is_empty() {
                    return;
                }
            }
        }
    }
}

async fn step(mut followed: Followed, max: usize) -> (Followed, Item) {
    if let Some(moment) = followed.follow.not_before.take() {
        tokio::time::sleep_until(moment).await;
    }
    let item = followed.follow.reader.next(max).await;
    (followed, item)
}

impl Followed {
    fn new(follow: Follow) -> Followed {
        let has_terminal = follow.process.description().has_terminal;
        let pty_id = has_terminal.then(|| pty_id(follow.process.id()));
        Followed { follow, pty_id, seq: [0; 2] }
    }

    fn tell(&mut self, telling: &Telling, item: &Item, next_id: &mut u64) -> Vec<Bytes> {
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
            Item::Closed(closed) => {
                let mut lines = Vec::new();
                if closed.cause == Cause::OutputLimit || closed.truncated_bytes > 0 {
                    lines.push(output_limit(telling, process_id, closed, number()));
                }
                lines.push(self.exit(telling, closed, number()));
                lines
            }
        }
    }

    fn exit(&self, telling: &Telling, closed: &Closed, event_id: u64) -> Bytes {
        let session_id = telling.session_id.to_string();
        let process_id = self.follow.process.id().0.clone();
        let (exit_code, signal) = (exit_code(closed.exit), exit_signal(closed.exit));
        let timed_out = closed.cause == Cause::TimedOut;
        let duration_ms = u64::try_from(closed.duration.as_millis()).unwrap_or(u64::MAX);
        let held_by = closed.held_by.iter().map(|member| i64::from(member.pid)).collect();
        let cursor = Some(self.follow.reader.cursor().0);
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
                output_limit_exceeded: closed.cause == Cause::OutputLimit || closed.truncated_bytes > 0,
                held_by,
                cursor,
            }),
        };
        line.into()
    }
}

impl Telling {
    /// The process has ended and everybody who follows it knows: its session may forget it in time.
    async fn ended(&self, process: &Process, closed: &Closed) {
        let exit = match closed.exit {
            Exit::Code(code) => audit::Exit::Code(code),
            Exit::Signal(signal) => audit::Exit::Signal(signal.number()),
        };
        self.audit.record(AuditRecord {
            time: SystemTime::now(),
            caller: Arc::from("stdio"),
            address: None,
            client: self.asker.client.clone(),
            face: FACE,
            session: self.asker.session.clone(),
            operation: if process.description().has_terminal {
                "pty.exit".into()
            } else {
                "exec.exit".into()
            },
            details: vec![("process_id".into(), audit::Detail::Text(process.id().0.clone()))],
            outcome: Outcome::Done("ended".into()),
            exit: Some(exit),
            duration: closed.duration,
            rule: None,
        });
        let notice = Notice::Finished { session_id: self.session_id.clone(), process: process.id().clone() };
        // The connection may be gone already; then nothing has to be remembered.
        self.notices.send(notice).await.ok();
    }
}

fn output_limit(telling: &Telling, process_id: &str, closed: &Closed, event_id: u64) -> Bytes {
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

/// How much output goes into one event, so that its line never passes what the client can take.
fn chunk_bytes(encoding: Encoding, frame_bytes: Option<usize>) -> usize {
    let Some(frame) = frame_bytes else { return CHUNK_BYTES };
    let room = frame.saturating_sub(ENVELOPE_BYTES);
    let fits = match encoding {
        Encoding::Utf8 => room / WORST_ESCAPE,
        Encoding::Base64 => room / 4 * 3,
    };
    fits.clamp(1024, CHUNK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_event_is_longer_than_the_client_can_take() {
        for (encoding, byte) in [(Encoding::Utf8, 0x01), (Encoding::Utf8, 0xff), (Encoding::Base64, b'a')] {
            let bytes = vec![byte; chunk_bytes(encoding, Some(950_000))];
            let mut line = Vec::new();
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
            event.encode(&mut line, encoding);
            assert!(line.len() <= 950_000, "{encoding:?} {byte} gave {}", line.len());
        }
    }
}
