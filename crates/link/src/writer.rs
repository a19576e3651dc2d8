//! The writing side of a byte stream: responses first, all queued messages in one vectored write.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::lanes::{Lanes, Outbound};
use crate::queue::{Framed, Framing, Head, Queue};

/// Writes until every sender is dropped or writing fails. A line is a message and a newline. `output` must not buffer, or a
/// message would be reported as written before the kernel has it. Ends also when `gone` reports a closed reader, which
/// writing would not show while nothing is queued.
pub(crate) async fn write_lines<W>(
    mut output: W,
    mut lanes: Lanes,
    gone: impl Future<Output = ()>,
) -> io::Result<()>
where
    W: AsyncWrite + Unpin + Send,
{
    let mut queue = Queue::new(Newlines);
    tokio::pin!(gone);
    loop {
        let first = tokio::select! {
            biased;
            first = lanes.recv() => first,
            () = &mut gone => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        let Some(first) = first else { break };
        queue.begin(first);
        while !queue.is_empty() {
            poll_fn(|cx| queue.poll_write(cx, &mut lanes, Pin::new(&mut output))).await?;
            queue.take_ready(&mut lanes);
        }
        output.flush().await?;
    }
    output.shutdown().await
}

/// Frames each message as a line; a binary one has its length and no newline.
struct Newlines;

impl Framing for Newlines {
    fn frame(&mut self, outbound: Outbound) -> Framed {
        let Outbound { bytes, written } = outbound;
        match bytes.is_empty() {
            // An empty message is a marker, not a line.
            true => Framed::mark(written),
            false if wire::binary::is_binary(&bytes) => {
                Framed { head: Head::default(), body: bytes, tail: b"", written }
            }
            false => Framed { head: Head::default(), body: bytes, tail: b"\n", written },
        }
    }
}
