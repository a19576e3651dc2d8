//! One end of one stream: sequence numbers, acknowledgements, retries, peer recognition and reset, without I/O or clock.
//!
//! Received frames go into [`Stream::receive`], frames to send come from [`Stream::frame`], and [`Stream::next_due`] is the
//! time of the next timer. The clock is an argument.

use std::time::Instant;

use bytes::Bytes;
use wire::exec_server::relay::{Body, RelayFrame};

use super::inbound::{FrameClass, Inbound};
use super::outbound::{Outbound, TimerAction};
use super::serial::on_wire;
use super::{Limits, Role, Times};
use crate::Incoming;

/// Received frames after which an acknowledgement is sent at once.
const ACK_FRAMES: u32 = 8;
/// Data frames after which this implementation would have been recognised as the peer.
const SILENT_FRAMES: u64 = 3;

/// The capabilities of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Not known yet: one window is sent and kept, then the stream waits.
    Unknown,
    /// Presumably without acknowledgements; the stream does not wait for any.
    Presumed,
    /// Acknowledges frames and accepts segments; lost frames are sent again.
    Reliable,
    /// A released peer without acknowledgements; sent frames count as received.
    Plain,
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// True if the peer ended it.
    pub by_peer: bool,
    /// The reason, for people.
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
    /// A heartbeat has to be sent as soon as possible.
    probe: bool,
    probe_at: Option<Instant>,
    began: Instant,
    last_received: Instant,
    last_sent: Instant,
    gap_since: Option<Instant>,
    closing: Option<Closing>,
    end: Option<End>,
    /// A reset frame has to be sent.
    reset_due: bool,
}

/// The state of a stream that closes after its queued messages.
#[derive(Debug)]
struct Closing {
    /// The deadline, extended by each acknowledgement.
    at: Instant,
    base: u64,
    reason: String,
}

/// The pending acknowledgement.
#[derive(Debug, Default)]
struct AckState {
    frames: u32,
    at: Option<Instant>,
    is_urgent: bool,
}

impl Stream {
    /// A new stream, whose first frames are ready to be sent.
    pub fn new(id: impl Into<String>, role: Role, limits: &Limits, now: Instant) -> Stream {
        Stream::starting_at(id, role, limits, (now, 0))
    }

    /// The same with another first sequence number than 0, for both directions.
    pub fn starting_at(
        id: impl Into<String>,
        role: Role,
        limits: &Limits,
        (now, first): (Instant, u32),
    ) -> Stream {
        // Released peers never send a heartbeat, so it identifies this implementation. Taken from the end.
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
            last_received: now,
            last_sent: now,
            gap_since: None,
            closing: None,
            end: None,
            reset_due: false,
        }
    }

    /// The stream id of its frames.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The known capabilities of the peer.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Queues a message. The caller enforces [`Limits::queued_messages`] with [`Stream::queued`].
    pub fn send(&mut self, message: Bytes) {
        if self.end.is_none() && self.closing.is_none() {
            self.outbound.push(message);
        }
    }

    /// The number of queued messages.
    pub fn queued(&self) -> usize {
        self.outbound.queued()
    }

    /// The number of messages that were sent or dropped so far.
    pub fn departed(&self) -> u64 {
        self.outbound.departed()
    }

    /// The bytes that the stream holds in memory.
    pub fn held(&self) -> usize {
        self.inbound.held() + self.outbound.held()
    }

    /// The end of the stream, if it has ended. Messages received before can still be taken.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// True if a reset frame has to be sent.
    pub fn owes_reset(&self) -> bool {
        self.reset_due
    }

    /// Ends the stream after the peer has all queued messages.
    pub fn finish(&mut self, now: Instant, reason: &str) {
        let (at, base) = (now + self.times.closing, self.outbound.base());
        self.closing.get_or_insert(Closing { at, base, reason: reason.to_owned() });
    }

    /// Ends the stream at once with a reset frame.
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

    /// Handles a received frame of this stream.
    pub fn receive(&mut self, frame: RelayFrame, now: Instant) {
        if self.end.is_some() {
            return;
        }
        self.last_received = now;
        let RelayFrame { ack, ack_bits, body, .. } = frame;
        let is_segment = matches!(&body, Body::Data(data) if data.segment_count > 1);
        let is_explicit = matches!(body, Body::Ack);
        let was_known = self.peer == Peer::Reliable;
        if is_explicit || is_segment || body == Body::Heartbeat || (ack, ack_bits) != (0, 0) {
            self.recognise(now);
        }
        // In other frames, 0 also means that nothing was received, or that the peer does not acknowledge.
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

    /// The peer sent something that released peers never do.
    fn recognise(&mut self, now: Instant) {
        if self.peer != Peer::Reliable {
            self.peer = Peer::Reliable;
            self.probe_at = None;
            self.outbound.expect_acks(now);
        }
    }

    fn arrived(&mut self, arrival: FrameClass, now: Instant) {
        match arrival {
            FrameClass::Broken(why) => self.reset(why),
            FrameClass::Again => {
                // Sent again to get an acknowledgement.
                self.recognise(now);
                self.ack.is_urgent = true;
            }
            FrameClass::Early => self.ack.is_urgent = true,
            FrameClass::InTurn => {
                self.ack.frames += 1;
                self.ack.at.get_or_insert(now + self.times.ack_after);
                // An acknowledgement of frame 0 in a data frame looks like none.
                self.ack.is_urgent |= self.ack.frames >= ACK_FRAMES || self.acks_zero();
            }
        }
        self.gap_since = match self.inbound.has_gap() {
            true => self.gap_since.filter(|_| arrival != FrameClass::InTurn).or(Some(now)),
            false => None,
        };
        let has_waited = now >= self.began + self.times.presume_after;
        if self.peer == Peer::Unknown && has_waited && self.inbound.taken() >= SILENT_FRAMES {
            self.peer = Peer::Presumed;
        }
    }

    /// Answers a heartbeat with an acknowledgement: answering with a heartbeat would never end.
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

    /// Takes the next received message.
    pub fn message(&mut self, now: Instant) -> Option<Incoming> {
        let was_held_back = self.inbound.is_held_back(self.peer);
        let message = self.inbound.pop()?;
        if was_held_back && self.end.is_none() {
            match self.inbound.advance(self.peer) {
                Ok(()) => {}
                Err(why) => self.reset(why),
            }
            // The peer waits for an acknowledgement to continue.
            self.ack.is_urgent |= !self.inbound.is_held_back(self.peer);
            self.ack.at.get_or_insert(now + self.times.ack_after);
        }
        Some(message)
    }

    /// True if a message is available.
    pub fn has_message(&self) -> bool {
        self.inbound.has_message()
    }

    /// The next frame to send, if there is one.
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
        self.last_sent = now;
        let (ack, ack_bits) = self.inbound.acknowledged().unwrap_or_default();
        if ack != 0 || body == Body::Ack {
            self.ack = AckState::default();
        }
        RelayFrame { stream_id: self.id.clone(), ack, ack_bits, body }
    }

    /// True if an acknowledgement has to be sent in a frame of its own.
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

    /// Handles expired timers.
    fn look(&mut self, now: Instant) {
        if self.end.is_some() {
            return;
        }
        match self.peer {
            Peer::Unknown | Peer::Presumed => self.look_for_signs(now),
            Peer::Reliable => self.look_for_acks(now),
            Peer::Plain => {}
        }
        // A released peer ignores it; this implementation answers, even if it was not recognised.
        self.probe |= now >= self.last_sent + self.times.heartbeat;
        if self.gap_since.is_some_and(|since| now >= since + self.times.gap) {
            self.reset(format!("frame {} was lost", on_wire(self.inbound.next())));
        }
        let base = self.outbound.base();
        if let Some(closing) = self.closing.as_mut().filter(|closing| closing.base != base) {
            (closing.at, closing.base) = (now + self.times.closing, base);
        }
        if let Some(closing) = self.closing.take_if(|closing| now >= closing.at) {
            self.reset(closing.reason);
        }
    }

    /// Repeats the heartbeat until the peer is recognised or presumed to be a released one.
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
            TimerAction::Nothing => {}
            TimerAction::Probe => self.probe = true,
            TimerAction::GiveUp => self.reset(format!(
                "frames up to {} were not acknowledged",
                on_wire(self.outbound.next().saturating_sub(1))
            )),
        }
        if now >= self.last_received + self.times.silence {
            self.reset("the peer is silent");
        }
    }

    /// The time of the next timer.
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
            Peer::Reliable => [self.outbound.next_due(), Some(self.last_received + self.times.silence)],
            Peer::Plain => [None; 2],
        };
        let heartbeat = Some(self.last_sent + self.times.heartbeat);
        let gap = self.gap_since.map(|since| since + self.times.gap);
        let closing = self.closing.as_ref().map(|closing| closing.at);
        by_peer.into_iter().chain([acks, gap, closing, heartbeat]).flatten().min()
    }
}
