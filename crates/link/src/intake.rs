//! The read buffer: small while a connection is idle, large for bulk data.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The size of a read on an idle connection.
const SMALL_READ: usize = 4 * 1024;
/// The size of a read of bulk data.
const LARGE_READ: usize = 256 * 1024;
/// A larger buffer is freed when the connection is idle.
const IDLE_BUFFER: usize = 2 * SMALL_READ;
/// Messages up to this size are copied out of a large buffer, so that they do not keep it alive.
const COPIED: usize = 4 * 1024;

/// Bytes that were read and not consumed yet.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) buffer: BytesMut,
    read_bytes: usize,
}

impl Intake {
    /// Starts with bytes that were read before.
    pub(crate) fn new(buffer: BytesMut) -> Intake {
        Intake { buffer, read_bytes: SMALL_READ }
    }

    /// The size of the next read.
    pub(crate) fn read_bytes(&self) -> usize {
        self.read_bytes
    }

    /// Reads little at once from now on.
    pub(crate) fn read_less(&mut self) {
        self.read_bytes = SMALL_READ;
    }

    /// Reads once into the buffer.
    pub(crate) fn poll_fill<R>(&mut self, cx: &mut Context<'_>, input: &mut R) -> Poll<io::Result<usize>>
    where
        R: AsyncRead + Unpin,
    {
        if self.buffer.capacity() - self.buffer.len() < self.read_bytes / 2 {
            self.buffer.reserve(self.read_bytes);
        }
        let free = self.buffer.capacity() - self.buffer.len();
        // The future keeps no state between polls: it is one call of `poll_read`.
        let mut part = (&mut self.buffer).limit(self.read_bytes);
        let polled = pin!(input.read_buf(&mut part)).poll(cx);
        match &polled {
            Poll::Ready(Ok(read)) if *read >= free.min(self.read_bytes) => {
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

    /// Converts bytes from the buffer to a message.
    pub(crate) fn message(&self, taken: BytesMut) -> Bytes {
        let is_small_in_large = taken.len() <= COPIED && self.read_bytes > COPIED;
        match is_small_in_large {
            true => Bytes::copy_from_slice(&taken),
            false => taken.freeze(),
        }
    }
}

/// True if a message contains only white space.
pub(crate) fn is_blank(message: &[u8]) -> bool {
    message.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}
