//! Reading bytes into memory: little while nothing comes, large reads when much does.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Room for a read on a connection that is mostly idle.
const SMALL_READ: usize = 4 * 1024;
/// Room for a read while bulk data comes in.
const LARGE_READ: usize = 256 * 1024;
/// A buffer beyond this is given back as soon as the connection falls idle.
const IDLE_BUFFER: usize = 2 * SMALL_READ;
/// A message up to this is copied out of a large buffer, so that a small request does not keep the buffer alive.
const COPIED: usize = 4 * 1024;

/// What was read and not yet taken.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) buffer: BytesMut,
    read_bytes: usize,
}

impl Intake {
    /// Begins with what was read before.
    pub(crate) fn new(buffer: BytesMut) -> Intake {
        Intake { buffer, read_bytes: SMALL_READ }
    }

    /// Reads once into the buffer.
    pub(crate) fn poll_fill<R>(&mut self, cx: &mut Context<'_>, input: &mut R) -> Poll<io::Result<usize>>
    where
        R: AsyncRead + Unpin,
    {
        if self.buffer.capacity() - self.buffer.len() < self.read_bytes / 2 {
            self.buffer.reserve(self.read_bytes);
        }
        let room = self.buffer.capacity() - self.buffer.len();
        // The future keeps no state between polls: it is one call of `poll_read`.
        let polled = pin!(input.read_buf(&mut self.buffer)).poll(cx);
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

    /// Bytes that were taken out of the buffer, as a message.
    pub(crate) fn message(&self, taken: BytesMut) -> Bytes {
        let is_small_in_large = taken.len() <= COPIED && self.read_bytes > COPIED;
        match is_small_in_large {
            true => Bytes::copy_from_slice(&taken),
            false => taken.freeze(),
        }
    }
}

/// Whether there is nothing in a message that anybody could mean something by.
pub(crate) fn is_blank(message: &[u8]) -> bool {
    message.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}
