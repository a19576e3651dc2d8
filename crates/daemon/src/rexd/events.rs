//! What a session is told: one task reads the logs of its processes in turn and numbers every event.
//!
//! The event lane of a link has few places. While the client does not read, this task waits there, the logs hold the
//! output, and nothing else waits: answers have a lane of their own. While nobody listens but somebody may come back,
//! a bounded number of events is kept ready and the rest stays in the logs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use engine::audit::{self, AuditRecord, AuditSink, Outcome};
use engine::process::{Cause, Closed, Exit, Item, LogReader, Process, ProcessId, Stream};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use wire::rexd::v1::{self, Encoding, OutputEvent, codes, encode_event};

use super::FACE;
use super::answer::Asker;
use super::convert::{exit_code, exit_signal, pty_id};
use super::kept::{Kept, NotYet};
use super::listener::Listener;
use super::mailbox::{Letter, Notice};
use crate::metrics::{HeldProcess, Metrics};

/// Orders that wait for the events task; past it whoever gives one waits.
const ORDERS_WAITING: usize = 64;
/// Changes of the listener that wait; each is made by the session's own task, which then waits.
const CHANGES_WAITING: usize = 4;
/// One event's worth of output, where the client takes lines of any length.
const CHUNK_BYTES: usize = 256 * 1024;
/// The worst that escaping does to a byte of text.
const WORST_ESCAPE: usize = 6;
/// What surrounds the data in an event.
const ENVELOPE_BYTES: usize = 1024;

/// What the events task is asked to do.
pub(super) enum EventOrder {
    /// Tell what this process writes and how it ends; whoever followed it before in this session no longer does.
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
    /// How it is counted, by whoever started it.
    pub(super) counted: Option<HeldProcess>,
}

/// Who listens, and since when.
pub(super) enum Change {
    /// Events go there from now on, beginning after the one that was seen last.
    Listen {
        attachment: u64,
        listener: Listener,
        seen: Option<u64>,
        /// Hears how many events are lost, before the first is told; the telling waits until it is dropped.
        verdict: oneshot::Sender<Result<Gap, NotYet>>,
    },
    /// Nobody listens there any more.
    Cut { attachment: u64 },
}

/// What a listener that comes back will not hear. Events go on when this is dropped.
#[derive(Debug)]
pub(super) struct Gap {
    pub(super) lost: u64,
    /// The number of the last event that is lost.
    pub(super) last_lost: u64,
    _hold: oneshot::Sender<()>,
}

/// What every event of a session shares.
pub(super) struct Telling {
    pub(super) session_id: Arc<str>,
    pub(super) asker: Asker,
    pub(super) encoding: Encoding,
    pub(super) frame_bytes: Option<usize>,
    pub(super) audit: Arc<dyn AuditSink>,
    pub(super) metrics: Metrics,
    pub(super) letters: mpsc::Sender<Letter>,
    /// Who listens from the start.
    pub(super) listener: Option<(u64, Listener)>,
    /// Bytes of events kept for a client that may come back; 0 if none may.
    pub(super) keep_bytes: usize,
}

/// A way to the events task of a session.
pub(super) type Events = mpsc::Sender<EventOrder>;
/// A way to tell it who listens.
pub(super) type Changes = mpsc::Sender<Change>;
/// Where the task takes both from.
pub(super) type Inbox = (mpsc::Receiver<EventOrder>, mpsc::Receiver<Change>);

/// Channels to a task that is to `run`.
pub(super) fn channel() -> (Events, Changes, Inbox) {
    let (events, orders) = mpsc::channel(ORDERS_WAITING);
    let (changes, changed) = mpsc::channel(CHANGES_WAITING);
    (events, changes, (orders, changed))
}

struct Followed {
    follow: Follow,
    /// Which following of this process this is; only the latest tells.
    serial: u64,
    pty_id: Option<String>,
    /// Events so far: of standard output or the terminal, and of standard error.
    seq: [u64; 2],
}

/// Runs until nobody can give orders any more and all that is followed has ended and been told.
pub(super) async fn run(telling: Telling, (mut orders, mut changes): Inbox) {
    let mut teller = Teller::new(telling);
    let mut may_be_ordered = true;
    loop {
        let unsent = teller.unsent();
        let is_idle = unsent.is_none();
        let may_pull = teller.may_pull(is_idle);
        let takes_orders = may_be_ordered && (is_idle || teller.listener.is_none());
        if !may_be_ordered && is_idle && teller.following.is_empty() {
            return;
        }
        tokio::select! {
            biased;
            Some(change) = changes.recv() => teller.change(change).await,
            sent = tell(teller.listener.as_ref(), unsent), if !is_idle => match sent {
                Ok(()) => teller.kept.sent(),
                Err(attachment) => teller.unheard(attachment).await,
            },
            attachment = gone(teller.listener.as_ref()) => teller.unheard(attachment).await,
            order = orders.recv(), if takes_orders => match order {
                Some(order) => teller.obey(order),
                None => {
                    may_be_ordered = false;
                    teller.last_orders();
                }
            },
            Some((followed, item)) = teller.following.next(), if may_pull => teller.take(followed, item).await,
        }
    }
}

/// Tells the listener one event; its number if it hears no more.
async fn tell(listener: Option<&(u64, Listener)>, unsent: Option<(u64, Bytes)>) -> Result<(), u64> {
    match (listener, unsent) {
        (Some((attachment, listener)), Some((id, line))) => {
            listener.tell(id, line).await.map_err(|_gone| *attachment)
        }
        _ => std::future::pending().await,
    }
}

/// Waits until the listener hears no more.
async fn gone(listener: Option<&(u64, Listener)>) -> u64 {
    match listener {
        Some((attachment, listener)) => {
            listener.gone().await;
            *attachment
        }
        None => std::future::pending().await,
    }
}

/// The state of the events task.
struct Teller {
    telling: Telling,
    max: usize,
    kept: Kept,
    listener: Option<(u64, Listener)>,
    following: FuturesUnordered<BoxFuture<'static, (Followed, Item)>>,
    /// Which following of each process counts, and the process if it waits for this reader.
    current: HashMap<ProcessId, (u64, Option<Process>)>,
    serial: u64,
    /// Whether anybody may still come to listen.
    may_be_heard: bool,
}

impl Teller {
    fn new(mut telling: Telling) -> Teller {
        Teller {
            max: chunk_bytes(telling.encoding, telling.frame_bytes),
            kept: Kept::new(telling.keep_bytes),
            listener: telling.listener.take(),
            following: FuturesUnordered::new(),
            current: HashMap::new(),
            serial: 0,
            may_be_heard: telling.keep_bytes > 0,
            telling,
        }
    }

    /// What is to be sent next. What nobody will ever hear is forgotten here.
    fn unsent(&mut self) -> Option<(u64, Bytes)> {
        if self.listener.is_none() && !self.may_be_heard {
            self.kept.discard();
        }
        match self.listener {
            Some(_) => self.kept.unsent(),
            None => None,
        }
    }

    /// Whether more is taken from the logs: nothing that would have to wait here instead of there.
    fn may_pull(&self, is_idle: bool) -> bool {
        match self.listener {
            Some(_) => is_idle,
            None => !self.may_be_heard || self.kept.has_room(line_bytes(self.telling.encoding, self.max)),
        }
    }

    fn obey(&mut self, order: EventOrder) {
        match order {
            EventOrder::Follow(follow) => {
                self.serial += 1;
                let waits_for_us = follow.reader.is_primary().then(|| follow.process.clone());
                if let (Some(process), None) = (&waits_for_us, &self.listener) {
                    process.set_reader_away(true);
                }
                self.current.insert(follow.process.id().clone(), (self.serial, waits_for_us));
                self.follow(Followed::new(*follow, self.serial));
            }
            EventOrder::Tell(encode) => {
                let line = encode(self.kept.next_id());
                self.kept.push(line.into());
            }
        }
    }

    fn follow(&mut self, followed: Followed) {
        self.following.push(Box::pin(step(followed, self.max)));
    }

    /// Takes what a log gave and numbers it.
    async fn take(&mut self, mut followed: Followed, item: Item) {
        let id = followed.follow.process.id();
        if self.current.get(id).is_none_or(|(serial, _)| *serial != followed.serial) {
            return;
        }
        let mut next_id = self.kept.next_id();
        match &item {
            Item::Output { stream, bytes, .. } if followed.follow.counted.is_some() => {
                self.telling.metrics.output_bytes(*stream, bytes.len() as u64);
            }
            Item::Lost { bytes, .. } => self.telling.metrics.lost_bytes(*bytes),
            Item::Output { .. } | Item::Closed(_) | Item::Left => {}
        }
        for line in followed.tell(&self.telling, &item, &mut next_id) {
            self.kept.push(line);
        }
        match item {
            Item::Closed(closed) => {
                if let Some(counted) = followed.follow.counted.take() {
                    counted.ended(closed.cause);
                }
                self.current.remove(followed.follow.process.id());
                self.telling.ended(&followed.follow.process, &closed).await;
            }
            Item::Left => drop(self.current.remove(followed.follow.process.id())),
            Item::Output { .. } | Item::Lost { .. } => self.follow(followed),
        }
    }

    async fn change(&mut self, change: Change) {
        match change {
            Change::Cut { attachment } => {
                if self.listener.as_ref().is_some_and(|(current, _)| *current == attachment) {
                    self.leave();
                }
            }
            Change::Listen { attachment, listener, seen, verdict } => {
                let seen = seen.unwrap_or_else(|| self.kept.last_sent());
                let rewound = self.kept.rewind(seen);
                let (hold, told) = oneshot::channel();
                match rewound {
                    Ok(lost) => {
                        let gap = Gap { lost, last_lost: seen + lost, _hold: hold };
                        if verdict.send(Ok(gap)).is_err() {
                            return;
                        }
                        // Whoever asked has its answer out before the first event.
                        told.await.ok();
                        self.listener = Some((attachment, listener));
                        self.set_away(false);
                    }
                    Err(not_yet) => drop(verdict.send(Err(not_yet))),
                }
            }
        }
    }

    /// The listener is gone without having said so.
    async fn unheard(&mut self, attachment: u64) {
        self.leave();
        // The session may be over already; then nothing has to be remembered.
        self.telling.letters.send(Letter::Notice(Notice::Unheard(attachment))).await.ok();
    }

    fn leave(&mut self) {
        self.listener = None;
        self.set_away(true);
    }

    /// No order will come any more, so neither will a listener.
    fn last_orders(&mut self) {
        self.may_be_heard = false;
    }

    fn set_away(&self, is_away: bool) {
        for process in self.current.values().filter_map(|(_, process)| process.as_ref()) {
            process.set_reader_away(is_away);
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
    fn new(follow: Follow, serial: u64) -> Followed {
        let has_terminal = follow.process.description().has_terminal;
        let pty_id = has_terminal.then(|| pty_id(follow.process.id()));
        Followed { follow, serial, pty_id, seq: [0; 2] }
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
            Item::Left => Vec::new(),
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
            outcome: Outcome::Done("ended".into()),
            exit: Some(exit),
            duration: closed.duration,
            rule: None,
        });
        let notice = Letter::Notice(Notice::Finished(process.id().clone()));
        // The session may be over already; then nothing has to be remembered.
        self.letters.send(notice).await.ok();
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

/// The longest line that so much output may become.
fn line_bytes(encoding: Encoding, chunk: usize) -> usize {
    let data = match encoding {
        Encoding::Utf8 => chunk * WORST_ESCAPE,
        Encoding::Base64 => chunk.div_ceil(3) * 4,
    };
    data + ENVELOPE_BYTES
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
