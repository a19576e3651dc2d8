//! The batch of one host: events that have arrived and are stored together. While the database is away, the batches of all
//! hosts wait, within one limit on their bytes.

use bytes::Bytes;
use link::{Allowance, ByteBudget};

use crate::runs::HostEvent;

/// Events that are stored together; further ones are read after these are stored.
const EVENTS_PER_BATCH: usize = 1024;
/// Bytes of events that are stored together.
const BYTES_PER_BATCH: usize = 4 << 20;
/// An event in memory: the frame for apps, its data and their members.
const COPIES: usize = 3;

/// Events of one host that are not stored yet.
#[derive(Debug)]
pub(crate) struct CollectedEvents {
    pub(crate) events: Vec<HostEvent>,
    bytes: usize,
    /// The part of the limit on the batches of all hosts.
    allowance: Allowance,
    /// The message of the last event, if the limit has no room for it: it still counts as being received.
    beyond: Option<Bytes>,
}

impl CollectedEvents {
    pub(crate) fn new(budget: &ByteBudget) -> CollectedEvents {
        CollectedEvents { events: Vec::new(), bytes: 0, allowance: budget.allowance(), beyond: None }
    }

    /// Adds an event with the message that it was.
    pub(crate) fn push(&mut self, event: HostEvent, message: Bytes) {
        self.bytes += event.frame.len();
        self.events.push(event);
        if self.allowance.try_hold(COPIES * self.bytes).is_err() {
            self.beyond = Some(message);
        }
    }

    /// True if another event may be added before these are stored.
    pub(crate) fn has_room(&self) -> bool {
        self.events.len() < EVENTS_PER_BATCH && self.bytes < BYTES_PER_BATCH && self.beyond.is_none()
    }
}

#[cfg(test)]
mod tests {
    use link::FREE_BYTES;
    use serde_json::json;
    use wire::hub::v1::Envelope;

    use super::*;

    fn event(bytes: usize) -> HostEvent {
        let data = json!({ "text": "x".repeat(bytes) });
        let text = json!({ "type": "run.output", "run_id": "r", "seq": 1, "data": data }).to_string();
        HostEvent::parse(Envelope::parse(&text).unwrap(), "h", "now").unwrap()
    }

    /// Adds events of 1 KiB until the batch is full; returns how many.
    fn fill(batch: &mut CollectedEvents) -> usize {
        while batch.has_room() {
            batch.push(event(1024), Bytes::from_static(b"x"));
        }
        batch.events.len()
    }

    #[test]
    fn the_batches_of_all_hosts_have_one_limit_and_each_host_still_sends() {
        let budget = ByteBudget::new(1 << 20);
        let mut first = CollectedEvents::new(&budget);
        let count = fill(&mut first);
        let held = first.events.iter().map(|event| event.frame.len()).sum::<usize>();
        assert!(count > 300 && COPIES * held <= (1 << 20) + FREE_BYTES + 4096 * COPIES, "{count}");
        let mut second = CollectedEvents::new(&budget);
        let small = fill(&mut second);
        assert!((1..=FREE_BYTES / 1024).contains(&small), "{small}");
        drop((first, second));
        assert_eq!(budget.used(), 0);
        assert_eq!(fill(&mut CollectedEvents::new(&ByteBudget::default())), EVENTS_PER_BATCH);
    }

    #[tokio::test]
    async fn a_message_beyond_the_limit_counts_as_received_until_it_is_stored() {
        let (messages, budget) = (ByteBudget::new(1 << 20), ByteBudget::new(1 << 16));
        let mut received = messages.allowance();
        received.hold(1 << 19).await.unwrap();
        let mut batch = CollectedEvents::new(&budget);
        batch.push(event(1 << 19), Bytes::from_owner(Held { _allowance: received }));
        assert!(!batch.has_room() && messages.used() > 0);
        drop(batch);
        assert_eq!((messages.used(), budget.used()), (0, 0));
    }

    /// A message that keeps its part of the budget of received messages, as the link's do.
    struct Held {
        _allowance: Allowance,
    }

    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            b"x"
        }
    }
}
