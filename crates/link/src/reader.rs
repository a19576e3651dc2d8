//! The reading side of a byte stream: lines in, with little memory while nothing comes and large reads when much does.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::Incoming;

/// Room for a read on a connection that is mostly idle.
const SMALL_READ: usize = 4 * 1024;
/// Room for a read while bulk data comes in.
const LARGE_READ: usize = 256 * 1024;
/// A buffer beyond this is given back as soon as the connection falls idle.
const IDLE_BUFFER: usize = 2 * SMALL_READ;
/// A line up to this is copied out of a large buffer, so that a small request does not keep the buffer alive.
const COPIED_LINE: usize = 4 * 1024;

/// Newline-delimited messages from a byte stream.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    buffer: BytesMut,
    /// How much of the buffer holds no newline.
    scanned: usize,
    /// Length so far of a line over the limit that is being skipped.
    skipping: Option<u64>,
    line_bytes: usize,
    read_bytes: usize,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `line_bytes`.
    pub fn new(input: R, line_bytes: usize) -> Lines<R> {
        Lines {
            input,
            buffer: BytesMut::new(),
            scanned: 0,
            skipping: None,
            line_bytes,
            read_bytes: SMALL_READ,
            ended: false,
        }
    }

    /// The next message that is in the buffer already.
    fn take_line(&mut self) -> Option<Incoming> {
        loop {
            let unseen = self.buffer.get(self.scanned..)?;
            let Some(place) = memchr::memchr(b'\n', unseen) else {
                self.scanned = self.buffer.len();
                self.skip_if_too_long();
                return None;
            };
            let mut line = self.buffer.split_to(self.scanned + place + 1);
            line.truncate(line.len() - 1);
            self.scanned = 0;
            if let Some(incoming) = self.finish(line) {
                return Some(incoming);
            }
        }
    }

    /// The rest after the last newline, once the stream has ended.
    fn take_rest(&mut self) -> Option<Incoming> {
        let rest = self.buffer.split();
        self.scanned = 0;
        self.finish(rest)
    }

    /// A line without its newline as a message; nothing for a blank one.
    fn finish(&mut self, mut line: BytesMut) -> Option<Incoming> {
        if let Some(skipped) = self.skipping.take() {
            return Some(Incoming::TooLong { bytes: skipped + line.len() as u64 });
        }
        let bytes = line.len() as u64;
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if line.len() > self.line_bytes {
            return Some(Incoming::TooLong { bytes });
        }
        if line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            return None;
        }
        let is_small_in_large = line.len() <= COPIED_LINE && self.read_bytes > COPIED_LINE;
        Some(Incoming::Message(match is_small_in_large {
            true => Bytes::copy_from_slice(&line),
            false => line.freeze(),
        }))
    }

    fn skip_if_too_long(&mut self) {
        // One more than the limit may be the carriage return of a line that is just short enough.
        if self.skipping.is_some() || self.buffer.len() > self.line_bytes.saturating_add(1) {
            let skipped = self.skipping.unwrap_or(0) + self.buffer.len() as u64;
            self.skipping = Some(skipped);
            self.buffer.clear();
            self.scanned = 0;
        }
    }

    /// Reads once into the buffer.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.buffer.capacity() - self.buffer.len() < self.read_bytes / 2 {
            self.buffer.reserve(self.read_bytes);
        }
        let room = self.buffer.capacity() - self.buffer.len();
        // The future keeps no state between polls: it is one call of `poll_read`.
        let polled = pin!(self.input.read_buf(&mut self.buffer)).poll(cx);
        match &polled {
            Poll::Ready(Ok(read)) if *read >= room.min(self.read_bytes) => {
                self.read_bytes = (self.read_bytes * 4).min(LARGE_READ);
            }
            Poll::Pending if self.buffer.is_empty() => {
                self.read_bytes = SMALL_READ;
                if self.buffer.capacity() > IDLE_BUFFER {
                    self.buffer = BytesMut::new();
                }
            }
            _ => {}
        }
        polled
    }
}

impl<R: AsyncRead + Unpin> Stream for Lines<R> {
    type Item = Incoming;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Incoming>> {
        let this = &mut *self;
        loop {
            if let Some(incoming) = this.take_line() {
                return Poll::Ready(Some(incoming));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            match ready!(this.poll_fill(cx)) {
                Ok(0) => {
                    this.ended = true;
                    return Poll::Ready(this.take_rest());
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // A connection that broke and one that was closed mean the same to whoever serves it.
                    tracing::debug!(%error, "reading from the peer failed");
                    this.ended = true;
                    this.buffer.clear();
                    this.scanned = 0;
                    return Poll::Ready(None);
                }
            }
        }
    }
}
