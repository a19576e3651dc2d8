//! Frames on their way to one connection: bounded in bytes, and ended with a reason.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::socket::Farewell;

/// What a frame costs beside its bytes, so that many small ones are bounded too.
pub(super) const OVERHEAD: usize = 256;
/// Shorter frames are copied: else each would keep the whole piece of memory it was read into.
const COPIED: usize = 8 * 1024;

/// One relay frame, as it came.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) bytes: Bytes,
    /// What its sender may not send until the frame is gone.
    pub(super) credit: Vec<OwnedSemaphorePermit>,
}

impl Frame {
    fn cost(&self) -> usize {
        self.bytes.len() + OVERHEAD
    }
}

/// More waits than may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// What to do with frames that wait when the end comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// They were sent before the end, so they come before it.
    Deliver,
    /// They are why it ends.
    Discard,
}

/// What comes next for a connection.
#[derive(Debug)]
pub(super) enum Next {
    Frame(Frame),
    End(Farewell),
}

/// A queue of frames that cost at most so much together.
pub(super) fn queue(most: usize) -> (Outbox, Inbox) {
    let shared = Arc::new(Shared {
        most,
        state: Mutex::default(),
        changed: Notify::new(),
        ended: CancellationToken::new(),
    });
    (Outbox(shared.clone()), Inbox(shared))
}

/// Where frames for a connection are put.
#[derive(Debug)]
pub(super) struct Outbox(Arc<Shared>);

/// Where a connection takes its frames from.
#[derive(Debug)]
pub(super) struct Inbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    state: Mutex<State>,
    changed: Notify,
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Frame>,
    cost: usize,
    end: Option<Farewell>,
    /// How the end came about, whoever has heard of it.
    why: Option<(Farewell, Rest)>,
    is_closed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outbox {
    /// Puts a frame last. One for a connection that has ended is gone.
    pub(super) fn push(&self, mut frame: Frame) -> Result<(), Full> {
        let mut state = self.0.state();
        if state.is_closed {
            return Ok(());
        }
        if state.cost + frame.cost() > self.0.most {
            return Err(Full);
        }
        if frame.bytes.len() < COPIED {
            frame.bytes = Bytes::copy_from_slice(&frame.bytes);
        }
        state.cost += frame.cost();
        state.frames.push_back(frame);
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Whether nobody takes from it any more.
    pub(super) fn is_closed(&self) -> bool {
        self.0.state().is_closed
    }

    /// Ends the connection. Only the first reason counts, and nothing can be put behind it.
    pub(super) fn end(&self, farewell: Farewell, rest: Rest) {
        let mut state = self.0.state();
        if state.is_closed {
            return;
        }
        if rest == Rest::Discard {
            (state.frames, state.cost) = (VecDeque::new(), 0);
        }
        (state.end, state.why, state.is_closed) = (Some(farewell), Some((farewell, rest)), true);
        drop(state);
        self.0.changed.notify_one();
        self.0.ended.cancel();
    }
}

impl Inbox {
    /// Waits for what comes next. Nothing is lost if this future is dropped.
    pub(super) async fn next(&mut self) -> Next {
        loop {
            if let Some(next) = self.take() {
                return next;
            }
            self.0.changed.notified().await;
        }
    }

    /// For somebody who has to know of the end although nothing is taken.
    pub(super) fn deadline(&self) -> Deadline {
        Deadline(self.0.clone())
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.state().frames.is_empty()
    }

    fn take(&mut self) -> Option<Next> {
        let mut state = self.0.state();
        match state.frames.pop_front() {
            Some(frame) => {
                state.cost -= frame.cost();
                Some(Next::Frame(frame))
            }
            None => state.end.take().map(Next::End),
        }
    }
}

/// The end of a connection, whether or not its peer takes anything.
#[derive(Debug)]
pub(super) struct Deadline(Arc<Shared>);

impl Deadline {
    /// Waits until the end was asked for; what is still to be delivered before it has so long.
    pub(super) async fn passed(&self, patience: Duration) -> Farewell {
        self.0.ended.cancelled().await;
        let why = self.0.state().why;
        match why {
            Some((farewell, Rest::Discard)) => farewell,
            Some((farewell, Rest::Deliver)) => {
                tokio::time::sleep(patience).await;
                farewell
            }
            None => std::future::pending().await,
        }
    }
}

impl Drop for Inbox {
    /// Nobody takes what waits any more.
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.frames, state.cost, state.is_closed) = (VecDeque::new(), 0, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: usize) -> Frame {
        Frame { bytes: vec![b'x'; length].into(), credit: Vec::new() }
    }

    #[tokio::test]
    async fn a_queue_takes_no_more_than_it_may_and_small_frames_count() {
        let (outbox, mut inbox) = queue(10 * (OVERHEAD + 1));
        for _ in 0..10 {
            outbox.push(frame(1)).unwrap();
        }
        assert_eq!(outbox.push(frame(0)), Err(Full));
        assert!(matches!(inbox.next().await, Next::Frame(_)));
        outbox.push(frame(1)).unwrap();
        drop(inbox);
        outbox.push(frame(1 << 20)).unwrap();
        assert_eq!(outbox.0.state().cost, 0, "nothing is kept for nobody");
    }

    #[tokio::test]
    async fn an_end_comes_behind_what_waits_or_instead_of_it() {
        for (rest, before) in [(Rest::Deliver, 2), (Rest::Discard, 0)] {
            let (outbox, mut inbox) = queue(10_000);
            outbox.push(frame(1)).unwrap();
            outbox.push(frame(1)).unwrap();
            outbox.end(Farewell::HUB_ENDS, rest);
            outbox.end(Farewell::TOO_SLOW, Rest::Discard);
            outbox.push(frame(1)).unwrap();
            for _ in 0..before {
                assert!(matches!(inbox.next().await, Next::Frame(_)));
            }
            assert!(matches!(inbox.next().await, Next::End(farewell) if farewell == Farewell::HUB_ENDS));
        }
    }
}
