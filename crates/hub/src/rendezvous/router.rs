//! The stream router of one executor: its connections, and the harness of each stream.
//!
//! One task owns this state and handles messages one by one without waiting: it appends frames to the queue of their
//! connection. It runs as long as a [`StreamRouterHandle`] exists.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::connection::CloseReason;
use super::queue::{FrameSender, PendingFrames, QueueFull, RelayedFrame};
use crate::config::Limits;
use wire::exec_server::relay::{Body, Kind, RelayFrame, Route, route};
use wire::hub::v1::StreamOpened;

/// The router's inbox: 256 messages; senders wait when it is full.
const INBOX: usize = 256;
/// Reasons in the reset frame of a stream.
const HARNESS_GONE: &str = "the harness disconnected";
const IN_USE: &str = "another harness uses this stream id";
const TOO_MANY: &str = "too many streams";
const NO_EXECUTOR: &str = "the executor disconnected";

/// The id of a connection; never reused, so that an old connection cannot be confused with a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ConnectionId {
    Executor(u64),
    Harness(u64),
}

/// The user of the hub whose streams a host serves.
#[derive(Debug, Clone)]
pub(super) struct StreamOwner {
    pub(super) user: String,
    pub(super) role: String,
}

/// A message to the router.
#[derive(Debug)]
pub(super) enum RouterMessage {
    /// An executor connected; it replaces the one before.
    ExecutorConnected { queue: FrameSender, id: oneshot::Sender<ConnectionId> },
    /// A harness connected. Its id is sent when the executor is connected too; `None` if there are too many harnesses.
    HarnessConnected {
        queue: FrameSender,
        owner: Option<StreamOwner>,
        id: oneshot::Sender<Option<ConnectionId>>,
    },
    /// A connection received a frame.
    Frame { from: ConnectionId, frame: RelayedFrame },
    /// A connection ended.
    Disconnected { id: ConnectionId },
}

/// An encoded frame that resets a stream.
fn reset(stream: &str, reason: &str) -> Bytes {
    RelayFrame::new(stream, Body::Reset { reason: reason.to_owned() }).encode()
}

/// The text frame that precedes the first frame of a user's stream.
fn announcement(owner: &StreamOwner, stream: &str) -> Bytes {
    let opened =
        StreamOpened { stream_id: stream.to_owned(), user: owner.user.clone(), role: owner.role.clone() };
    // Three strings: this cannot fail.
    serde_json::to_vec(&opened).unwrap_or_default().into()
}

/// Sends messages to a router and keeps it running.
#[derive(Debug, Clone)]
pub(super) struct StreamRouterHandle {
    pub(super) messages: mpsc::Sender<RouterMessage>,
    /// The credit of all harnesses together for bytes on their way to the executor.
    pub(super) to_executor: Arc<Semaphore>,
}

/// The same, without keeping the router running.
#[derive(Debug)]
pub(super) struct WeakStreamRouterHandle {
    messages: mpsc::WeakSender<RouterMessage>,
    to_executor: Arc<Semaphore>,
}

impl StreamRouterHandle {
    pub(super) fn downgrade(&self) -> WeakStreamRouterHandle {
        WeakStreamRouterHandle { messages: self.messages.downgrade(), to_executor: self.to_executor.clone() }
    }
}

impl WeakStreamRouterHandle {
    /// The handle, if the router is still running.
    pub(super) fn upgrade(&self) -> Option<StreamRouterHandle> {
        Some(StreamRouterHandle { messages: self.messages.upgrade()?, to_executor: self.to_executor.clone() })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.messages.strong_count() == 0
    }
}

/// A router for one executor. The future runs it and belongs on a task.
pub(super) fn router(limits: Arc<Limits>) -> (StreamRouterHandle, impl Future<Output = ()> + Send) {
    let (messages, mut inbox) = mpsc::channel(INBOX);
    let to_executor = Arc::new(Semaphore::new(limits.queued_bytes.min(Semaphore::MAX_PERMITS)));
    let mut router = StreamRouter {
        limits,
        executor: None,
        harnesses: HashMap::new(),
        streams: HashMap::new(),
        last_id: 0,
    };
    let run = async move {
        while let Some(message) = inbox.recv().await {
            router.handle(message);
        }
    };
    (StreamRouterHandle { messages, to_executor }, run)
}

#[derive(Debug)]
struct StreamRouter {
    limits: Arc<Limits>,
    executor: Option<(u64, FrameSender)>,
    harnesses: HashMap<u64, Harness>,
    /// The harness of each stream.
    streams: HashMap<Arc<str>, u64>,
    last_id: u64,
}

#[derive(Debug)]
struct Harness {
    queue: FrameSender,
    /// Announced to the executor with each new stream.
    owner: Option<StreamOwner>,
    streams: HashSet<Arc<str>>,
    /// Set until the executor is connected.
    waiting: Option<oneshot::Sender<Option<ConnectionId>>>,
}

impl StreamRouter {
    fn handle(&mut self, message: RouterMessage) {
        match message {
            RouterMessage::ExecutorConnected { queue, id } => self.add_executor(queue, id),
            RouterMessage::HarnessConnected { queue, owner, id } => self.add_harness(queue, owner, id),
            RouterMessage::Frame { from: ConnectionId::Executor(number), frame } => {
                // Frames of a replaced executor are dropped.
                if self.executor.as_ref().is_some_and(|(current, _)| *current == number) {
                    self.route_to_harness(frame);
                }
            }
            RouterMessage::Frame { from: ConnectionId::Harness(number), frame } => {
                self.route_to_executor(number, frame);
            }
            RouterMessage::Disconnected { id: ConnectionId::Executor(number) } => {
                if self.executor.as_ref().is_some_and(|(current, _)| *current == number) {
                    self.executor = None;
                    self.end_harnesses();
                }
            }
            RouterMessage::Disconnected { id: ConnectionId::Harness(number) } => self.remove_harness(number),
        }
    }

    fn add_executor(&mut self, queue: FrameSender, id: oneshot::Sender<ConnectionId>) {
        if let Some((_, replaced)) = self.executor.take() {
            replaced.end(CloseReason::REPLACED, PendingFrames::Discard);
            self.end_harnesses();
        }
        let number = self.next_id();
        if id.send(ConnectionId::Executor(number)).is_err() {
            return;
        }
        self.executor = Some((number, queue));
        // A harness that no longer waits is removed.
        self.harnesses.retain(|number, harness| match harness.waiting.take() {
            Some(waiting) => waiting.send(Some(ConnectionId::Harness(*number))).is_ok(),
            None => true,
        });
    }

    fn add_harness(
        &mut self,
        queue: FrameSender,
        owner: Option<StreamOwner>,
        id: oneshot::Sender<Option<ConnectionId>>,
    ) {
        // A harness may have stopped waiting, even at the moment its id was sent.
        self.harnesses.retain(|_, other| !other.streams.is_empty() || !other.queue.is_closed());
        if self.harnesses.len() >= self.limits.harnesses_per_executor {
            id.send(None).ok();
            return;
        }
        let number = self.next_id();
        let mut harness = Harness { queue, owner, streams: HashSet::new(), waiting: None };
        match self.executor {
            None => harness.waiting = Some(id),
            Some(_) if id.send(Some(ConnectionId::Harness(number))).is_err() => return,
            Some(_) => {}
        }
        self.harnesses.insert(number, harness);
    }

    /// Ends the connected harnesses, so that they reconnect to the next executor. Those that wait for it stay.
    fn end_harnesses(&mut self) {
        self.streams.clear();
        self.harnesses.retain(|_, harness| {
            if harness.waiting.is_none() {
                harness.queue.end(CloseReason::EXECUTOR_DISCONNECTED, PendingFrames::Deliver);
            }
            harness.waiting.is_some()
        });
    }

    fn remove_harness(&mut self, number: u64) {
        let Some(harness) = self.harnesses.remove(&number) else { return };
        for stream in harness.streams {
            self.streams.remove(&stream);
            self.send_to_executor(reset(&stream, HARNESS_GONE));
        }
    }

    fn route_to_executor(&mut self, from: u64, frame: RelayedFrame) {
        let Ok(Route { stream_id: stream, kind }) = route(&frame.bytes) else { return };
        match self.assign(from, stream) {
            Ok(()) => {}
            Err(Some(why)) => return self.send_to_harness(from, reset(stream, why)),
            Err(None) => return,
        }
        if kind == Kind::Reset {
            self.release(stream);
        }
        self.push_to_executor(frame);
    }

    /// Assigns a stream to a harness. The error is the reason for a reset, or `None` if the harness is disconnected.
    fn assign(&mut self, from: u64, stream: &str) -> Result<(), Option<&'static str>> {
        let Some(harness) = self.harnesses.get_mut(&from) else { return Err(None) };
        match self.streams.get(stream) {
            Some(owner) if *owner == from => return Ok(()),
            Some(_other) => return Err(Some(IN_USE)),
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
        let opened = harness.owner.as_ref().map(|owner| announcement(owner, &stream));
        self.streams.insert(stream, from);
        if let Some(opened) = opened {
            self.send_to_executor(opened);
        }
        Ok(())
    }

    /// A stream was reset: its id can be used again.
    fn release(&mut self, stream: &str) {
        if let Some(owner) = self.streams.remove(stream)
            && let Some(harness) = self.harnesses.get_mut(&owner)
        {
            harness.streams.remove(stream);
        }
    }

    fn route_to_harness(&mut self, mut frame: RelayedFrame) {
        let Ok(Route { stream_id: stream, kind }) = route(&frame.bytes) else { return };
        let Some(owner) = self.streams.get(stream).copied() else { return };
        if kind == Kind::Reset {
            self.release(stream);
        }
        // A harness that reads nothing must not stop its executor from sending to the others.
        frame.credit = Vec::new();
        self.push_to_harness(owner, frame);
    }

    fn send_to_harness(&mut self, number: u64, bytes: Bytes) {
        self.push_to_harness(number, RelayedFrame { bytes, credit: Vec::new() });
    }

    fn push_to_harness(&mut self, number: u64, frame: RelayedFrame) {
        let Some(harness) = self.harnesses.get(&number) else { return };
        if harness.queue.push(frame) == Err(QueueFull) {
            harness.queue.end(CloseReason::TOO_SLOW, PendingFrames::Discard);
            self.remove_harness(number);
        }
    }

    fn send_to_executor(&mut self, bytes: Bytes) {
        self.push_to_executor(RelayedFrame { bytes, credit: Vec::new() });
    }

    /// Frames of harnesses are bounded by their credit; only resets to an executor that does not read can be too many.
    fn push_to_executor(&mut self, frame: RelayedFrame) {
        let Some((_, queue)) = &self.executor else { return };
        if queue.push(frame) == Err(QueueFull) {
            queue.end(CloseReason::TOO_SLOW, PendingFrames::Discard);
            self.executor = None;
            self.end_harnesses();
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}
