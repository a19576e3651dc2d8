//! Signs of life of a connection, seen where its bytes pass: a large frame on a slow line is no silence.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use link::listen::{Watched, Witness};
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
pub(super) type Felt<S> = Watched<S, Feeler>;

/// Feels the pulse of a stream.
#[derive(Debug)]
pub(super) struct Feeler {
    pulse: Pulse,
    is_stuck: bool,
}

/// The stream, and its pulse.
pub(super) fn felt<S>(stream: S) -> (Felt<S>, Pulse) {
    let pulse = Pulse(Arc::new(Mutex::new(Instant::now())));
    (Watched::new(stream, Feeler { pulse: pulse.clone(), is_stuck: false }), pulse)
}

impl Witness for Feeler {
    fn read(&mut self, read: &Poll<io::Result<usize>>) {
        if read.is_ready() {
            self.pulse.beat();
        }
    }

    /// Writing alone is no sign, the kernel takes some for anybody; but only a peer that takes something makes it go on.
    fn wrote(&mut self, wrote: &Poll<io::Result<usize>>) {
        if std::mem::replace(&mut self.is_stuck, wrote.is_pending()) && wrote.is_ready() {
            self.pulse.beat();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pieces_are_signs_of_life_and_filling_a_buffer_is_none() {
        let (near, mut far) = tokio::io::duplex(8);
        let ((mut near, pulse), start) = (felt(near), Instant::now());
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
