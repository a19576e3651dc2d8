//! The feed: stored events to the apps that want them, each through a bounded queue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use link::Outgoing;
use tokio::sync::mpsc;
use wire::hub::v1::kind;

/// Messages queued for one app; further ones are dropped, and the app receives `app.resync`.
const QUEUED_MESSAGES: usize = 4096;
/// Bytes queued for one app; further messages are dropped, and the app receives `app.resync`.
const QUEUED_BYTES: usize = 8 << 20;

/// The number of an app's connection; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(u64);

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

/// A message in the queue of an app.
#[derive(Debug)]
pub enum AppMessage {
    /// An event of a run.
    Event(LiveEvent),
    /// Any other message.
    Frame(Bytes),
}

impl AppMessage {
    fn bytes(&self) -> usize {
        match self {
            AppMessage::Event(event) => event.frame.len(),
            AppMessage::Frame(frame) => frame.len(),
        }
    }
}

/// The apps of this node.
#[derive(Debug, Clone, Default)]
pub struct Feed(Arc<Mutex<FeedState>>);

#[derive(Debug, Default)]
struct FeedState {
    apps: HashMap<AppId, AppEntry>,
    last_id: u64,
}

#[derive(Debug)]
struct AppEntry {
    queue: mpsc::Sender<AppMessage>,
    counters: Arc<QueueCounters>,
    /// For responses, which are not queued behind events.
    outgoing: Outgoing,
    /// `None` until the app subscribes for the first time: then it receives everything.
    runs: Option<HashMap<String, bool>>,
}

#[derive(Debug, Default)]
struct QueueCounters {
    bytes: AtomicUsize,
    dropped: AtomicU64,
}

impl Feed {
    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an app, which receives every message from now on.
    pub fn connect(&self, outgoing: Outgoing) -> AppQueue {
        let (sender, receiver) = mpsc::channel(QUEUED_MESSAGES);
        let counters = Arc::new(QueueCounters::default());
        let mut state = self.state();
        state.last_id += 1;
        let id = AppId(state.last_id);
        let entry = AppEntry { queue: sender, counters: counters.clone(), outgoing, runs: None };
        state.apps.insert(id, entry);
        drop(state);
        AppQueue { id, receiver, counters, feed: self.clone() }
    }

    /// Sends output and operations of a run to an app that subscribed, with or without output.
    pub fn subscribe(&self, app: AppId, run: &str, with_output: bool, replaces: bool) {
        if let Some(entry) = self.state().apps.get_mut(&app) {
            let runs = entry.runs.get_or_insert_default();
            if replaces {
                runs.clear();
            }
            runs.insert(run.to_owned(), with_output);
        }
    }

    /// Stops sending output and operations of a run to an app.
    pub fn unsubscribe(&self, app: AppId, run: &str) {
        if let Some(entry) = self.state().apps.get_mut(&app) {
            entry.runs.get_or_insert_default().remove(run);
        }
    }

    /// Queues events for every app that wants them.
    pub fn publish(&self, events: &[LiveEvent]) {
        let state = self.state();
        for event in events {
            for app in state.apps.values().filter(|app| app.wants(event)) {
                app.push(AppMessage::Event(event.clone()));
            }
        }
    }

    /// Queues a message for every app.
    pub fn publish_frame(&self, frame: &Bytes) {
        for app in self.state().apps.values() {
            app.push(AppMessage::Frame(frame.clone()));
        }
    }

    /// Sends a response to one app. False if the app is gone or does not read.
    pub fn respond(&self, app: AppId, frame: Bytes) -> bool {
        let outgoing = self.state().apps.get(&app).map(|entry| entry.outgoing.clone());
        outgoing.is_some_and(|outgoing| outgoing.try_respond(frame).is_ok())
    }

    /// The number of connected apps.
    pub fn apps(&self) -> usize {
        self.state().apps.len()
    }
}

impl AppEntry {
    fn wants(&self, event: &LiveEvent) -> bool {
        let Some(runs) = &self.runs else { return true };
        match (event.class, runs.get(&*event.run_id)) {
            (EventClass::State, _) | (EventClass::Tool, Some(_)) => true,
            (EventClass::Output, Some(with_output)) => *with_output,
            (EventClass::Output | EventClass::Tool, None) => false,
        }
    }

    fn push(&self, message: AppMessage) {
        let bytes = message.bytes();
        let queued = self.counters.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if queued > QUEUED_BYTES.max(bytes) || self.queue.try_send(message).is_err() {
            self.counters.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The queue of one app. Dropping it removes the app.
#[derive(Debug)]
pub struct AppQueue {
    /// The number of the app's connection.
    pub id: AppId,
    receiver: mpsc::Receiver<AppMessage>,
    counters: Arc<QueueCounters>,
    feed: Feed,
}

impl AppQueue {
    /// The next message, and how many were dropped before it. Nothing is lost if this future is dropped.
    pub async fn next(&mut self) -> (AppMessage, u64) {
        match self.receiver.recv().await {
            Some(message) => {
                self.counters.bytes.fetch_sub(message.bytes(), Ordering::Relaxed);
                (message, self.counters.dropped.swap(0, Ordering::Relaxed))
            }
            // The feed keeps the sender as long as this queue exists.
            None => std::future::pending().await,
        }
    }
}

impl Drop for AppQueue {
    fn drop(&mut self) {
        self.feed.state().apps.remove(&self.id);
    }
}
