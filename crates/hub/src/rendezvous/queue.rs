//! The queue of frames to one connection: bounded in bytes, and ended with a reason.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::connection::CloseReason;

/// The cost of a frame beside its bytes, so that many small ones are bounded too.
pub(super) const OVERHEAD: usize = 256;
/// Shorter frames are copied; otherwise each would keep the whole buffer it was read into.
const COPIED_BELOW: usize = 8 * 1024;

/// One relay frame as received.
#[derive(Debug)]
pub(super) struct RelayedFrame {
    pub(super) bytes: Bytes,
    /// The part of its sender's credit that is released with the frame.
    pub(super) credit: Vec<OwnedSemaphorePermit>,
}

impl RelayedFrame {
    fn cost(&self) -> usize {
        self.bytes.len() + OVERHEAD
    }
}

/// The queue has no capacity for the frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueueFull;

/// What happens to queued frames at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingFrames {
    /// They are delivered before the close frame.
    Deliver,
    /// They are dropped.
    Discard,
}

/// The next item of a queue.
#[derive(Debug)]
pub(super) enum QueueItem {
    Frame(RelayedFrame),
    End(CloseReason, PendingFrames),
}

/// A queue of frames whose cost is at most `limit` together.
pub(super) fn queue(limit: usize) -> (FrameSender, FrameReceiver) {
    let shared = Arc::new(Shared {
        limit,
        state: Mutex::default(),
        changed: Notify::new(),
        ended: CancellationToken::new(),
    });
    (FrameSender(shared.clone()), FrameReceiver(shared))
}

/// The router's end of a queue.
#[derive(Debug)]
pub(super) struct FrameSender(Arc<Shared>);

/// The connection's end of a queue.
#[derive(Debug)]
pub(super) struct FrameReceiver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    state: Mutex<State>,
    changed: Notify,
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<RelayedFrame>,
    cost: usize,
    /// Set until the receiver has taken it.
    end: Option<(CloseReason, PendingFrames)>,
    /// The same, and kept.
    ended: Option<(CloseReason, PendingFrames)>,
    is_closed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FrameSender {
    /// Appends a frame. After the end of the connection it is dropped.
    pub(super) fn push(&self, mut frame: RelayedFrame) -> Result<(), QueueFull> {
        let mut state = self.0.state();
        if state.is_closed {
            return Ok(());
        }
        if state.cost + frame.cost() > self.0.limit {
            return Err(QueueFull);
        }
        if frame.bytes.len() < COPIED_BELOW {
            frame.bytes = Bytes::copy_from_slice(&frame.bytes);
        }
        state.cost += frame.cost();
        state.frames.push_back(frame);
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }

    /// True after the end of the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.0.state().is_closed
    }

    /// Ends the connection. Only the first call counts, and later frames are dropped.
    pub(super) fn end(&self, reason: CloseReason, pending: PendingFrames) {
        let mut state = self.0.state();
        if state.is_closed {
            return;
        }
        if pending == PendingFrames::Discard {
            (state.frames, state.cost) = (VecDeque::new(), 0);
        }
        let end = Some((reason, pending));
        (state.end, state.ended, state.is_closed) = (end, end, true);
        drop(state);
        self.0.changed.notify_one();
        self.0.ended.cancel();
    }
}

impl FrameReceiver {
    /// Waits for the next item. Nothing is lost if this future is dropped.
    pub(super) async fn next(&mut self) -> QueueItem {
        loop {
            if let Some(next) = self.take() {
                return next;
            }
            self.0.changed.notified().await;
        }
    }

    /// A watcher of the end that does not depend on the receiver.
    pub(super) fn end_watcher(&self) -> EndWatcher {
        EndWatcher(self.0.clone())
    }

    fn take(&mut self) -> Option<QueueItem> {
        let mut state = self.0.state();
        match state.frames.pop_front() {
            Some(frame) => {
                state.cost -= frame.cost();
                Some(QueueItem::Frame(frame))
            }
            None => state.end.take().map(|(reason, pending)| QueueItem::End(reason, pending)),
        }
    }
}

/// Observes the end of a queue, whether or not the peer reads its frames.
#[derive(Debug)]
pub(super) struct EndWatcher(Arc<Shared>);

impl EndWatcher {
    /// Waits until the queue is ended, and then up to `grace` for frames that are to be delivered before.
    pub(super) async fn passed(&self, grace: Duration) -> CloseReason {
        self.0.ended.cancelled().await;
        let ended = self.0.state().ended;
        match ended {
            Some((reason, PendingFrames::Discard)) => reason,
            Some((reason, PendingFrames::Deliver)) => {
                tokio::time::sleep(grace).await;
                reason
            }
            None => std::future::pending().await,
        }
    }
}

impl Drop for FrameReceiver {
    /// Queued frames are dropped with their reader.
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.frames, state.cost, state.is_closed) = (VecDeque::new(), 0, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: usize) -> RelayedFrame {
        RelayedFrame { bytes: vec![b'x'; length].into(), credit: Vec::new() }
    }

    #[tokio::test]
    async fn a_queue_rejects_frames_over_its_limit_and_counts_small_ones() {
        let (sender, mut receiver) = queue(10 * (OVERHEAD + 1));
        for _ in 0..10 {
            sender.push(frame(1)).unwrap();
        }
        assert_eq!(sender.push(frame(0)), Err(QueueFull));
        assert!(matches!(receiver.next().await, QueueItem::Frame(_)));
        sender.push(frame(1)).unwrap();
        drop(receiver);
        sender.push(frame(1 << 20)).unwrap();
        assert_eq!(sender.0.state().cost, 0, "no frame is kept without a receiver");
    }

    #[tokio::test]
    async fn the_end_follows_queued_frames_or_replaces_them() {
        for (pending, before) in [(PendingFrames::Deliver, 2), (PendingFrames::Discard, 0)] {
            let (sender, mut receiver) = queue(10_000);
            sender.push(frame(1)).unwrap();
            sender.push(frame(1)).unwrap();
            sender.end(CloseReason::HUB_STOPS, pending);
            sender.end(CloseReason::TOO_SLOW, PendingFrames::Discard);
            sender.push(frame(1)).unwrap();
            for _ in 0..before {
                assert!(matches!(receiver.next().await, QueueItem::Frame(_)));
            }
            assert!(matches!(receiver.next().await, QueueItem::End(CloseReason::HUB_STOPS, _)));
        }
    }
}
