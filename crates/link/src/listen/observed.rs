//! A stream that reports its reads and writes to an observer, for example to count bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Receives the result of each read and write of a stream.
pub trait StreamObserver: Send + Unpin {
    /// The result of an attempt to read: the number of bytes, 0 at the end.
    fn read(&mut self, _read: &Poll<io::Result<usize>>) {}

    /// The result of an attempt to write: the number of bytes.
    fn wrote(&mut self, _wrote: &Poll<io::Result<usize>>) {}

    /// A deadline of the connection has passed; it is closed.
    fn timed_out(&mut self) {}
}

impl StreamObserver for () {}

impl<O: StreamObserver + ?Sized> StreamObserver for Box<O> {
    fn read(&mut self, read: &Poll<io::Result<usize>>) {
        (**self).read(read);
    }

    fn wrote(&mut self, wrote: &Poll<io::Result<usize>>) {
        (**self).wrote(wrote);
    }

    fn timed_out(&mut self) {
        (**self).timed_out();
    }
}

/// A stream, or one direction of it, and its observer.
#[derive(Debug)]
pub struct ObservedStream<S, O> {
    stream: S,
    observer: O,
}

impl<S, O> ObservedStream<S, O> {
    /// Reports the reads and writes of `stream` to `observer` from now on.
    pub fn new(stream: S, observer: O) -> ObservedStream<S, O> {
        ObservedStream { stream, observer }
    }

    /// The observer, to report a deadline.
    pub(super) fn observer(&mut self) -> &mut O {
        &mut self.observer
    }

    /// The stream without its observer.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin, O: StreamObserver> AsyncRead for ObservedStream<S, O> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let read = read.map_ok(|()| buffer.filled().len() - before);
        self.observer.read(&read);
        read.map_ok(|_bytes| ())
    }
}

impl<S: AsyncWrite + Unpin, O: StreamObserver> AsyncWrite for ObservedStream<S, O> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.observer.wrote(&wrote);
        wrote
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.observer.wrote(&wrote);
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
