//! The phases of an HTTP connection and their deadlines: a stream that fails when its peer is too slow.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection::BoxedStream;
use super::observed::{ObservedStream, StreamObserver};

/// The time that each phase of a connection may take; then it is closed.
#[derive(Debug, Clone)]
pub struct PhaseDeadlines {
    /// For all headers of a request, and for the TLS handshake.
    pub headers: Duration,
    /// For the next piece of a request's body.
    pub body: Duration,
    /// For the peer to accept the next piece of a response.
    pub response: Duration,
    /// For the next request on a connection that is kept open.
    pub idle: Duration,
}

impl Default for PhaseDeadlines {
    fn default() -> PhaseDeadlines {
        PhaseDeadlines {
            headers: Duration::from_secs(10),
            body: Duration::from_secs(30),
            response: Duration::from_secs(30),
            idle: Duration::from_secs(75),
        }
    }
}

/// What a connection does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionPhase {
    /// Waits for the next request.
    Idle,
    /// Reads headers.
    Headers,
    /// Reads a body.
    Body,
    /// Handles a request or writes its response: reading has no deadline.
    Busy,
}

/// The phase of one connection, shared by its stream and its requests.
#[derive(Debug, Clone)]
pub(super) struct PhaseClock(Arc<Mutex<(ConnectionPhase, Instant)>>);

impl PhaseClock {
    /// A new connection has to send a request at once.
    pub(super) fn new() -> PhaseClock {
        PhaseClock(Arc::new(Mutex::new((ConnectionPhase::Headers, Instant::now()))))
    }

    pub(super) fn enter(&self, phase: ConnectionPhase) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (phase, Instant::now());
    }

    /// Bytes have moved. All headers of a request share one deadline.
    fn moved(&self, has_read: bool) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match now.0 {
            ConnectionPhase::Headers => {}
            ConnectionPhase::Idle if has_read => *now = (ConnectionPhase::Headers, Instant::now()),
            ConnectionPhase::Idle | ConnectionPhase::Body | ConnectionPhase::Busy => now.1 = Instant::now(),
        }
    }

    fn deadline(&self, deadlines: &PhaseDeadlines) -> Option<Instant> {
        let (phase, since) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match phase {
            ConnectionPhase::Idle => Some(since + deadlines.idle),
            ConnectionPhase::Headers => Some(since + deadlines.headers),
            ConnectionPhase::Body => Some(since + deadlines.body),
            ConnectionPhase::Busy => None,
        }
    }
}

type HttpStream = ObservedStream<BoxedStream, Box<dyn StreamObserver>>;

/// A stream whose peer has to meet the deadlines.
pub(super) struct DeadlineStream {
    stream: HttpStream,
    clock: PhaseClock,
    deadlines: PhaseDeadlines,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
}

impl DeadlineStream {
    pub(super) fn new(stream: HttpStream, clock: PhaseClock, deadlines: PhaseDeadlines) -> DeadlineStream {
        DeadlineStream { stream, clock, deadlines, reading: None, writing: None }
    }

    /// The stream without deadlines and without its observer.
    pub(super) fn into_inner(self) -> BoxedStream {
        self.stream.into_inner()
    }

    fn wrote(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if polled.is_ready() {
            self.writing = None;
            self.clock.moved(false);
            return polled;
        }
        let limit = self.deadlines.response;
        let sleep = self.writing.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
        ready!(sleep.as_mut().poll(cx));
        self.time_out()
    }

    fn time_out<T>(&mut self) -> Poll<io::Result<T>> {
        self.stream.observer().timed_out();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for DeadlineStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if polled.is_ready() {
            this.clock.moved(true);
            return polled;
        }
        let Some(deadline) = this.clock.deadline(&this.deadlines) else { return Poll::Pending };
        let sleep = this.reading.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        ready!(sleep.as_mut().poll(cx));
        self.time_out()
    }
}

impl AsyncWrite for DeadlineStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(cx, polled)
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

/// A response's body. The connection is idle once it is sent, and not before: an event stream may last.
pub(super) struct PhaseBody<B> {
    body: B,
    clock: PhaseClock,
}

impl<B> PhaseBody<B> {
    pub(super) fn new(body: B, clock: PhaseClock) -> PhaseBody<B> {
        PhaseBody { body, clock }
    }
}

impl<B> Drop for PhaseBody<B> {
    fn drop(&mut self) {
        self.clock.enter(ConnectionPhase::Idle);
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for PhaseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
