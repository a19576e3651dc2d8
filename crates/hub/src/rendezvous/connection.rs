//! One WebSocket connection of the rendezvous: frames in to the router, frames out of a queue, until it ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use link::listen::{HttpConnection, UpgradedStream};
use link::websocket::{self, Close, Closer, Role, Settings};
use link::{ByteBudget, Incoming, Link, Outgoing, Receiver, Writing};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::queue::{FrameReceiver, OVERHEAD, PendingFrames, QueueItem, RelayedFrame};
use super::router::{ConnectionId, RouterMessage, StreamRouterHandle};
use crate::config::Limits;

/// Frames between the queue and the socket. Few, because each may be as large as a frame can be.
const FRAMES_IN_WRITER: usize = 2;
/// The time for the closing handshake, and for frames that are still to be delivered before it.
const CLOSING: Duration = Duration::from_secs(2);

/// Why a connection ends, as in its close frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CloseReason {
    code: u16,
    text: &'static str,
}

impl CloseReason {
    pub(super) const HUB_STOPS: CloseReason = CloseReason { code: Close::GOING_AWAY, text: "the hub stops" };
    pub(super) const TOKEN_REMOVED: CloseReason =
        CloseReason { code: Close::REVOKED, text: "the token was removed" };
    /// An own code, so that the executor does not reconnect at once and replace the other one in turn.
    pub(super) const REPLACED: CloseReason = CloseReason {
        code: wire::exec_server::relay::REPLACED,
        text: "another executor with this id connected",
    };
    pub(super) const EXECUTOR_DISCONNECTED: CloseReason =
        CloseReason { code: 1012, text: "the executor disconnected; connect again" };
    pub(super) const TOO_SLOW: CloseReason =
        CloseReason { code: 1013, text: "too many frames are queued for this peer; connect again" };
    const TOO_LARGE: CloseReason = CloseReason { code: 1009, text: "frame too large" };
    const CLOSED_BY_PEER: CloseReason = CloseReason { code: Close::NORMAL, text: "closed by the peer" };
    /// Never sent: no connection is left to send it on.
    const LOST: CloseReason = CloseReason { code: Close::NORMAL, text: "connection lost" };

    pub(super) fn text(self) -> &'static str {
        self.text
    }
}

/// Forwards the frames of a connection to its router, and bounds the bytes on their way.
#[derive(Debug)]
pub(super) struct FrameForwarder {
    pub(super) id: ConnectionId,
    pub(super) router: mpsc::Sender<RouterMessage>,
    /// The connection's own credit, and the one it shares with others: as many permits as bytes.
    credits: Vec<(Arc<Semaphore>, usize)>,
}

impl FrameForwarder {
    pub(super) fn new(id: ConnectionId, router: StreamRouterHandle, limits: &Limits) -> FrameForwarder {
        let own = limits.in_flight_bytes;
        let mut credits = vec![(Arc::new(Semaphore::new(own)), own)];
        if let ConnectionId::Harness(_) = id {
            credits.push((router.to_executor, limits.queued_bytes));
        }
        FrameForwarder { id, router: router.messages, credits }
    }

    /// Forwards a frame; waits while too many bytes are on their way. A frame larger than all credit uses all of it.
    async fn forward(&self, bytes: Bytes) {
        let mut credit = Vec::with_capacity(self.credits.len());
        for (semaphore, limit) in &self.credits {
            let cost = u32::try_from((bytes.len() + OVERHEAD).min(*limit)).unwrap_or(u32::MAX);
            // The semaphore is never closed.
            credit.extend(semaphore.clone().acquire_many_owned(cost).await.ok());
        }
        let message = RouterMessage::Frame { from: self.id, frame: RelayedFrame { bytes, credit } };
        // The router runs as long as this sender exists.
        self.router.send(message).await.ok();
    }

    /// Reports to the router that the connection has ended.
    pub(super) async fn disconnect(self) {
        self.router.send(RouterMessage::Disconnected { id: self.id }).await.ok();
    }
}

/// A WebSocket after its handshake.
#[derive(Debug)]
pub(super) struct RelayConnection {
    link: Link,
    closer: Closer,
    /// Keeps the connection's slot.
    http: Arc<HttpConnection>,
}

impl RelayConnection {
    pub(super) fn new(
        upgraded: UpgradedStream,
        http: Arc<HttpConnection>,
        (limits, budget): (&Limits, &ByteBudget),
    ) -> RelayConnection {
        let settings = Settings { ping_every: limits.ping, deadline: limits.silence };
        let limits = link::Limits {
            line_bytes: limits.frame_bytes,
            event_slots: FRAMES_IN_WRITER,
            budget: budget.clone(),
            ..link::Limits::default()
        };
        let UpgradedStream { stream, read_already } = upgraded;
        // Text frames announce the streams of users to a host; frames of a relay are never text.
        let (link, closer) = websocket::mixed(stream, read_already, Role::Server, &settings, &limits);
        RelayConnection { link, closer, http }
    }

    /// Carries frames until the peer or the router ends the connection, or `ended` returns.
    pub(super) async fn carry(
        self,
        forwarder: &FrameForwarder,
        queue: &mut FrameReceiver,
        ended: impl Future<Output = CloseReason>,
    ) -> ClosingConnection {
        let RelayConnection { link: Link { mut incoming, outgoing, writing }, closer, http } = self;
        let end = queue.end_watcher();
        let (reason, pending) = tokio::select! {
            biased;
            ended = write(&outgoing, queue) => ended,
            reason = read(&mut incoming, forwarder, &closer) => (reason, PendingFrames::Discard),
            // A peer that reads nothing delays its frames, but not the end.
            reason = end.passed(CLOSING) => (reason, PendingFrames::Discard),
            reason = ended => (reason, PendingFrames::Discard),
            () = outgoing.closed() => (CloseReason::LOST, PendingFrames::Discard),
        };
        // Before `outgoing` is dropped, which ends the writer.
        let close = Close::new(reason.code, reason.text);
        match pending {
            PendingFrames::Deliver => closer.set_reason(close),
            PendingFrames::Discard => closer.close(close),
        }
        ClosingConnection { reason, writing, _http: http }
    }
}

/// A connection that carries no more frames.
#[derive(Debug)]
#[must_use = "the peer receives its close frame in `finish`"]
pub(super) struct ClosingConnection {
    pub(super) reason: CloseReason,
    writing: Writing,
    _http: Arc<HttpConnection>,
}

impl ClosingConnection {
    /// Waits up to 2 seconds until the close frame is sent and the peer has closed. Call it after the router is informed,
    /// because it may take that long.
    pub(super) async fn finish(self) {
        // A peer that does not read its close frame is cut off.
        timeout(CLOSING, self.writing.finished()).await.ok();
    }
}

/// Forwards received frames until the connection ends.
async fn read(incoming: &mut Receiver, forwarder: &FrameForwarder, closer: &Closer) -> CloseReason {
    loop {
        match incoming.recv().await {
            Some(Incoming::Message(bytes)) => forwarder.forward(bytes).await,
            Some(Incoming::TooLong { .. }) => return CloseReason::TOO_LARGE,
            None if closer.peer_close().is_some() => return CloseReason::CLOSED_BY_PEER,
            None => return CloseReason::LOST,
        }
    }
}

/// Writes queued frames until the queue or the connection ends.
async fn write(outgoing: &Outgoing, queue: &mut FrameReceiver) -> (CloseReason, PendingFrames) {
    // The credit of a frame is released when the next one is queued behind it.
    let mut _credit = Vec::new();
    loop {
        match queue.next().await {
            QueueItem::Frame(frame) => {
                if outgoing.event(frame.bytes).await.is_err() {
                    return (CloseReason::LOST, PendingFrames::Discard);
                }
                _credit = frame.credit;
            }
            QueueItem::End(reason, pending) => return (reason, pending),
        }
    }
}
