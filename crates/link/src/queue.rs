//! What is being written: framed messages in the order they leave, responses ahead of events.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::AsyncWrite;

use crate::lanes::{Lanes, Outbound, Receipt};

/// Responses that are taken for one write.
const BATCH: usize = 64;
/// Events that are taken for one write; each may be large.
const EVENT_BATCH: usize = 4;
/// Pieces that go into one write; what is over waits for the next.
const PIECES: usize = 2 * BATCH;

/// How messages look on the wire.
pub(crate) trait Framing {
    /// A message with what goes before and after it.
    fn frame(&mut self, outbound: Outbound) -> Framed;
}

/// A message as it is written.
#[derive(Debug)]
pub(crate) struct Framed {
    pub(crate) head: Head,
    pub(crate) body: Bytes,
    pub(crate) tail: &'static [u8],
    pub(crate) written: Receipt,
}

impl Framed {
    /// A mark: nothing is written, but whoever waits learns that all before it was.
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

/// The few bytes before a message.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Head {
    bytes: [u8; Head::MOST],
    used: usize,
}

impl Head {
    /// The longest header of a WebSocket frame.
    const MOST: usize = 14;

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

impl io::Write for Head {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut room = self.bytes.get_mut(self.used..).unwrap_or_default();
        let written = room.write(bytes)?;
        self.used += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is being written. Only the message that has begun is committed; responses that arrive while it is written
/// still pass the events behind it.
#[derive(Debug)]
pub(crate) struct Queue<F> {
    framing: F,
    began: Option<Began>,
    /// A sign of life for the peer. A newer one takes its place: a peer that asks and does not read gets one, not all.
    sign: Option<Framed>,
    control: VecDeque<Framed>,
    events: VecDeque<Framed>,
}

#[derive(Debug)]
struct Began {
    framed: Framed,
    done: usize,
}

impl<F: Framing> Queue<F> {
    pub(crate) fn new(framing: F) -> Queue<F> {
        Queue { framing, began: None, sign: None, control: VecDeque::new(), events: VecDeque::new() }
    }

    /// Puts a message that was taken from a lane at the front.
    pub(crate) fn begin(&mut self, outbound: Outbound) {
        let framed = self.framing.frame(outbound);
        self.put_first(framed);
    }

    /// Puts something ahead of everything that has not begun.
    pub(crate) fn put_first(&mut self, framed: Framed) {
        match self.began {
            None => self.began = Some(Began { framed, done: 0 }),
            Some(_) => self.control.push_front(framed),
        }
    }

    /// Puts a sign of life ahead of everything that has not begun, in the place of one that waits there.
    pub(crate) fn put_sign(&mut self, framed: Framed) {
        match self.began {
            None => self.began = Some(Began { framed, done: 0 }),
            Some(_) => self.sign = Some(framed),
        }
    }

    /// Gives up whatever has not begun.
    pub(crate) fn forget_waiting(&mut self) {
        self.sign = None;
        self.control.clear();
        self.events.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.began.is_none()
    }

    /// Writes once. What is ready is looked at in every poll, so that a response that arrives while the output is
    /// full is written as soon as it is not.
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

    /// Writes once, of what is here already.
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

    /// Takes what the lanes have ready.
    pub(crate) fn take_ready(&mut self, lanes: &mut Lanes) {
        let framing = &mut self.framing;
        lanes.take_control(&mut self.control, BATCH, |outbound| framing.frame(outbound));
        // Events wait in their lane while some are here: there they hold back whoever makes them.
        lanes.take_events(&mut self.events, EVENT_BATCH, |outbound| framing.frame(outbound));
        if self.began.is_none() {
            self.begin_next();
        }
    }

    fn begin_next(&mut self) {
        let next = self.sign.take().or_else(|| self.control.pop_front());
        let next = next.or_else(|| self.events.pop_front());
        self.began = next.map(|framed| Began { framed, done: 0 });
    }

    fn waiting(&self) -> impl Iterator<Item = &Framed> {
        self.sign.iter().chain(&self.control).chain(&self.events)
    }

    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut free = slices.iter_mut();
        let mut used = 0;
        let mut skip = self.began.as_ref().map_or(0, |began| began.done);
        let began = self.began.iter().map(|began| &began.framed);
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

    /// Takes off what was written, in the order that [`Queue::slices`] had.
    fn advance(&mut self, mut written: usize) {
        while let Some(mut began) = self.began.take() {
            let left = began.framed.len() - began.done;
            if written < left {
                began.done += written;
                self.began = Some(began);
                return;
            }
            written -= left;
            began.framed.written.hand_out();
            self.begin_next();
        }
    }
}
