//! Two bounded lanes to the writer: a response never queues behind many events.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::Limits;

/// The error of a link that has ended: the peer closed it or writing failed. The message is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is closed")
    }
}

impl std::error::Error for Closed {}

/// The sending half of a link. Cheap to clone; each clone may be used by another task.
#[derive(Debug, Clone)]
pub struct Outgoing {
    control: mpsc::Sender<Outbound>,
    events: mpsc::Sender<Outbound>,
    budget: ByteBudget,
    max_message: MaxMessage,
    compression: Option<Compression>,
    binary: Option<BinaryMessages>,
}

/// The limit on messages to the peer; it may change when the peer's capabilities are known.
#[derive(Debug, Clone)]
pub(crate) struct MaxMessage(Arc<AtomicUsize>);

impl MaxMessage {
    pub(crate) fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// Whether a link compresses its messages. Once on, it stays on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Compression(Arc<AtomicBool>);

impl Compression {
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether the peer may send [binary messages](wire::binary) on a link. Once it may, it always may.
#[derive(Debug, Clone, Default)]
pub(crate) struct BinaryMessages(Arc<AtomicBool>);

impl BinaryMessages {
    pub(crate) fn are_accepted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The bytes that queued responses may use: one permit each.
#[derive(Debug, Clone)]
struct ByteBudget {
    free: Arc<Semaphore>,
    limit: usize,
}

impl ByteBudget {
    fn new(limit: usize) -> ByteBudget {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        ByteBudget { free: Arc::new(Semaphore::new(limit)), limit }
    }

    /// The cost of a message. One over the limit uses all of it, and is queued alone.
    fn cost(&self, message: &Bytes) -> u32 {
        u32::try_from(message.len().min(self.limit)).unwrap_or(u32::MAX)
    }

    async fn take(&self, message: &Bytes) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.free.clone().acquire_many_owned(self.cost(message)).await.ok()
    }

    fn try_take(&self, message: &Bytes) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_many_owned(self.cost(message)).ok()
    }
}

/// A message that is queued for writing.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) bytes: Bytes,
    pub(crate) written: Receipt,
}

/// Released when a message is written: its part of the budget, and a notification.
#[derive(Debug, Default)]
pub(crate) struct Receipt {
    notify: Option<oneshot::Sender<()>>,
    _budget: Option<OwnedSemaphorePermit>,
}

impl Receipt {
    /// Notifies that the message is written.
    pub(crate) fn hand_out(self) {
        if let Some(notify) = self.notify {
            // The receiver may have been dropped.
            notify.send(()).ok();
        }
    }
}

impl Outgoing {
    /// Sends a response, ahead of all events. Waits while the lane is full.
    pub async fn respond(&self, message: Bytes) -> Result<(), Closed> {
        let budget = self.budget.take(&message).await;
        self.control.send(Outbound::new(message, budget)).await.map_err(|_| Closed)
    }

    /// Sends a response if its lane has capacity.
    pub fn try_respond(&self, message: Bytes) -> Result<(), TryRespondError> {
        let Some(budget) = self.budget.try_take(&message) else { return Err(TryRespondError::Full(message)) };
        self.control.try_send(Outbound::new(message, Some(budget))).map_err(|error| match error {
            mpsc::error::TrySendError::Full(outbound) => TryRespondError::Full(outbound.bytes),
            mpsc::error::TrySendError::Closed(_) => TryRespondError::Closed,
        })
    }

    /// Sends a response and waits until the kernel has all of it.
    pub async fn respond_written(&self, message: Bytes) -> Result<(), Closed> {
        self.respond_tracked(message).await?.await.map_err(|_| Closed)
    }

    /// Sends a response; the receiver is notified when the kernel has all of it.
    pub(crate) async fn respond_tracked(&self, message: Bytes) -> Result<oneshot::Receiver<()>, Closed> {
        let budget = self.budget.take(&message).await;
        let (outbound, written) = Outbound::tracked(message, budget);
        self.control.send(outbound).await.map_err(|_| Closed)?;
        Ok(written)
    }

    /// Sends an event, behind all responses. Waits while the lane is full.
    pub async fn event(&self, message: Bytes) -> Result<(), Closed> {
        self.events.send(Outbound::new(message, None)).await.map_err(|_| Closed)
    }

    /// The limit on messages to the peer. A longer one ends the link.
    pub fn largest(&self) -> usize {
        self.max_message.0.load(Ordering::Relaxed)
    }

    pub(crate) fn max_message(&self) -> MaxMessage {
        self.max_message.clone()
    }

    /// True if a response would have to wait.
    pub fn is_full(&self) -> bool {
        self.control.capacity() == 0 || self.budget.free.available_permits() == 0
    }

    /// Waits until the lane of responses has capacity, or the link has ended.
    pub async fn has_room(&self) {
        let _budget = self.budget.take(&Bytes::from_static(b" ")).await;
        let _slot = self.control.reserve().await;
    }

    /// A slot in the lane of events. Waits while the lane is full.
    pub(crate) async fn event_slot(&self) -> Result<mpsc::Permit<'_, Outbound>, Closed> {
        self.events.reserve().await.map_err(|_| Closed)
    }

    /// A slot in the lane of events, if one is free.
    pub(crate) fn try_event_slot(&self) -> Option<mpsc::Permit<'_, Outbound>> {
        self.events.try_reserve().ok()
    }

    /// Waits until the kernel has all messages that were sent before.
    pub async fn flush(&self) -> Result<(), Closed> {
        // Events are written last, so an empty message at their end is behind all others.
        let (marker, written) = Outbound::tracked(Bytes::new(), None);
        self.events.send(marker).await.map_err(|_| Closed)?;
        written.await.map_err(|_| Closed)
    }

    /// True if the link supports compression.
    pub fn can_compress(&self) -> bool {
        self.compression.is_some()
    }

    /// Compresses every later message, if the link supports it; returns whether it does.
    pub fn compress(&self) -> bool {
        if let Some(compression) = &self.compression {
            compression.0.store(true, Ordering::Relaxed);
        }
        self.compression.is_some()
    }

    /// The same lanes, on a link that supports compression.
    pub(crate) fn with_compression(self, compression: Compression) -> Outgoing {
        Outgoing { compression: Some(compression), ..self }
    }

    /// True if the link carries [binary messages](wire::binary).
    pub fn can_carry_binary(&self) -> bool {
        self.binary.is_some()
    }

    /// Accepts binary messages of the peer from now on, if the link carries them; returns whether it does.
    pub fn accept_binary(&self) -> bool {
        if let Some(binary) = &self.binary {
            binary.0.store(true, Ordering::Relaxed);
        }
        self.binary.is_some()
    }

    /// True if a message of the peer may be binary.
    pub(crate) fn accepts_binary(&self) -> bool {
        self.binary.as_ref().is_some_and(BinaryMessages::are_accepted)
    }

    /// The same lanes, on a link that carries binary messages.
    pub(crate) fn with_binary(self, binary: BinaryMessages) -> Outgoing {
        Outgoing { binary: Some(binary), ..self }
    }

    /// Waits until the link has ended.
    pub async fn closed(&self) {
        self.control.closed().await;
    }

    /// True if the link has ended.
    pub fn is_closed(&self) -> bool {
        self.control.is_closed()
    }
}

/// Why a response was not queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TryRespondError {
    /// The lane is full; returns the message.
    Full(Bytes),
    /// The link has ended.
    Closed,
}

impl Outbound {
    fn new(bytes: Bytes, budget: Option<OwnedSemaphorePermit>) -> Outbound {
        Outbound { bytes, written: Receipt { notify: None, _budget: budget } }
    }

    fn tracked(bytes: Bytes, budget: Option<OwnedSemaphorePermit>) -> (Outbound, oneshot::Receiver<()>) {
        let (notify, receiver) = oneshot::channel();
        (Outbound { bytes, written: Receipt { notify: Some(notify), _budget: budget } }, receiver)
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
    let budget = ByteBudget::new(limits.control_bytes);
    let max_message = MaxMessage(Arc::new(AtomicUsize::new(usize::MAX)));
    (
        Outgoing { control, events, budget, max_message, compression: None, binary: None },
        Lanes { control: control_end, events: events_end },
    )
}

impl Lanes {
    /// Waits for a message, responses first. `None` when every sender is dropped.
    pub(crate) async fn recv(&mut self) -> Option<Outbound> {
        poll_fn(|cx| match self.control.poll_recv(cx) {
            Poll::Ready(Some(outbound)) => Poll::Ready(Some(outbound)),
            // Both lanes have the same senders: when one has none left, so has the other.
            Poll::Ready(None) | Poll::Pending => self.events.poll_recv(cx),
        })
        .await
    }

    /// Takes the queued responses.
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

    /// Takes the queued events.
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
