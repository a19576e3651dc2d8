//! The room of one executor: who is there, and which stream belongs to which harness.
//!
//! One task owns it all and opens letters one by one, without ever waiting for anybody: frames are put into the queues
//! of those they are for. The room lives as long as somebody has a way to write to it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::queue::{Frame, Full, Outbox, Rest};
use super::socket::Farewell;
use crate::config::Limits;
use wire::exec_server::relay::{Body, Kind, RelayFrame, Route, route};

/// Letters that wait to be opened; who writes the next one waits.
const MAILBOX: usize = 256;
/// Why a stream is reset, as both ends see it.
const HARNESS_GONE: &str = "the harness disconnected";
const HELD: &str = "another harness has a stream of this name";
const TOO_MANY: &str = "there are too many streams";
const NO_EXECUTOR: &str = "the executor is gone";

/// A place in the room; none is ever given twice, so that an old connection cannot be taken for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Seat {
    Executor(u64),
    Harness(u64),
}

/// What the room is told.
#[derive(Debug)]
pub(super) enum Letter {
    /// An executor is there; the one before it has to go.
    ExecutorCame { outbox: Outbox, seat: oneshot::Sender<Seat> },
    /// A harness is there. It is answered when the executor is there too; nothing, if there are too many.
    HarnessCame { outbox: Outbox, seat: oneshot::Sender<Option<Seat>> },
    /// Somebody sent a frame.
    Frame { from: Seat, frame: Frame },
    /// Somebody left.
    Left { seat: Seat },
}

/// A frame that ends a stream.
fn reset(stream: &str, reason: &str) -> Bytes {
    RelayFrame::new(stream, Body::Reset { reason: reason.to_owned() }).encode()
}

/// A way into a room.
#[derive(Debug, Clone)]
pub(super) struct Door {
    pub(super) letters: mpsc::Sender<Letter>,
    /// What all harnesses together may have on its way to the executor.
    pub(super) to_executor: Arc<Semaphore>,
}

/// The same, which does not keep the room open.
#[derive(Debug)]
pub(super) struct Doorplate {
    letters: mpsc::WeakSender<Letter>,
    to_executor: Arc<Semaphore>,
}

impl Door {
    pub(super) fn plate(&self) -> Doorplate {
        Doorplate { letters: self.letters.downgrade(), to_executor: self.to_executor.clone() }
    }
}

impl Doorplate {
    /// The way in, if somebody is in the room.
    pub(super) fn door(&self) -> Option<Door> {
        Some(Door { letters: self.letters.upgrade()?, to_executor: self.to_executor.clone() })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.letters.strong_count() == 0
    }
}

/// Opens a room. The future is the room itself.
pub(super) fn open(limits: Arc<Limits>) -> (Door, impl Future<Output = ()> + Send) {
    let (letters, mut mailbox) = mpsc::channel(MAILBOX);
    let to_executor = Arc::new(Semaphore::new(limits.queued_bytes.min(Semaphore::MAX_PERMITS)));
    let mut room =
        Room { limits, executor: None, harnesses: HashMap::new(), streams: HashMap::new(), seats: 0 };
    let life = async move {
        while let Some(letter) = mailbox.recv().await {
            room.read(letter);
        }
    };
    (Door { letters, to_executor }, life)
}

#[derive(Debug)]
struct Room {
    limits: Arc<Limits>,
    executor: Option<(u64, Outbox)>,
    harnesses: HashMap<u64, Harness>,
    /// Who has which stream.
    streams: HashMap<Arc<str>, u64>,
    seats: u64,
}

#[derive(Debug)]
struct Harness {
    outbox: Outbox,
    streams: HashSet<Arc<str>>,
    /// Until the executor is there.
    waits: Option<oneshot::Sender<Option<Seat>>>,
}

impl Room {
    fn read(&mut self, letter: Letter) {
        match letter {
            Letter::ExecutorCame { outbox, seat } => self.executor_came(outbox, seat),
            Letter::HarnessCame { outbox, seat } => self.harness_came(outbox, seat),
            Letter::Frame { from: Seat::Executor(number), frame } => {
                // An executor that was replaced has nothing to say any more.
                if self.executor.as_ref().is_some_and(|(current, _)| *current == number) {
                    self.route_to_harness(frame);
                }
            }
            Letter::Frame { from: Seat::Harness(number), frame } => self.route_to_executor(number, frame),
            Letter::Left { seat: Seat::Executor(number) } => {
                if self.executor.as_ref().is_some_and(|(current, _)| *current == number) {
                    self.executor = None;
                    self.end_harnesses();
                }
            }
            Letter::Left { seat: Seat::Harness(number) } => self.harness_left(number),
        }
    }

    fn executor_came(&mut self, outbox: Outbox, seat: oneshot::Sender<Seat>) {
        if let Some((_, replaced)) = self.executor.take() {
            replaced.end(Farewell::REPLACED, Rest::Discard);
            self.end_harnesses();
        }
        let number = self.number();
        if seat.send(Seat::Executor(number)).is_err() {
            return;
        }
        self.executor = Some((number, outbox));
        // Those that have given up are no longer there.
        self.harnesses.retain(|number, harness| match harness.waits.take() {
            Some(waits) => waits.send(Some(Seat::Harness(*number))).is_ok(),
            None => true,
        });
    }

    fn harness_came(&mut self, outbox: Outbox, seat: oneshot::Sender<Option<Seat>>) {
        // Somebody may have given up waiting, in the very moment of being let in at worst.
        self.harnesses.retain(|_, other| !other.streams.is_empty() || !other.outbox.is_closed());
        if self.harnesses.len() >= self.limits.harnesses_per_executor {
            seat.send(None).ok();
            return;
        }
        let number = self.number();
        let mut harness = Harness { outbox, streams: HashSet::new(), waits: None };
        match self.executor {
            None => harness.waits = Some(seat),
            Some(_) if seat.send(Some(Seat::Harness(number))).is_err() => return,
            Some(_) => {}
        }
        self.harnesses.insert(number, harness);
    }

    /// All that are connected end, so that they come again and find whoever is there then. Those that wait go on.
    fn end_harnesses(&mut self) {
        self.streams.clear();
        self.harnesses.retain(|_, harness| {
            if harness.waits.is_none() {
                harness.outbox.end(Farewell::EXECUTOR_GONE, Rest::Deliver);
            }
            harness.waits.is_some()
        });
    }

    fn harness_left(&mut self, number: u64) {
        let Some(harness) = self.harnesses.remove(&number) else { return };
        for stream in harness.streams {
            self.streams.remove(&stream);
            self.tell_executor(reset(&stream, HARNESS_GONE));
        }
    }

    fn route_to_executor(&mut self, from: u64, frame: Frame) {
        let Ok(Route { stream_id: stream, kind }) = route(&frame.bytes) else { return };
        match self.admit(from, stream) {
            Ok(()) => {}
            Err(Some(why)) => return self.tell_harness(from, reset(stream, why)),
            Err(None) => return,
        }
        if kind == Kind::Reset {
            self.release(stream);
        }
        self.push_to_executor(frame);
    }

    /// Sees to it that a stream belongs to a harness, or says why it cannot.
    fn admit(&mut self, from: u64, stream: &str) -> Result<(), Option<&'static str>> {
        let Some(harness) = self.harnesses.get_mut(&from) else { return Err(None) };
        match self.streams.get(stream) {
            Some(holder) if *holder == from => return Ok(()),
            Some(_other) => return Err(Some(HELD)),
            None if self.executor.is_none() => return Err(Some(NO_EXECUTOR)),
            None => {}
        }
        let is_full = harness.streams.len() >= self.limits.streams_per_harness
            || self.streams.len() >= self.limits.streams_per_executor;
        if is_full {
            return Err(Some(TOO_MANY));
        }
        let stream: Arc<str> = stream.into();
        harness.streams.insert(stream.clone());
        self.streams.insert(stream, from);
        Ok(())
    }

    /// A stream was reset: its name is nobody's.
    fn release(&mut self, stream: &str) {
        if let Some(holder) = self.streams.remove(stream)
            && let Some(harness) = self.harnesses.get_mut(&holder)
        {
            harness.streams.remove(stream);
        }
    }

    fn route_to_harness(&mut self, mut frame: Frame) {
        let Ok(Route { stream_id: stream, kind }) = route(&frame.bytes) else { return };
        let Some(holder) = self.streams.get(stream).copied() else { return };
        if kind == Kind::Reset {
            self.release(stream);
        }
        // A harness that takes nothing must not keep its executor from sending to the others.
        frame.credit = Vec::new();
        self.push_to_harness(holder, frame);
    }

    fn tell_harness(&mut self, number: u64, bytes: Bytes) {
        self.push_to_harness(number, Frame { bytes, credit: Vec::new() });
    }

    fn push_to_harness(&mut self, number: u64, frame: Frame) {
        let Some(harness) = self.harnesses.get(&number) else { return };
        if harness.outbox.push(frame) == Err(Full) {
            harness.outbox.end(Farewell::TOO_SLOW, Rest::Discard);
            self.harness_left(number);
        }
    }

    fn tell_executor(&mut self, bytes: Bytes) {
        self.push_to_executor(Frame { bytes, credit: Vec::new() });
    }

    /// What harnesses send has its room by their credit; only resets for one that does not read can be too many.
    fn push_to_executor(&mut self, frame: Frame) {
        let Some((_, outbox)) = &self.executor else { return };
        if outbox.push(frame) == Err(Full) {
            outbox.end(Farewell::TOO_SLOW, Rest::Discard);
            self.executor = None;
            self.end_harnesses();
        }
    }

    fn number(&mut self) -> u64 {
        self.seats += 1;
        self.seats
    }
}
