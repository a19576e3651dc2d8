//! One stream as a link: what its user sends and takes, and how the driver hears of it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::Key;
use crate::lanes::{Lanes, Largest, Outbound, lanes};
use crate::{Incoming, Link, Receiver, Writing};

/// Messages on their way to whoever uses a stream.
const TAKEN: usize = 4;

/// What a user of a stream asks the driver for.
#[derive(Debug)]
pub(super) enum Asked {
    /// Send this.
    Send(Key, Outbound),
    /// Nothing more will be sent.
    Finish(Key),
}

/// What the driver has of a stream's user.
#[derive(Debug)]
pub(super) struct Handle {
    /// Nothing once nothing more will come.
    pub(super) inbox: Option<mpsc::Sender<Incoming>>,
    /// A place for each message that may wait to be sent.
    pub(super) places: Arc<Semaphore>,
    /// Set while the inbox is full: its user tells when it is not.
    pub(super) is_full: Arc<AtomicBool>,
    /// The longest message that its peer takes.
    pub(super) largest: Largest,
    /// The stream is over.
    pub(super) gone: CancellationToken,
}

impl Drop for Handle {
    /// Without its driver a stream is over, also when the driver's task was aborted.
    fn drop(&mut self) {
        self.gone.cancel();
    }
}

/// Streams that want to be looked at. At most two entries each: one for its reader, one for its end.
#[derive(Debug, Default)]
pub(super) struct Bells {
    rung: Mutex<Vec<Ring>>,
    notify: Notify,
}

/// Why a stream wants to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ring {
    /// There is room in its inbox, or nobody reads it any more.
    Room(Key),
    /// Its user gave it up.
    Abandoned(Key),
}

impl Bells {
    fn ring(&self, ring: Ring) {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner).push(ring);
        self.notify.notify_one();
    }

    /// Waits until somebody rings. Nothing is lost if this future is dropped.
    pub(super) async fn rung(&self) -> Vec<Ring> {
        loop {
            let rung = std::mem::take(&mut *self.rung.lock().unwrap_or_else(PoisonError::into_inner));
            if !rung.is_empty() {
                return rung;
            }
            self.notify.notified().await;
        }
    }
}

/// A link for the stream `key`. Must be called within a tokio runtime.
pub(super) fn open(
    key: Key,
    queued: usize,
    limits: &crate::Limits,
    asked: mpsc::Sender<Asked>,
    bells: &Arc<Bells>,
) -> (Link, Handle) {
    let (outgoing, ends) = lanes(limits);
    let (inbox, taking) = mpsc::channel(TAKEN);
    let handle = Handle {
        inbox: Some(inbox),
        places: Arc::new(Semaphore::new(queued.max(1))),
        is_full: Arc::default(),
        largest: outgoing.knows_largest(),
        gone: CancellationToken::new(),
    };
    let inbox = Inbox { key, taking, is_full: handle.is_full.clone(), bells: bells.clone() };
    let source = futures_util::stream::unfold(inbox, async |mut inbox| Some((inbox.recv().await?, inbox)));
    let pump = Pump {
        key,
        asked,
        places: handle.places.clone(),
        gone: handle.gone.clone(),
        leaving: Leaving { key, bells: Some(bells.clone()) },
    };
    let link = Link { incoming: Receiver::new(source), outgoing, writing: Writing::spawn(pump.run(ends)) };
    (link, handle)
}

/// Where the user of a stream takes messages from.
struct Inbox {
    key: Key,
    taking: mpsc::Receiver<Incoming>,
    is_full: Arc<AtomicBool>,
    bells: Arc<Bells>,
}

impl Inbox {
    async fn recv(&mut self) -> Option<Incoming> {
        let incoming = self.taking.recv().await?;
        if self.is_full.swap(false, Ordering::AcqRel) {
            self.bells.ring(Ring::Room(self.key));
        }
        Some(incoming)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.taking.close();
        self.bells.ring(Ring::Room(self.key));
    }
}

/// Carries what the user of a stream sends to the driver, as fast as the stream goes.
struct Pump {
    key: Key,
    asked: mpsc::Sender<Asked>,
    places: Arc<Semaphore>,
    gone: CancellationToken,
    leaving: Leaving,
}

impl Pump {
    async fn run(mut self, mut lanes: Lanes) -> io::Result<()> {
        let gone = self.gone.clone();
        tokio::select! {
            biased;
            () = gone.cancelled() => Err(io::ErrorKind::BrokenPipe.into()),
            carried = self.carry(&mut lanes) => {
                carried?;
                self.leaving.bells = None;
                // Written is what the other end has, or will never have.
                gone.cancelled().await;
                Ok(())
            }
        }
    }

    async fn carry(&mut self, lanes: &mut Lanes) -> io::Result<()> {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        while let Some(outbound) = lanes.recv().await {
            if !outbound.bytes.is_empty() {
                // The driver gives it back when the message has left.
                self.places.acquire().await.map_err(|_| broken())?.forget();
            }
            self.asked.send(Asked::Send(self.key, outbound)).await.map_err(|_| broken())?;
        }
        self.asked.send(Asked::Finish(self.key)).await.map_err(|_| broken())
    }
}

/// Tells the driver when a stream's writing is given up.
struct Leaving {
    key: Key,
    bells: Option<Arc<Bells>>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(bells) = &self.bells {
            bells.ring(Ring::Abandoned(self.key));
        }
    }
}
