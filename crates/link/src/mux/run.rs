//! Streams over a link: one task serves all of them, and each is a separate link.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::task::Tasks;
use futures_util::future::OptionFuture;
use tokio::sync::mpsc;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use wire::exec_server::relay::RelayFrame;

use super::streams::Event;
use super::virtual_link::{self, Handle, ReadyList, ReadyReason, StreamCommand};
use super::{Key, Limits, Role, Streams};
use crate::lanes::{Outbound, Receipt};
use crate::task::OwnedTask;
use crate::{Closed, Incoming, Link, Outgoing, Receiver, Writing};

/// Commands of all streams to the driver; senders wait when it is full.
const COMMANDS: usize = 64;
/// New streams that wait to be accepted; further ones are reset.
const UNACCEPTED: usize = 128;
/// Frames that are sent before other events are handled.
const BURST: usize = 16;

/// Yields the streams that the peers open. Dropping it resets all of them and ends the link.
#[derive(Debug)]
pub struct Acceptor {
    opened: mpsc::Receiver<(String, Link)>,
}

impl Acceptor {
    /// The next stream: its id and its link. `None` when the link has ended. Nothing is lost if this future
    /// is dropped.
    pub async fn accept(&mut self) -> Option<(String, Link)> {
        self.opened.recv().await
    }
}

/// Accepts the streams that arrive on `link`, whose messages are relay frames. The task that serves them belongs to
/// `tasks`: it ends after the acceptor is dropped and all resets are written. Must be called within a tokio runtime.
pub fn executor(link: Link, limits: Limits, tasks: &Tasks) -> Acceptor {
    let (accepting, opened) = mpsc::channel(UNACCEPTED);
    let driver = Driver::new(Role::Executor, limits, link.outgoing);
    tasks.spawn(async move {
        let driver = driver.run(link.incoming, link.writing, Some(accepting)).await;
        driver.deliver_rest().await;
    });
    Acceptor { opened }
}

/// One stream over `link`, whose messages are relay frames. The link ends with the stream. The returned link owns the
/// task that serves it: its writing ends after the last frame is written. Must be called within a tokio runtime.
pub fn harness(link: Link, stream_id: &str, limits: Limits) -> Link {
    let mut driver = Driver::new(Role::Harness, limits, link.outgoing);
    let key = driver.streams.open(stream_id, now());
    let Link { incoming, outgoing, writing } = driver.virtual_link(key);
    let is_written = CancellationToken::new();
    let written = is_written.clone().drop_guard();
    let task = Arc::new(OwnedTask::spawn(async move {
        let driver = driver.run(link.incoming, link.writing, None).await;
        drop(written);
        driver.deliver_rest().await;
    }));
    let owner = task.clone();
    let writing = Writing::spawn(async move {
        let result = writing.finished().await;
        is_written.cancelled().await;
        drop(owner);
        result
    });
    let source = futures_util::stream::unfold((incoming, task), async |(mut incoming, task)| {
        Some((incoming.recv().await?, (incoming, task)))
    });
    Link { incoming: Receiver::new(source), outgoing, writing }
}

/// Owns all streams of one link.
struct Driver {
    streams: Streams,
    limits: Limits,
    outgoing: Option<Outgoing>,
    users: HashMap<Key, User>,
    ready: Arc<ReadyList>,
    command_sender: mpsc::Sender<StreamCommand>,
    commands: mpsc::Receiver<StreamCommand>,
}

/// The user of a stream, as the driver sees it.
struct User {
    handle: Handle,
    /// Messages that were queued, and how many of them have left.
    queued: u64,
    departed: u64,
    /// Receipts to hand out once that many messages have left.
    waiting: VecDeque<(u64, Receipt)>,
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Driver {
    fn new(role: Role, limits: Limits, outgoing: Outgoing) -> Driver {
        let (command_sender, commands) = mpsc::channel(COMMANDS);
        Driver {
            streams: Streams::new(role, limits.clone()),
            limits,
            outgoing: Some(outgoing),
            users: HashMap::new(),
            ready: Arc::default(),
            command_sender,
            commands,
        }
    }

    /// Serves the streams until the link or all of them end, then resets those that are left and waits until all frames
    /// are written.
    async fn run(
        mut self,
        mut incoming: Receiver,
        writing: Writing,
        accepting: Option<mpsc::Sender<(String, Link)>>,
    ) -> Driver {
        let Some(outgoing) = self.outgoing.take() else { return self };
        let ready = self.ready.clone();
        while accepting.is_some() || !self.users.is_empty() {
            let due = self.streams.next_due().map(|due| sleep_until(due.into()));
            tokio::select! {
                arrived = incoming.recv() => match arrived {
                    Some(arrived) => self.receive(arrived, accepting.as_ref()),
                    None => break,
                },
                Some(command) = self.commands.recv() => self.handle(command),
                reasons = ready.take() => reasons.into_iter().for_each(|reason| self.handle_ready(reason)),
                slot = outgoing.event_slot(), if self.streams.may_send() => match slot {
                    Ok(slot) => self.send(slot, &outgoing),
                    Err(Closed) => break,
                },
                Some(()) = OptionFuture::from(due) => self.streams.wake(now()),
                Some(()) = OptionFuture::from(accepting.as_ref().map(|accepting| accepting.closed())) => break,
            }
        }
        drop((accepting, incoming));
        self.reset_all(outgoing).await;
        if let Err(error) = writing.finished().await {
            tracing::debug!(%error, "writing relay frames failed");
        }
        self
    }

    /// Handles one frame of the peer.
    fn receive(&mut self, arrived: Incoming, accepting: Option<&mpsc::Sender<(String, Link)>>) {
        let frame = match arrived {
            Incoming::Message(bytes) => RelayFrame::decode(bytes),
            Incoming::TooLong { bytes } => {
                tracing::debug!(bytes, "skipped a relay frame over the limit");
                return;
            }
        };
        match frame {
            Ok(frame) => match self.streams.receive(frame, now()) {
                Event::Opened(key) => {
                    self.accept(key, accepting);
                    self.advance(key);
                }
                Event::Updated(key) => self.advance(key),
                Event::Ignored => {}
            },
            Err(error) => tracing::debug!(%error, "ignored a message that is not a relay frame"),
        }
    }

    fn accept(&mut self, key: Key, accepting: Option<&mpsc::Sender<(String, Link)>>) {
        let Some(id) = self.streams.get(key).map(|stream| stream.id().to_owned()) else { return };
        let stream = self.virtual_link(key);
        if accepting.is_none_or(|accepting| accepting.try_send((id, stream)).is_err()) {
            self.streams.reset(key, "too many streams are waiting to be accepted", now());
        }
    }

    fn virtual_link(&mut self, key: Key) -> Link {
        let limits = crate::Limits { line_bytes: self.limits.message_bytes, ..crate::Limits::default() };
        let queued = self.limits.queued_messages;
        let (link, handle) =
            virtual_link::open(key, queued, &limits, self.command_sender.clone(), &self.ready);
        handle.max_message.set(self.limits.max_message(None));
        self.users.insert(key, User { handle, queued: 0, departed: 0, waiting: VecDeque::new() });
        link
    }

    fn handle(&mut self, command: StreamCommand) {
        match command {
            StreamCommand::Send(key, Outbound { bytes, written }) => {
                let Some(user) = self.users.get_mut(&key) else { return };
                if bytes.len() > self.limits.max_message(self.streams.get(key)) {
                    // The peer would end the whole connection, and with it every other stream.
                    self.streams.reset(key, "message too large for this peer", now());
                } else if !bytes.is_empty() {
                    user.queued += 1;
                    self.streams.send(key, bytes, now());
                }
                user.waiting.push_back((user.queued, written));
                self.advance(key);
            }
            StreamCommand::Finish(key) => self.streams.finish(key, now()),
        }
    }

    fn handle_ready(&mut self, reason: ReadyReason) {
        match reason {
            ReadyReason::InboxFree(key) => self.advance(key),
            ReadyReason::Abandoned(key) => {
                self.streams.reset(key, "closed", now());
                self.advance(key);
            }
        }
    }

    /// Sends frames of the streams in turn, while the link has capacity.
    fn send(&mut self, first: mpsc::Permit<'_, Outbound>, outgoing: &Outgoing) {
        let now = now();
        let mut slot = Some(first);
        for _ in 0..BURST {
            let Some(free) = slot.take().or_else(|| outgoing.try_event_slot()) else { return };
            let Some(frame) = self.streams.frame(now) else { return };
            let key = self.streams.sent_last();
            free.send(Outbound { bytes: frame.encode(), written: Receipt::default() });
            if let Some(key) = key {
                self.advance(key);
            }
        }
    }

    /// Delivers messages of a stream to its user, releases its slots, and removes it at its end.
    fn advance(&mut self, key: Key) {
        let now = now();
        let Some(user) = self.users.get_mut(&key) else { return };
        user.deliver(key, &mut self.streams, now);
        let Some(stream) = self.streams.get(key) else { return };
        user.release(stream.departed());
        user.handle.max_message.set(self.limits.max_message(Some(stream)));
        if stream.end().is_none() {
            return;
        }
        user.handle.ended.cancel();
        user.waiting.clear();
        if !stream.owes_reset() && !stream.has_message() {
            self.streams.remove(key);
            self.users.remove(&key);
        }
    }

    /// Resets every stream that is left.
    async fn reset_all(&mut self, outgoing: Outgoing) {
        let now = now();
        for key in self.streams.keys() {
            self.streams.reset(key, "the connection ends", now);
        }
        while let Some(frame) = self.streams.frame(now) {
            if outgoing.event(frame.encode()).await.is_err() {
                break;
            }
        }
        for user in self.users.values() {
            user.handle.ended.cancel();
        }
    }

    /// Delivers messages that arrived before the end, at the speed of their users.
    async fn deliver_rest(mut self) {
        let ready = self.ready.clone();
        loop {
            for (key, user) in &mut self.users {
                user.deliver(*key, &mut self.streams, now());
            }
            let streams = &self.streams;
            self.users.retain(|key, _| streams.get(*key).is_some_and(|stream| stream.has_message()));
            if self.users.is_empty() {
                return;
            }
            ready.take().await;
        }
    }
}

impl User {
    /// Delivers messages until there are none or the inbox is full.
    fn deliver(&mut self, key: Key, streams: &mut Streams, now: Instant) {
        let Some(inbox) = self.handle.inbox.clone() else { return };
        loop {
            if !streams.get(key).is_some_and(|stream| stream.has_message()) {
                return;
            }
            let slot = inbox.try_reserve().or_else(|_| {
                // Set before the second attempt: a reader that takes a message in between sees it.
                self.handle.is_full.store(true, Ordering::Release);
                inbox.try_reserve()
            });
            match slot {
                Ok(slot) => match streams.message(key, now) {
                    Some(message) => slot.send(message),
                    None => return,
                },
                Err(mpsc::error::TrySendError::Full(())) => return,
                // The receiver was dropped: messages are dropped, and the peer is not slowed.
                Err(mpsc::error::TrySendError::Closed(())) => while streams.message(key, now).is_some() {},
            }
        }
    }

    /// Releases the slots and receipts of messages that have left.
    fn release(&mut self, departed: u64) {
        let slots = departed.saturating_sub(self.departed);
        self.departed = departed;
        self.handle.slots.add_permits(usize::try_from(slots).unwrap_or(usize::MAX));
        while self.waiting.front().is_some_and(|(at, _)| *at <= departed) {
            if let Some((_, written)) = self.waiting.pop_front() {
                written.hand_out();
            }
        }
    }
}
