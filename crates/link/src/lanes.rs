//! Outgoing: two bounded lanes to the writer, so that a response never queues behind a flood of output.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::Limits;

/// The link is gone: the peer closed it or writing failed. What was to be sent is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the link is closed")
    }
}

impl std::error::Error for Closed {}

/// Where messages to the peer are put. Cheap to clone; each clone may be used by another task.
#[derive(Debug, Clone)]
pub struct Outgoing {
    control: mpsc::Sender<Outbound>,
    events: mpsc::Sender<Outbound>,
    room: Room,
    largest: Largest,
    compression: Option<Compression>,
}

/// The longest message that reaches the peer; it may change when more is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Largest(Arc<AtomicUsize>);

impl Largest {
    pub(crate) fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// Whether a link compresses what it sends. Once on, it stays on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Compression(Arc<AtomicBool>);

impl Compression {
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes that responses may take while they wait to be written: a permit each.
#[derive(Debug, Clone)]
struct Room {
    free: Arc<Semaphore>,
    most: usize,
}

impl Room {
    fn new(most: usize) -> Room {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Room { free: Arc::new(Semaphore::new(most)), most }
    }

    /// What a message takes. One that is larger than everything waits until it is alone.
    fn share(&self, message: &Bytes) -> u32 {
        u32::try_from(message.len().min(self.most)).unwrap_or(u32::MAX)
    }

    async fn take(&self, message: &Bytes) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        self.free.clone().acquire_many_owned(self.share(message)).await.ok()
    }

    fn try_take(&self, message: &Bytes) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_many_owned(self.share(message)).ok()
    }
}

/// A message on its way.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) bytes: Bytes,
    pub(crate) written: Receipt,
}

/// What is due when a message is written: its room is free again, and whoever wants to know is told.
#[derive(Debug, Default)]
pub(crate) struct Receipt {
    told: Option<oneshot::Sender<()>>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Receipt {
    /// It is written.
    pub(crate) fn hand_out(self) {
        if let Some(told) = self.told {
            // Whoever waited may have left.
            told.send(()).ok();
        }
    }
}

impl Outgoing {
    /// Sends a response, ahead of all events. Waits while the lane is full.
    pub async fn respond(&self, message: Bytes) -> Result<(), Closed> {
        let room = self.room.take(&message).await;
        self.control.send(Outbound::new(message, room)).await.map_err(|_| Closed)
    }

    /// Sends a response if there is room for it now.
    pub fn try_respond(&self, message: Bytes) -> Result<(), Refused> {
        let Some(room) = self.room.try_take(&message) else { return Err(Refused::Full(message)) };
        self.control.try_send(Outbound::new(message, Some(room))).map_err(|error| match error {
            mpsc::error::TrySendError::Full(outbound) => Refused::Full(outbound.bytes),
            mpsc::error::TrySendError::Closed(_) => Refused::Closed,
        })
    }

    /// Sends a response and waits until the kernel has all of it.
    pub async fn respond_written(&self, message: Bytes) -> Result<(), Closed> {
        self.respond_tracked(message).await?.await.map_err(|_| Closed)
    }

    /// Sends a response; what is returned tells when the kernel has all of it.
    pub(crate) async fn respond_tracked(&self, message: Bytes) -> Result<oneshot::Receiver<()>, Closed> {
        let room = self.room.take(&message).await;
        let (outbound, written) = Outbound::tracked(message, room);
        self.control.send(outbound).await.map_err(|_| Closed)?;
        Ok(written)
    }

    /// Sends an event, behind all responses. Waits while the lane is full.
    pub async fn event(&self, message: Bytes) -> Result<(), Closed> {
        self.events.send(Outbound::new(message, None)).await.map_err(|_| Closed)
    }

    /// The longest message that reaches the peer. A longer one ends the link.
    pub fn largest(&self) -> usize {
        self.largest.0.load(Ordering::Relaxed)
    }

    pub(crate) fn knows_largest(&self) -> Largest {
        self.largest.clone()
    }

    /// Whether a response would have to wait.
    pub fn is_full(&self) -> bool {
        self.control.capacity() == 0 || self.room.free.available_permits() == 0
    }

    /// Waits until the next response would not have to, or the link is gone.
    pub async fn has_room(&self) {
        let _room = self.room.take(&Bytes::from_static(b" ")).await;
        let _slot = self.control.reserve().await;
    }

    /// A place in the lane of events. Waits while the lane is full.
    pub(crate) async fn event_slot(&self) -> Result<mpsc::Permit<'_, Outbound>, Closed> {
        self.events.reserve().await.map_err(|_| Closed)
    }

    /// A place in the lane of events, if there is one now.
    pub(crate) fn try_event_slot(&self) -> Option<mpsc::Permit<'_, Outbound>> {
        self.events.try_reserve().ok()
    }

    /// Waits until the kernel has everything that was sent before.
    pub async fn flush(&self) -> Result<(), Closed> {
        // Events go last, so an empty message at their end is behind everything.
        let (marker, written) = Outbound::tracked(Bytes::new(), None);
        self.events.send(marker).await.map_err(|_| Closed)?;
        written.await.map_err(|_| Closed)
    }

    /// Whether the link can compress what it sends.
    pub fn can_compress(&self) -> bool {
        self.compression.is_some()
    }

    /// Has every later message compressed, where the link can. Tells whether it does.
    pub fn compress(&self) -> bool {
        if let Some(compression) = &self.compression {
            compression.0.store(true, Ordering::Relaxed);
        }
        self.compression.is_some()
    }

    /// The same lanes, on a link that can compress.
    pub(crate) fn with_compression(self, compression: Compression) -> Outgoing {
        Outgoing { compression: Some(compression), ..self }
    }

    /// Waits until the link is gone.
    pub async fn closed(&self) {
        self.control.closed().await;
    }

    /// Whether the link is gone.
    pub fn is_closed(&self) -> bool {
        self.control.is_closed()
    }
}

/// Why a message was not taken at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The lane is full; here is the message back.
    Full(Bytes),
    /// The link is gone.
    Closed,
}

impl Outbound {
    fn new(bytes: Bytes, room: Option<OwnedSemaphorePermit>) -> Outbound {
        Outbound { bytes, written: Receipt { told: None, _room: room } }
    }

    fn tracked(bytes: Bytes, room: Option<OwnedSemaphorePermit>) -> (Outbound, oneshot::Receiver<()>) {
        let (told, receiver) = oneshot::channel();
        (Outbound { bytes, written: Receipt { told: Some(told), _room: room } }, receiver)
    }
}

/// The writer's end of the two lanes.
#[derive(Debug)]
pub(crate) struct Lanes {
    control: mpsc::Receiver<Outbound>,
    events: mpsc::Receiver<Outbound>,
}

/// Two lanes with the sizes that `limits` gives.
pub(crate) fn lanes(limits: &Limits) -> (Outgoing, Lanes) {
    let (control, control_end) = mpsc::channel(limits.control_slots.max(1));
    let (events, events_end) = mpsc::channel(limits.event_slots.max(1));
    let room = Room::new(limits.control_bytes);
    let largest = Largest(Arc::new(AtomicUsize::new(usize::MAX)));
    (
        Outgoing { control, events, room, largest, compression: None },
        Lanes { control: control_end, events: events_end },
    )
}

impl Lanes {
    /// Waits for a message: a response if there is one. Nothing when every sender is gone.
    pub(crate) async fn recv(&mut self) -> Option<Outbound> {
        poll_fn(|cx| match self.control.poll_recv(cx) {
            Poll::Ready(Some(outbound)) => Poll::Ready(Some(outbound)),
            // Senders come in pairs: when one lane has none left, neither has the other.
            Poll::Ready(None) | Poll::Pending => self.events.poll_recv(cx),
        })
        .await
    }

    /// Takes the responses that are ready.
    pub(crate) fn take_control<T>(
        &mut self,
        into: &mut VecDeque<T>,
        up_to: usize,
        mut frame: impl FnMut(Outbound) -> T,
    ) {
        while into.len() < up_to
            && let Ok(outbound) = self.control.try_recv()
        {
            into.push_back(frame(outbound));
        }
    }

    /// Takes the events that are ready.
    pub(crate) fn take_events<T>(
        &mut self,
        into: &mut VecDeque<T>,
        up_to: usize,
        mut frame: impl FnMut(Outbound) -> T,
    ) {
        while into.len() < up_to
            && let Ok(outbound) = self.events.try_recv()
        {
            into.push_back(frame(outbound));
        }
    }
}
