//! Ingest: the events of all hosts are stored in common transactions, acknowledged after their commit, and published.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::auth::now_ms;
use crate::feed::{EventClass, Feed, LiveEvent};
use crate::runs::HostEvent;
use crate::store::{EventBatch, RunProgress, Store, StoreError, WrittenBatch};

/// Batches that wait for the writer; senders wait when it is full.
const QUEUED_BATCHES: usize = 256;
/// Events of one transaction; further ones wait for the next.
const EVENTS_PER_TRANSACTION: usize = 4096;
/// A transaction that failed because of its connection is repeated after these times.
const RETRIES: [Duration; 4] =
    [Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];
/// The time for which events beyond a gap are held back from apps. Then the gap is unlikely to be filled.
const GAP_PATIENCE: Duration = Duration::from_secs(30);
/// Runs whose published position is remembered; beyond it, all are forgotten.
const REMEMBERED_RUNS: usize = 100_000;
/// Stored events that are read at once to publish them.
const READ_AT_ONCE: i64 = 500;

/// The events could not be stored; the connection that sent them ends, and its host sends them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the hub cannot store events at the moment")]
pub struct NotStored;

/// Sends events to the writer.
#[derive(Debug, Clone)]
pub struct Ingest {
    batches: mpsc::Sender<SubmittedBatch>,
}

#[derive(Debug)]
struct SubmittedBatch {
    batch: EventBatch,
    written: oneshot::Sender<Result<WrittenBatch, NotStored>>,
}

impl Ingest {
    /// The writer of this node. The future runs it until every [`Ingest`] is dropped; run it on a task.
    pub fn new(store: Store, feed: Feed) -> (Ingest, impl Future<Output = ()> + Send + 'static) {
        let (batches, inbox) = mpsc::channel(QUEUED_BATCHES);
        let writer = Writer { store, feed, published: HashMap::new(), gaps: HashMap::new() };
        (Ingest { batches }, writer.run(inbox))
    }

    /// Stores events, and publishes them to apps. Returns after the commit.
    pub async fn store(&self, batch: EventBatch) -> Result<WrittenBatch, NotStored> {
        let (written, outcome) = oneshot::channel();
        self.batches.send(SubmittedBatch { batch, written }).await.map_err(|_| NotStored)?;
        outcome.await.map_err(|_| NotStored)?
    }
}

struct Writer {
    store: Store,
    feed: Feed,
    /// The last published event of each run. Kept apart from the outcome of a transaction: whether a transaction whose
    /// connection was cut is committed is not known, and its repeat finds nothing new to store.
    published: HashMap<String, i64>,
    /// Since when a run has a gap.
    gaps: HashMap<String, Instant>,
}

impl Writer {
    async fn run(mut self, mut inbox: mpsc::Receiver<SubmittedBatch>) {
        while let Some(first) = inbox.recv().await {
            let mut events = first.batch.events.len();
            let (mut batches, mut replies) = (vec![first.batch], vec![first.written]);
            while events < EVENTS_PER_TRANSACTION
                && let Ok(next) = inbox.try_recv()
            {
                events += next.batch.events.len();
                batches.push(next.batch);
                replies.push(next.written);
            }
            match self.write(&batches).await {
                Ok(written) => {
                    self.publish(&batches, &written).await;
                    for (reply, written) in replies.into_iter().zip(written) {
                        // The connection may have ended.
                        reply.send(Ok(written)).ok();
                    }
                }
                Err(error) => {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        events,
                        "storing events failed"
                    );
                    for reply in replies {
                        reply.send(Err(NotStored)).ok();
                    }
                }
            }
        }
    }

    async fn write(&mut self, batches: &[EventBatch]) -> Result<Vec<WrittenBatch>, StoreError> {
        let mut retries = RETRIES.iter();
        loop {
            let error = match self.store.write_events(batches, now_ms()).await {
                Ok(written) => return Ok(written),
                Err(error) => error,
            };
            match retries.next().filter(|_| error.is_transient()) {
                Some(delay) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "storing events failed; trying again"
                    );
                    tokio::time::sleep(*delay).await;
                }
                None => return Err(error),
            }
        }
    }

    async fn publish(&mut self, batches: &[EventBatch], written: &[WrittenBatch]) {
        let mut received: HashMap<(&str, i64), &HostEvent> = HashMap::new();
        for event in batches.iter().flat_map(|batch| &batch.events) {
            received.insert((&event.run_id, event.seq), event);
        }
        let mut live = Vec::with_capacity(received.len());
        for (batch, outcome) in batches.iter().zip(written) {
            for progress in &outcome.runs {
                let to = self.release_up_to(progress);
                let published = self.published.entry(progress.run_id.clone()).or_insert(progress.before);
                let from = std::mem::replace(published, to.max(*published));
                if from >= to {
                    continue;
                }
                let known: Vec<&&HostEvent> =
                    (from + 1..=to).map_while(|seq| received.get(&(progress.run_id.as_str(), seq))).collect();
                match i64::try_from(known.len()) == Ok(to - from) {
                    true => live.extend(known.into_iter().map(|event| live_event(event))),
                    false => self.read_stored(&batch.host_id, &progress.run_id, (from, to), &mut live).await,
                }
            }
        }
        self.feed.publish(&live);
        if self.published.len() > REMEMBERED_RUNS {
            self.published.clear();
        }
    }

    /// The event up to which a run is published: up to the first gap, unless that has lasted too long.
    fn release_up_to(&mut self, progress: &RunProgress) -> i64 {
        if progress.highest_seq <= progress.last_seq {
            self.gaps.remove(&progress.run_id);
            return progress.last_seq;
        }
        let since = *self.gaps.entry(progress.run_id.clone()).or_insert_with(Instant::now);
        if since.elapsed() > GAP_PATIENCE { progress.highest_seq } else { progress.last_seq }
    }

    /// Reads events that were stored earlier, beyond a gap.
    async fn read_stored(
        &self,
        host: &str,
        run: &str,
        (mut from, to): (i64, i64),
        live: &mut Vec<LiveEvent>,
    ) {
        loop {
            let events = match self.store.events_after(run, (from, to), READ_AT_ONCE).await {
                Ok(events) => events,
                Err(error) => {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        run,
                        "reading stored events failed"
                    );
                    return;
                }
            };
            let Some(last) = events.last() else { return };
            from = last.seq;
            live.extend(events.iter().map(|event| LiveEvent {
                run_id: run.into(),
                seq: event.seq,
                class: EventClass::of(&event.kind),
                frame: event.frame(host, run),
            }));
        }
    }
}

fn live_event(event: &HostEvent) -> LiveEvent {
    LiveEvent {
        run_id: event.run_id.as_str().into(),
        seq: event.seq,
        class: EventClass::of(&event.kind),
        frame: event.frame.clone(),
    }
}
