//! The state that the reading and the writing side of one WebSocket share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Close;

/// Sets the reason for the end of a connection, and reads the peer's.
#[derive(Debug, Clone)]
pub struct Closer(Arc<Shared>);

impl Closer {
    pub(super) fn new(shared: Arc<Shared>) -> Closer {
        Closer(shared)
    }

    /// Sets the close frame that follows the last message; [`Close::NORMAL`] by default.
    pub fn set_reason(&self, close: Close) {
        self.0.state().reason = close;
    }

    /// Ends the connection now with this reason: messages that are not written yet are dropped.
    pub fn close(&self, close: Close) {
        self.0.request_end(Some(close));
    }

    /// The peer's close frame, if it sent one.
    pub fn peer_close(&self) -> Option<Close> {
        self.0.state().peer_close.clone()
    }
}

/// A request of the reading side to the writing side.
#[derive(Debug)]
pub(super) enum WriterRequest {
    /// Answer a ping.
    Pong(Bytes),
    /// Send a close frame and end.
    Close(Close),
    /// End without a close frame: the peer has closed the stream.
    PeerClosed,
    /// End: nothing was received for too long, also nothing that is only not read yet.
    PeerSilent,
}

/// The liveness of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerLiveness {
    /// Data was received in time.
    Alive,
    /// No data was read in time. The reader has to confirm it: on a link that is not read, data of the peer stays unread.
    Suspected,
    /// The reader has confirmed that nothing was received.
    Silent,
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    last_activity: Instant,
    liveness: PeerLiveness,
    is_read: bool,
    /// Writing has failed, or the peer is gone.
    has_failed: bool,
    /// The task that waits for the next message.
    reader: Option<Waker>,
    /// The payload of the latest ping; older ones need no answer.
    pong: Option<Bytes>,
    end: Option<Option<Close>>,
    reason: Close,
    /// The peer has sent a close frame, so it sends nothing more.
    has_peer_closed: bool,
    peer_close: Option<Close>,
}

impl Shared {
    pub(super) fn new() -> Arc<Shared> {
        let state = State {
            last_activity: Instant::now(),
            liveness: PeerLiveness::Alive,
            is_read: true,
            has_failed: false,
            reader: None,
            pong: None,
            end: None,
            reason: Close::new(Close::NORMAL, ""),
            has_peer_closed: false,
            peer_close: None,
        };
        Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records activity of the peer.
    pub(super) fn record_activity(&self) {
        let mut state = self.state();
        state.last_activity = Instant::now();
        state.liveness = PeerLiveness::Alive;
    }

    /// The reader has read all received data and waits for more. False if no more can come.
    pub(super) fn reader_waits(&self, reader: &Waker) -> bool {
        let mut state = self.state();
        if state.has_failed {
            return false;
        }
        match &mut state.reader {
            Some(waker) => waker.clone_from(reader),
            None => state.reader = Some(reader.clone()),
        }
        if state.liveness == PeerLiveness::Suspected {
            state.liveness = PeerLiveness::Silent;
            self.changed.notify_one();
        }
        true
    }

    /// Writing has failed: the reader ends when it has read all received data.
    pub(super) fn fail(&self) {
        let mut state = self.state();
        state.has_failed = true;
        if let Some(reader) = state.reader.take() {
            drop(state);
            reader.wake();
        }
    }

    /// Makes the reader confirm that nothing was received. On a link that is not read, no confirmation follows.
    pub(super) fn suspect(&self) {
        let mut state = self.state();
        state.liveness = PeerLiveness::Suspected;
        if let Some(reader) = state.reader.take() {
            drop(state);
            reader.wake();
        }
    }

    /// True if no data was read in time.
    pub(super) fn is_suspected(&self) -> bool {
        self.state().liveness != PeerLiveness::Alive
    }

    /// The time of the peer's last byte; `None` after the reader was dropped.
    pub(super) fn last_activity(&self) -> Option<Instant> {
        let state = self.state();
        state.is_read.then_some(state.last_activity)
    }

    /// The reader was dropped or has ended.
    pub(super) fn stop_reading(&self) {
        self.state().is_read = false;
        self.changed.notify_one();
    }

    pub(super) fn request_pong(&self, payload: Bytes) {
        self.state().pong = Some(payload);
        self.changed.notify_one();
    }

    /// Ends the writer, with this close frame if there is one.
    pub(super) fn request_end(&self, close: Option<Close>) {
        self.state().end.get_or_insert(close);
        self.changed.notify_one();
    }

    /// Records the peer's close frame, and what it contains, if anything.
    pub(super) fn set_peer_close(&self, close: Option<Close>) {
        let mut state = self.state();
        state.has_peer_closed = true;
        state.peer_close = close;
    }

    /// True after the peer's close frame.
    pub(super) fn has_peer_closed(&self) -> bool {
        self.state().has_peer_closed
    }

    pub(super) fn reason(&self) -> Close {
        self.state().reason.clone()
    }

    /// Waits for the next request to the writer. Nothing is lost if this future is dropped.
    pub(super) async fn request(&self) -> WriterRequest {
        loop {
            if let Some(request) = self.take() {
                return request;
            }
            self.changed.notified().await;
        }
    }

    fn take(&self) -> Option<WriterRequest> {
        let mut state = self.state();
        match state.end.take() {
            Some(Some(close)) => Some(WriterRequest::Close(close)),
            Some(None) => Some(WriterRequest::PeerClosed),
            None if state.liveness == PeerLiveness::Silent => Some(WriterRequest::PeerSilent),
            None => state.pong.take().map(WriterRequest::Pong),
        }
    }
}
