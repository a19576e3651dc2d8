//! A WebSocket as a link: one message per frame, after the handshake, over any byte stream.
//!
//! [`link`] carries JSON, [`binary`] any bytes, [`mixed`] both. Reading JSON: text and binary frames are equivalent; a binary message that
//! is a zstd frame is decompressed; a message over the limit is skipped and reported, and the next one arrives as usual.
//! Writing: responses first, all queued messages in one vectored write, without copies. A peer that is silent or reads
//! nothing for [`Settings::deadline`] is disconnected, and the link ends in both directions. On a link that is not read, the peer's data stays unread, and its
//! silence does not count.
//!
//! Frame headers are those of `tungstenite`. Its streams are not used: they copy every message, and end the connection at
//! one over the limit.

mod reading;
mod shared;
mod writing;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::lanes::{BinaryMessages, Compression, lanes};
use crate::{Limits, Link, Receiver, Writing};
use reading::Frames;
use shared::Shared;
use writing::{Framer, Writer};

pub use shared::Closer;

/// Which end of the connection this is: a client masks what it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The accepting end.
    Server,
    /// The connecting end.
    Client,
}

/// How a connection is kept alive and ended.
#[derive(Debug, Clone)]
pub struct Settings {
    /// A ping is sent when nothing was received for this long.
    pub ping_every: Duration,
    /// The connection is cut when the link was read and nothing was received for this long, or when a write makes no
    /// progress for this long.
    pub deadline: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { ping_every: Duration::from_secs(20), deadline: Duration::from_secs(50) }
    }
}

impl Settings {
    /// The settings of a relay: a ping every 30 s, and 60 s for its pong.
    pub fn relay() -> Settings {
        Settings { ping_every: Duration::from_secs(30), deadline: Duration::from_secs(90) }
    }
}

/// A close frame: why a connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// The code of RFC 6455, section 7.4.
    pub code: u16,
    /// A text for people.
    pub reason: String,
}

impl Close {
    /// The connection has served its purpose.
    pub const NORMAL: u16 = 1000;
    /// The server stops.
    pub const GOING_AWAY: u16 = 1001;
    /// The peer violated the protocol.
    pub const PROTOCOL: u16 = 1002;
    /// The server cannot receive the message now.
    pub const TRY_AGAIN: u16 = 1013;
    /// The peer's access is rejected or revoked.
    pub const REVOKED: u16 = 1008;

    /// A close frame with this code and reason.
    pub fn new(code: u16, reason: impl Into<String>) -> Close {
        Close { code, reason: reason.into() }
    }
}

/// The content of a connection's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// JSON, possibly compressed: text and binary frames are equivalent, blank messages are ignored. Also binary messages
    /// with a JSON header, if they were negotiated.
    Json,
    /// Any bytes: text frames are ignored.
    Binary,
    /// Any bytes, and JSON objects as text frames.
    Mixed,
}

/// A link over `stream` after its handshake; `read_already` are the bytes that arrived behind it. Must be called within a
/// tokio runtime.
pub fn link<S>(
    stream: S,
    read_already: Bytes,
    role: Role,
    settings: &Settings,
    limits: &Limits,
) -> (Link, Closer)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    carry(stream, read_already, (role, Content::Json), settings, limits)
}

/// Like [`link`] with messages of any bytes: each is sent as one binary frame, and text frames are ignored.
pub fn binary<S>(
    stream: S,
    read_already: Bytes,
    role: Role,
    settings: &Settings,
    limits: &Limits,
) -> (Link, Closer)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    carry(stream, read_already, (role, Content::Binary), settings, limits)
}

/// Like [`binary`], and a message that begins with `{` is sent as a text frame; text frames that begin with it are received.
/// For control messages beside relay frames, none of which begins so.
pub fn mixed<S>(
    stream: S,
    read_already: Bytes,
    role: Role,
    settings: &Settings,
    limits: &Limits,
) -> (Link, Closer)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    carry(stream, read_already, (role, Content::Mixed), settings, limits)
}

fn carry<S>(
    stream: S,
    read_already: Bytes,
    (role, content): (Role, Content),
    settings: &Settings,
    limits: &Limits,
) -> (Link, Closer)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (input, output) = tokio::io::split(stream);
    let (outgoing, ends) = lanes(limits);
    let compression = Compression::default();
    let shared = Shared::new();
    let read_already = match read_already.is_empty() {
        true => BytesMut::new(),
        false => BytesMut::from(read_already),
    };
    let frames = Frames::new(input, read_already, (role, content), limits, shared.clone());
    let framing = Framer { role, content, compression: compression.clone() };
    let writer = Writer::new(output, framing, settings.clone(), shared.clone());
    let input = frames.returned_input();
    let outgoing = match content {
        Content::Json => outgoing.with_compression(compression).with_binary(BinaryMessages::default()),
        Content::Binary | Content::Mixed => outgoing,
    };
    let state = shared.clone();
    let writing = Writing::spawn(async move {
        let result = writer.run(ends, input).await;
        if let Err(error) = &result {
            match error.kind() {
                std::io::ErrorKind::TimedOut => tracing::warn!("a WebSocket is closed: {error}"),
                _ => tracing::debug!(%error, "a WebSocket is closed"),
            }
            state.fail();
        }
        result
    });
    (Link { incoming: Receiver::new(frames), outgoing, writing }, Closer::new(shared))
}
