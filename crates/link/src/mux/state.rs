//! One end of one stream: numbers, acknowledgements, retries, recognition and reset, without input, output or clock.
//!
//! What arrives goes into [`Stream::receive`], what is to be sent comes out of [`Stream::frame`], and
//! [`Stream::next_due`] says when to ask again. The clock is an argument.

use std::time::Instant;

use bytes::Bytes;
use wire::exec_server::relay::{Body, RelayFrame};

use super::inbound::{Arrival, Inbound};
use super::outbound::{Outbound, Wanted};
use super::serial::on_wire;
use super::{Limits, Role, Times};
use crate::Incoming;

/// Frames taken before an acknowledgement no longer waits.
const ACK_FRAMES: u32 = 8;
/// Data frames that a peer of ours does not send without having shown what it is.
const SILENT_FRAMES: u64 = 3;

/// What is known of the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Nothing yet: a window is sent and kept, and then it waits until this is clear.
    Unknown,
    /// Probably a released one: it has said more than ours do before they show what they are. Nothing waits for it.
    Presumed,
    /// It acknowledges, so lost frames are sent again; it takes segments.
    Reliable,
    /// A released one: what was sent has to have arrived.
    Plain,
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Whether the peer ended it.
    pub by_peer: bool,
    /// Why, for people.
    pub reason: String,
}

/// One end of one stream.
#[derive(Debug)]
pub struct Stream {
    id: String,
    inbound: Inbound,
    outbound: Outbound,
    peer: Peer,
    times: Times,
    greeting: Vec<Body>,
    ack: AckState,
    /// A heartbeat is to be sent as soon as possible.
    probe: bool,
    probe_at: Option<Instant>,
    began: Instant,
    heard: Instant,
    spoke: Instant,
    gap_since: Option<Instant>,
    closing: Option<Closing>,
    end: Option<End>,
    /// The peer is still to be told of the end.
    reset_due: bool,
}

/// The end is near.
#[derive(Debug)]
struct Closing {
    /// When it comes, unless something more is acknowledged.
    at: Instant,
    base: u64,
    reason: String,
}

/// Whether the peer is to be told what arrived.
#[derive(Debug, Default)]
struct AckState {
    frames: u32,
    at: Option<Instant>,
    is_urgent: bool,
}

impl Stream {
    /// A stream that has just begun. Its first frames are there to be sent.
    pub fn new(id: impl Into<String>, role: Role, limits: &Limits, now: Instant) -> Stream {
        Stream::starting_at(id, role, limits, (now, 0))
    }

    /// The same, where both ends know that the first frame of each has another number than 0.
    pub fn starting_at(
        id: impl Into<String>,
        role: Role,
        limits: &Limits,
        (now, first): (Instant, u32),
    ) -> Stream {
        // Released peers never send a heartbeat: it is how ours know each other. Taken from the end.
        let greeting = match role {
            Role::Harness => vec![Body::Heartbeat, Body::Resume { next_seq: first }],
            Role::Executor => vec![Body::Heartbeat],
        };
        Stream {
            id: id.into(),
            inbound: Inbound::new(limits, first),
            outbound: Outbound::new(limits, first),
            peer: Peer::Unknown,
            times: limits.times.clone(),
            greeting,
            ack: AckState::default(),
            probe: false,
            probe_at: Some(now + limits.times.retry_after),
            began: now,
            heard: now,
            spoke: now,
            gap_since: None,
            closing: None,
            end: None,
            reset_due: false,
        }
    }

    /// The id that its frames carry.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What is known of the other end.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Queues a message. Whoever calls this keeps to [`Limits::queued_messages`], with [`Stream::queued`].
    pub fn send(&mut self, message: Bytes) {
        if self.end.is_none() && self.closing.is_none() {
            self.outbound.push(message);
        }
    }

    /// Messages that wait to be sent.
    pub fn queued(&self) -> usize {
        self.outbound.queued()
    }

    /// Messages that left, or were given up, since the beginning.
    pub fn departed(&self) -> u64 {
        self.outbound.departed()
    }

    /// What it keeps in memory.
    pub fn held(&self) -> usize {
        self.inbound.held() + self.outbound.held()
    }

    /// How it ended, if it has. What arrived before is still to be taken.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Whether the end is still to be told to the peer.
    pub fn owes_reset(&self) -> bool {
        self.reset_due
    }

    /// Ends it once all that was queued has reached the peer.
    pub fn finish(&mut self, now: Instant, reason: &str) {
        let (at, base) = (now + self.times.closing, self.outbound.base());
        self.closing.get_or_insert(Closing { at, base, reason: reason.to_owned() });
    }

    /// Ends it now. The peer is told.
    pub fn reset(&mut self, reason: impl Into<String>) {
        if self.end.is_none() {
            self.over(End { by_peer: false, reason: reason.into() });
            self.reset_due = true;
        }
    }

    fn over(&mut self, end: End) {
        self.end = Some(end);
        self.inbound.forget();
        self.outbound.clear();
    }

    /// Takes a frame of this stream.
    pub fn receive(&mut self, frame: RelayFrame, now: Instant) {
        if self.end.is_some() {
            return;
        }
        self.heard = now;
        let RelayFrame { ack, ack_bits, body, .. } = frame;
        let is_segment = matches!(&body, Body::Data(data) if data.segment_count > 1);
        let is_explicit = matches!(body, Body::Ack);
        let was_known = self.peer == Peer::Reliable;
        if is_explicit || is_segment || body == Body::Heartbeat || (ack, ack_bits) != (0, 0) {
            self.recognise(now);
        }
        // Elsewhere 0 is also what a peer says that has nothing, or never says anything.
        if ack != 0 || is_explicit {
            self.outbound.acknowledge(ack, now);
        }
        if ack_bits != 0 {
            self.outbound.acknowledge_bits(ack, ack_bits);
        }
        match body {
            Body::Data(data) => {
                let arrival = self.inbound.receive(data, self.peer);
                self.arrived(arrival, now);
            }
            Body::Resume { next_seq } => {
                self.inbound.resume(next_seq);
                self.ack.is_urgent = true;
            }
            Body::Heartbeat => self.answer_heartbeat(was_known),
            Body::Reset { reason } => {
                self.inbound.drain();
                self.over(End { by_peer: true, reason });
            }
            Body::Ack => {}
        }
    }

    /// The peer has shown something that released ones never do.
    fn recognise(&mut self, now: Instant) {
        if self.peer != Peer::Reliable {
            self.peer = Peer::Reliable;
            self.probe_at = None;
            self.outbound.expect_acks(now);
        }
    }

    fn arrived(&mut self, arrival: Arrival, now: Instant) {
        match arrival {
            Arrival::Broken(why) => self.reset(why),
            Arrival::Again => {
                // Sent again, so it waits for an acknowledgement.
                self.recognise(now);
                self.ack.is_urgent = true;
            }
            Arrival::Early => self.ack.is_urgent = true,
            Arrival::InTurn => {
                self.ack.frames += 1;
                self.ack.at.get_or_insert(now + self.times.ack_after);
                // An acknowledgement of frame 0 that rides on data looks like none.
                self.ack.is_urgent |= self.ack.frames >= ACK_FRAMES || self.acks_zero();
            }
        }
        self.gap_since = match self.inbound.has_gap() {
            true => self.gap_since.filter(|_| arrival != Arrival::InTurn).or(Some(now)),
            false => None,
        };
        let has_waited = now >= self.began + self.times.presume_after;
        if self.peer == Peer::Unknown && has_waited && self.inbound.taken() >= SILENT_FRAMES {
            self.peer = Peer::Presumed;
        }
    }

    /// Our own ends ask with a heartbeat; answering each with one would never end.
    fn answer_heartbeat(&mut self, was_known: bool) {
        match self.inbound.acknowledged() {
            Some(_) => self.ack.is_urgent = true,
            None => self.probe |= !was_known,
        }
    }

    fn take_for_plain(&mut self) {
        self.peer = Peer::Plain;
        self.probe_at = None;
        self.outbound.forget();
    }

    /// The next message that arrived.
    pub fn message(&mut self, now: Instant) -> Option<Incoming> {
        let was_held_back = self.inbound.is_held_back(self.peer);
        let message = self.inbound.pop()?;
        if was_held_back && self.end.is_none() {
            match self.inbound.advance(self.peer) {
                Ok(()) => {}
                Err(why) => self.reset(why),
            }
            // The peer waits to hear that there is room.
            self.ack.is_urgent |= !self.inbound.is_held_back(self.peer);
            self.ack.at.get_or_insert(now + self.times.ack_after);
        }
        Some(message)
    }

    /// Whether a message is there to be taken.
    pub fn has_message(&self) -> bool {
        self.inbound.has_message()
    }

    /// The next frame to send; nothing for now if there is none.
    pub fn frame(&mut self, now: Instant) -> Option<RelayFrame> {
        self.look(now);
        if let Some(end) = &self.end {
            let reason = end.reason.clone();
            return std::mem::take(&mut self.reset_due).then(|| self.framed(Body::Reset { reason }, now));
        }
        if let Some(body) = self.greeting.pop() {
            return Some(self.framed(body, now));
        }
        if self.wants_ack_alone() {
            return Some(self.framed(Body::Ack, now));
        }
        if let Some(data) = self.outbound.frame(now, self.peer) {
            return Some(self.framed(Body::Data(data), now));
        }
        if self.closing.is_some() && self.outbound.is_done(self.peer) {
            let reason = self.closing.take().map(|closing| closing.reason).unwrap_or_default();
            self.reset(reason);
            return self.frame(now);
        }
        if self.wants_ack(now) {
            return Some(self.framed(Body::Ack, now));
        }
        std::mem::take(&mut self.probe).then(|| self.framed(Body::Heartbeat, now))
    }

    fn framed(&mut self, body: Body, now: Instant) -> RelayFrame {
        self.spoke = now;
        let (ack, ack_bits) = self.inbound.acknowledged().unwrap_or_default();
        if ack != 0 || body == Body::Ack {
            self.ack = AckState::default();
        }
        RelayFrame { stream_id: self.id.clone(), ack, ack_bits, body }
    }

    /// Whether an acknowledgement has to go by itself, even if there is something it could ride on.
    fn wants_ack_alone(&self) -> bool {
        self.ack.is_urgent && self.peer != Peer::Plain && self.acks_zero()
    }

    fn acks_zero(&self) -> bool {
        matches!(self.inbound.acknowledged(), Some((0, _)))
    }

    fn wants_ack(&self, now: Instant) -> bool {
        let is_time = self.ack.is_urgent || self.ack.at.is_some_and(|at| now >= at);
        is_time && self.peer != Peer::Plain && self.inbound.acknowledged().is_some()
    }

    /// Does what the clock asks for.
    fn look(&mut self, now: Instant) {
        if self.end.is_some() {
            return;
        }
        match self.peer {
            Peer::Unknown | Peer::Presumed => self.look_for_signs(now),
            Peer::Reliable => self.look_for_acks(now),
            Peer::Plain => {}
        }
        // To a released peer it says nothing; one of ours that was taken for one answers.
        self.probe |= now >= self.spoke + self.times.heartbeat;
        if self.gap_since.is_some_and(|since| now >= since + self.times.gap) {
            self.reset(format!("frame {} never came", on_wire(self.inbound.next())));
        }
        let base = self.outbound.base();
        if let Some(closing) = self.closing.as_mut().filter(|closing| closing.base != base) {
            (closing.at, closing.base) = (now + self.times.closing, base);
        }
        if let Some(closing) = self.closing.take_if(|closing| now >= closing.at) {
            self.reset(closing.reason);
        }
    }

    /// Says once more what our ends say to each other, until it is answered or no answer is to be expected.
    fn look_for_signs(&mut self, now: Instant) {
        if now >= self.began + self.times.recognise_within {
            self.take_for_plain();
        } else if let Some(at) = self.probe_at.filter(|at| now >= *at) {
            let waited = at.saturating_duration_since(self.began);
            self.probe_at = Some(now + waited.max(self.times.retry_after));
            self.probe = true;
        }
    }

    fn look_for_acks(&mut self, now: Instant) {
        match self.outbound.look(now) {
            Wanted::Nothing => {}
            Wanted::Probe => self.probe = true,
            Wanted::GiveUp => self.reset(format!(
                "frames up to {} were not acknowledged",
                on_wire(self.outbound.next().saturating_sub(1))
            )),
        }
        if now >= self.heard + self.times.silence {
            self.reset("the other end is silent");
        }
    }

    /// When to ask for a frame again, even if nothing happens before.
    pub fn next_due(&self) -> Option<Instant> {
        if self.end.is_some() {
            return None;
        }
        let acks = match self.peer {
            Peer::Plain => None,
            Peer::Unknown | Peer::Presumed | Peer::Reliable => self.ack.at,
        };
        let by_peer = match self.peer {
            Peer::Unknown | Peer::Presumed => [Some(self.began + self.times.recognise_within), self.probe_at],
            Peer::Reliable => [self.outbound.next_due(), Some(self.heard + self.times.silence)],
            Peer::Plain => [None; 2],
        };
        let heartbeat = Some(self.spoke + self.times.heartbeat);
        let gap = self.gap_since.map(|since| since + self.times.gap);
        let closing = self.closing.as_ref().map(|closing| closing.at);
        by_peer.into_iter().chain([acks, gap, closing, heartbeat]).flatten().min()
    }
}
