//! Ingest: the events of all hosts are stored in common transactions. After its commit, a transaction is published and
//! acknowledged while the next one is stored.

use std::time::Duration;

use link::ByteBudget;
use link::task::OwnedTask;
use tokio::sync::{mpsc, oneshot};

use crate::auth::now_ms;
use crate::collect::CollectedEvents;
use crate::feed::Feed;
use crate::publisher::{Publisher, PublisherMessage};
use crate::store::{EventBatch, Store, StoreError, WrittenBatch};
use crate::wakeups::NodeWakeups;

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
/// Transactions that are stored and not published yet; beyond it, the writer waits.
const UNPUBLISHED_TRANSACTIONS: usize = 4;

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
    /// The writer and the publisher of this node. The future runs them until every [`Ingest`] is dropped; run it on a task.
    pub fn new(
        store: Store,
        feed: Feed,
        wakeups: NodeWakeups,
        gap: Duration,
    ) -> (Ingest, impl Future<Output = ()> + Send + 'static) {
        let (batches, inbox) = mpsc::channel(QUEUED_BATCHES);
        let (publisher, messages) = mpsc::channel(UNPUBLISHED_TRANSACTIONS);
        let writer = Writer { store: store.clone(), publisher };
        let publisher = Publisher::new(store, feed, wakeups, gap);
        let running = async move {
            let publishing = OwnedTask::spawn(publisher.run(messages));
            // Dropping the writer ends the publisher, which then has published everything.
            writer.run(inbox).await;
            publishing.join().await.ok();
        };
        (Ingest { batches, budget: ByteBudget::new(WAITING_BYTES) }, running)
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
    publisher: mpsc::Sender<PublisherMessage>,
}

impl Writer {
    async fn run(self, mut inbox: mpsc::Receiver<SubmittedBatch>) {
        while let Some(first) = inbox.recv().await {
            let (batches, replies) = collect(first, &mut inbox);
            match self.write(&batches).await {
                Ok(written) => {
                    // The next transaction begins while this one is published. The publisher ends after the writer.
                    self.publisher.send(PublisherMessage::Written { batches, written, replies }).await.ok();
                }
                Err(error) => {
                    let events = batches.iter().map(|batch| batch.events.len()).sum::<usize>();
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

    async fn write(&self, batches: &[EventBatch]) -> Result<Vec<WrittenBatch>, StoreError> {
        let mut retries = RETRIES.iter();
        loop {
            let error = match self.store.write_events(batches, now_ms()).await {
                Ok(written) => return Ok(written),
                Err(error) => error,
            };
            self.publisher.send(PublisherMessage::Doubtful(positions_before(batches))).await.ok();
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
}

/// Where each run was before these events.
fn positions_before(batches: &[EventBatch]) -> Vec<(String, i64)> {
    let events = batches.iter().flat_map(|batch| &batch.events);
    events.map(|event| (event.run_id.clone(), event.first_seq - 1)).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::hub::v1::Envelope;

    use super::*;
    use crate::runs::HostEvent;

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
