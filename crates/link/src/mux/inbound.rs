//! The receiving half of a stream: orders frames, reassembles messages, and delivers each once.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use wire::exec_server::relay::Data;

use super::serial::{nearest, on_wire};
use super::{Limits, Peer};
use crate::Incoming;

/// Frames that are kept out of order: twice the window of this implementation.
const AHEAD_FRAMES: u64 = 64;
/// The cost of a kept frame or message beside its bytes.
const OVERHEAD: usize = 64;

/// The classification of a received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FrameClass {
    /// The next in order.
    InTurn,
    /// Out of order: kept if there is capacity.
    Early,
    /// A duplicate.
    Again,
    /// A violation of the protocol.
    Broken(&'static str),
}

/// The receiving half of a stream.
#[derive(Debug)]
pub(super) struct Inbound {
    /// The sequence number of the next frame.
    next: u64,
    /// The number of frames in order so far.
    taken: u64,
    /// Frames out of order.
    early: BTreeMap<u64, Data>,
    early_bytes: usize,
    assembly: Option<Assembly>,
    inbox: VecDeque<Incoming>,
    inbox_bytes: usize,
    window_bytes: usize,
    message_bytes: usize,
    inbox_limit: usize,
    plain_inbox_limit: usize,
}

/// A message with missing segments.
#[derive(Debug)]
struct Assembly {
    count: u32,
    taken: u32,
    bytes: u64,
    /// Dropped when the message is over the limit.
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
            inbox_limit: limits.inbox_bytes,
            plain_inbox_limit: limits.plain_inbox_bytes,
        }
    }

    pub(super) fn receive(&mut self, data: Data, peer: Peer) -> FrameClass {
        let Some(seq) = nearest(data.seq, self.next).filter(|seq| *seq >= self.next) else {
            return FrameClass::Again;
        };
        if self.early.contains_key(&seq) {
            return FrameClass::Again;
        }
        if seq > self.next || !self.has_capacity(peer) {
            return self.keep(seq, data);
        }
        match self.take(data).and_then(|()| self.advance(peer)) {
            Ok(()) => FrameClass::InTurn,
            Err(why) => FrameClass::Broken(why),
        }
    }

    /// Keeps a frame out of order. A dropped one is sent again by a peer with acknowledgements.
    fn keep(&mut self, seq: u64, data: Data) -> FrameClass {
        let bytes = data.payload.len() + OVERHEAD;
        if seq - self.next < AHEAD_FRAMES && self.early_bytes + bytes <= self.window_bytes {
            self.early_bytes += bytes;
            self.early.insert(seq, data);
        }
        FrameClass::Early
    }

    /// Processes kept frames that are in order now, while there is capacity for messages.
    pub(super) fn advance(&mut self, peer: Peer) -> Result<(), &'static str> {
        while self.has_capacity(peer)
            && let Some(data) = self.early.remove(&self.next)
        {
            self.early_bytes -= data.payload.len() + OVERHEAD;
            self.take(data)?;
        }
        // One message of any length fits: it is delivered, or skipped and reported.
        match self.inbox_bytes > self.plain_inbox_limit && self.inbox.len() > 1 {
            true => Err("messages arrive faster than they are read"),
            false => Ok(()),
        }
    }

    /// Processes all frames in order regardless of capacity, at the end of the stream.
    pub(super) fn drain(&mut self) {
        while let Some(data) = self.early.remove(&self.next) {
            if self.take(data).is_err() {
                break;
            }
        }
        self.forget();
    }

    /// Drops the messages that are incomplete.
    pub(super) fn forget(&mut self) {
        self.early.clear();
        self.early_bytes = 0;
        self.assembly = None;
    }

    /// Sets the number of the peer's next frame. Accepted only before the first frame: later it may be an old one.
    pub(super) fn resume(&mut self, next_seq: u32) {
        if self.taken == 0 && self.early.is_empty() {
            self.next = u64::from(next_seq);
        }
    }

    fn has_capacity(&self, peer: Peer) -> bool {
        let most = match peer {
            Peer::Reliable => self.inbox_limit,
            // Its frames are never sent again, so they are always kept.
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

    /// Takes the next message.
    pub(super) fn pop(&mut self) -> Option<Incoming> {
        let incoming = self.inbox.pop_front()?;
        self.inbox_bytes -= cost(&incoming);
        Some(incoming)
    }

    /// True if a message is available.
    pub(super) fn has_message(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// The values of `ack` and `ack_bits`; `None` before the first frame, when no number is valid.
    pub(super) fn acknowledged(&self) -> Option<(u32, u32)> {
        if self.taken == 0 {
            return None;
        }
        let bit = |offset: u64| match self.early.contains_key(&(self.next + offset)) {
            true => 1_u32 << offset,
            false => 0,
        };
        let bits = (0..32).fold(0, |bits, offset| bits | bit(offset));
        Some((on_wire(self.next - 1), if self.early.is_empty() { 0 } else { bits }))
    }

    /// True if a frame is missing before a kept one.
    pub(super) fn has_gap(&self) -> bool {
        !self.early.is_empty() && !self.early.contains_key(&self.next)
    }

    /// The sequence number of the next frame.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The number of frames in order so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// True if acknowledgements are withheld for lack of capacity.
    pub(super) fn is_held_back(&self, peer: Peer) -> bool {
        !self.has_capacity(peer)
    }

    /// The bytes that this half holds in memory.
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
