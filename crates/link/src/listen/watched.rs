//! A stream, and somebody who sees what passes through it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Sees what passes through a stream. One that only has to live as long as the stream sees nothing.
pub trait Witness: Unpin {
    /// What an attempt to read came to: so many bytes, none at the end.
    fn read(&mut self, _read: &Poll<io::Result<usize>>) {}

    /// What an attempt to write came to.
    fn wrote(&mut self, _wrote: &Poll<io::Result<usize>>) {}
}

/// A stream, or one direction of it, and its witness.
#[derive(Debug)]
pub struct Watched<S, W> {
    stream: S,
    witness: W,
}

impl<S, W> Watched<S, W> {
    /// Has what passes through `stream` seen from now on.
    pub fn new(stream: S, witness: W) -> Watched<S, W> {
        Watched { stream, witness }
    }

    /// Who watches.
    pub fn witness(&self) -> &W {
        &self.witness
    }

    /// The stream, no longer watched.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin, W: Witness> AsyncRead for Watched<S, W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let read = read.map_ok(|()| buffer.filled().len() - before);
        self.witness.read(&read);
        read.map_ok(|_bytes| ())
    }
}

impl<S: AsyncWrite + Unpin, W: Witness> AsyncWrite for Watched<S, W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.witness.wrote(&wrote);
        wrote
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.witness.wrote(&wrote);
        wrote
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
