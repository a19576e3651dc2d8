//! The feed: stored events to the apps that want them, each through a bounded queue.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use link::{Outgoing, TryRespondError};
use tokio::sync::mpsc;
use wire::hub::v1::kind;

/// Messages queued for one app; further ones are dropped, and the app receives `app.resync`.
const QUEUED_MESSAGES: usize = 4096;
/// Bytes queued for one app; further messages are dropped, and the app receives `app.resync`.
const QUEUED_BYTES: usize = 8 << 20;

/// The number of an app's connection; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(u64);

#[cfg(test)]
impl AppId {
    pub(crate) fn numbered(number: u64) -> AppId {
        AppId(number)
    }
}

/// A stored event on its way to apps.
#[derive(Debug, Clone)]
pub struct LiveEvent {
    /// The run it belongs to.
    pub run_id: Arc<str>,
    /// Its number in the run.
    pub seq: i64,
    /// Its type as far as it matters to subscriptions.
    pub class: EventClass,
    /// The message for apps.
    pub frame: Bytes,
}

/// Which apps want an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventClass {
    /// Apps that watch the run and its output.
    Output,
    /// Apps that watch the run.
    Tool,
    /// Every app.
    State,
}

impl EventClass {
    /// The class of an event type.
    pub fn of(event: &str) -> EventClass {
        match event {
            kind::RUN_OUTPUT => EventClass::Output,
            kind::TOOL_CALL | kind::TOOL_RESULT => EventClass::Tool,
            _ => EventClass::State,
        }
    }
}

/// A message for an app.
#[derive(Debug)]
pub enum AppMessage {
    /// An event of a run.
    Event(LiveEvent),
    /// Any other message.
    Frame(Bytes),
    /// The node may have missed events: stored positions are compared.
    Resync,
}

impl AppMessage {
    fn bytes(&self) -> usize {
        match self {
            AppMessage::Event(event) => event.frame.len(),
            AppMessage::Frame(frame) => frame.len(),
            AppMessage::Resync => 0,
        }
    }
}

/// Messages that are queued for an app at once, so that its task is woken up once.
type AppMessages = Vec<AppMessage>;

/// The apps of this node.
#[derive(Debug, Clone, Default)]
pub struct Feed(Arc<Mutex<FeedState>>);

#[derive(Debug, Default)]
struct FeedState {
    apps: HashMap<AppId, AppEntry>,
    /// Apps that have not subscribed yet.
    unsubscribed: HashSet<AppId>,
    /// The apps that watch each run, so that an event is not compared with every app.
    watchers: HashMap<String, Vec<AppId>>,
    last_id: u64,
    /// Receives the events that change the state of a run, for notices.
    observer: Option<mpsc::Sender<LiveEvent>>,
}

#[derive(Debug)]
struct AppEntry {
    queue: mpsc::Sender<AppMessages>,
    counters: Arc<QueueCounters>,
    /// For responses, which are not queued behind events.
    outgoing: Outgoing,
    /// `None` until the app subscribes for the first time: then it receives everything.
    runs: Option<HashMap<String, bool>>,
    /// The only run whose events the app may receive.
    only: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct QueueCounters {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    dropped: AtomicU64,
}

impl Feed {
    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an app, which receives every message from now on; with `only`, nothing but the events of this run.
    pub fn connect(&self, outgoing: Outgoing, only: Option<Arc<str>>) -> AppQueue {
        let (sender, receiver) = mpsc::channel(QUEUED_MESSAGES);
        let counters = Arc::new(QueueCounters::default());
        let mut state = self.state();
        state.last_id += 1;
        let id = AppId(state.last_id);
        let entry = AppEntry { queue: sender, counters: counters.clone(), outgoing, runs: None, only };
        state.apps.insert(id, entry);
        state.unsubscribed.insert(id);
        drop(state);
        AppQueue { id, receiver, taken: Vec::new().into_iter(), counters, feed: self.clone() }
    }

    /// Sends output and operations of a run to an app that subscribed, with or without output.
    pub fn subscribe(&self, app: AppId, run: &str, with_output: bool, replaces: bool) {
        let mut state = self.state();
        if replaces {
            state.unwatch_all(app);
        }
        let Some(runs) = state.runs_of(app) else { return };
        if runs.insert(run.to_owned(), with_output).is_none() {
            state.watchers.entry(run.to_owned()).or_default().push(app);
        }
    }

    /// Stops sending output and operations of a run to an app.
    pub fn unsubscribe(&self, app: AppId, run: &str) {
        let mut state = self.state();
        if state.runs_of(app).is_some_and(|runs| runs.remove(run).is_some()) {
            state.unwatch(app, run);
        }
    }

    /// The events that change the state of a run, from now on. They are dropped while the queue is full.
    pub fn observe(&self) -> mpsc::Receiver<LiveEvent> {
        let (sender, receiver) = mpsc::channel(QUEUED_MESSAGES);
        self.state().observer = Some(sender);
        receiver
    }

    /// Queues events for every app that wants them.
    pub fn publish(&self, events: &[LiveEvent]) {
        let state = self.state();
        let mut wanted: HashMap<AppId, AppMessages> = HashMap::new();
        for event in events {
            if let Some(observer) = state.observer.as_ref().filter(|_| event.class == EventClass::State)
                && observer.try_send(event.clone()).is_err()
            {
                tracing::warn!(run = &*event.run_id, "too many events at a time: no notice is sent for one");
            }
            let mut add = |(id, app): (&AppId, &AppEntry)| {
                if app.wants(event) {
                    wanted.entry(*id).or_default().push(AppMessage::Event(event.clone()));
                }
            };
            match event.class {
                EventClass::State => state.apps.iter().for_each(add),
                EventClass::Output | EventClass::Tool => {
                    let watchers = state.watchers.get(&*event.run_id).into_iter().flatten();
                    for id in state.unsubscribed.iter().chain(watchers) {
                        state.apps.get_key_value(id).into_iter().for_each(&mut add);
                    }
                }
            }
        }
        for (id, messages) in wanted {
            if let Some(app) = state.apps.get(&id) {
                app.push_all(messages);
            }
        }
    }

    /// Queues a message for every app.
    pub fn publish_frame(&self, frame: &Bytes) {
        for app in self.state().apps.values().filter(|app| app.only.is_none()) {
            app.push(AppMessage::Frame(frame.clone()));
        }
    }

    /// Lets every app compare its positions with the store, because events may have been missed.
    pub fn resync(&self) {
        for app in self.state().apps.values() {
            app.push(AppMessage::Resync);
        }
    }

    /// Sends a response to one app, ahead of its events if there is room. Otherwise it is queued with them, and if this queue
    /// is full too, it counts as dropped: the app receives `app.resync`.
    pub fn respond(&self, app: AppId, frame: Bytes) {
        let state = self.state();
        let Some(entry) = state.apps.get(&app) else { return };
        match entry.outgoing.try_respond(frame) {
            Err(TryRespondError::Full(frame)) => entry.push(AppMessage::Frame(frame)),
            Ok(()) | Err(TryRespondError::Closed) => {}
        }
    }

    /// The number of connected apps.
    pub fn apps(&self) -> usize {
        self.state().apps.len()
    }
}

impl FeedState {
    /// The runs that an app watches; from then on it counts as subscribed. `None` if the app is gone.
    fn runs_of(&mut self, app: AppId) -> Option<&mut HashMap<String, bool>> {
        self.unsubscribed.remove(&app);
        Some(self.apps.get_mut(&app)?.runs.get_or_insert_default())
    }

    fn unwatch(&mut self, app: AppId, run: &str) {
        if let Some(apps) = self.watchers.get_mut(run) {
            apps.retain(|watching| *watching != app);
            if apps.is_empty() {
                self.watchers.remove(run);
            }
        }
    }

    fn unwatch_all(&mut self, app: AppId) {
        let runs = self.apps.get_mut(&app).and_then(|entry| entry.runs.as_mut()).map(std::mem::take);
        for run in runs.unwrap_or_default().keys() {
            self.unwatch(app, run);
        }
    }
}

impl AppEntry {
    fn wants(&self, event: &LiveEvent) -> bool {
        if self.only.as_ref().is_some_and(|only| *only != event.run_id) {
            return false;
        }
        let Some(runs) = &self.runs else { return true };
        match (event.class, runs.get(&*event.run_id)) {
            (EventClass::State, _) | (EventClass::Tool, Some(_)) => true,
            (EventClass::Output, Some(with_output)) => *with_output,
            (EventClass::Output | EventClass::Tool, None) => false,
        }
    }

    fn push(&self, message: AppMessage) {
        self.push_all(vec![message]);
    }

    /// Queues the messages for which there is room.
    fn push_all(&self, mut messages: AppMessages) {
        messages.retain(|message| self.counters.add(message));
        // It has room for each message alone, so it is never full, and it is not closed before the app is removed.
        if !messages.is_empty() && self.queue.try_send(messages).is_err() {
            tracing::error!("the queue of an app is full before its limit");
        }
    }
}

impl QueueCounters {
    /// Counts a message as queued, or as dropped if there is no room for it.
    fn add(&self, message: &AppMessage) -> bool {
        let bytes = message.bytes();
        let queued = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let messages = self.messages.fetch_add(1, Ordering::Relaxed) + 1;
        let has_room = queued <= QUEUED_BYTES.max(bytes) && messages <= QUEUED_MESSAGES;
        if !has_room {
            self.remove(message);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    fn remove(&self, message: &AppMessage) {
        self.bytes.fetch_sub(message.bytes(), Ordering::Relaxed);
        self.messages.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The queue of one app. Dropping it removes the app.
#[derive(Debug)]
pub struct AppQueue {
    /// The number of the app's connection.
    pub id: AppId,
    receiver: mpsc::Receiver<AppMessages>,
    /// Messages that were queued at once, the first ones taken.
    taken: std::vec::IntoIter<AppMessage>,
    counters: Arc<QueueCounters>,
    feed: Feed,
}

impl AppQueue {
    /// The next message, and how many were dropped before it. Nothing is lost if this future is dropped.
    pub async fn next(&mut self) -> (AppMessage, u64) {
        loop {
            if let Some(message) = self.taken.next() {
                self.counters.remove(&message);
                return (message, self.counters.dropped.swap(0, Ordering::Relaxed));
            }
            match self.receiver.recv().await {
                Some(messages) => self.taken = messages.into_iter(),
                // The feed keeps the sender as long as this queue exists.
                None => std::future::pending().await,
            }
        }
    }
}

impl Drop for AppQueue {
    fn drop(&mut self) {
        let mut state = self.feed.state();
        state.unwatch_all(self.id);
        state.unsubscribed.remove(&self.id);
        state.apps.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use link::{Incoming, Limits, memory};

    use super::*;

    #[tokio::test]
    async fn a_response_without_room_is_queued_and_one_that_is_dropped_is_counted() {
        let (link, mut peer) = memory::pair(&Limits { control_slots: 1, ..Limits::default() });
        let feed = Feed::default();
        let mut queue = feed.connect(link.outgoing, None);
        // More than the lane and the queue hold, to an app that does not read.
        let total = 2 * QUEUED_MESSAGES;
        for number in 0..total {
            feed.respond(queue.id, Bytes::from(number.to_string()));
        }
        let (mut received, mut dropped) = (0, 0);
        while received + dropped < total {
            tokio::select! {
                biased;
                (message, missed) = queue.next() => {
                    assert!(matches!(message, AppMessage::Frame(_)), "{message:?}");
                    received += 1;
                    dropped += usize::try_from(missed).unwrap();
                }
                message = peer.incoming.recv() => {
                    assert!(matches!(message, Some(Incoming::Message(_))), "{message:?}");
                    received += 1;
                }
            }
        }
        assert!(received > QUEUED_MESSAGES && dropped > 0, "{received} received, {dropped} dropped");
        assert_eq!(queue.counters.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(queue.counters.messages.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn events_of_one_transaction_are_counted_one_by_one() {
        let (link, _peer) = memory::pair(&Limits::default());
        let feed = Feed::default();
        let mut queue = feed.connect(link.outgoing, None);
        let event = |seq: i64, bytes: usize| LiveEvent {
            run_id: "r".into(),
            seq,
            class: EventClass::Output,
            frame: Bytes::from(vec![b'x'; bytes]),
        };
        let limit = i64::try_from(QUEUED_MESSAGES).unwrap();
        feed.publish(&(1..=limit + 3).map(|seq| event(seq, 1)).collect::<Vec<_>>());
        for expected in 1..=limit {
            let (message, dropped) = queue.next().await;
            assert!(matches!(message, AppMessage::Event(event) if event.seq == expected));
            // One is taken, so there is room for one of the next two.
            if expected == 1 {
                feed.publish(&[event(limit + 4, 1), event(limit + 5, 1)]);
            }
            assert_eq!(dropped, [0, 3, 1].get(usize::try_from(expected).unwrap()).copied().unwrap_or(0));
        }
        assert!(matches!(queue.next().await.0, AppMessage::Event(event) if event.seq == limit + 4));
        // By bytes: the first two fit, and one that is larger than the limit fits alone.
        let third = QUEUED_BYTES / 3 + 1;
        feed.publish(&[event(1, third), event(2, third), event(3, third)]);
        assert_eq!(queue.next().await.1, 1);
        queue.next().await;
        feed.publish(&[event(4, QUEUED_BYTES + 1), event(5, 1)]);
        assert_eq!(queue.next().await.1, 1);
        assert_eq!(queue.counters.bytes.load(Ordering::Relaxed), 0);
    }
}
