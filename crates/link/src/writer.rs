//! The writing side of a byte stream: responses first, everything that is ready in one vectored write.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::lanes::{Lanes, Outbound};

/// Responses that are taken for one write.
const BATCH: usize = 64;
/// Events that are taken for one write; each may be large.
const EVENT_BATCH: usize = 4;

/// Writes until every sender is gone, or until writing fails. A line is a message and a newline. `output` must not
/// keep bytes back, or a message would be reported as written before the kernel has it.
/// Ends as well when `gone` says that nobody reads any more: with nothing to write, writing would not tell.
pub(crate) async fn write_lines<W>(
    mut output: W,
    mut lanes: Lanes,
    gone: impl Future<Output = ()>,
) -> io::Result<()>
where
    W: AsyncWrite + Unpin + Send,
{
    let mut queue = Queue::default();
    tokio::pin!(gone);
    loop {
        let first = tokio::select! {
            biased;
            first = lanes.recv() => first,
            () = &mut gone => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        let Some(first) = first else { break };
        queue.began = Some(Began { outbound: first, done: 0 });
        while queue.began.is_some() {
            poll_fn(|cx| queue.poll_write(cx, &mut lanes, Pin::new(&mut output))).await?;
            queue.take_ready(&mut lanes);
        }
        output.flush().await?;
    }
    output.shutdown().await
}

/// What is being written. Only the message that has begun is committed; responses that arrive while it is written
/// still pass the events behind it.
#[derive(Default)]
struct Queue {
    began: Option<Began>,
    control: VecDeque<Outbound>,
    events: VecDeque<Outbound>,
}

struct Began {
    outbound: Outbound,
    done: usize,
}

impl Queue {
    /// Writes once. What is ready is looked at in every poll, so that a response that arrives while the output is
    /// full is written as soon as it is not.
    fn poll_write<W>(
        &mut self,
        cx: &mut Context<'_>,
        lanes: &mut Lanes,
        output: Pin<&mut W>,
    ) -> Poll<io::Result<()>>
    where
        W: AsyncWrite,
    {
        self.take_ready(lanes);
        let mut slices = [IoSlice::new(b""); 2 * BATCH];
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

    fn take_ready(&mut self, lanes: &mut Lanes) {
        lanes.take_control(&mut self.control, BATCH);
        // Events wait in their lane while some are here: there they hold back whoever makes them.
        lanes.take_events(&mut self.events, EVENT_BATCH);
        if self.began.is_none() {
            self.begin_next();
        }
    }

    fn begin_next(&mut self) {
        let next = self.control.pop_front().or_else(|| self.events.pop_front());
        self.began = next.map(|outbound| Began { outbound, done: 0 });
    }

    fn waiting(&self) -> impl Iterator<Item = &Outbound> {
        self.control.iter().chain(&self.events)
    }

    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut used = 0;
        let began = self.began.iter().map(|began| (&began.outbound, began.done));
        for (outbound, done) in began.chain(self.waiting().map(|outbound| (outbound, 0))) {
            if outbound.bytes.is_empty() {
                continue;
            }
            let text = outbound.bytes.get(done..).unwrap_or_default();
            for part in [text, b"\n"] {
                if !part.is_empty() && used < slices.len() {
                    slices[used] = IoSlice::new(part);
                    used += 1;
                }
            }
        }
        used
    }

    /// Takes off what was written, in the order that [`Queue::slices`] had.
    fn advance(&mut self, mut written: usize) {
        while let Some(mut began) = self.began.take() {
            let left = began.outbound.line_bytes() - began.done;
            if written < left {
                began.done += written;
                self.began = Some(began);
                return;
            }
            written -= left;
            if let Some(waiting) = began.outbound.written {
                // Whoever waited may have left.
                waiting.send(()).ok();
            }
            self.begin_next();
        }
    }
}

impl Outbound {
    /// An empty message is a mark, not a line.
    fn line_bytes(&self) -> usize {
        match self.bytes.len() {
            0 => 0,
            length => length + 1,
        }
    }
}
