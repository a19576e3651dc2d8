//! The writing side of a byte stream: responses first, everything that is ready in one vectored write.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::lanes::{Lanes, Outbound};

/// Messages of one lane that are taken for one write.
const BATCH: usize = 64;

/// Writes until every sender is gone, or until writing fails. A line is a message and a newline. `output` must not
/// keep bytes back, or a message would be reported as written before the kernel has it.
pub(crate) async fn write_lines<W>(mut output: W, mut lanes: Lanes) -> io::Result<()>
where
    W: AsyncWrite + Unpin + Send,
{
    let mut queue = Queue::default();
    while let Some(first) = lanes.recv().await {
        queue.began = Some(Began { outbound: first, done: 0 });
        while queue.is_waiting(&mut lanes) {
            let written = {
                let mut slices = [IoSlice::new(b""); 2 * BATCH];
                let used = queue.slices(&mut slices);
                match used {
                    0 => 0,
                    used => output.write_vectored(&slices[..used]).await?,
                }
            };
            if written == 0 && queue.bytes_left() > 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            queue.advance(written);
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
    /// Takes what is ready and tells whether there is anything to write.
    fn is_waiting(&mut self, lanes: &mut Lanes) -> bool {
        lanes.take_control(&mut self.control, BATCH);
        // Events wait in their lane while they are many here: there they hold back whoever makes them.
        lanes.take_events(&mut self.events, 4);
        if self.began.is_none() {
            let next = self.control.pop_front().or_else(|| self.events.pop_front());
            self.began = next.map(|outbound| Began { outbound, done: 0 });
        }
        self.began.is_some()
    }

    fn waiting(&self) -> impl Iterator<Item = &Outbound> {
        self.control.iter().chain(&self.events)
    }

    fn bytes_left(&self) -> usize {
        let began = self.began.as_ref().map_or(0, |began| began.outbound.line_bytes() - began.done);
        began + self.waiting().map(Outbound::line_bytes).sum::<usize>()
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
            let next = self.control.pop_front().or_else(|| self.events.pop_front());
            self.began = next.map(|outbound| Began { outbound, done: 0 });
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
