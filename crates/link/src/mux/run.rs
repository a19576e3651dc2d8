//! Streams over a link: one task drives them all, and each is a link of its own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures_util::future::OptionFuture;
use tokio::sync::mpsc;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::exec_server::relay::RelayFrame;

use super::streams::Event;
use super::virtual_link::{self, Asked, Bells, Handle, Ring};
use super::{Key, Limits, Role, Streams};
use crate::lanes::{Outbound, Receipt};
use crate::task::OwnedTask;
use crate::{Closed, Incoming, Link, Outgoing, Receiver, Writing};

/// Messages of all streams on their way to the driver.
const ASKED: usize = 64;
/// New streams that wait to be accepted; past it they are reset.
const UNACCEPTED: usize = 128;
/// Frames sent before anything else is looked at.
const BURST: usize = 16;

/// Yields the streams that the peers open. Dropping it resets all of them and ends the link.
#[derive(Debug)]
pub struct Acceptor {
    opened: mpsc::Receiver<(String, Link)>,
}

impl Acceptor {
    /// The next stream: its id, and a link of its own. `None` when the link has ended. Nothing is lost if this future
    /// is dropped.
    pub async fn accept(&mut self) -> Option<(String, Link)> {
        self.opened.recv().await
    }
}

/// Accepts the streams that arrive on `link`, whose messages are relay frames. The task that serves them belongs to
/// `tasks`: it ends after the acceptor is dropped and all resets are written. Must be called within a tokio runtime.
pub fn executor(link: Link, limits: Limits, tasks: &TaskTracker) -> Acceptor {
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
    bells: Arc<Bells>,
    asking: mpsc::Sender<Asked>,
    asked: mpsc::Receiver<Asked>,
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
        let (asking, asked) = mpsc::channel(ASKED);
        Driver {
            streams: Streams::new(role, limits.clone()),
            limits,
            outgoing: Some(outgoing),
            users: HashMap::new(),
            bells: Arc::default(),
            asking,
            asked,
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
        let bells = self.bells.clone();
        while accepting.is_some() || !self.users.is_empty() {
            let due = self.streams.next_due().map(|due| sleep_until(due.into()));
            tokio::select! {
                arrived = incoming.recv() => match arrived {
                    Some(arrived) => self.take(arrived, accepting.as_ref()),
                    None => break,
                },
                Some(asked) = self.asked.recv() => self.heed(asked),
                rung = bells.rung() => rung.into_iter().for_each(|ring| self.answer(ring)),
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

    /// One frame from the other side.
    fn take(&mut self, arrived: Incoming, accepting: Option<&mpsc::Sender<(String, Link)>>) {
        let frame = match arrived {
            Incoming::Message(bytes) => RelayFrame::decode(bytes),
            Incoming::TooLong { bytes } => {
                tracing::debug!(bytes, "a relay frame is too long and was skipped");
                return;
            }
        };
        match frame {
            Ok(frame) => match self.streams.receive(frame, now()) {
                Event::Opened(key) => {
                    self.accept(key, accepting);
                    self.look_after(key);
                }
                Event::Touched(key) => self.look_after(key),
                Event::Ignored => {}
            },
            Err(error) => tracing::debug!(%error, "a message is no relay frame"),
        }
    }

    fn accept(&mut self, key: Key, accepting: Option<&mpsc::Sender<(String, Link)>>) {
        let Some(id) = self.streams.get(key).map(|stream| stream.id().to_owned()) else { return };
        let stream = self.virtual_link(key);
        if accepting.is_none_or(|accepting| accepting.try_send((id, stream)).is_err()) {
            self.streams.reset(key, "too many streams are waiting to be served", now());
        }
    }

    fn virtual_link(&mut self, key: Key) -> Link {
        let limits = crate::Limits { line_bytes: self.limits.message_bytes, ..crate::Limits::default() };
        let queued = self.limits.queued_messages;
        let (link, handle) = virtual_link::open(key, queued, &limits, self.asking.clone(), &self.bells);
        handle.largest.set(self.limits.largest(None));
        self.users.insert(key, User { handle, queued: 0, departed: 0, waiting: VecDeque::new() });
        link
    }

    fn heed(&mut self, asked: Asked) {
        match asked {
            Asked::Send(key, Outbound { bytes, written }) => {
                let Some(user) = self.users.get_mut(&key) else { return };
                if bytes.len() > self.limits.largest(self.streams.get(key)) {
                    // The whole connection would end of it, and with it every other stream.
                    self.streams.reset(key, "a message is longer than this peer takes", now());
                } else if !bytes.is_empty() {
                    user.queued += 1;
                    self.streams.send(key, bytes, now());
                }
                user.waiting.push_back((user.queued, written));
                self.look_after(key);
            }
            Asked::Finish(key) => self.streams.finish(key, now()),
        }
    }

    fn answer(&mut self, ring: Ring) {
        match ring {
            Ring::Room(key) => self.look_after(key),
            Ring::Abandoned(key) => {
                self.streams.reset(key, "closed", now());
                self.look_after(key);
            }
        }
    }

    /// Sends what is there, in turns, as far as there is room.
    fn send(&mut self, first: mpsc::Permit<'_, Outbound>, outgoing: &Outgoing) {
        let now = now();
        let mut slot = Some(first);
        for _ in 0..BURST {
            let Some(free) = slot.take().or_else(|| outgoing.try_event_slot()) else { return };
            let Some(frame) = self.streams.frame(now) else { return };
            let key = self.streams.sent_last();
            free.send(Outbound { bytes: frame.encode(), written: Receipt::default() });
            if let Some(key) = key {
                self.look_after(key);
            }
        }
    }

    /// Moves on whatever can be: messages to the user, places back to it, and the end.
    fn look_after(&mut self, key: Key) {
        let now = now();
        let Some(user) = self.users.get_mut(&key) else { return };
        user.deliver(key, &mut self.streams, now);
        let Some(stream) = self.streams.get(key) else { return };
        user.count(stream.departed());
        user.handle.largest.set(self.limits.largest(Some(stream)));
        if stream.end().is_none() {
            return;
        }
        user.handle.gone.cancel();
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
            user.handle.gone.cancel();
        }
    }

    /// Delivers messages that arrived before the end, at the speed of their users.
    async fn deliver_rest(mut self) {
        let bells = self.bells.clone();
        loop {
            for (key, user) in &mut self.users {
                user.deliver(*key, &mut self.streams, now());
            }
            let streams = &self.streams;
            self.users.retain(|key, _| streams.get(*key).is_some_and(|stream| stream.has_message()));
            if self.users.is_empty() {
                return;
            }
            bells.rung().await;
        }
    }
}

impl User {
    /// Hands over messages until there are none, or no room.
    fn deliver(&mut self, key: Key, streams: &mut Streams, now: Instant) {
        let Some(inbox) = self.handle.inbox.clone() else { return };
        loop {
            if !streams.get(key).is_some_and(|stream| stream.has_message()) {
                return;
            }
            let room = inbox.try_reserve().or_else(|_| {
                // Set first and tried again: whoever takes one in between rings.
                self.handle.is_full.store(true, Ordering::Release);
                inbox.try_reserve()
            });
            match room {
                Ok(place) => match streams.message(key, now) {
                    Some(message) => place.send(message),
                    None => return,
                },
                Err(mpsc::error::TrySendError::Full(())) => return,
                // Nobody reads: whatever comes is dropped, and the peer goes on.
                Err(mpsc::error::TrySendError::Closed(())) => while streams.message(key, now).is_some() {},
            }
        }
    }

    /// So many messages have left.
    fn count(&mut self, departed: u64) {
        let places = departed.saturating_sub(self.departed);
        self.departed = departed;
        self.handle.places.add_permits(usize::try_from(places).unwrap_or(usize::MAX));
        while self.waiting.front().is_some_and(|(at, _)| *at <= departed) {
            if let Some((_, written)) = self.waiting.pop_front() {
                written.hand_out();
            }
        }
    }
}
