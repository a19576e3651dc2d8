//! What arrives on a stream: put in order, put together, each message once.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use wire::exec_server::relay::Data;

use super::serial::{nearest, on_wire};
use super::{Limits, Peer};
use crate::Incoming;

/// Frames kept that came before their turn. Twice what a peer of ours sends without an acknowledgement.
const AHEAD_FRAMES: u64 = 64;
/// What a kept frame or message costs besides its bytes.
const OVERHEAD: usize = 64;

/// What a frame turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The next one; perhaps it was waited for.
    InTurn,
    /// Too early: kept, if there was room.
    Early,
    /// Known already.
    Again,
    /// Nothing a stream can go on with.
    Broken(&'static str),
}

/// The receiving half of a stream.
#[derive(Debug)]
pub(super) struct Inbound {
    /// The frame that is taken next.
    next: u64,
    /// Frames that were taken.
    taken: u64,
    /// Frames before their turn.
    early: BTreeMap<u64, Data>,
    early_bytes: usize,
    assembly: Option<Assembly>,
    inbox: VecDeque<Incoming>,
    inbox_bytes: usize,
    window_bytes: usize,
    message_bytes: usize,
    inbox_most: usize,
    plain_inbox_most: usize,
}

/// A message of which pieces are missing.
#[derive(Debug)]
struct Assembly {
    count: u32,
    taken: u32,
    bytes: u64,
    /// Given up when the message is too long.
    parts: BytesMut,
}

impl Inbound {
    pub(super) fn new(limits: &Limits, first: u32) -> Inbound {
        Inbound {
            next: u64::from(first),
            taken: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            assembly: None,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            window_bytes: limits.window_bytes.saturating_mul(2),
            message_bytes: limits.message_bytes,
            inbox_most: limits.inbox_bytes,
            plain_inbox_most: limits.plain_inbox_bytes,
        }
    }

    pub(super) fn receive(&mut self, data: Data, peer: Peer) -> Arrival {
        let Some(seq) = nearest(data.seq, self.next).filter(|seq| *seq >= self.next) else {
            return Arrival::Again;
        };
        if self.early.contains_key(&seq) {
            return Arrival::Again;
        }
        if seq > self.next || !self.has_room(peer) {
            return self.keep(seq, data);
        }
        match self.take(data).and_then(|()| self.advance(peer)) {
            Ok(()) => Arrival::InTurn,
            Err(why) => Arrival::Broken(why),
        }
    }

    /// Keeps a frame for later. One that there is no room for is sent again by a peer that acknowledges.
    fn keep(&mut self, seq: u64, data: Data) -> Arrival {
        let bytes = data.payload.len() + OVERHEAD;
        if seq - self.next < AHEAD_FRAMES && self.early_bytes + bytes <= self.window_bytes {
            self.early_bytes += bytes;
            self.early.insert(seq, data);
        }
        Arrival::Early
    }

    /// Takes what waited for its turn, as long as there is room for messages.
    pub(super) fn advance(&mut self, peer: Peer) -> Result<(), &'static str> {
        while self.has_room(peer)
            && let Some(data) = self.early.remove(&self.next)
        {
            self.early_bytes -= data.payload.len() + OVERHEAD;
            self.take(data)?;
        }
        // One message may be as long as it likes: it is delivered, or skipped and reported.
        match self.inbox_bytes > self.plain_inbox_most && self.inbox.len() > 1 {
            true => Err("messages arrive faster than they are taken"),
            false => Ok(()),
        }
    }

    /// Takes all that is in order, whether there is room or not: nothing will follow.
    pub(super) fn drain(&mut self) {
        while let Some(data) = self.early.remove(&self.next) {
            if self.take(data).is_err() {
                break;
            }
        }
        self.forget();
    }

    /// Gives up what is not a whole message.
    pub(super) fn forget(&mut self) {
        self.early.clear();
        self.early_bytes = 0;
        self.assembly = None;
    }

    /// The peer's next frame has this number. Believed only before there was one: later it may be an old frame.
    pub(super) fn resume(&mut self, next_seq: u32) {
        if self.taken == 0 && self.early.is_empty() {
            self.next = u64::from(next_seq);
        }
    }

    fn has_room(&self, peer: Peer) -> bool {
        let most = match peer {
            Peer::Reliable => self.inbox_most,
            // Its frames are never sent again, so they are never refused.
            Peer::Unknown | Peer::Presumed | Peer::Plain => usize::MAX,
        };
        self.inbox_bytes < most
    }

    fn take(&mut self, data: Data) -> Result<(), &'static str> {
        self.next += 1;
        self.taken += 1;
        let Data { segment_index, segment_count, payload, .. } = data;
        let mut assembly = match self.assembly.take() {
            None if segment_index == 0 && segment_count == 1 => {
                self.deliver_whole(payload);
                return Ok(());
            }
            None if segment_index == 0 && segment_count > 1 => {
                Assembly { count: segment_count, taken: 0, bytes: 0, parts: BytesMut::new() }
            }
            None => return Err("a message does not begin with its first segment"),
            Some(assembly) if (assembly.taken, assembly.count) == (segment_index, segment_count) => assembly,
            Some(_) => return Err("the segments of a message do not follow each other"),
        };
        assembly.taken += 1;
        assembly.bytes += payload.len() as u64;
        match assembly.bytes > self.message_bytes as u64 {
            true => assembly.parts = BytesMut::new(),
            false => assembly.parts.extend_from_slice(&payload),
        }
        match assembly.taken == assembly.count {
            true if assembly.bytes > self.message_bytes as u64 => {
                self.deliver(Incoming::TooLong { bytes: assembly.bytes });
            }
            true => self.deliver_whole(assembly.parts.freeze()),
            false => self.assembly = Some(assembly),
        }
        Ok(())
    }

    fn deliver_whole(&mut self, message: Bytes) {
        match message.len() {
            0 => {}
            long if long > self.message_bytes => self.deliver(Incoming::TooLong { bytes: long as u64 }),
            _ => self.deliver(Incoming::Message(message)),
        }
    }

    fn deliver(&mut self, incoming: Incoming) {
        self.inbox_bytes += cost(&incoming);
        self.inbox.push_back(incoming);
    }

    /// The next message.
    pub(super) fn pop(&mut self) -> Option<Incoming> {
        let incoming = self.inbox.pop_front()?;
        self.inbox_bytes -= cost(&incoming);
        Some(incoming)
    }

    /// Whether there is one.
    pub(super) fn has_message(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// What `ack` and `ack_bits` say; nothing while nothing was taken, because then no number would be true.
    pub(super) fn acknowledged(&self) -> Option<(u32, u32)> {
        if self.taken == 0 {
            return None;
        }
        let bit = |place: u64| match self.early.contains_key(&(self.next + place)) {
            true => 1_u32 << place,
            false => 0,
        };
        let bits = (0..32).fold(0, |bits, place| bits | bit(place));
        Some((on_wire(self.next - 1), if self.early.is_empty() { 0 } else { bits }))
    }

    /// Whether a frame is missing, while later ones are here.
    pub(super) fn has_gap(&self) -> bool {
        !self.early.is_empty() && !self.early.contains_key(&self.next)
    }

    /// Which frame is taken next.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// How many frames were taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether the peer is kept waiting.
    pub(super) fn is_held_back(&self, peer: Peer) -> bool {
        !self.has_room(peer)
    }

    /// What this half keeps in memory.
    pub(super) fn held(&self) -> usize {
        self.early_bytes
            + self.inbox_bytes
            + self.assembly.as_ref().map_or(0, |assembly| assembly.parts.len())
    }
}

fn cost(incoming: &Incoming) -> usize {
    OVERHEAD
        + match incoming {
            Incoming::Message(message) => message.len(),
            Incoming::TooLong { .. } => 0,
        }
}
