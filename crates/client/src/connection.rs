//! The connection and the inbox of the task that owns a link, shared by the clients of both protocols.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::OptionFuture;
use link::{Incoming, Link};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

/// Requests without a response on one connection; further requests wait in the inbox.
const MAX_PENDING: usize = 512;
/// Messages in the inbox of a task; senders wait when it is full.
const INBOX_MESSAGES: usize = 256;
/// Time limit for closing a connection: process trees may take long to end, and the connection may be slow.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether a request may be sent again when its connection was lost before the response arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplayPolicy {
    /// The request changes nothing, or the server recognises it by its key.
    Safe,
    /// Sending it again could perform the operation twice.
    Never,
}

/// A request to close a session or connection.
#[derive(Debug)]
pub(crate) struct CloseRequest {
    /// Whether to wait until the server has ended the attached processes.
    pub(crate) waits: bool,
}

/// Why a link is no longer served.
#[derive(Debug)]
pub(crate) enum LinkEnd {
    /// A handle requested it; without a request, the last handle was dropped.
    Closed(Option<CloseRequest>),
    /// The connection was lost.
    Disconnected,
}

/// A link and the messages that its outgoing queue had no capacity for.
#[derive(Debug)]
pub(crate) struct Connection {
    link: Link,
    unsent: VecDeque<Bytes>,
    /// Whether unread messages are sent again on the next connection.
    can_resume: bool,
}

/// What happened on a connection.
enum LinkEvent {
    Received(Bytes),
    TooLarge(u64),
    Sent,
    Closed,
}

impl Connection {
    pub(crate) fn new(link: Link, can_resume: bool) -> Connection {
        Connection { link, unsent: VecDeque::new(), can_resume }
    }

    /// Sends a message, or keeps it until the outgoing queue has capacity.
    pub(crate) fn send(&mut self, message: Bytes) {
        if !self.unsent.is_empty() {
            return self.unsent.push_back(message);
        }
        match self.link.outgoing.try_respond(message) {
            Err(link::TryRespondError::Full(message)) => self.unsent.push_back(message),
            // Reading from the link reports that it is closed.
            Ok(()) | Err(link::TryRespondError::Closed) => {}
        }
    }

    /// Waits for the next event; messages are read only if `reads`. Cancel-safe.
    async fn next(&mut self, reads: bool) -> LinkEvent {
        let unsent = self.unsent.front().cloned();
        let Link { incoming, outgoing, .. } = &mut self.link;
        tokio::select! {
            message = incoming.recv(), if reads => match message {
                Some(Incoming::Message(line)) => LinkEvent::Received(line),
                Some(Incoming::TooLong { bytes }) => LinkEvent::TooLarge(bytes),
                None => LinkEvent::Closed,
            },
            Some(sent) = OptionFuture::from(unsent.map(|message| outgoing.respond(message))) => {
                self.unsent.pop_front();
                if sent.is_err() {
                    self.unsent.clear();
                }
                LinkEvent::Sent
            }
            // A connection that is not read reports its end here, while the server still keeps the unread messages.
            () = outgoing.closed(), if !reads && self.can_resume => LinkEvent::Closed,
            () = std::future::pending(), if !reads => LinkEvent::Closed,
        }
    }

    /// Sends the remaining messages and runs `last`, within [`CLOSE_TIMEOUT`].
    pub(crate) async fn finish(self, last: impl AsyncFnOnce(Link) -> Option<()>) {
        let Connection { link, unsent, .. } = self;
        let closing = async {
            // A request that ends a process may be among these messages.
            for message in unsent {
                link.outgoing.respond(message).await.ok()?;
            }
            last(link).await
        };
        tokio::time::timeout(CLOSE_TIMEOUT, closing).await.ok();
    }
}

/// The receiving side of a task's messages. Close requests have a queue of their own, so that a full inbox does not
/// delay them.
#[derive(Debug)]
pub(crate) struct Inbox<M> {
    messages: mpsc::Receiver<M>,
    closes: mpsc::Receiver<CloseRequest>,
}

/// The sending side of an [`Inbox`], held by every handle.
#[derive(Debug)]
pub(crate) struct InboxSender<M> {
    messages: mpsc::Sender<M>,
    closes: mpsc::Sender<CloseRequest>,
}

/// The task has ended and accepts no messages.
#[derive(Debug)]
pub(crate) struct InboxClosed;

/// An item of an inbox.
#[derive(Debug)]
pub(crate) enum InboxEvent<M> {
    /// A message from a handle.
    Message(M),
    /// A request to close; without one, the last handle was dropped.
    Close(Option<CloseRequest>),
}

/// Creates an inbox for [`INBOX_MESSAGES`] messages.
pub(crate) fn inbox<M>() -> (InboxSender<M>, Inbox<M>) {
    let (to_messages, messages) = mpsc::channel(INBOX_MESSAGES);
    let (to_closes, closes) = mpsc::channel(1);
    (InboxSender { messages: to_messages, closes: to_closes }, Inbox { messages, closes })
}

impl<M> Clone for InboxSender<M> {
    fn clone(&self) -> InboxSender<M> {
        InboxSender { messages: self.messages.clone(), closes: self.closes.clone() }
    }
}

impl<M> InboxSender<M> {
    /// Sends a message; waits while the inbox is full.
    pub(crate) async fn send(&self, message: M) -> Result<(), InboxClosed> {
        self.messages.send(message).await.map_err(|_closed| InboxClosed)
    }

    /// Sends a message unless the inbox is full or closed.
    pub(crate) fn try_send(&self, message: M) {
        self.messages.try_send(message).ok();
    }

    /// Requests the end of the task.
    pub(crate) async fn close(&self, request: CloseRequest) -> Result<(), InboxClosed> {
        self.closes.send(request).await.map_err(|_closed| InboxClosed)
    }
}

impl<M> Inbox<M> {
    /// Waits for the next message or close request; messages are taken only if `takes`. Cancel-safe.
    async fn next(&mut self, takes: bool) -> InboxEvent<M> {
        tokio::select! {
            biased;
            message = self.messages.recv(), if takes => message.map_or(InboxEvent::Close(None), InboxEvent::Message),
            request = self.closes.recv() => InboxEvent::Close(request),
        }
    }

    /// Accepts no more messages and returns those that are queued.
    async fn close(mut self) -> Vec<M> {
        self.messages.close();
        self.closes.close();
        let mut messages = Vec::new();
        while let Some(message) = self.messages.recv().await {
            messages.push(message);
        }
        messages
    }
}

/// The connection and inbox of one task, and the notification that a slow reader has caught up.
#[derive(Debug)]
pub(crate) struct DriverEndpoint<M> {
    connection: Connection,
    inbox: Inbox<M>,
    drained: Arc<Notify>,
}

/// What a task is ready for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Readiness {
    /// Requests that wait for a response.
    pub(crate) pending: usize,
    /// Whether a slow reader stops the connection from being read.
    pub(crate) is_stalled: bool,
    /// When the task has something to send by itself.
    pub(crate) wake_at: Option<Instant>,
}

/// What a task has to handle next.
#[derive(Debug)]
pub(crate) enum EndpointEvent<M> {
    /// A message from a handle.
    Message(M),
    /// A message from the server.
    Received(Bytes),
    /// The server sent a message of this many bytes, which is above the limit.
    TooLarge(u64),
    /// The time of [`Readiness::wake_at`] has come.
    Due,
    /// A queue has capacity again; the readiness may have changed.
    Progress,
    /// The link must not be served any longer. All messages sent before a close request were returned.
    Ended(LinkEnd),
}

impl<M> DriverEndpoint<M> {
    pub(crate) fn new(connection: Connection, inbox: Inbox<M>, drained: Arc<Notify>) -> DriverEndpoint<M> {
        DriverEndpoint { connection, inbox, drained }
    }

    /// Waits for the next event. Cancel-safe.
    pub(crate) async fn next(&mut self, ready: Readiness) -> EndpointEvent<M> {
        let takes = self.connection.unsent.is_empty() && ready.pending < MAX_PENDING;
        tokio::select! {
            event = self.inbox.next(takes) => match event {
                InboxEvent::Message(message) => EndpointEvent::Message(message),
                InboxEvent::Close(request) => EndpointEvent::Ended(LinkEnd::Closed(request)),
            },
            event = self.connection.next(!ready.is_stalled) => match event {
                LinkEvent::Received(line) => EndpointEvent::Received(line),
                LinkEvent::TooLarge(bytes) => EndpointEvent::TooLarge(bytes),
                LinkEvent::Sent => EndpointEvent::Progress,
                LinkEvent::Closed => EndpointEvent::Ended(LinkEnd::Disconnected),
            },
            () = self.drained.notified(), if ready.is_stalled => EndpointEvent::Progress,
            Some(()) = OptionFuture::from(ready.wake_at.map(sleep_until)) => EndpointEvent::Due,
        }
    }

    /// A message that was sent before the close request that was received.
    pub(crate) fn remaining(&mut self) -> Option<M> {
        self.inbox.messages.try_recv().ok()
    }

    /// Waits for the inbox alone, while there is no connection. Cancel-safe.
    pub(crate) async fn next_message(&mut self, takes: bool) -> InboxEvent<M> {
        self.inbox.next(takes).await
    }

    /// Sends a message to the server.
    pub(crate) fn send(&mut self, message: Bytes) {
        self.connection.send(message);
    }

    /// Continues on another connection.
    pub(crate) fn reconnect(&mut self, connection: Connection) {
        self.connection = connection;
    }

    /// Ends the inbox; returns the connection for its last messages.
    pub(crate) fn into_connection(self) -> Connection {
        self.connection
    }

    /// Ends both; returns the messages that nothing handled.
    pub(crate) async fn close(self) -> Vec<M> {
        self.inbox.close().await
    }
}
