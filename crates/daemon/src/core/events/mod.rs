//! The events of a session: one task reads the logs of its processes and publishes them, numbered.
//!
//! The event lane of a connection has few slots. While a client does not read, the publisher waits there and the logs
//! hold the output; responses have a lane of their own. While no client listens, [`WhileAway`] decides whether events
//! are buffered for replay, left in the logs, or discarded.

mod listener;
mod publisher;
mod replay;

pub use listener::{Listener, StreamEvent};
pub use replay::NotYet;

use std::sync::Arc;

use bytes::Bytes;
use engine::process::{Item, LogReader, Process, ProcessId};
use link::Outgoing;
use link::task::Tasks;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use wire::jsonrpc::RpcError;

use super::Core;
use super::request::Details;
use super::session::{Face, SessionHandle, SubscriptionId};
use crate::observe::metrics::ProcessGauge;
use publisher::Publisher;

/// Publisher inbox: messages that wait; senders wait when it is full.
const PUBLISHER_MESSAGES: usize = 64;
/// Changes of the listener that wait; the session's own task makes them and waits.
const SUBSCRIPTION_MESSAGES: usize = 4;

/// Converts the log of one process into events of a protocol, and holds the numbers that its events have.
pub trait ProcessEvents: Send + 'static {
    /// The events for one entry of the log, in order. `next_id` is the session-wide number of the first of them.
    fn encode(&mut self, entry: &LogEntry<'_>, next_id: u64) -> Vec<Bytes>;
    /// The operation and the details in the audit record of the process's end.
    fn audit_end(&self, process: &Process) -> (&'static str, Details);
    /// Called when the process runs, before its start is answered.
    fn started(&mut self) {}
    /// Called when the process could not be started, before that is answered. Returns the event for it, if there is one.
    fn start_failed(&mut self, _process: &ProcessId, _error: &RpcError) -> Option<EncodeEvent> {
        None
    }
    /// Called before the log is read again.
    fn before_read(&mut self, _reader: &mut LogReader) {}
    /// Called when a client listens again after the session had no connection.
    fn resubscribed(&mut self, _reader: &mut LogReader) {}
}

/// Encodes one event; receives its number.
pub type EncodeEvent = Box<dyn FnOnce(u64) -> Vec<u8> + Send>;

/// An entry of a process's log.
#[derive(Debug)]
pub struct LogEntry<'a> {
    /// The process.
    pub process: &'a Process,
    /// The position of the reader after the entry.
    pub reader: &'a LogReader,
    /// The entry itself.
    pub item: &'a Item,
}

/// What happens to events while no client listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhileAway {
    /// They are buffered up to this many bytes and replayed; the rest of the output stays in the logs.
    Replay(usize),
    /// They are not read: clients read the logs themselves.
    Pause,
    /// They are discarded: no client can resume.
    Discard,
}

/// How the events of a session are published.
#[derive(Debug, Clone, Copy)]
pub struct EventOptions {
    /// The most output in one event.
    pub chunk_bytes: usize,
    /// The longest line that so much output can become.
    pub line_bytes: usize,
    /// What happens while no client listens.
    pub while_away: WhileAway,
    /// With [`WhileAway::Pause`]: whether the client states from the start that it acknowledges events.
    pub is_acknowledged: bool,
    /// With [`WhileAway::Pause`]: the bytes of sent events that may be unacknowledged. The logs keep at least their output.
    pub window_bytes: usize,
}

impl EventOptions {
    /// Chunks of 64 KiB; up to this many bytes of events are replayed to a client that resumes.
    pub fn replaying(bytes: usize) -> EventOptions {
        let chunk_bytes = 64 * 1024;
        // The longest escape of a byte in JSON has six characters.
        EventOptions {
            chunk_bytes,
            line_bytes: 6 * chunk_bytes + 1024,
            while_away: WhileAway::Replay(bytes),
            is_acknowledged: false,
            window_bytes: 0,
        }
    }
}

/// A process whose log is to be published.
pub struct Follow<E> {
    /// The process.
    pub process: Process,
    /// The reader of its log.
    pub reader: LogReader,
    /// Converts its entries.
    pub events: E,
    /// Output is held back until then, for clients that lose events that arrive too early.
    pub not_before: Option<Instant>,
    /// The gauge of the process, if this session started it.
    pub gauge: Option<ProcessGauge>,
}

/// A message to the publisher.
pub enum PublisherMessage<E> {
    /// Publish the log of a process, to its end. Replaces an earlier reader of the same process.
    Follow(Box<Follow<E>>),
    /// Publish one event; it gets its number when it is its turn.
    Publish(EncodeEvent),
}

/// A change of the listener. Small, because every session has memory for 32 of them.
enum SubscriptionMessage {
    /// Events go there from now on.
    Subscribe(Box<NewListener>),
    /// The listener is gone.
    Unsubscribe(SubscriptionId),
    /// The client has all events up to this one.
    Acknowledge(u64),
    /// The client has this many events of this subscription.
    AcknowledgeReceived(SubscriptionId, u64),
}

/// A listener that receives the events after the last one it has seen.
struct NewListener {
    id: SubscriptionId,
    listener: Listener,
    seen: Option<u64>,
    /// Receives the gap before the first event is sent; the publisher waits until the gap is dropped.
    gap: oneshot::Sender<Result<Gap, NotYet>>,
}

/// The events that a new listener will not receive. Events start when this is dropped.
#[derive(Debug)]
pub struct Gap {
    /// How many events are lost.
    pub lost: u64,
    /// The number of the last lost event.
    pub last_lost: u64,
    _hold: oneshot::Sender<()>,
}

/// A handle to the publisher of a session.
pub struct PublisherHandle<F: Face> {
    messages: mpsc::Sender<PublisherMessage<F::Events>>,
    subscriptions: mpsc::Sender<SubscriptionMessage>,
}

impl<F: Face> PublisherHandle<F> {
    /// Starts the publisher as a task of the session.
    pub(super) fn start(
        session: &SessionHandle<F>,
        core: &Arc<Core>,
        tasks: &Tasks,
        options: EventOptions,
        listener: Option<(SubscriptionId, Outgoing)>,
    ) -> PublisherHandle<F> {
        let (messages, inbox) = mpsc::channel(PUBLISHER_MESSAGES);
        let (subscriptions, changes) = mpsc::channel(SUBSCRIPTION_MESSAGES);
        let listener = listener.map(|(id, outgoing)| (id, Listener::Connection(outgoing)));
        let publisher = Publisher::new(session.clone(), core.clone(), options, listener);
        tasks.spawn(publisher.run(inbox, changes));
        PublisherHandle { messages, subscriptions }
    }

    /// Sends a message; a session that is over publishes nothing.
    pub fn send(&self, message: PublisherMessage<F::Events>) -> impl Future<Output = ()> + Send + use<F> {
        let messages = self.messages.clone();
        async move { drop(messages.send(message).await) }
    }

    /// Publishes one event; `encode` receives its number.
    pub fn publish<E>(&self, encode: E) -> impl Future<Output = ()> + Send + use<F, E>
    where
        E: FnOnce(u64) -> Vec<u8> + Send + 'static,
    {
        self.send(PublisherMessage::Publish(Box::new(encode)))
    }

    /// The same from a thread that may block.
    pub fn publish_blocking(&self, encode: impl FnOnce(u64) -> Vec<u8> + Send + 'static) {
        drop(self.messages.blocking_send(PublisherMessage::Publish(Box::new(encode))));
    }

    pub(super) fn subscribe(
        &self,
        id: SubscriptionId,
        listener: Listener,
        seen: Option<u64>,
    ) -> impl Future<Output = Option<Result<Gap, NotYet>>> + Send + use<F> {
        let subscriptions = self.subscriptions.clone();
        async move {
            let (gap, received) = oneshot::channel();
            let new = Box::new(NewListener { id, listener, seen, gap });
            subscriptions.send(SubscriptionMessage::Subscribe(new)).await.ok()?;
            received.await.ok()
        }
    }

    pub(super) fn acknowledge(&self, event: u64) -> impl Future<Output = ()> + Send + use<F> {
        let subscriptions = self.subscriptions.clone();
        async move { drop(subscriptions.send(SubscriptionMessage::Acknowledge(event)).await) }
    }

    pub(super) fn acknowledge_received(
        &self,
        id: SubscriptionId,
        count: u64,
    ) -> impl Future<Output = ()> + Send + use<F> {
        let subscriptions = self.subscriptions.clone();
        async move { drop(subscriptions.send(SubscriptionMessage::AcknowledgeReceived(id, count)).await) }
    }

    pub(super) fn unsubscribe(&self, id: SubscriptionId) -> impl Future<Output = ()> + Send + use<F> {
        let subscriptions = self.subscriptions.clone();
        async move { drop(subscriptions.send(SubscriptionMessage::Unsubscribe(id)).await) }
    }
}

impl<F: Face> Clone for PublisherHandle<F> {
    fn clone(&self) -> PublisherHandle<F> {
        PublisherHandle { messages: self.messages.clone(), subscriptions: self.subscriptions.clone() }
    }
}

opaque_debug!(Follow<E>, PublisherMessage<E>, PublisherHandle<F: Face>);
