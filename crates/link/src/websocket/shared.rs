//! What the reading and the writing side of one WebSocket tell each other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Close;

/// Gives the reason for the end of a connection.
#[derive(Debug, Clone)]
pub struct Closer(Arc<Shared>);

impl Closer {
    pub(super) fn new(shared: Arc<Shared>) -> Closer {
        Closer(shared)
    }

    /// What the peer is told when the link has written everything; [`Close::NORMAL`] if nobody says otherwise.
    pub fn because(&self, close: Close) {
        self.0.state().farewell = close;
    }

    /// Ends the connection now with this reason: messages that are not written yet are dropped.
    pub fn close(&self, close: Close) {
        self.0.ask_end(Some(close));
    }

    /// What the peer said when it ended the connection, if it said anything.
    pub fn said(&self) -> Option<Close> {
        self.0.state().said.clone()
    }
}

/// What one side has to do for the other.
#[derive(Debug)]
pub(super) enum Asked {
    /// Answer a ping.
    Pong(Bytes),
    /// Say this and end.
    Close(Close),
    /// End: nobody is there to be told.
    Gone,
    /// End: nothing was heard for too long, and nothing has come that was only not read yet.
    Silent,
}

/// What is known of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// It gave a sign of life in time.
    Shown,
    /// It gave none in time, as far as was read: whether that is all, the reader has to say. A link that nobody reads
    /// hears nothing however much the peer says.
    Doubted,
    /// The reader has looked, and there was nothing.
    Denied,
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    heard: Instant,
    life: Life,
    is_read: bool,
    /// Whoever waits for the next message.
    reader: Option<Waker>,
    /// Only the latest ping needs an answer.
    pong: Option<Bytes>,
    end: Option<Option<Close>>,
    farewell: Close,
    /// The peer's.
    said: Option<Close>,
}

impl Shared {
    pub(super) fn new() -> Arc<Shared> {
        let state = State {
            heard: Instant::now(),
            life: Life::Shown,
            is_read: true,
            reader: None,
            pong: None,
            end: None,
            farewell: Close::new(Close::NORMAL, ""),
            said: None,
        };
        Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peer gave a sign of life.
    pub(super) fn hear(&self) {
        let mut state = self.state();
        state.heard = Instant::now();
        state.life = Life::Shown;
    }

    /// Everything that has come was read, and whoever reads waits for more.
    pub(super) fn starve(&self, reader: &Waker) {
        let mut state = self.state();
        match &mut state.reader {
            Some(known) => known.clone_from(reader),
            None => state.reader = Some(reader.clone()),
        }
        if state.life == Life::Doubted {
            state.life = Life::Denied;
            self.changed.notify_one();
        }
    }

    /// Asks the reader whether there really is no sign of life. If nobody reads, nobody answers.
    pub(super) fn doubt(&self) {
        let mut state = self.state();
        state.life = Life::Doubted;
        if let Some(reader) = state.reader.take() {
            drop(state);
            reader.wake();
        }
    }

    /// Whether the peer's life is in doubt.
    pub(super) fn is_doubted(&self) -> bool {
        self.state().life != Life::Shown
    }

    /// When the peer gave its last sign of life; nothing when nobody listens for one any more.
    pub(super) fn heard(&self) -> Option<Instant> {
        let state = self.state();
        state.is_read.then_some(state.heard)
    }

    /// Nobody reads any more.
    pub(super) fn stop_reading(&self) {
        self.state().is_read = false;
        self.changed.notify_one();
    }

    pub(super) fn ask_pong(&self, payload: Bytes) {
        self.state().pong = Some(payload);
        self.changed.notify_one();
    }

    /// Asks the writer to end, telling the peer why if there is one.
    pub(super) fn ask_end(&self, close: Option<Close>) {
        self.state().end.get_or_insert(close);
        self.changed.notify_one();
    }

    /// The peer said this and ends.
    pub(super) fn hear_farewell(&self, close: Close) {
        self.state().said = Some(close);
    }

    pub(super) fn farewell(&self) -> Close {
        self.state().farewell.clone()
    }

    /// Waits until the writer has to do something for the reader. Nothing is lost if this future is dropped.
    pub(super) async fn asked(&self) -> Asked {
        loop {
            if let Some(asked) = self.take() {
                return asked;
            }
            self.changed.notified().await;
        }
    }

    fn take(&self) -> Option<Asked> {
        let mut state = self.state();
        match state.end.take() {
            Some(Some(close)) => Some(Asked::Close(close)),
            Some(None) => Some(Asked::Gone),
            None if state.life == Life::Denied => Some(Asked::Silent),
            None => state.pong.take().map(Asked::Pong),
        }
    }
}
