//! Phases of a connection and their deadlines: a stream that gives up on a peer which is too slow.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{Deadlines, Server};
use crate::observe::metrics::{Metrics, RefusalReason};

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It waits for the next request.
    Idle,
    /// It reads headers.
    Headers,
    /// It reads a body.
    Body,
    /// It works, or streams: reading waits for nothing.
    Busy,
}

/// The phase of one connection, for the stream that keeps the time and the service that knows.
#[derive(Debug, Clone)]
pub(super) struct Phases(Arc<Mutex<(Phase, Instant)>>);

impl Phases {
    /// A connection that was just made has to ask for something at once.
    pub(super) fn new() -> Phases {
        Phases(Arc::new(Mutex::new((Phase::Headers, Instant::now()))))
    }

    pub(super) fn enter(&self, phase: Phase) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (phase, Instant::now());
    }

    /// Bytes have moved. Headers have one deadline for all of them.
    fn moved(&self, has_read: bool) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match now.0 {
            Phase::Headers => {}
            Phase::Idle if has_read => *now = (Phase::Headers, Instant::now()),
            Phase::Idle | Phase::Body | Phase::Busy => now.1 = Instant::now(),
        }
    }

    fn deadline(&self, deadlines: &Deadlines) -> Option<Instant> {
        let (phase, since) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match phase {
            Phase::Idle => Some(since + deadlines.idle),
            Phase::Headers => Some(since + deadlines.headers),
            Phase::Body => Some(since + deadlines.body),
            Phase::Busy => None,
        }
    }
}

/// A stream whose peer has to keep up.
#[derive(Debug)]
pub(super) struct Timed<S> {
    stream: S,
    phases: Phases,
    deadlines: Deadlines,
    metrics: Metrics,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
}

impl<S> Timed<S> {
    pub(super) fn new(stream: S, phases: Phases, server: &Server) -> Timed<S> {
        let (deadlines, metrics) = (server.deadlines.clone(), server.metrics.clone());
        Timed { stream, phases, deadlines, metrics, reading: None, writing: None }
    }

    /// The stream without deadlines.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    fn wrote(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if polled.is_ready() {
            self.writing = None;
            self.phases.moved(false);
            return polled;
        }
        let patience = self.deadlines.answer;
        let sleep = self.writing.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + patience)));
        ready!(sleep.as_mut().poll(cx));
        self.too_slow()
    }

    fn too_slow<T>(&self) -> Poll<io::Result<T>> {
        self.metrics.refused(RefusalReason::TooSlow);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if polled.is_ready() {
            this.phases.moved(true);
            return polled;
        }
        let Some(deadline) = this.phases.deadline(&this.deadlines) else { return Poll::Pending };
        let sleep = this.reading.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        ready!(sleep.as_mut().poll(cx));
        self.too_slow()
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
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
