//! Multiplexing: several streams over one link of relay frames. Each stream is a separate link.
//!
//! | file | contents |
//! |---|---|
//! | `state.rs` | one end of one stream as a state machine without I/O or clock |
//! | `inbound.rs`, `outbound.rs` | its two halves: reassembly of received frames, and retransmission of sent ones |
//! | `streams.rs` | all streams of one link, without I/O |
//! | `run.rs` | the same, driven by a [`Link`](crate::Link) |
//!
//! Released peers do not acknowledge, retransmit or segment. Two ends of this implementation detect each other by frames that
//! released peers never send: a heartbeat at the start of a stream, explicit acknowledgements, and a non-zero `ack` or
//! `ack_bits`.
//! `docs/faces/exec-server-relay.md` describes the protocol.

mod inbound;
mod outbound;
mod run;
mod serial;
mod state;
mod streams;
mod virtual_link;

use std::time::Duration;

pub use run::{Acceptor, executor, harness};
pub use state::{End, Peer, Stream};
pub use streams::{Event, Key, Streams};

/// Which end of a stream this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The client, which opens streams.
    Harness,
    /// The server, which accepts streams.
    Executor,
}

/// The limits of a multiplexed link.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open streams; a further one is reset.
    pub streams: usize,
    /// The length of a received message; a longer one is skipped and reported.
    pub message_bytes: usize,
    /// The bytes that all streams hold; beyond it, the largest stream is reset.
    pub total_bytes: usize,
    /// The length of a segment, to a peer that supports segments.
    pub segment_bytes: usize,
    /// Unacknowledged frames; beyond it, a stream waits.
    pub window_frames: usize,
    /// Unacknowledged bytes; beyond it, a stream waits.
    pub window_bytes: usize,
    /// The bytes of unread messages; beyond it, no frame is acknowledged, so that the peer waits.
    pub inbox_bytes: usize,
    /// The same for a peer without acknowledgements; beyond it, the stream is reset.
    pub plain_inbox_bytes: usize,
    /// The length of a message to a peer without segments: it is one frame, and a peer or rendezvous that rejects a frame
    /// ends its connection.
    pub plain_message_bytes: usize,
    /// Queued messages of one stream; beyond it, senders wait.
    pub queued_messages: usize,
    /// The timers.
    pub times: Times,
}

/// The timers of retransmission, liveness and closing.
#[derive(Debug, Clone)]
pub struct Times {
    /// How long an acknowledgement waits for a message that can carry it.
    pub ack_after: Duration,
    /// The wait before an unacknowledged frame is sent again; it doubles each time.
    pub retry_after: Duration,
    /// The limit on that wait.
    pub max_retry_wait: Duration,
    /// How often a frame is sent before the stream is reset.
    pub tries: u32,
    /// A peer that sends data for this long without an acknowledgement is presumed to support none.
    pub presume_after: Duration,
    /// A peer without an acknowledgement for this long supports none.
    pub recognise_within: Duration,
    /// The time between heartbeats of an idle stream.
    pub heartbeat: Duration,
    /// A peer that supports heartbeats and is silent for this long is lost.
    pub silence: Duration,
    /// A frame that is missing for this long is lost.
    pub gap: Duration,
    /// A closing stream without a new acknowledgement for this long is reset.
    pub closing: Duration,
    /// How long a reset stream is remembered, so that late frames do not open it again.
    pub remembered: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams: 1_024,
            message_bytes: wire::limits::MAX_LINE_BYTES,
            total_bytes: 4 * wire::limits::MAX_LINE_BYTES,
            segment_bytes: 64 * 1024,
            window_frames: 32,
            window_bytes: 2 * 1024 * 1024,
            inbox_bytes: 256 * 1024,
            plain_inbox_bytes: wire::limits::MAX_LINE_BYTES,
            // The limit of Codex's own library for one frame, without its envelope.
            plain_message_bytes: 16 * 1024 * 1024 - 64 * 1024,
            queued_messages: 4,
            times: Times::default(),
        }
    }
}

impl Limits {
    /// The limit on messages of a stream.
    fn max_message(&self, stream: Option<&Stream>) -> usize {
        match stream.map(Stream::peer) {
            Some(Peer::Reliable) => self.message_bytes,
            Some(Peer::Unknown | Peer::Presumed | Peer::Plain) | None => self.plain_message_bytes,
        }
    }
}

impl Default for Times {
    fn default() -> Times {
        Times {
            ack_after: Duration::from_millis(20),
            retry_after: Duration::from_millis(500),
            max_retry_wait: Duration::from_secs(8),
            tries: 12,
            presume_after: Duration::from_millis(250),
            recognise_within: Duration::from_secs(5),
            heartbeat: Duration::from_secs(30),
            silence: Duration::from_secs(120),
            gap: Duration::from_secs(90),
            closing: Duration::from_secs(30),
            remembered: Duration::from_secs(150),
        }
    }
}
