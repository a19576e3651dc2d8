//! The connections of a session: the one it is on, the next one that resumes it, and event streams.

use link::Outgoing;
use serde::Serialize;
use std::sync::atomic::Ordering;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::liveness::{SessionLiveness, Subscriber, SubscriptionId};
use super::{Face, FirstListener, Session, SessionMessage};
use crate::core::events::{Gap, Listener, NotYet};
use crate::core::responder::Responder;

/// A connection as a session has it.
pub struct SessionConnection {
    /// Where events go.
    pub outgoing: Outgoing,
    /// Closes the connection when another resumes the session, for connections that may be taken over: on standard
    /// streams, and where a client resumes only after its own connection broke.
    pub hang_up: Option<CancellationToken>,
}

/// Which connections a session has and had.
pub(super) struct Connections {
    pub(super) liveness: SessionLiveness,
    pub(super) is_resumable: bool,
    first: Option<Outgoing>,
    /// How to close the connections that another one may replace.
    hang_ups: Vec<(SubscriptionId, CancellationToken)>,
}

impl Connections {
    pub(super) fn new(connection: Option<SessionConnection>, is_resumable: bool) -> Connections {
        let (first, hang_up) = connection.map(|connection| (connection.outgoing, connection.hang_up)).unzip();
        Connections {
            liveness: match &first {
                Some(_) => SessionLiveness::connected(is_resumable),
                None => SessionLiveness::unsubscribed(is_resumable),
            },
            is_resumable,
            first,
            hang_ups: hang_up.flatten().map(|hang_up| (SubscriptionId::FIRST, hang_up)).into_iter().collect(),
        }
    }

    pub(super) fn first_listener(&mut self) -> FirstListener {
        self.first.take().map(|outgoing| (SubscriptionId::FIRST, outgoing))
    }

    pub(super) fn release(&mut self) {
        self.first = None;
    }
}

/// A subscription that is being set up.
pub struct Resumption {
    /// Identifies the new connection or event stream.
    pub id: SubscriptionId,
    /// Resolves before the first event is sent: the events that are lost, or that the client named an event that has
    /// not happened. `None` if the session is over. Events start when the gap is dropped.
    pub gap: futures_util::future::BoxFuture<'static, Option<Result<Gap, NotYet>>>,
    /// Closes the connections that this one replaces.
    pub replaced: Vec<CancellationToken>,
}

impl<F: Face> SessionMessage<F> {
    /// Resumes the session on a connection after the last event that the client has seen. The response is `result` of
    /// the number of lost events; events follow it. Also returns where the id of the connection arrives.
    pub fn resume<T: Serialize + Send + 'static>(
        connection: SessionConnection,
        seen: u64,
        responder: Responder,
        result: impl FnOnce(u64) -> T + Send + 'static,
    ) -> (SessionMessage<F>, oneshot::Receiver<SubscriptionId>) {
        let (taken, id) = oneshot::channel();
        let message = SessionMessage::complete(responder, move |session: &mut Session<F>, responder| {
            let resumption = session.connect(connection, Some(seen));
            taken.send(resumption.id).ok();
            session.count_resumed();
            let closed = F::session_closed(&session.id);
            session.spawn(async move {
                match resumption.gap.await {
                    Some(Ok(gap)) => {
                        responder.send(Ok(result(gap.lost))).await;
                        drop(gap);
                    }
                    Some(Err(NotYet)) | None => responder.reject(closed).await,
                }
            });
        });
        (message, id)
    }
}

impl<F: Face> Session<F> {
    /// Whether a connection has the session.
    pub fn is_connected(&self) -> bool {
        self.connections.liveness.is_connected()
    }

    /// Closes the connection that has the session, if it may be taken over; false if it may not.
    pub fn hang_up(&self) -> bool {
        let current = self.connections.liveness.subscriber();
        let hang_up = self.connections.hang_ups.iter().find(|(id, _)| Some(*id) == current);
        hang_up.map(|(_, hang_up)| hang_up.cancel()).is_some()
    }

    /// Whether the connection that has the session may be taken over.
    pub fn can_be_taken_over(&self) -> bool {
        let current = self.connections.liveness.subscriber();
        self.connections.hang_ups.iter().any(|(id, _)| Some(*id) == current)
    }

    /// Sends events to a connection from now on, after the last event it has seen.
    pub fn connect(&mut self, connection: SessionConnection, seen: Option<u64>) -> Resumption {
        let SessionConnection { outgoing, hang_up } = connection;
        let replaced = self.connections.hang_ups.iter().map(|(_, hang_up)| hang_up.clone()).collect();
        let mut resumption = self.subscribe(Listener::Connection(outgoing), true, seen);
        resumption.replaced = replaced;
        self.connections.hang_ups.extend(hang_up.map(|hang_up| (resumption.id, hang_up)));
        resumption
    }

    /// Sends events to an event stream from now on. Any earlier event stream receives no more.
    pub fn subscribe(&mut self, listener: Listener, is_connection: bool, seen: Option<u64>) -> Resumption {
        let id = self.connections.liveness.subscribe(is_connection);
        self.handle.disconnected_since.store(0, Ordering::Relaxed);
        let metrics = self.core.metrics.clone();
        let subscribing = self.events().subscribe(id, listener, seen);
        let gap = Box::pin(async move {
            let gap = subscribing.await?;
            if let Ok(gap) = &gap {
                metrics.lost_events(gap.lost);
            }
            Some(gap)
        });
        Resumption { id, gap, replaced: Vec::new() }
    }

    /// The client has all events up to this one. It may state so before anything is published.
    pub fn acknowledge(&mut self, event: u64) -> impl Future<Output = ()> + Send + use<F> {
        self.publisher().acknowledge(event)
    }

    /// The client has received this many events on its connection, of a session whose events are not replayed. Its connection
    /// has stated that it acknowledges.
    pub fn acknowledge_received(
        &mut self,
        id: SubscriptionId,
        count: u64,
    ) -> impl Future<Output = ()> + Send + use<F> {
        let acknowledged = self.events.as_ref().map(|events| events.acknowledge_received(id, count));
        async move {
            if let Some(acknowledged) = acknowledged {
                acknowledged.await;
            }
        }
    }

    /// Counts the session as resumed.
    pub fn count_resumed(&mut self) {
        self.gauge.set_resumed();
    }

    /// Counts the session as subscribed to.
    pub fn count_subscribed(&mut self) {
        self.gauge.set_attached();
    }

    /// The connection is gone.
    pub(super) fn disconnect(&mut self, id: SubscriptionId) {
        let was_subscribed = self.connections.liveness.subscriber() == Some(id);
        self.unsubscribed(id);
        match &self.events {
            Some(events) => {
                let cut = events.unsubscribe(id);
                self.spawn(cut);
            }
            None => self.connections.release(),
        }
        if was_subscribed {
            F::disconnected(self);
        }
    }

    /// The connection or event stream receives no more events.
    pub(in crate::core) fn unsubscribed(&mut self, id: SubscriptionId) {
        self.connections.liveness.unsubscribe(id);
        self.forget_connection(id);
    }

    /// The subscription was refused; the one before it stays.
    pub(in crate::core) fn subscription_refused(&mut self, id: SubscriptionId, before: Option<Subscriber>) {
        self.connections.liveness.restore(id, before);
        self.forget_connection(id);
    }

    fn forget_connection(&mut self, id: SubscriptionId) {
        self.connections.hang_ups.retain(|(known, _)| *known != id);
        if !self.connections.liveness.is_subscribed() {
            let since = self.face.sessions().next_disconnection();
            self.handle.disconnected_since.store(since, Ordering::Relaxed);
            self.gauge.set_waiting();
        }
    }
}

opaque_debug!(SessionConnection, Resumption);
