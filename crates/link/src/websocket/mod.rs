//! A WebSocket as a link: one message per frame, after the handshake, over any byte stream.
//!
//! [`link`] carries JSON, [`binary`] any bytes. Reading JSON: text and binary frames are taken alike; a binary message that is a zstd frame is unpacked; a message over
//! the limit is skipped without being kept and reported, and the next one arrives as usual. Writing: responses first,
//! everything that is ready in one vectored write, without copies. A peer that gives no sign of life, or takes nothing
//! of what is written, is cut off after [`Settings::deadline`]. While nobody reads the link, its peer is not taken for
//! dead: what it says lies unread.
//!
//! Frame headers are `tungstenite`'s. Its streams are not used: they copy every message, and end the connection at one
//! that is too long.

mod reading;
mod shared;
mod writing;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::lanes::{Compression, lanes};
use crate::{Limits, Link, Receiver, Writing};
use reading::Frames;
use shared::Shared;
use writing::{Framer, Writer};

pub use shared::Closer;

/// Which end of the connection this is: a client masks what it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The end that was connected to.
    Server,
    /// The end that connected.
    Client,
}

/// How a connection is kept alive and ended.
#[derive(Debug, Clone)]
pub struct Settings {
    /// A ping goes out when nothing was heard for so long.
    pub ping_every: Duration,
    /// The connection is cut when somebody listened and nothing was heard for so long, or when a write makes no progress for so long.
    pub deadline: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { ping_every: Duration::from_secs(20), deadline: Duration::from_secs(50) }
    }
}

impl Settings {
    /// What the ends of a relay do: a ping every 30 s, and 60 s for its answer.
    pub fn relay() -> Settings {
        Settings { ping_every: Duration::from_secs(30), deadline: Duration::from_secs(90) }
    }
}

/// Why a connection ends, as the peer is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// The code of RFC 6455, 7.4.
    pub code: u16,
    /// For people.
    pub reason: String,
}

impl Close {
    /// Everything was said.
    pub const NORMAL: u16 = 1000;
    /// The server ends.
    pub const GOING_AWAY: u16 = 1001;
    /// The peer does not speak the protocol.
    pub const PROTOCOL: u16 = 1002;
    /// The peer may not be here, or no longer.
    pub const REVOKED: u16 = 1008;

    /// A code and its reason.
    pub fn new(code: u16, reason: impl Into<String>) -> Close {
        Close { code, reason: reason.into() }
    }
}

/// What the messages of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// JSON, perhaps compressed: text and binary frames are taken alike, blank messages are nothing.
    Json,
    /// Any bytes: only binary frames count.
    Binary,
}

/// A link over `stream`, whose handshake is done; `read_already` is what came behind it. Must be called within a tokio
/// runtime. The [`Closer`] gives the reason for the end.
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

/// The same, whose messages are any bytes: each goes out as one binary frame, and text frames are skipped.
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
    let frames = Frames::new(input, read_already, (role, content), limits.line_bytes, shared.clone());
    let framing = Framer { role, content, compression: compression.clone() };
    let writer = Writer::new(output, framing, settings.clone(), shared.clone());
    let spent = frames.spent();
    let outgoing = match content {
        Content::Json => outgoing.with_compression(compression),
        Content::Binary => outgoing,
    };
    let writing = Writing::spawn(writer.run(ends, spent));
    (Link { incoming: Receiver::new(frames), outgoing, writing }, Closer::new(shared))
}
