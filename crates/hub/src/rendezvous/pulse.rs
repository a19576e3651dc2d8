//! Signs of life of a connection, seen where its bytes pass: a large frame on a slow line is no silence.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// When the peer gave its last sign of life.
#[derive(Debug, Clone)]
pub(super) struct Pulse(Arc<Mutex<Instant>>);

impl Pulse {
    /// There is one now.
    pub(super) fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there was none for so long.
    pub(super) async fn silent_for(&self, silence: Duration) {
        loop {
            let until = self.last() + silence;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// A stream with a pulse.
#[derive(Debug)]
pub(super) struct Felt<S> {
    stream: S,
    pulse: Pulse,
    is_stuck: bool,
}

impl<S> Felt<S> {
    pub(super) fn new(stream: S) -> Felt<S> {
        Felt { stream, pulse: Pulse(Arc::new(Mutex::new(Instant::now()))), is_stuck: false }
    }

    pub(super) fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Writing alone is no sign, the kernel takes some for anybody; but only a peer that takes something makes it go on.
    fn wrote(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if std::mem::replace(&mut self.is_stuck, written.is_pending()) && written.is_ready() {
            self.pulse.beat();
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Felt<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.pulse.beat();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Felt<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(written)
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pieces_are_signs_of_life_and_filling_a_buffer_is_none() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut near = Felt::new(near);
        let (pulse, start) = (near.pulse(), Instant::now());
        tokio::time::advance(Duration::from_secs(50)).await;
        near.write_all(b"ping").await.unwrap();
        far.write_all(b"x").await.unwrap();
        near.read_exact(&mut [0]).await.unwrap();
        tokio::time::advance(Duration::from_secs(50)).await;
        near.write_all(b"ping").await.unwrap();
        pulse.silent_for(Duration::from_secs(60)).await;
        assert_eq!((Instant::now() - start).as_secs(), 110);
        let mut four = [0; 4];
        let (stuck, taken) = tokio::join!(near.write_all(b"more"), far.read_exact(&mut four));
        assert!(stuck.is_ok() && taken.is_ok());
        assert_eq!(pulse.last(), Instant::now(), "it went on because somebody took something");
    }
}
