//! The publisher: reads the logs that it follows in turn, numbers their events, and sends them to the listener.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use engine::process::{Item, Process, ProcessId, ProcessSummary};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot, watch};

use super::replay::ReplayBuffer;
use super::{
    EventOptions, Follow, Gap, Listener, LogEntry, NewListener, ProcessEvents, PublisherMessage,
    SubscriptionMessage, WhileAway,
};
use crate::core::Core;
use crate::core::session::{Face, SessionHandle, SessionMessage, SubscriptionId};
use crate::observe::metrics::ProcessGauge;

/// The state of the publisher task.
pub(super) struct Publisher<F: Face> {
    session: SessionHandle<F>,
    core: Arc<Core>,
    options: EventOptions,
    buffer: ReplayBuffer,
    listener: Option<(SubscriptionId, Listener)>,
    streams: FuturesUnordered<BoxFuture<'static, (EventStream<F::Events>, Step)>>,
    current: HashMap<ProcessId, CurrentStream>,
    serial: u64,
    /// The number of the last event before the current listener, if events are not replayed.
    before_listener: u64,
    /// Counts new listeners; streams that wait for output notice a change.
    listeners: watch::Sender<u64>,
    /// Whether a listener may still come.
    is_open: bool,
}

/// The stream of a process that counts; an earlier one ends when this replaces it.
struct CurrentStream {
    serial: u64,
    /// The process, if it waits for this reader.
    process: Option<Process>,
    /// The gauge of the process, if this session started it.
    gauge: Option<ProcessGauge>,
    /// The output that the metrics have counted.
    counted_to: u64,
    _until: oneshot::Sender<()>,
}

/// The log of one process on its way to the listener.
struct EventStream<E> {
    follow: Follow<E>,
    serial: u64,
    until: oneshot::Receiver<()>,
    listeners: watch::Receiver<u64>,
}

/// What a stream waited for.
enum Step {
    Entry(Item),
    /// A client listens again.
    Resubscribed,
}

impl<F: Face> Publisher<F> {
    pub(super) fn new(
        session: SessionHandle<F>,
        core: Arc<Core>,
        options: EventOptions,
        listener: Option<(SubscriptionId, Listener)>,
    ) -> Publisher<F> {
        let mut buffer = ReplayBuffer::new(match options.while_away {
            WhileAway::Replay(bytes) => bytes.max(1),
            WhileAway::Pause | WhileAway::Discard => 0,
        });
        if options.while_away == WhileAway::Pause && options.is_acknowledged {
            buffer.limit_unacknowledged(options.window_bytes);
        }
        Publisher {
            session,
            core,
            options,
            buffer,
            listener,
            streams: FuturesUnordered::new(),
            current: HashMap::new(),
            serial: 0,
            before_listener: 0,
            listeners: watch::Sender::new(0),
            is_open: options.while_away != WhileAway::Discard,
        }
    }

    /// Runs until no message can come and every stream has ended and was sent.
    pub(super) async fn run(
        mut self,
        mut inbox: mpsc::Receiver<PublisherMessage<F::Events>>,
        mut changes: mpsc::Receiver<SubscriptionMessage>,
    ) {
        let mut has_inbox = true;
        loop {
            let unsent = self.unsent();
            let is_idle = unsent.is_none();
            let may_read = self.may_read(is_idle);
            let takes_messages = has_inbox
                && (self.listener.is_none() || is_idle && self.buffer.may_send(self.options.line_bytes));
            if !has_inbox && is_idle && self.streams.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                Some(change) = changes.recv() => self.change(change).await,
                sent = send(self.listener.as_ref(), unsent), if !is_idle => match sent {
                    Ok(()) => self.buffer.sent(),
                    Err(id) => self.listener_closed(id).await,
                },
                id = closed(self.listener.as_ref()) => self.listener_closed(id).await,
                message = inbox.recv(), if takes_messages => match message {
                    Some(message) => self.handle(message),
                    None => {
                        has_inbox = false;
                        self.close();
                    }
                },
                Some((stream, step)) = self.streams.next(), if may_read => self.advance(stream, step).await,
            }
        }
    }

    /// The next event to send. Events that no client will receive are dropped here.
    fn unsent(&mut self) -> Option<(u64, Bytes)> {
        if self.listener.is_none() && (!self.is_open || self.options.while_away == WhileAway::Pause) {
            self.buffer.discard();
        }
        self.listener.as_ref().and_then(|_| self.buffer.unsent())
    }

    /// Whether logs are read: never to hold events here that the logs could hold.
    fn may_read(&self, is_idle: bool) -> bool {
        match (&self.listener, self.options.while_away) {
            (Some(_), _) => is_idle && self.buffer.may_send(self.options.line_bytes),
            (None, _) if !self.is_open => true,
            (None, WhileAway::Replay(_)) => self.buffer.has_capacity(self.options.line_bytes),
            (None, WhileAway::Pause) => false,
            (None, WhileAway::Discard) => true,
        }
    }

    fn handle(&mut self, message: PublisherMessage<F::Events>) {
        match message {
            PublisherMessage::Follow(follow) => self.start_stream(*follow),
            PublisherMessage::Publish(encode) => {
                let line = encode(self.buffer.next_id());
                self.push(line.into());
            }
        }
    }

    fn start_stream(&mut self, mut follow: Follow<F::Events>) {
        self.serial += 1;
        // A second reader of a process that this session started continues its gauge.
        let (before, counted_to) = match self.current.remove(follow.process.id()) {
            Some(before) => (before.gauge, before.counted_to),
            None => (None, 0),
        };
        let gauge = follow.gauge.take().or(before);
        let process = follow.reader.is_primary().then(|| follow.process.clone());
        if let (Some(process), None) = (&process, &self.listener) {
            process.set_reader_disconnected(true);
        }
        let (hold, until) = oneshot::channel();
        let current = CurrentStream { serial: self.serial, process, gauge, counted_to, _until: hold };
        self.current.insert(follow.process.id().clone(), current);
        let listeners = self.listeners.subscribe();
        self.read_next(EventStream { follow, serial: self.serial, until, listeners });
    }

    fn read_next(&mut self, stream: EventStream<F::Events>) {
        self.streams.push(Box::pin(stream.step(self.options.chunk_bytes)));
    }

    fn push(&mut self, line: Bytes) {
        self.buffer.push(line);
        if self.listener.is_none() {
            self.buffer.drop_unsent();
        }
    }

    async fn advance(&mut self, mut stream: EventStream<F::Events>, step: Step) {
        match step {
            Step::Entry(item) => self.publish(stream, item).await,
            Step::Resubscribed => {
                let Follow { events, reader, .. } = &mut stream.follow;
                events.resubscribed(reader);
                self.read_next(stream);
            }
        }
    }

    /// Numbers and queues the events of one entry.
    async fn publish(&mut self, mut stream: EventStream<F::Events>, item: Item) {
        let Follow { process, reader, events, .. } = &mut stream.follow;
        let current = self.current.get_mut(process.id()).filter(|current| current.serial == stream.serial);
        let Some(current) = current else { return };
        let is_own = current.gauge.is_some();
        match &item {
            Item::Output { stream, bytes, next } if is_own => {
                // Output that is published again is counted once.
                let new = next.0.saturating_sub(current.counted_to).min(bytes.len() as u64);
                current.counted_to = current.counted_to.max(next.0);
                self.core.metrics.output_bytes(*stream, new);
            }
            Item::Lost { bytes, .. } => self.core.metrics.lost_bytes(*bytes),
            Item::Output { .. } | Item::Exited { .. } | Item::Closed(_) | Item::Disconnected => {}
        }
        for line in events.encode(&LogEntry { process, reader, item: &item }, self.buffer.next_id()) {
            self.push(line);
        }
        let Follow { process, events, .. } = &stream.follow;
        match item {
            Item::Closed(closed) => {
                let current = self.current.remove(process.id());
                if let Some(gauge) = current.and_then(|current| current.gauge) {
                    gauge.ended(closed.cause);
                }
                // The session that started a process records its end; a keeper records its own.
                if is_own && !process.description().is_detached {
                    self.record_end(events.audit_end(process), &closed);
                }
                let id = process.id().clone();
                self.session
                    .send(SessionMessage::update(move |session| F::process_closed(session, &id)))
                    .await;
            }
            Item::Disconnected => drop(self.current.remove(process.id())),
            Item::Output { .. } | Item::Lost { .. } | Item::Exited { .. } => self.read_next(stream),
        }
    }

    fn record_end(&self, (operation, details): (&'static str, super::Details), closed: &ProcessSummary) {
        self.core.audit.record(self.session.requester.end_record(operation, details, closed));
    }

    async fn change(&mut self, change: SubscriptionMessage) {
        match change {
            SubscriptionMessage::Unsubscribe(id) => {
                if self.listener.as_ref().is_some_and(|(current, _)| *current == id) {
                    self.remove_listener();
                }
            }
            SubscriptionMessage::Acknowledge(event) => self.buffer.acknowledge(event),
            SubscriptionMessage::AcknowledgeReceived(id, count) => {
                // An earlier connection counted other events.
                let is_current = self.listener.as_ref().is_some_and(|(current, _)| *current == id);
                if is_current && self.options.while_away == WhileAway::Pause {
                    self.buffer.limit_unacknowledged(self.options.window_bytes);
                    self.buffer.acknowledge(self.before_listener.saturating_add(count));
                }
            }
            SubscriptionMessage::Subscribe(new) => {
                let NewListener { id, listener, seen, gap } = *new;
                if self.options.while_away == WhileAway::Pause {
                    // The client reads the logs for what it has not received, and states again that it acknowledges.
                    self.buffer.forget_sent();
                    self.before_listener = self.buffer.last_sent();
                }
                let rewound = match seen {
                    Some(seen) => self.buffer.rewind(seen).map(|lost| (seen, lost)),
                    None => Ok((self.buffer.last_sent(), self.buffer.resume())),
                };
                let (hold, started) = oneshot::channel();
                match rewound {
                    Ok((seen, lost)) => {
                        if gap.send(Ok(Gap { lost, last_lost: seen + lost, _hold: hold })).is_err() {
                            return;
                        }
                        // The response to the subscriber goes out before the first event.
                        started.await.ok();
                        self.listener = Some((id, listener));
                        self.listeners.send_modify(|count| *count += 1);
                        self.set_away(false);
                    }
                    Err(not_yet) => {
                        let is_connection = |listener: &Listener| matches!(listener, Listener::Connection(_));
                        let before =
                            self.listener.as_ref().map(|(id, listener)| (*id, is_connection(listener)));
                        let refused = move |session: &mut crate::core::session::Session<F>| {
                            session.subscription_refused(id, before);
                        };
                        self.session.send(SessionMessage::update(refused)).await;
                        drop(gap.send(Err(not_yet)));
                    }
                }
            }
        }
    }

    /// The listener closed without an unsubscription.
    async fn listener_closed(&mut self, id: SubscriptionId) {
        self.remove_listener();
        self.session.send(SessionMessage::update(move |session| session.unsubscribed(id))).await;
    }

    fn remove_listener(&mut self) {
        self.listener = None;
        self.set_away(true);
    }

    /// No message will come, so no listener will either. Processes that the session only watched continue without it.
    fn close(&mut self) {
        self.is_open = false;
        self.current.retain(|_, current| current.process.is_some());
    }

    fn set_away(&self, is_away: bool) {
        for process in self.current.values().filter_map(|current| current.process.as_ref()) {
            process.set_reader_disconnected(is_away);
        }
    }
}

impl<E: ProcessEvents> EventStream<E> {
    /// Waits for the next entry of the log.
    async fn step(mut self, max: usize) -> (EventStream<E>, Step) {
        let Follow { reader, events, not_before, .. } = &mut self.follow;
        if let Some(moment) = not_before.take() {
            tokio::time::sleep_until(moment).await;
        }
        events.before_read(reader);
        let step = tokio::select! {
            biased;
            Ok(()) = self.listeners.changed() => Step::Resubscribed,
            item = reader.next(max) => Step::Entry(item),
            _replaced = &mut self.until => Step::Entry(Item::Disconnected),
        };
        (self, step)
    }
}

/// Sends one event to the listener; fails with its id when it is closed.
async fn send(
    listener: Option<&(SubscriptionId, Listener)>,
    unsent: Option<(u64, Bytes)>,
) -> Result<(), SubscriptionId> {
    match (listener, unsent) {
        (Some((id, listener)), Some((number, line))) => {
            listener.send(number, line).await.map_err(|_closed| *id)
        }
        _ => std::future::pending().await,
    }
}

/// Waits until the listener is closed.
async fn closed(listener: Option<&(SubscriptionId, Listener)>) -> SubscriptionId {
    match listener {
        Some((id, listener)) => {
            listener.closed().await;
            *id
        }
        None => std::future::pending().await,
    }
}
