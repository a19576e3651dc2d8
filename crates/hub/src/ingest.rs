//! Ingest: the events of all hosts are stored in common transactions, acknowledged after their commit, and published.

use std::collections::HashMap;
use std::time::Duration;

use link::ByteBudget;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::auth::now_ms;
use crate::collect::CollectedEvents;
use crate::feed::{EventClass, Feed, LiveEvent};
use crate::runs::HostEvent;
use crate::store::{EventBatch, RunProgress, Store, StoreError, StoredEvent, WrittenBatch};
use crate::wakeups::{NodeWakeups, RunRange, Topic};

/// Batches that wait for the writer; senders wait when it is full.
const QUEUED_BATCHES: usize = 256;
/// Bytes of the batches of all hosts, beside some of each host that do not count; beyond it, batches have few events, and hosts
/// wait.
const WAITING_BYTES: usize = 64 << 20;
/// Events of one transaction; further ones wait for the next.
const EVENTS_PER_TRANSACTION: usize = 4096;
/// Bytes of the events of one transaction; further ones wait for the next, so that a host with large events does not delay
/// the others for long.
const BYTES_PER_TRANSACTION: usize = 2 << 20;
/// A transaction that failed because of its connection is repeated after these times.
const RETRIES: [Duration; 4] =
    [Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];
/// How often gaps are checked.
const GAP_CHECK: Duration = Duration::from_secs(1);
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
    budget: ByteBudget,
}

#[derive(Debug)]
struct SubmittedBatch {
    batch: EventBatch,
    written: oneshot::Sender<Result<WrittenBatch, NotStored>>,
}

impl Ingest {
    /// The writer of this node. The future runs it until every [`Ingest`] is dropped; run it on a task.
    pub fn new(
        store: Store,
        feed: Feed,
        wakeups: NodeWakeups,
        gap: Duration,
    ) -> (Ingest, impl Future<Output = ()> + Send + 'static) {
        let (batches, inbox) = mpsc::channel(QUEUED_BATCHES);
        let (published, gaps) = (HashMap::new(), HashMap::new());
        let next_gap_check = Instant::now();
        let writer = Writer { store, feed, wakeups, published, gaps, gap, next_gap_check };
        (Ingest { batches, budget: ByteBudget::new(WAITING_BYTES) }, writer.run(inbox))
    }

    /// An empty batch of a host. It has room as long as the batches of all hosts are within the limit.
    pub(crate) fn batch(&self) -> CollectedEvents {
        CollectedEvents::new(&self.budget)
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
    wakeups: NodeWakeups,
    /// The last published event of each run. Kept apart from the outcome of a transaction: whether a transaction whose
    /// connection was cut is committed is not known, and its repeat finds nothing new to store.
    published: HashMap<String, i64>,
    /// Runs with a gap.
    gaps: HashMap<String, Gap>,
    /// The time for which events behind a gap are held back.
    gap: Duration,
    next_gap_check: Instant,
}

/// The first gap in the events of a run.
#[derive(Debug, Clone, Copy)]
struct Gap {
    since: Instant,
    /// Whether the events behind it are published.
    is_skipped: bool,
}

impl Writer {
    async fn run(mut self, mut inbox: mpsc::Receiver<SubmittedBatch>) {
        loop {
            let first = tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.next_gap_check), if !self.gaps.is_empty() => {
                    self.skip_old_gaps().await;
                    continue;
                }
                first = inbox.recv() => first,
            };
            let Some(first) = first else { return };
            let (batches, replies) = collect(first, &mut inbox);
            let events = batches.iter().map(|batch| batch.events.len()).sum::<usize>();
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
            self.publish_from_here(batches);
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

    /// Whether a failed transaction is stored is not known. If it is, its repeat finds nothing new, and its events are
    /// published all the same.
    fn publish_from_here(&mut self, batches: &[EventBatch]) {
        for event in batches.iter().flat_map(|batch| &batch.events) {
            let before = event.first_seq - 1;
            self.published.entry(event.run_id.clone()).or_insert(before);
        }
    }

    async fn publish(&mut self, batches: &[EventBatch], written: &[WrittenBatch]) {
        let mut received: HashMap<(&str, i64), &HostEvent> = HashMap::new();
        for event in batches.iter().flat_map(|batch| &batch.events) {
            received.insert((&event.run_id, event.seq), event);
        }
        let (mut live, mut ranges) = (Vec::with_capacity(received.len()), Vec::new());
        for (batch, outcome) in batches.iter().zip(written) {
            for progress in &outcome.runs {
                let to = self.release_up_to(progress);
                let Some(from) = self.advance(progress, to) else { continue };
                let known: Vec<&&HostEvent> =
                    (from + 1..=to).map_while(|seq| received.get(&(progress.run_id.as_str(), seq))).collect();
                match i64::try_from(known.len()) == Ok(to - from) {
                    true => live.extend(known.into_iter().map(|event| live_event(event))),
                    false => {
                        read_stored(&self.store, &batch.host_id, &progress.run_id, (from, to), &mut live)
                            .await;
                    }
                }
                ranges.push(range(&progress.run_id, &batch.host_id, (from, to)));
            }
        }
        self.send(&live, ranges);
        if self.published.len() > REMEMBERED_RUNS || self.gaps.len() > REMEMBERED_RUNS {
            self.published.clear();
            self.gaps.clear();
        }
    }

    /// Queues events for the apps of this node, and wakes up the other nodes.
    fn send(&self, live: &[LiveEvent], ranges: Vec<RunRange>) {
        self.feed.publish(live);
        if !ranges.is_empty() {
            self.wakeups.publish(Topic::Runs(ranges.into()));
        }
    }

    /// Moves the published position of a run. Returns the earlier one, if there is something to publish.
    fn advance(&mut self, progress: &RunProgress, to: i64) -> Option<i64> {
        // Most runs are known: no copy of the id.
        let published = match self.published.get_mut(&progress.run_id) {
            Some(published) => published,
            None => self.published.entry(progress.run_id.clone()).or_insert(progress.before),
        };
        let from = std::mem::replace(published, to.max(*published));
        (from < to).then_some(from)
    }

    /// The event up to which a run is published: up to the first gap, unless that has lasted too long.
    fn release_up_to(&mut self, progress: &RunProgress) -> i64 {
        if progress.highest_seq <= progress.last_seq {
            self.gaps.remove(&progress.run_id);
            return progress.last_seq;
        }
        if self.gaps.is_empty() {
            self.next_gap_check = Instant::now() + GAP_CHECK;
        }
        let new = Gap { since: Instant::now(), is_skipped: false };
        let gap = self.gaps.entry(progress.run_id.clone()).or_insert(new);
        if gap.is_skipped { progress.highest_seq } else { progress.last_seq }
    }

    /// Publishes the events behind gaps that have lasted too long.
    async fn skip_old_gaps(&mut self) {
        self.next_gap_check = Instant::now() + GAP_CHECK;
        let is_old = |gap: &Gap| !gap.is_skipped && gap.since.elapsed() > self.gap;
        let old: Vec<String> =
            self.gaps.iter().filter(|(_, gap)| is_old(gap)).map(|(run, _)| run.clone()).collect();
        for run_id in old {
            let run = match self.store.run(&run_id).await {
                Ok(Some(run)) => run,
                // Removed meanwhile.
                Ok(None) => {
                    self.gaps.remove(&run_id);
                    continue;
                }
                // It is tried again at the next check.
                Err(_failed) => continue,
            };
            if let Some(gap) = self.gaps.get_mut(&run_id) {
                gap.is_skipped = true;
            }
            tracing::warn!(
                run = run_id,
                after = run.last_seq,
                "events of a run are missing; showing later ones"
            );
            let progress = RunProgress {
                run_id,
                before: run.last_seq,
                last_seq: run.last_seq,
                highest_seq: run.highest_seq,
            };
            let Some(from) = self.advance(&progress, run.highest_seq) else { continue };
            let (range_of, mut live) = ((from, run.highest_seq), Vec::new());
            read_stored(&self.store, &run.host_id, &progress.run_id, range_of, &mut live).await;
            self.send(&live, vec![range(&progress.run_id, &run.host_id, range_of)]);
        }
    }
}

/// The batches of one transaction: those that wait already, up to a limit.
fn collect(
    first: SubmittedBatch,
    inbox: &mut mpsc::Receiver<SubmittedBatch>,
) -> (Vec<EventBatch>, Vec<oneshot::Sender<Result<WrittenBatch, NotStored>>>) {
    let (mut batches, mut replies, mut next) = (Vec::new(), Vec::new(), Some(first));
    let (mut events, mut bytes) = (0, 0);
    while let Some(SubmittedBatch { batch, written }) = next.take() {
        events += batch.events.len();
        bytes += batch.events.iter().map(|event| event.frame.len()).sum::<usize>();
        batches.push(batch);
        replies.push(written);
        if events < EVENTS_PER_TRANSACTION && bytes < BYTES_PER_TRANSACTION {
            next = inbox.try_recv().ok();
        }
    }
    (batches, replies)
}

fn range(run_id: &str, host_id: &str, (after, last_seq): (i64, i64)) -> RunRange {
    RunRange { run_id: run_id.into(), host_id: host_id.into(), after, last_seq }
}

/// Reads stored events of a run to publish them.
pub(crate) async fn read_stored(
    store: &Store,
    host: &str,
    run: &str,
    (mut from, to): (i64, i64),
    live: &mut Vec<LiveEvent>,
) {
    loop {
        let events = match store.events_after(run, (from, to), READ_AT_ONCE).await {
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
        live.extend(events.iter().map(|event| stored_event(host, run, event)));
    }
}

fn stored_event(host: &str, run: &str, event: &StoredEvent) -> LiveEvent {
    LiveEvent {
        run_id: run.into(),
        seq: event.seq,
        class: EventClass::of(&event.kind),
        frame: event.frame(host, run),
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::hub::v1::Envelope;

    use super::*;

    /// The batches of each transaction, for batches of so many events with so many bytes each.
    fn transactions(batches: usize, events: usize, bytes: usize) -> Vec<usize> {
        let (sender, mut inbox) = mpsc::channel(batches);
        let text =
            json!({ "type": "run.output", "run_id": "r", "seq": 1, "data": { "text": "x".repeat(bytes) } });
        let event = HostEvent::parse(Envelope::parse(&text.to_string()).unwrap(), "h", "now").unwrap();
        for _ in 0..batches {
            let batch = EventBatch { host_id: "h".to_owned(), events: vec![event.clone(); events] };
            sender.try_send(SubmittedBatch { batch, written: oneshot::channel().0 }).unwrap();
        }
        let mut sizes = Vec::new();
        while let Ok(first) = inbox.try_recv() {
            sizes.push(collect(first, &mut inbox).0.len());
        }
        sizes
    }

    #[test]
    fn a_transaction_is_limited_in_events_and_bytes() {
        assert_eq!(transactions(10, 1024, 10), [4, 4, 2]);
        assert_eq!(transactions(10, 1, 10), [10]);
        assert_eq!(transactions(10, 1, 1 << 20), [2, 2, 2, 2, 2]);
        assert_eq!(transactions(2, 1, 4 << 20), [1, 1]);
    }
}
