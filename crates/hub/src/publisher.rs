//! The publisher: stored events in the order of their transactions to the apps of this node, then the acknowledgements.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::feed::{EventClass, Feed, LiveEvent};
use crate::ingest::NotStored;
use crate::runs::HostEvent;
use crate::store::{EventBatch, RunProgress, Store, StoredEvent, WrittenBatch};
use crate::wakeups::{NodeWakeups, RunRange, Topic};

/// How often gaps are checked.
const GAP_CHECK: Duration = Duration::from_secs(1);
/// Runs whose published position is remembered; beyond it, all are forgotten.
const REMEMBERED_RUNS: usize = 100_000;
/// Stored events that are read at once to publish them.
const READ_AT_ONCE: i64 = 500;

/// A message of the writer.
#[derive(Debug)]
pub(crate) enum PublisherMessage {
    /// A transaction was committed: its batches, their outcomes, and who waits for them.
    Written {
        batches: Vec<EventBatch>,
        written: Vec<WrittenBatch>,
        replies: Vec<oneshot::Sender<Result<WrittenBatch, NotStored>>>,
    },
    /// A transaction failed, and whether it is stored is not known: the positions of its runs before it.
    Doubtful(Vec<(String, i64)>),
}

#[derive(Debug)]
pub(crate) struct Publisher {
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

impl Publisher {
    pub(crate) fn new(store: Store, feed: Feed, wakeups: NodeWakeups, gap: Duration) -> Publisher {
        let (published, gaps, next_gap_check) = (HashMap::new(), HashMap::new(), Instant::now());
        Publisher { store, feed, wakeups, published, gaps, gap, next_gap_check }
    }

    /// Publishes until the writer ends.
    pub(crate) async fn run(mut self, mut messages: mpsc::Receiver<PublisherMessage>) {
        loop {
            let message = tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.next_gap_check), if !self.gaps.is_empty() => {
                    self.skip_old_gaps().await;
                    continue;
                }
                message = messages.recv() => message,
            };
            match message {
                Some(PublisherMessage::Written { batches, written, replies }) => {
                    self.publish(&batches, &written).await;
                    for (reply, written) in replies.into_iter().zip(written) {
                        // The connection may have ended.
                        reply.send(Ok(written)).ok();
                    }
                }
                Some(PublisherMessage::Doubtful(positions)) => {
                    // If it is stored, its repeat finds nothing new, and its events are published all the same.
                    for (run_id, before) in positions {
                        self.published.entry(run_id).or_insert(before);
                    }
                }
                None => return,
            }
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
                let run_id: Arc<str> = progress.run_id.as_str().into();
                match i64::try_from(known.len()) == Ok(to - from) {
                    true => live.extend(known.into_iter().map(|event| live_event(&run_id, event))),
                    false => {
                        read_stored(&self.store, &batch.host_id, &progress.run_id, (from, to), &mut live)
                            .await;
                    }
                }
                ranges.push(range(run_id, &batch.host_id, (from, to)));
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
            self.send(&live, vec![range(progress.run_id.as_str().into(), &run.host_id, range_of)]);
        }
    }
}

fn range(run_id: Arc<str>, host_id: &str, (after, last_seq): (i64, i64)) -> RunRange {
    RunRange { run_id, host_id: host_id.into(), after, last_seq }
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

fn live_event(run_id: &Arc<str>, event: &HostEvent) -> LiveEvent {
    LiveEvent {
        run_id: run_id.clone(),
        seq: event.seq,
        class: EventClass::of(&event.kind),
        frame: event.frame.clone(),
    }
}
