//! Where the events of a session are sent.

use bytes::Bytes;
use link::Outgoing;
use tokio::sync::mpsc;

/// One event for an event stream: its number, if it has one, and the whole notification.
#[derive(Debug, Clone)]
pub struct StreamEvent {
    /// The number to resume after.
    pub event_id: Option<u64>,
    /// The notification.
    pub line: Bytes,
}

/// The listener no longer receives events.
#[derive(Debug)]
pub(super) struct ListenerClosed;

/// A receiver of events.
#[derive(Debug, Clone)]
pub enum Listener {
    /// The connection that also carries the requests.
    Connection(Outgoing),
    /// A stream that carries only events.
    Stream(mpsc::Sender<StreamEvent>),
}

impl Listener {
    /// Sends one event, and waits while the listener is slow. If this future is dropped, nothing was sent.
    pub(super) async fn send(&self, event_id: u64, line: Bytes) -> Result<(), ListenerClosed> {
        match self {
            Listener::Connection(outgoing) => outgoing.event(line).await.map_err(|_closed| ListenerClosed),
            Listener::Stream(stream) => {
                let event = StreamEvent { event_id: Some(event_id), line: wire::binary::to_text(line) };
                stream.send(event).await.map_err(|_closed| ListenerClosed)
            }
        }
    }

    /// Waits until the listener is closed.
    pub(super) async fn closed(&self) {
        match self {
            Listener::Connection(outgoing) => outgoing.closed().await,
            Listener::Stream(stream) => stream.closed().await,
        }
    }
}
