//! A queue of events for one reader, bounded in bytes, that either end can close.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Unread bytes above which the connection is not read.
pub(crate) const HIGH_WATER_BYTES: usize = 8 * 1024 * 1024;
/// Unread bytes above which output is dropped and counted, while the connection is read for pending responses.
const MAX_BYTES: usize = 8 * HIGH_WATER_BYTES;
/// Bytes that every item counts beside its content.
const ITEM_OVERHEAD_BYTES: usize = 64;

/// The writing end: one per process, watch or subscription, held by the session's task.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// The reading end, held by the handle that a caller reads.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    /// Notified when an item was added or the writing end was dropped.
    filled: Notify,
    /// Notified when a full queue has capacity again or the reading end was dropped. Shared by all queues of a session.
    drained: Arc<Notify>,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    has_reader: bool,
    has_writer: bool,
}

/// Creates a queue that notifies `drained` when it has capacity again.
pub(crate) fn queue<T>(drained: Arc<Notify>) -> (Sender<T>, Receiver<T>) {
    let state = State { items: VecDeque::new(), bytes: 0, has_reader: true, has_writer: true };
    let shared = Arc::new(Shared { state: Mutex::new(state), filled: Notify::new(), drained });
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Adds an item regardless of the size of the queue: the caller stops reading the connection while `is_full`.
    pub(crate) fn push(&self, item: T, bytes: usize) {
        let mut state = self.0.state();
        if state.has_reader {
            state.items.push_back((item, bytes + ITEM_OVERHEAD_BYTES));
            state.bytes += bytes + ITEM_OVERHEAD_BYTES;
            drop(state);
            self.0.filled.notify_one();
        }
    }

    /// Whether the reader is slow and the connection should not be read.
    pub(crate) fn is_full(&self) -> bool {
        self.0.state().bytes > HIGH_WATER_BYTES
    }

    /// Whether the queue is above its limit, so that output must be dropped.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.0.state().bytes > MAX_BYTES
    }

    /// Whether the reading end was dropped.
    pub(crate) fn is_closed(&self) -> bool {
        !self.0.state().has_reader
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state().has_writer = false;
        self.0.filled.notify_one();
    }
}

impl<T> Receiver<T> {
    /// The next item; `None` when the writing end was dropped and the queue is empty. Cancel-safe.
    pub(crate) async fn recv(&mut self) -> Option<T> {
        loop {
            let filled = self.0.filled.notified();
            if let Some(done) = self.take() {
                return done;
            }
            filled.await;
        }
    }

    /// The next item, if there is one now.
    pub(crate) fn try_recv(&mut self) -> Option<T> {
        self.take().flatten()
    }

    fn take(&self) -> Option<Option<T>> {
        let mut state = self.0.state();
        match state.items.pop_front() {
            Some((item, bytes)) => {
                let was_full = state.bytes > HIGH_WATER_BYTES;
                state.bytes -= bytes;
                if was_full && state.bytes <= HIGH_WATER_BYTES {
                    self.0.drained.notify_one();
                }
                Some(Some(item))
            }
            None if !state.has_writer => Some(None),
            None => None,
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.has_reader = false;
        state.items.clear();
        state.bytes = 0;
        drop(state);
        self.0.drained.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_reader_fills_the_queue_and_a_dropped_reader_empties_it() {
        let drained = Arc::new(Notify::new());
        let (sender, mut receiver) = queue(drained.clone());
        sender.push(1, HIGH_WATER_BYTES);
        assert!(sender.is_full());
        sender.push(2, 0);
        assert_eq!(receiver.recv().await, Some(1));
        drained.notified().await;
        assert!(!sender.is_full());
        sender.push(3, HIGH_WATER_BYTES);
        drop(receiver);
        assert!(sender.is_closed() && !sender.is_full());
    }

    #[tokio::test]
    async fn items_are_read_after_the_writer_was_dropped() {
        let (sender, mut receiver) = queue(Arc::default());
        sender.push("a", 1);
        drop(sender);
        assert_eq!(receiver.recv().await, Some("a"));
        assert_eq!(receiver.recv().await, None);
        assert_eq!(receiver.recv().await, None);
    }
}
