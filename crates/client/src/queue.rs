//! Queue: events on their way to one reader, bounded in bytes, closed from either end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What a reader may leave unread before the link is read no further.
pub(crate) const ROOM: usize = 8 * 1024 * 1024;
/// What a reader may leave unread at all, while answers that others wait for are read past it.
const MOST: usize = 8 * ROOM;
/// What an event weighs beside its bytes.
const ENVELOPE: usize = 64;

/// The writing end. One per process, watch or listener, held by the session's task.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// The reading end.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    /// Something was put in, or the writing end is gone.
    filled: Notify,
    /// Something was taken out, or the reading end is gone. Shared by all queues of a session.
    drained: Arc<Notify>,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    is_read: bool,
    is_written: bool,
}

/// A queue whose reader tells `drained` when there is room again.
pub(crate) fn queue<T>(drained: Arc<Notify>) -> (Sender<T>, Receiver<T>) {
    let state = State { items: VecDeque::new(), bytes: 0, is_read: true, is_written: true };
    let shared = Arc::new(Shared { state: Mutex::new(state), filled: Notify::new(), drained });
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Puts an event in, whatever is there already: it is up to the caller to read no further while `is_full`.
    pub(crate) fn push(&self, item: T, bytes: usize) {
        let mut state = self.0.state();
        if state.is_read {
            state.items.push_back((item, bytes + ENVELOPE));
            state.bytes += bytes + ENVELOPE;
            drop(state);
            self.0.filled.notify_one();
        }
    }

    /// Whether its reader is behind.
    pub(crate) fn is_full(&self) -> bool {
        self.0.state().bytes > ROOM
    }

    /// Whether its reader is so far behind that more output must not be kept for it.
    pub(crate) fn is_flooded(&self) -> bool {
        self.0.state().bytes > MOST
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_unread(&self) -> bool {
        !self.0.state().is_read
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state().is_written = false;
        self.0.filled.notify_one();
    }
}

impl<T> Receiver<T> {
    /// The next event; nothing when there will be none. Nothing is lost if this future is dropped.
    pub(crate) async fn recv(&mut self) -> Option<T> {
        loop {
            let filled = self.0.filled.notified();
            if let Some(done) = self.take() {
                return done;
            }
            filled.await;
        }
    }

    fn take(&self) -> Option<Option<T>> {
        let mut state = self.0.state();
        match state.items.pop_front() {
            Some((item, bytes)) => {
                let was_full = state.bytes > ROOM;
                state.bytes -= bytes;
                if was_full && state.bytes <= ROOM {
                    self.0.drained.notify_one();
                }
                Some(Some(item))
            }
            None if !state.is_written => Some(None),
            None => None,
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_read = false;
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
    async fn a_reader_that_is_behind_is_seen_and_one_that_left_is_not_waited_for() {
        let drained = Arc::new(Notify::new());
        let (sender, mut receiver) = queue(drained.clone());
        sender.push(1, ROOM);
        assert!(sender.is_full());
        sender.push(2, 0);
        assert_eq!(receiver.recv().await, Some(1));
        drained.notified().await;
        assert!(!sender.is_full());
        sender.push(3, ROOM);
        drop(receiver);
        assert!(sender.is_unread() && !sender.is_full());
    }

    #[tokio::test]
    async fn what_was_put_in_is_read_after_the_writer_left() {
        let (sender, mut receiver) = queue(Arc::default());
        sender.push("a", 1);
        drop(sender);
        assert_eq!(receiver.recv().await, Some("a"));
        assert_eq!(receiver.recv().await, None);
        assert_eq!(receiver.recv().await, None);
    }
}
