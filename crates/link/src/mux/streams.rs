//! All streams of one link, without I/O: the stream of each frame, the order of sending, and the limits.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use wire::exec_server::relay::{Body, RelayFrame};

use super::{Limits, Peer, Role, Stream};
use crate::Incoming;

/// Ended streams that are remembered, so that late frames do not open them again.
const REMEMBERED: usize = 2_048;
/// Queued resets for unknown streams; further ones are dropped, and the next frame of the stream causes another.
const RESETS: usize = 256;

/// The key of a stream in this table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u64);

/// The effect of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It opened a stream.
    Opened(Key),
    /// It belonged to a stream, which may have a message or may have ended.
    Updated(Key),
    /// It belonged to no stream.
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
    ended: HashMap<String, EndedStream>,
    ended_order: VecDeque<(Instant, String)>,
    resets: VecDeque<RelayFrame>,
    held: usize,
    next_key: u64,
    /// The stream of the last frame.
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

/// A stream that has ended.
#[derive(Debug)]
struct EndedStream {
    reason: String,
    by_peer: bool,
    /// Peers without acknowledgements may open the same id again; with others, later frames are late.
    may_return: bool,
}

impl Streams {
    /// An empty table of streams for one role.
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

    /// Opens a stream with this id.
    pub fn open(&mut self, id: &str, now: Instant) -> Key {
        let key = Key(self.next_key);
        self.next_key += 1;
        let stream = Stream::new(id, self.role, &self.limits, now);
        self.names.insert(id.to_owned(), key);
        self.entries.insert(key, Entry { stream, is_ready: false, is_named: true, due: None, held: 0 });
        self.touch(key, now);
        key
    }

    /// Handles a received frame.
    pub fn receive(&mut self, frame: RelayFrame, now: Instant) -> Event {
        self.forget_ended(now);
        if let Some(key) = self.names.get(&frame.stream_id).copied() {
            self.deliver(key, frame, now);
            return Event::Updated(key);
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
        self.enforce_total(now);
    }

    /// True if a frame belongs to an ended stream.
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

    /// Resets the largest stream while all together hold more than the limit.
    fn enforce_total(&mut self, now: Instant) {
        while self.held > self.limits.total_bytes {
            let largest = self.entries.iter().max_by_key(|(_, entry)| entry.held);
            let Some(key) = largest.filter(|(_, entry)| entry.held > 0).map(|(key, _)| *key) else { return };
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.stream.reset("the streams of this connection hold too many bytes");
                while entry.stream.message(now).is_some() {}
            }
            self.touch(key, now);
        }
    }

    /// The next frame to send; the streams take turns.
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
            self.update(key, now);
            if frame.is_some() {
                self.sent_last = Some(key);
                return frame;
            }
        }
        None
    }

    /// The stream of the last [`Streams::frame`]: it may have capacity again, or may have ended.
    pub fn sent_last(&self) -> Option<Key> {
        self.sent_last
    }

    /// Schedules every stream whose timer has expired.
    pub fn wake(&mut self, now: Instant) {
        while let Some((at, key)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, key));
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.due = None;
            }
            self.touch(key, now);
        }
    }

    /// True if [`Streams::frame`] may return a frame.
    pub fn may_send(&self) -> bool {
        !self.ready.is_empty() || !self.resets.is_empty()
    }

    /// The time of the next timer.
    pub fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Queues a message on a stream.
    pub fn send(&mut self, key: Key, message: Bytes, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.stream.send(message);
        }
        self.touch(key, now);
        self.enforce_total(now);
    }

    /// Takes the next received message of a stream.
    pub fn message(&mut self, key: Key, now: Instant) -> Option<Incoming> {
        let message = self.entries.get_mut(&key)?.stream.message(now);
        if message.is_some() {
            self.touch(key, now);
        }
        message
    }

    /// Ends a stream after the peer has acknowledged all queued messages.
    pub fn finish(&mut self, key: Key, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.stream.finish(now, "closed");
        }
        self.touch(key, now);
    }

    /// Ends a stream at once.
    pub fn reset(&mut self, key: Key, reason: &str, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.stream.reset(reason);
        }
        self.touch(key, now);
    }

    /// A stream of the table.
    pub fn get(&self, key: Key) -> Option<&Stream> {
        self.entries.get(&key).map(|entry| &entry.stream)
    }

    /// The keys of all streams.
    pub fn keys(&self) -> Vec<Key> {
        self.entries.keys().copied().collect()
    }

    /// The bytes that all streams hold in memory.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Removes a stream and its unread messages.
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
        self.update(key, now);
    }

    /// Updates the table's totals, timer and id of a stream.
    fn update(&mut self, key: Key, now: Instant) {
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
            let ended = EndedStream {
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
