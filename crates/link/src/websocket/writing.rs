//! The writing side of a WebSocket: messages as frames, pings, and the closing handshake.

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

use super::reading::{ReturnedInput, unmask};
use super::shared::{Shared, WriterRequest};
use super::{Close, Content, Role, Settings};
use crate::lanes::{Compression, Lanes, Outbound, Receipt};
use crate::packing::pack;
use crate::queue::{Framed, Framing, Head, Queue};

/// How long an ended connection is still read, so that the kernel does not discard the close frame.
const LINGER: Duration = Duration::from_secs(2);
/// The factor by which a suspected peer is pinged more often.
const SUSPECTED_PING_FACTOR: u32 = 4;
/// The limit on the reason in a close frame, in bytes.
const MAX_REASON: usize = 123;

/// Writes the frames of one connection.
pub(super) struct Writer<W> {
    output: W,
    queue: Queue<Framer>,
    role: Role,
    settings: Settings,
    shared: Arc<Shared>,
    last_ping: Instant,
    /// The close frame is in the queue.
    is_ending: bool,
}

impl<W: AsyncWrite + Unpin + Send> Writer<W> {
    pub(super) fn new(output: W, framer: Framer, settings: Settings, shared: Arc<Shared>) -> Writer<W> {
        let role = framer.role;
        let queue = Queue::new(framer);
        Writer { output, queue, role, settings, shared, last_ping: Instant::now(), is_ending: false }
    }

    /// Writes until every sender is dropped, the peer closes, or writing fails.
    pub(super) async fn run<R>(mut self, mut lanes: Lanes, returned: ReturnedInput<R>) -> io::Result<()>
    where
        R: AsyncRead + Unpin + Send + 'static,
    {
        let shared = self.shared.clone();
        while !self.is_ending {
            tokio::select! {
                biased;
                request = shared.request() => self.handle(request)?,
                first = lanes.recv() => match first {
                    Some(first) => self.queue.begin(first),
                    None => self.end(&shared.reason()),
                },
                () = sleep_until(self.next_due()) => self.check_liveness(),
            }
            self.drain(&mut lanes).await?;
        }
        // Later sends fail.
        drop(lanes);
        timeout(self.settings.deadline, self.output.shutdown()).await.map_err(io::Error::from)??;
        let input = returned.lock().unwrap_or_else(PoisonError::into_inner).take();
        // After the peer's close frame nothing more is received that could make the kernel discard ours.
        if let Some(input) = input.filter(|_| !shared.has_peer_closed()) {
            // Until the peer closes or the time has passed.
            timeout(LINGER, discard(input)).await.ok();
        }
        Ok(())
    }

    /// Writes until the queue is empty.
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
                request = shared.request(), if !is_ending => self.handle(request)?,
                wrote = write => {
                    wrote?;
                    moved = Instant::now();
                    // Capacity after a blocked write: the peer has read something.
                    if std::mem::take(&mut was_blocked) {
                        shared.record_activity();
                    }
                    if !is_ending {
                        self.queue.take_ready(lanes);
                    }
                }
                () = sleep_until(moved + self.settings.deadline) => return Err(timed_out("reads nothing")),
            }
        }
        timeout(self.settings.deadline, self.output.flush()).await.map_err(io::Error::from)?
    }

    fn handle(&mut self, request: WriterRequest) -> io::Result<()> {
        match request {
            WriterRequest::Pong(payload) => {
                let framed = frame(self.role, OpCode::Control(Control::Pong), payload, Receipt::default());
                self.queue.put_pong(framed);
            }
            WriterRequest::Close(close) => {
                self.queue.drop_queued();
                self.end(&close);
            }
            WriterRequest::PeerClosed => return Err(io::ErrorKind::BrokenPipe.into()),
            WriterRequest::PeerSilent => return Err(timed_out("is silent")),
        }
        Ok(())
    }

    fn end(&mut self, close: &Close) {
        let mut payload = BytesMut::from(&close.code.to_be_bytes()[..]);
        let reason = &close.reason[..close.reason.floor_char_boundary(MAX_REASON)];
        payload.extend_from_slice(reason.as_bytes());
        let framed = frame(self.role, OpCode::Control(Control::Close), payload.freeze(), Receipt::default());
        self.queue.put_first(framed);
        self.is_ending = true;
    }

    /// The time of the next ping or liveness check.
    fn next_due(&self) -> Instant {
        let Some(active) = self.shared.last_activity() else {
            return Instant::now() + self.settings.deadline;
        };
        match self.shared.is_suspected() {
            true => self.next_ping(active),
            false => (active + self.settings.deadline).min(self.next_ping(active)),
        }
    }

    fn next_ping(&self, active: Instant) -> Instant {
        // A link that is not read notices its end only by writing, and a session is kept for a limited time.
        let every = match self.shared.is_suspected() {
            true => self.settings.ping_every / SUSPECTED_PING_FACTOR,
            false => self.settings.ping_every,
        };
        active.max(self.last_ping) + every
    }

    fn check_liveness(&mut self) {
        // Without a reader, only writing shows the end of the connection.
        let Some(active) = self.shared.last_activity() else { return };
        let now = Instant::now();
        if now >= active + self.settings.deadline && !self.shared.is_suspected() {
            // A reader confirms it before the next ping is due.
            self.last_ping = now;
            return self.shared.suspect();
        }
        if now >= self.next_ping(active) {
            self.last_ping = now;
            let framed = frame(self.role, OpCode::Control(Control::Ping), Bytes::new(), Receipt::default());
            self.queue.put_first(framed);
        }
    }
}

fn timed_out(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("the peer {what}"))
}

async fn discard(mut input: impl AsyncRead + Unpin) {
    let mut scratch = [0; 1024];
    while matches!(input.read(&mut scratch).await, Ok(1..)) {}
}

/// Frames each message as one WebSocket frame.
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
        match self.content {
            Content::Mixed if bytes.starts_with(b"{") => {
                return frame(self.role, OpCode::Data(Data::Text), bytes, written);
            }
            Content::Binary | Content::Mixed => {
                return frame(self.role, OpCode::Data(Data::Binary), bytes, written);
            }
            Content::Json => {}
        }
        let packed = match self.compression.is_on() {
            true => pack(&bytes)
                .inspect_err(
                    |error| tracing::warn!(%error, "compressing a message failed; sending it uncompressed"),
                )
                .ok(),
            false => None,
        };
        match packed {
            Some(packed) => frame(self.role, OpCode::Data(Data::Binary), packed, written),
            None if wire::binary::is_binary(&bytes) => {
                frame(self.role, OpCode::Data(Data::Binary), bytes, written)
            }
            None => frame(self.role, OpCode::Data(Data::Text), bytes, written),
        }
    }
}

fn frame(role: Role, opcode: OpCode, body: Bytes, written: Receipt) -> Framed {
    let mut header = FrameHeader { is_final: true, opcode, ..FrameHeader::default() };
    let mut body = body;
    if role == Role::Client {
        let mut mask = [0; 4];
        // Masks protect proxies from chosen bytes and are no secret: without random bytes the connection still works.
        if let Err(error) = getrandom::fill(&mut mask) {
            tracing::debug!(%error, "no random bytes for a mask");
        }
        header.mask = Some(mask);
        let mut masked = BytesMut::from(body);
        unmask(&mut masked, mask);
        body = masked.freeze();
    }
    let mut head = Head::default();
    // The longest header fits into `Head`.
    let _written = header.format(body.len() as u64, &mut head);
    Framed { head, body, tail: b"", written }
}
