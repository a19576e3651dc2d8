//! The writing side of a WebSocket: messages into frames, pings, and the end.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until, timeout};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use super::reading::{Spent, unmask};
use super::shared::{Asked, Shared};
use super::{Close, Content, Role, Settings};
use crate::lanes::{Compression, Lanes, Outbound, Receipt};
use crate::packing::pack;
use crate::queue::{Framed, Framing, Head, Queue};

/// How long a connection that has ended is still listened to, so that the kernel does not throw away our last words.
const LINGER: Duration = Duration::from_secs(2);
/// How much more often a peer is pinged whose life is in doubt.
const HASTE: u32 = 4;
/// The longest reason a close frame has room for.
const MOST_REASON: usize = 123;

/// Writes one connection.
pub(super) struct Writer<W> {
    output: W,
    queue: Queue<Framer>,
    role: Role,
    settings: Settings,
    shared: Arc<Shared>,
    pinged: Instant,
    /// The last frame is in the queue.
    is_ending: bool,
}

impl<W: AsyncWrite + Unpin + Send> Writer<W> {
    pub(super) fn new(output: W, framer: Framer, settings: Settings, shared: Arc<Shared>) -> Writer<W> {
        let role = framer.role;
        let queue = Queue::new(framer);
        Writer { output, queue, role, settings, shared, pinged: Instant::now(), is_ending: false }
    }

    /// Writes until every sender is gone, the peer is, or writing fails.
    pub(super) async fn run<R>(mut self, mut lanes: Lanes, spent: Spent<R>) -> io::Result<()>
    where
        R: AsyncRead + Unpin + Send + 'static,
    {
        let shared = self.shared.clone();
        while !self.is_ending {
            tokio::select! {
                biased;
                asked = shared.asked() => self.heed(asked)?,
                first = lanes.recv() => match first {
                    Some(first) => self.queue.begin(first),
                    None => self.end(&shared.farewell()),
                },
                () = sleep_until(self.next_due()) => self.look_for_life(),
            }
            self.drain(&mut lanes).await?;
        }
        // Whoever still sends learns that nobody listens.
        drop(lanes);
        timeout(self.settings.deadline, self.output.shutdown()).await.map_err(io::Error::from)??;
        let input = spent.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(input) = input {
            // Reading to the end, or for so long, is all: the result does not matter.
            timeout(LINGER, discard(input)).await.ok();
        }
        Ok(())
    }

    /// Writes until nothing is left.
    async fn drain(&mut self, lanes: &mut Lanes) -> io::Result<()> {
        let shared = self.shared.clone();
        let (mut moved, mut was_blocked) = (Instant::now(), false);
        while !self.queue.is_empty() {
            let (queue, output, is_ending) = (&mut self.queue, &mut self.output, self.is_ending);
            let write = poll_fn(|cx| {
                let output = Pin::new(&mut *output);
                let polled = match is_ending {
                    true => queue.poll_write_taken(cx, output),
                    false => queue.poll_write(cx, lanes, output),
                };
                was_blocked |= polled.is_pending();
                polled
            });
            tokio::select! {
                biased;
                asked = shared.asked(), if !is_ending => self.heed(asked)?,
                wrote = write => {
                    wrote?;
                    moved = Instant::now();
                    // Room after there was none: the peer has taken something.
                    if std::mem::take(&mut was_blocked) {
                        shared.hear();
                    }
                    if !is_ending {
                        self.queue.take_ready(lanes);
                    }
                }
                () = sleep_until(moved + self.settings.deadline) => return Err(too_late("takes nothing")),
            }
        }
        timeout(self.settings.deadline, self.output.flush()).await.map_err(io::Error::from)?
    }

    fn heed(&mut self, asked: Asked) -> io::Result<()> {
        match asked {
            Asked::Pong(payload) => {
                let framed = frame(self.role, OpCode::Control(Control::Pong), payload, Receipt::default());
                self.queue.put_sign(framed);
            }
            Asked::Close(close) => {
                self.queue.forget_waiting();
                self.end(&close);
            }
            Asked::Gone => return Err(io::ErrorKind::BrokenPipe.into()),
            Asked::Silent => return Err(too_late("gives no sign of life")),
        }
        Ok(())
    }

    fn end(&mut self, close: &Close) {
        let mut payload = BytesMut::from(&close.code.to_be_bytes()[..]);
        let reason = &close.reason[..close.reason.floor_char_boundary(MOST_REASON)];
        payload.extend_from_slice(reason.as_bytes());
        let framed = frame(self.role, OpCode::Control(Control::Close), payload.freeze(), Receipt::default());
        self.queue.put_first(framed);
        self.is_ending = true;
    }

    /// When to look for a sign of life.
    fn next_due(&self) -> Instant {
        let Some(heard) = self.shared.heard() else { return Instant::now() + self.settings.deadline };
        match self.shared.is_doubted() {
            true => self.next_ping(heard),
            false => (heard + self.settings.deadline).min(self.next_ping(heard)),
        }
    }

    fn next_ping(&self, heard: Instant) -> Instant {
        // A link that nobody reads learns of its end only by writing, and a session is kept for a while only.
        let every = match self.shared.is_doubted() {
            true => self.settings.ping_every / HASTE,
            false => self.settings.ping_every,
        };
        heard.max(self.pinged) + every
    }

    fn look_for_life(&mut self) {
        // When nobody reads ever again, only what is written tells.
        let Some(heard) = self.shared.heard() else { return };
        let now = Instant::now();
        if now >= heard + self.settings.deadline && !self.shared.is_doubted() {
            // Whoever reads answers before the next ping is due.
            self.pinged = now;
            return self.shared.doubt();
        }
        if now >= self.next_ping(heard) {
            self.pinged = now;
            let framed = frame(self.role, OpCode::Control(Control::Ping), Bytes::new(), Receipt::default());
            self.queue.put_first(framed);
        }
    }
}

fn too_late(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("the peer {what}"))
}

async fn discard(mut input: impl AsyncRead + Unpin) {
    let mut scratch = [0; 1024];
    while matches!(input.read(&mut scratch).await, Ok(1..)) {}
}

/// A message per frame.
#[derive(Debug)]
pub(super) struct Framer {
    pub(super) role: Role,
    pub(super) content: Content,
    pub(super) compression: Compression,
}

impl Framing for Framer {
    fn frame(&mut self, outbound: Outbound) -> Framed {
        let Outbound { bytes, written } = outbound;
        if bytes.is_empty() {
            return Framed::mark(written);
        }
        if self.content == Content::Binary {
            return frame(self.role, OpCode::Data(Data::Binary), bytes, written);
        }
        let packed = match self.compression.is_on() {
            true => {
                pack(&bytes).inspect_err(|error| tracing::warn!(%error, "a message is sent as it is")).ok()
            }
            false => None,
        };
        match packed {
            Some(packed) => frame(self.role, OpCode::Data(Data::Binary), packed, written),
            None => frame(self.role, OpCode::Data(Data::Text), bytes, written),
        }
    }
}

fn frame(role: Role, opcode: OpCode, body: Bytes, written: Receipt) -> Framed {
    let mut header = FrameHeader { is_final: true, opcode, ..FrameHeader::default() };
    let mut body = body;
    if role == Role::Client {
        let mut mask = [0; 4];
        // Against proxies that can be fooled by chosen bytes, not for secrecy: without random bytes it still works.
        if let Err(error) = getrandom::fill(&mut mask) {
            tracing::debug!(%error, "no random bytes for a mask");
        }
        header.mask = Some(mask);
        let mut masked = BytesMut::from(body);
        unmask(&mut masked, mask);
        body = masked.freeze();
    }
    let mut head = Head::default();
    // The longest header fits.
    let _written = header.format(body.len() as u64, &mut head);
    Framed { head, body, tail: b"", written }
}
