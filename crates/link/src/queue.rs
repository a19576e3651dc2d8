//! The write queue: framed messages in the order of writing, responses ahead of events.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::AsyncWrite;

use crate::lanes::{Lanes, Outbound, Receipt};

/// Responses in one write.
const BATCH: usize = 64;
/// Events in one write; each may be large.
const EVENT_BATCH: usize = 4;
/// Slices in one vectored write; further ones follow in the next.
const PIECES: usize = 2 * BATCH;

/// The encoding of messages on the wire.
pub(crate) trait Framing {
    /// Frames one message.
    fn frame(&mut self, outbound: Outbound) -> Framed;
}

/// A message with the bytes before and after it.
#[derive(Debug)]
pub(crate) struct Framed {
    pub(crate) head: Head,
    pub(crate) body: Bytes,
    pub(crate) tail: &'static [u8],
    pub(crate) written: Receipt,
}

impl Framed {
    /// An empty entry, whose receipt is released when all messages before it are written.
    pub(crate) fn mark(written: Receipt) -> Framed {
        Framed { head: Head::default(), body: Bytes::new(), tail: b"", written }
    }

    fn parts(&self) -> [&[u8]; 3] {
        [self.head.bytes(), &self.body, self.tail]
    }

    fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }
}

/// The header before a message.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Head {
    bytes: [u8; Head::MAX],
    used: usize,
}

impl Head {
    /// The longest header of a WebSocket frame.
    const MAX: usize = 14;

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

impl io::Write for Head {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut free = self.bytes.get_mut(self.used..).unwrap_or_default();
        let written = free.write(bytes)?;
        self.used += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The queue. Only the message whose writing has begun is fixed; later responses still overtake the events behind it.
#[derive(Debug)]
pub(crate) struct Queue<F> {
    framing: F,
    current: Option<PartialWrite>,
    /// A queued pong. A newer one replaces it: a peer that pings and does not read gets one, not all.
    pong: Option<Framed>,
    control: VecDeque<Framed>,
    events: VecDeque<Framed>,
}

#[derive(Debug)]
struct PartialWrite {
    framed: Framed,
    done: usize,
}

impl<F: Framing> Queue<F> {
    pub(crate) fn new(framing: F) -> Queue<F> {
        Queue { framing, current: None, pong: None, control: VecDeque::new(), events: VecDeque::new() }
    }

    /// Puts a message from a lane at the front.
    pub(crate) fn begin(&mut self, outbound: Outbound) {
        let framed = self.framing.frame(outbound);
        self.put_first(framed);
    }

    /// Puts a frame ahead of every message that has not begun.
    pub(crate) fn put_first(&mut self, framed: Framed) {
        match self.current {
            None => self.current = Some(PartialWrite { framed, done: 0 }),
            Some(_) => self.control.push_front(framed),
        }
    }

    /// Puts a pong ahead of every message that has not begun; replaces a queued one.
    pub(crate) fn put_pong(&mut self, framed: Framed) {
        match self.current {
            None => self.current = Some(PartialWrite { framed, done: 0 }),
            Some(_) => self.pong = Some(framed),
        }
    }

    /// Drops every message that has not begun.
    pub(crate) fn drop_queued(&mut self) {
        self.pong = None;
        self.control.clear();
        self.events.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_none()
    }

    /// Writes once. Every poll takes new messages, so that a response that arrives while the output is blocked is written
    /// as soon as possible.
    pub(crate) fn poll_write<W>(
        &mut self,
        cx: &mut Context<'_>,
        lanes: &mut Lanes,
        output: Pin<&mut W>,
    ) -> Poll<io::Result<()>>
    where
        W: AsyncWrite,
    {
        self.take_ready(lanes);
        self.poll_write_taken(cx, output)
    }

    /// Writes once, without taking new messages.
    pub(crate) fn poll_write_taken<W: AsyncWrite>(
        &mut self,
        cx: &mut Context<'_>,
        output: Pin<&mut W>,
    ) -> Poll<io::Result<()>> {
        let mut slices = [IoSlice::new(b""); PIECES];
        let written = match self.slices(&mut slices) {
            0 => 0,
            used => match ready!(output.poll_write_vectored(cx, &slices[..used]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => written,
            },
        };
        self.advance(written);
        Poll::Ready(Ok(()))
    }

    /// Takes queued messages from the lanes.
    pub(crate) fn take_ready(&mut self, lanes: &mut Lanes) {
        let framing = &mut self.framing;
        lanes.take_control(&mut self.control, BATCH, |outbound| framing.frame(outbound));
        // Further events stay in their lane, where they slow their sender.
        lanes.take_events(&mut self.events, EVENT_BATCH, |outbound| framing.frame(outbound));
        if self.current.is_none() {
            self.begin_next();
        }
    }

    fn begin_next(&mut self) {
        let next = self.pong.take().or_else(|| self.control.pop_front());
        let next = next.or_else(|| self.events.pop_front());
        self.current = next.map(|framed| PartialWrite { framed, done: 0 });
    }

    fn waiting(&self) -> impl Iterator<Item = &Framed> {
        self.pong.iter().chain(&self.control).chain(&self.events)
    }

    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut free = slices.iter_mut();
        let mut used = 0;
        let mut skip = self.current.as_ref().map_or(0, |began| began.done);
        let began = self.current.iter().map(|began| &began.framed);
        for part in began.chain(self.waiting()).flat_map(Framed::parts) {
            let left = part.get(skip.min(part.len())..).unwrap_or_default();
            skip -= part.len() - left.len();
            if left.is_empty() {
                continue;
            }
            let Some(slice) = free.next() else { break };
            *slice = IoSlice::new(left);
            used += 1;
        }
        used
    }

    /// Removes written bytes, in the order of [`Queue::slices`].
    fn advance(&mut self, mut written: usize) {
        while let Some(mut began) = self.current.take() {
            let left = began.framed.len() - began.done;
            if written < left {
                began.done += written;
                self.current = Some(began);
                return;
            }
            written -= left;
            began.framed.written.hand_out();
            self.begin_next();
        }
    }
}
