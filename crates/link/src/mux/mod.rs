//! Many streams over one link: each is a connection of its own, made of relay frames.
//!
//! | file | what is in it |
//! |---|---|
//! | `state.rs` | one end of one stream, without input, output or clock |
//! | `inbound.rs`, `outbound.rs` | its two halves: putting together what arrives, and keeping what is not acknowledged |
//! | `streams.rs` | all streams of one link, still without input or output |
//! | `run.rs` | the same, driven by a [`Link`](crate::Link) |
//!
//! Released peers neither acknowledge nor retry nor segment. Ours tell each other apart by what those never send: a
//! heartbeat at the beginning of a stream, explicit acknowledgements, numbers in `ack` and `ack_bits`.
//! `docs/faces/codex-relay.md` has the whole story.

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
    /// Opens streams: the client.
    Harness,
    /// Takes the streams that are opened: the server.
    Executor,
}

/// The bounds of a link that carries streams.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Streams at a time; one more is reset at once.
    pub streams: usize,
    /// The longest message taken; a longer one is skipped and reported.
    pub message_bytes: usize,
    /// What all streams together may hold; past it the stream that holds most is reset.
    pub total_bytes: usize,
    /// The longest piece of a message, towards a peer that takes pieces.
    pub segment_bytes: usize,
    /// Frames on their way that the peer has not acknowledged; past it a stream waits.
    pub window_frames: usize,
    /// The same in bytes.
    pub window_bytes: usize,
    /// Messages that nobody took yet, in bytes; past it nothing more is acknowledged, so that the peer waits.
    pub inbox_bytes: usize,
    /// The same for a peer that knows no acknowledgements; past it the stream is reset.
    pub plain_inbox_bytes: usize,
    /// The longest message to a peer that takes no pieces: it goes as one frame, and a peer or a rendezvous that does not
    /// take a frame ends the connection it came on.
    pub plain_message_bytes: usize,
    /// Messages of one stream that wait to be sent; past it whoever sends waits.
    pub queued_messages: usize,
    /// When things are tried again, and when they are given up.
    pub times: Times,
}

/// When things are tried again, and when they are given up.
#[derive(Debug, Clone)]
pub struct Times {
    /// An acknowledgement waits so long for a message that could carry it.
    pub ack_after: Duration,
    /// A frame is sent again when it is not acknowledged for so long; each time the wait doubles.
    pub retry_after: Duration,
    /// The longest such wait.
    pub retry_most: Duration,
    /// How often a frame is sent before the stream is given up.
    pub tries: u32,
    /// A peer that sends and sends, and does not show within so long that it acknowledges, is probably one that does not.
    pub presume_after: Duration,
    /// A peer that does not show within so long that it acknowledges is taken for one that never will.
    pub recognise_within: Duration,
    /// A stream that says nothing else says so often that it lives.
    pub heartbeat: Duration,
    /// A peer that has shown heartbeats and is silent for so long is gone.
    pub silence: Duration,
    /// A missing frame that does not come for so long is lost.
    pub gap: Duration,
    /// A stream that closes and gets nothing acknowledged for so long is given up.
    pub closing: Duration,
    /// A stream that was reset is remembered for so long, so that late frames do not open it again.
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
            // What Codex's own library takes in one frame, less its envelope.
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
            retry_most: Duration::from_secs(8),
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
