//! Listener: where the events of a session go.

use bytes::Bytes;
use link::Outgoing;
use tokio::sync::mpsc;

use super::web::Told;

/// Nobody hears it.
#[derive(Debug)]
pub(super) struct Gone;

/// Where events go.
#[derive(Debug, Clone)]
pub(super) enum Listener {
    /// Along the link on which the requests come.
    Link(Outgoing),
    /// To somebody who only listens.
    Stream(mpsc::Sender<Told>),
}

impl Listener {
    /// Tells one event. Waits while the listener is slow; dropped while it waits, nothing was told.
    pub(super) async fn tell(&self, event_id: u64, line: Bytes) -> Result<(), Gone> {
        match self {
            Listener::Link(outgoing) => outgoing.event(line).await.map_err(|_closed| Gone),
            Listener::Stream(stream) => {
                stream.send(Told { event_id: Some(event_id), line }).await.map_err(|_dropped| Gone)
            }
        }
    }

    /// Waits until nobody hears it any more.
    pub(super) async fn gone(&self) {
        match self {
            Listener::Link(outgoing) => outgoing.closed().await,
            Listener::Stream(stream) => stream.closed().await,
        }
    }
}
