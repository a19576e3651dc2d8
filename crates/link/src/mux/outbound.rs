//! The sending half of a stream: splits messages into frames, and keeps them until they are acknowledged.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use wire::exec_server::relay::Data;

use super::serial::{nearest, on_wire};
use super::{Limits, Peer};

/// A frame is lost when this many later ones are acknowledged.
const OVERTAKEN: usize = 3;

/// The sending half of a stream.
#[derive(Debug)]
pub(super) struct Outbound {
    queue: VecDeque<Bytes>,
    queued_bytes: usize,
    cutting: Option<Cutting>,
    /// Messages that were sent completely or dropped.
    departed: u64,
    next: u64,
    /// All frames before this one are acknowledged.
    base: u64,
    /// The frames up to `next` without gaps; frames between `base` and the first cannot be sent again.
    flight: VecDeque<Flight>,
    flight_bytes: usize,
    retry_at: Option<Instant>,
    wait: Duration,
    /// Retries since the last acknowledgement, for frames that cannot be sent again.
    rounds: u32,
    segment_bytes: usize,
    window_frames: usize,
    window_bytes: usize,
    retry: (Duration, Duration, u32),
}

/// A partly sent message.
#[derive(Debug)]
struct Cutting {
    rest: Bytes,
    index: u32,
    count: u32,
}

#[derive(Debug)]
struct Flight {
    seq: u64,
    /// `None` after its acknowledgement.
    data: Option<Data>,
    sent: Instant,
    tries: u32,
    is_due: bool,
}

/// The action for an expired timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimerAction {
    Nothing,
    /// Ask the peer for an acknowledgement.
    Probe,
    /// Give up: too many retries.
    GiveUp,
}

impl Outbound {
    pub(super) fn new(limits: &Limits, first: u32) -> Outbound {
        let times = &limits.times;
        Outbound {
            queue: VecDeque::new(),
            queued_bytes: 0,
            cutting: None,
            departed: 0,
            next: u64::from(first),
            base: u64::from(first),
            flight: VecDeque::new(),
            flight_bytes: 0,
            retry_at: None,
            wait: times.retry_after,
            rounds: 0,
            segment_bytes: limits.segment_bytes.max(1),
            window_frames: limits.window_frames.max(1),
            window_bytes: limits.window_bytes.max(1),
            retry: (times.retry_after, times.max_retry_wait, times.tries),
        }
    }

    pub(super) fn push(&mut self, message: Bytes) {
        self.queued_bytes += message.len();
        self.queue.push_back(message);
    }

    /// The next frame to send: a lost one, or a new one if the window allows.
    pub(super) fn frame(&mut self, now: Instant, peer: Peer) -> Option<Data> {
        if let Some(late) = self.flight.iter_mut().find(|flight| flight.is_due) {
            late.is_due = false;
            late.sent = now;
            late.tries += 1;
            return late.data.clone();
        }
        let is_open = self.flight.len() < self.window_frames && self.flight_bytes < self.window_bytes;
        // Whether an unknown peer acknowledges is not clear yet; until it is presumed not to, one window is sent.
        if matches!(peer, Peer::Unknown | Peer::Reliable) && !is_open {
            return None;
        }
        let data = self.cut(peer)?;
        self.flight_bytes += data.payload.len();
        let seq = self.next - 1;
        self.flight.push_back(Flight { seq, data: Some(data.clone()), sent: now, tries: 1, is_due: false });
        match peer {
            Peer::Reliable => {
                self.retry_at.get_or_insert(now + self.wait);
            }
            Peer::Unknown => {}
            Peer::Presumed => self.trim(),
            Peer::Plain => self.forget(),
        }
        Some(data)
    }

    fn cut(&mut self, peer: Peer) -> Option<Data> {
        let mut cutting = match self.cutting.take() {
            Some(cutting) => cutting,
            None => {
                let rest = self.queue.pop_front()?;
                self.queued_bytes -= rest.len();
                let pieces = match peer {
                    Peer::Reliable => rest.len().div_ceil(self.segment_bytes).max(1),
                    Peer::Unknown | Peer::Presumed | Peer::Plain => 1,
                };
                Cutting { rest, index: 0, count: u32::try_from(pieces).unwrap_or(u32::MAX) }
            }
        };
        let is_last = cutting.index + 1 >= cutting.count;
        let payload = match is_last {
            true => std::mem::take(&mut cutting.rest),
            false => cutting.rest.split_to(self.segment_bytes.min(cutting.rest.len())),
        };
        let (segment_index, segment_count) = (cutting.index, cutting.count);
        match is_last {
            true => self.departed += 1,
            false => self.cutting = Some(Cutting { index: segment_index + 1, ..cutting }),
        }
        let seq = on_wire(self.next);
        self.next += 1;
        Some(Data { seq, segment_index, segment_count, payload })
    }

    /// Keeps one window, in case the peer acknowledges after all.
    fn trim(&mut self) {
        while self.flight.len() > 1
            && (self.flight.len() > self.window_frames || self.flight_bytes > self.window_bytes)
        {
            self.drop_first();
        }
    }

    /// Keeps no frames: the peer never acknowledges.
    pub(super) fn forget(&mut self) {
        self.flight.clear();
        self.flight_bytes = 0;
        self.retry_at = None;
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.flight.pop_front() {
            self.flight_bytes -= first.data.map_or(0, |data| data.payload.len());
        }
    }

    /// The peer has shown that it acknowledges.
    pub(super) fn expect_acks(&mut self, now: Instant) {
        if self.base < self.next {
            self.retry_at.get_or_insert(now + self.wait);
        }
    }

    /// Handles the acknowledgement of all frames up to `ack`.
    pub(super) fn acknowledge(&mut self, ack: u32, now: Instant) {
        let Some(up_to) = nearest(ack, self.base).and_then(|ack| ack.checked_add(1)) else { return };
        if up_to <= self.base || up_to > self.next {
            return;
        }
        self.base = up_to;
        while self.flight.front().is_some_and(|first| first.seq < up_to) {
            if let Some(first) =
                self.flight.front().filter(|first| first.tries == 1 && first.seq + 1 == up_to)
            {
                // Twice the current round trip, so that a slow connection does not look lossy.
                let took = now.saturating_duration_since(first.sent) * 2;
                self.wait = took.clamp(self.retry.0, self.retry.1);
            }
            self.drop_first();
        }
        self.rounds = 0;
        self.retry_at = (self.base < self.next).then(|| now + self.wait);
    }

    /// Handles the acknowledgement of single frames after `ack`.
    pub(super) fn acknowledge_bits(&mut self, ack: u32, bits: u32) {
        let Some(first) = nearest(ack, self.base).and_then(|ack| ack.checked_add(1)) else { return };
        for flight in &mut self.flight {
            let offset = flight.seq.checked_sub(first).and_then(|offset| u32::try_from(offset).ok());
            let is_received =
                offset.and_then(|offset| bits.checked_shr(offset)).is_some_and(|bits| bits & 1 == 1);
            if is_received && let Some(data) = flight.data.take() {
                flight.is_due = false;
                self.flight_bytes -= data.payload.len();
            }
        }
        let mut later = self.flight.iter().filter(|flight| flight.data.is_none()).count();
        for flight in &mut self.flight {
            match flight.data {
                None => later -= 1,
                Some(_) if later >= OVERTAKEN && flight.tries == 1 => flight.is_due = true,
                Some(_) => {}
            }
        }
    }

    /// Checks which timers have expired.
    pub(super) fn look(&mut self, now: Instant) -> TimerAction {
        let (_, most, tries) = self.retry;
        if self.retry_at.is_none_or(|at| now < at) {
            return TimerAction::Nothing;
        }
        self.wait = (self.wait * 2).min(most);
        self.retry_at = Some(now + self.wait);
        let has_hole = self.flight.front().map_or(self.next, |first| first.seq) > self.base;
        if has_hole {
            self.rounds += 1;
        }
        let mut has_late = false;
        for flight in self.flight.iter_mut().filter(|flight| flight.data.is_some()) {
            has_late = true;
            if flight.tries >= tries {
                return TimerAction::GiveUp;
            }
            // A frame that was just sent is not late.
            flight.is_due |= flight.sent + self.retry.0 <= now;
        }
        match has_late {
            _ if self.rounds >= tries => TimerAction::GiveUp,
            true => TimerAction::Nothing,
            // No frame can be sent again: ask the peer.
            false => TimerAction::Probe,
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.retry_at
    }

    /// The sequence number of the next new frame.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// All frames before this one are acknowledged.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// True if all messages are sent, and acknowledged by a peer that does so.
    pub(super) fn is_done(&self, peer: Peer) -> bool {
        let has_left = self.queue.is_empty() && self.cutting.is_none();
        let has_hole = self.flight.front().map_or(self.next, |first| first.seq) > self.base;
        let has_reached = !has_hole && self.flight.iter().all(|flight| flight.data.is_none());
        has_left && (peer != Peer::Reliable || has_reached)
    }

    /// The number of queued messages.
    pub(super) fn queued(&self) -> usize {
        self.queue.len() + usize::from(self.cutting.is_some())
    }

    pub(super) fn departed(&self) -> u64 {
        self.departed
    }

    /// Drops all unsent messages.
    pub(super) fn clear(&mut self) {
        self.departed += self.queued() as u64;
        self.queue.clear();
        self.queued_bytes = 0;
        self.cutting = None;
        self.forget();
    }

    /// The bytes that this half holds in memory.
    pub(super) fn held(&self) -> usize {
        let cutting = self.cutting.as_ref().map_or(0, |cutting| cutting.rest.len());
        self.queued_bytes + cutting + self.flight_bytes
    }
}
