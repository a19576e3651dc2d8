//! All streams of one link, without input or output: who a frame is for, whose turn it is to send, and the bounds of all.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use wire::exec_server::relay::{Body, RelayFrame};

use super::{Limits, Peer, Role, Stream};
use crate::Incoming;

/// Streams that ended and are remembered, so that late frames do not open them again.
const REMEMBERED: usize = 2_048;
/// Resets that wait to be sent to streams that are none; past it they are dropped, and the next frame asks again.
const RESETS: usize = 256;

/// A stream of this table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u64);

/// What a frame did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It opened a stream.
    Opened(Key),
    /// It belonged to a stream, which may have something to take now, or may be over.
    Touched(Key),
    /// It belonged to none.
    Ignored,
}

/// All streams of one link.
#[derive(Debug)]
pub struct Streams {
    role: Role,
    limits: Limits,
    names: HashMap<String, Key>,
    entries: HashMap<Key, Entry>,
    ready: VecDeque<Key>,
    timers: BTreeSet<(Instant, Key)>,
    ended: HashMap<String, Ended>,
    ended_order: VecDeque<(Instant, String)>,
    resets: VecDeque<RelayFrame>,
    held: usize,
    next_key: u64,
    /// Whose frame was the last one.
    sent_last: Option<Key>,
}

#[derive(Debug)]
struct Entry {
    stream: Stream,
    is_ready: bool,
    is_named: bool,
    due: Option<Instant>,
    held: usize,
}

/// A stream that is over.
#[derive(Debug)]
struct Ended {
    reason: String,
    by_peer: bool,
    /// Released peers may open the same id again; ours never do, so what comes is late.
    may_return: bool,
}

impl Streams {
    /// No streams yet.
    pub fn new(role: Role, limits: Limits) -> Streams {
        Streams {
            role,
            limits,
            names: HashMap::new(),
            entries: HashMap::new(),
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            ended: HashMap::new(),
            ended_order: VecDeque::new(),
            resets: VecDeque::new(),
            held: 0,
            next_key: 0,
            sent_last: None,
        }
    }

    /// Opens a stream.
    pub fn open(&mut self, id: &str, now: Instant) -> Key {
        let key = Key(self.next_key);
        self.next_key += 1;
        let stream = Stream::new(id, self.role, &self.limits, now);
        self.names.insert(id.to_owned(), key);
        self.entries.insert(key, Entry { stream, is_ready: false, is_named: true, due: None, held: 0 });
        self.touch(key, now);
        key
    }

    /// Takes a frame.
    pub fn receive(&mut self, frame: RelayFrame, now: Instant) -> Event {
        self.forget_ended(now);
        if let Some(key) = self.names.get(&frame.stream_id).copied() {
            self.deliver(key, frame, now);
            return Event::Touched(key);
        }
        if self.role == Role::Harness || matches!(frame.body, Body::Reset { .. }) || self.is_late(&frame) {
            return Event::Ignored;
        }
        if self.entries.len() >= self.limits.streams {
            self.refuse(frame.stream_id, "too many streams");
            return Event::Ignored;
        }
        let key = self.open(&frame.stream_id, now);
        self.deliver(key, frame, now);
        Event::Opened(key)
    }

    fn deliver(&mut self, key: Key, frame: RelayFrame, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.stream.receive(frame, now);
        }
        self.touch(key, now);
        self.keep_within(now);
    }

    /// Whether a frame belongs to a stream that is over; its sender may not know.
    fn is_late(&mut self, frame: &RelayFrame) -> bool {
        let begins = match &frame.body {
            Body::Data(data) => data.seq == 0,
            Body::Resume { next_seq } => *next_seq == 0,
            Body::Ack | Body::Heartbeat | Body::Reset { .. } => false,
        };
        match self.ended.get(&frame.stream_id) {
            None => false,
            Some(ended) if ended.may_return && begins => {
                self.ended.remove(&frame.stream_id);
                false
            }
            Some(ended) if ended.by_peer => true,
            Some(ended) => {
                let reason = ended.reason.clone();
                self.refuse(frame.stream_id.clone(), &reason);
                true
            }
        }
    }

    fn refuse(&mut self, stream_id: String, reason: &str) {
        if self.resets.len() < RESETS {
            self.resets.push_back(RelayFrame::new(stream_id, Body::Reset { reason: reason.to_owned() }));
        }
    }

    /// Ends whoever holds most while all together hold too much.
    fn keep_within(&mut self, now: Instant) {
        while self.held > self.limits.total_bytes {
            let largest = self.entries.iter().max_by_key(|(_, entry)| entry.held);
            let Some(key) = largest.filter(|(_, entry)| entry.held > 0).map(|(key, _)| *key) else { return };
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.stream.reset("all streams together hold too much");
                while entry.stream.message(now).is_some() {}
            }
            self.touch(key, now);
        }
    }

    /// The next frame to send: every stream has its turn.
    pub fn frame(&mut self, now: Instant) -> Option<RelayFrame> {
        self.sent_last = None;
        if let Some(frame) = self.resets.pop_front() {
            return Some(frame);
        }
        self.wake(now);
        while let Some(key) = self.ready.pop_front() {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            let frame = entry.stream.frame(now);
            match frame {
                Some(_) => self.ready.push_back(key),
                None => entry.is_ready = false,
            }
            self.settle(key, now);
            if frame.is_some() {
                self.sent_last = Some(key);
                return frame;
            }
        }
        None
    }

    /// Whose frame [`Streams::frame`] gave last: there may be room for more messages now, or it may be over.
    pub fn sent_last(&self) -> Option<Key> {
        self.sent_last
    }

    /// Gives a turn to every stream whose time has come.
    pub fn wake(&mut self, now: Instant) {
        while let Some((at, key)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, key));
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.due = None;
            }
            self.touch(key, now);
        }
    }

    /// Whether [`Streams::frame`] may have something.
    pub fn may_send(&self) -> bool {
        !self.ready.is_empty() || !self.resets.is_empty()
    }

    /// When to ask for a frame again, even if nothing happens before.
    pub fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Queues a message.
    pub fn send(&mut self, key: Key, message: Bytes, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.stream.send(message);
        }
        self.touch(key, now);
        self.keep_within(now);
    }

    /// The next message of a stream.
    pub fn message(&mut self, key: Key, now: Instant) -> Option<Incoming> {
        let message = self.entries.get_mut(&key)?.stream.message(now);
        if message.is_some() {
            self.touch(key, now);
        }
        message
    }

    /// Ends a stream once all that was queued has reached the peer.
    pub fn finish(&mut self, key: Key, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.stream.finish(now, "closed");
        }
        self.touch(key, now);
    }

    /// Ends a stream now.
    pub fn reset(&mut self, key: Key, reason: &str, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.stream.reset(reason);
        }
        self.touch(key, now);
    }

    /// A stream that is still here.
    pub fn get(&self, key: Key) -> Option<&Stream> {
        self.entries.get(&key).map(|entry| &entry.stream)
    }

    /// All that are still here.
    pub fn keys(&self) -> Vec<Key> {
        self.entries.keys().copied().collect()
    }

    /// What all of them keep in memory.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Takes a stream out, with what nobody took of it.
    pub fn remove(&mut self, key: Key) {
        if let Some(entry) = self.entries.remove(&key) {
            self.held -= entry.held;
            if let Some(due) = entry.due {
                self.timers.remove(&(due, key));
            }
            if entry.is_named {
                self.names.remove(entry.stream.id());
            }
        }
    }

    fn touch(&mut self, key: Key, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key)
            && !std::mem::replace(&mut entry.is_ready, true)
        {
            self.ready.push_back(key);
        }
        self.settle(key, now);
    }

    /// Brings what the table knows of a stream up to date.
    fn settle(&mut self, key: Key, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let held = entry.stream.held();
        self.held = self.held - entry.held + held;
        entry.held = held;
        let due = match entry.is_ready {
            true => None,
            false => entry.stream.next_due(),
        };
        if due != entry.due {
            if let Some(old) = std::mem::replace(&mut entry.due, due) {
                self.timers.remove(&(old, key));
            }
            self.timers.extend(due.map(|due| (due, key)));
        }
        if entry.is_named
            && let Some(end) = entry.stream.end()
        {
            entry.is_named = false;
            let id = entry.stream.id().to_owned();
            let ended = Ended {
                reason: end.reason.clone(),
                by_peer: end.by_peer,
                may_return: entry.stream.peer() != Peer::Reliable,
            };
            self.names.remove(&id);
            self.ended_order.push_back((now + self.limits.times.remembered, id.clone()));
            self.ended.insert(id, ended);
        }
    }

    fn forget_ended(&mut self, now: Instant) {
        let is_due = |ended: &VecDeque<(Instant, String)>| {
            ended.len() > REMEMBERED || ended.front().is_some_and(|(at, _)| *at <= now)
        };
        while is_due(&self.ended_order)
            && let Some((_, id)) = self.ended_order.pop_front()
        {
            self.ended.remove(&id);
        }
    }
}
