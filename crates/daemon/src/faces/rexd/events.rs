//! What a session is told: one task reads the logs of its processes in turn and numbers every event.
//!
//! The event lane of a link has few places. While the client does not read, this task waits there, the logs hold the
//! output, and nothing else waits: answers have a lane of their own. While nobody listens but somebody may come back,
//! a bounded number of events is kept ready and the rest stays in the logs.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use engine::audit::AuditSink;
use engine::process::{Item, LogReader, Process, ProcessId};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use wire::rexd::v1::Encoding;

use super::answer::Asker;
use super::followed::{Followed, step};
use super::kept::{Kept, NotYet};
use super::listener::Listener;
use super::mailbox::{Letter, Notice};
use crate::observe::metrics::{Metrics, ProcessGauge};

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
    pub(super) counted: Option<ProcessGauge>,
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
    current: HashMap<ProcessId, Current>,
    serial: u64,
    /// Whether anybody may still come to listen.
    may_be_heard: bool,
}

/// The following of a process that counts. The one before ends when this takes its place.
struct Current {
    serial: u64,
    /// The process, if it waits for this reader.
    process: Option<Process>,
    /// How it is counted, if this session started it, and how far its output was.
    counted: Option<ProcessGauge>,
    counted_to: u64,
    _until: oneshot::Sender<()>,
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
            EventOrder::Follow(mut follow) => {
                self.serial += 1;
                // Who follows again what this session started goes on counting it.
                let (before, counted_to) = match self.current.remove(follow.process.id()) {
                    Some(before) => (before.counted, before.counted_to),
                    None => (None, 0),
                };
                let counted = follow.counted.take().or(before);
                let waits_for_us = follow.reader.is_primary().then(|| follow.process.clone());
                if let (Some(process), None) = (&waits_for_us, &self.listener) {
                    process.set_reader_disconnected(true);
                }
                let (hold, until) = oneshot::channel();
                let current =
                    Current { serial: self.serial, process: waits_for_us, counted, counted_to, _until: hold };
                self.current.insert(follow.process.id().clone(), current);
                self.follow(Followed::new(*follow, self.serial, until));
            }
            EventOrder::Tell(encode) => {
                let line = encode(self.kept.next_id());
                self.push(line.into());
            }
        }
    }

    fn push(&mut self, line: Bytes) {
        self.kept.push(line);
        if self.listener.is_none() {
            self.kept.give_up();
        }
    }

    fn follow(&mut self, followed: Followed) {
        self.following.push(Box::pin(step(followed, self.max)));
    }

    /// Takes what a log gave and numbers it.
    async fn take(&mut self, mut followed: Followed, item: Item) {
        let id = followed.follow.process.id();
        let current = self.current.get_mut(id).filter(|current| current.serial == followed.serial);
        let Some(current) = current else { return };
        let is_ours = current.counted.is_some();
        let mut next_id = self.kept.next_id();
        match &item {
            Item::Output { stream, bytes, next } if is_ours => {
                // What is told again is not written again.
                let news = next.0.saturating_sub(current.counted_to).min(bytes.len() as u64);
                current.counted_to = current.counted_to.max(next.0);
                self.telling.metrics.output_bytes(*stream, news);
            }
            Item::Lost { bytes, .. } => self.telling.metrics.lost_bytes(*bytes),
            Item::Output { .. } | Item::Exited { .. } | Item::Closed(_) | Item::Disconnected => {}
        }
        for line in followed.tell(&self.telling, &item, &mut next_id) {
            self.push(line);
        }
        match item {
            Item::Closed(closed) => {
                let current = self.current.remove(followed.follow.process.id());
                if let Some(counted) = current.and_then(|current| current.counted) {
                    counted.ended(closed.cause);
                }
                // Others who follow it add nothing, and what a keeper has it records itself.
                if is_ours && !followed.follow.process.description().is_detached {
                    self.telling.record_end(&followed.follow.process, &closed);
                }
                self.telling.ended(&followed.follow.process).await;
            }
            Item::Disconnected => drop(self.current.remove(followed.follow.process.id())),
            Item::Output { .. } | Item::Lost { .. } | Item::Exited { .. } => self.follow(followed),
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
                let rewound = match seen {
                    Some(seen) => self.kept.rewind(seen).map(|lost| (seen, lost)),
                    None => Ok((self.kept.last_sent(), self.kept.go_on())),
                };
                let (hold, told) = oneshot::channel();
                match rewound {
                    Ok((seen, lost)) => {
                        let gap = Gap { lost, last_lost: seen + lost, _hold: hold };
                        if verdict.send(Ok(gap)).is_err() {
                            return;
                        }
                        // Whoever asked has its answer out before the first event.
                        told.await.ok();
                        self.listener = Some((attachment, listener));
                        self.set_away(false);
                    }
                    Err(not_yet) => {
                        self.refused(attachment).await;
                        drop(verdict.send(Err(not_yet)));
                    }
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

    /// Somebody may not listen; whoever did before still does.
    async fn refused(&mut self, attachment: u64) {
        let is_link = |listener: &Listener| matches!(listener, Listener::Link(_));
        let before = self.listener.as_ref().map(|(current, listener)| (*current, is_link(listener)));
        let notice = Notice::Refused { attachment, before };
        self.telling.letters.send(Letter::Notice(notice)).await.ok();
    }

    fn leave(&mut self) {
        self.listener = None;
        self.set_away(true);
    }

    /// No order will come any more, so neither will a listener. What this session has only watched goes on without it.
    fn last_orders(&mut self) {
        self.may_be_heard = false;
        self.current.retain(|_, current| current.process.is_some());
    }

    fn set_away(&self, is_away: bool) {
        for process in self.current.values().filter_map(|current| current.process.as_ref()) {
            process.set_reader_disconnected(is_away);
        }
    }
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
    use wire::rexd::v1::OutputEvent;

    use super::*;

    /// ARCHITECTURE.md, invariant 27.
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
