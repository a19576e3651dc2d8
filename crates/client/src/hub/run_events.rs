//! RunEvents: the events of one run in their order, each once, across lost connections.

use wire::hub::v1::{Envelope, MessageRejected, RunLost, kind};

use super::connection::{HubConnection, HubEvent};
use super::error::HubError;

/// A subscription to a run.
#[derive(Debug)]
pub struct RunEvents {
    connection: HubConnection,
    run_id: String,
    order: EventOrder,
}

/// One step of a subscription.
#[derive(Debug)]
pub enum RunEvent {
    /// The next event.
    Event(Box<Envelope>),
    /// The hub no longer has these events; the ones after them follow.
    Missing {
        /// The first missing event.
        first: i64,
        /// The last missing event.
        last: i64,
    },
}

impl RunEvents {
    /// Subscribes to the events after `after_seq`; 0 means all.
    pub async fn subscribe(
        mut connection: HubConnection,
        run_id: &str,
        after_seq: i64,
    ) -> Result<RunEvents, HubError> {
        connection.subscribe(run_id, after_seq).await?;
        Ok(RunEvents { connection, run_id: run_id.to_owned(), order: EventOrder::after(after_seq) })
    }

    /// The next event. Cancel-safe.
    pub async fn next(&mut self) -> Result<RunEvent, HubError> {
        loop {
            if let Some(event) = self.order.deferred.take() {
                return Ok(RunEvent::Event(event));
            }
            let message = match self.connection.next().await? {
                HubEvent::Message(message) => message,
                HubEvent::Resync => {
                    self.subscribe_again().await?;
                    continue;
                }
            };
            if let Some(rejected) = rejected_subscription(&message) {
                return Err(rejected);
            }
            if message.run_id.as_deref() != Some(&self.run_id) {
                continue;
            }
            match self.order.place(message) {
                Placement::Next(event) => return Ok(RunEvent::Event(event)),
                Placement::AfterGap { first, last } => return Ok(RunEvent::Missing { first, last }),
                Placement::Repeated => {}
                Placement::Ahead => self.subscribe_again().await?,
            }
        }
    }

    async fn subscribe_again(&mut self) -> Result<(), HubError> {
        self.connection.subscribe(&self.run_id, self.order.last).await
    }
}

fn rejected_subscription(message: &Envelope) -> Option<HubError> {
    let rejected: MessageRejected =
        Some(message).filter(|message| message.kind == kind::APP_ERROR)?.decode().ok()?;
    (rejected.rejected_type.as_deref() == Some(kind::RUN_SUBSCRIBE))
        .then_some(HubError::Rejected { code: rejected.code, message: rejected.message })
}

/// The position in the events of a run.
#[derive(Debug)]
struct EventOrder {
    /// The last event that was returned.
    last: i64,
    /// The highest number that arrived before its predecessors.
    ahead: Option<i64>,
    /// The event after a gap that was reported first.
    deferred: Option<Box<Envelope>>,
}

/// What to do with an event.
#[derive(Debug)]
enum Placement {
    Next(Box<Envelope>),
    AfterGap {
        first: i64,
        last: i64,
    },
    Repeated,
    /// It may have been sent before the subscription took effect: subscribe again to find out. If the events before it
    /// are gone, it arrives a second time.
    Ahead,
}

impl EventOrder {
    fn after(last: i64) -> EventOrder {
        EventOrder { last: last.max(0), ahead: None, deferred: None }
    }

    fn place(&mut self, event: Box<Envelope>) -> Placement {
        let Some(seq) = event.seq.filter(|seq| *seq > self.last) else { return Placement::Repeated };
        let first = match event.kind.as_str() {
            kind::RUN_LOST => event.decode::<RunLost>().map_or(seq, |lost| lost.first_seq),
            _ => seq,
        };
        if first <= self.last + 1 {
            (self.last, self.ahead) = (seq, None);
            return Placement::Next(event);
        }
        match self.ahead {
            // A number that does not increase: the second subscription begins here, too.
            Some(highest) if seq <= highest => {
                let gap = Placement::AfterGap { first: self.last + 1, last: first - 1 };
                (self.last, self.ahead) = (seq, None);
                self.deferred = Some(event);
                gap
            }
            Some(_) => {
                self.ahead = Some(seq);
                Placement::Repeated
            }
            None => {
                self.ahead = Some(seq);
                Placement::Ahead
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(seq: i64) -> Envelope {
        let value = json!({ "type": "run.output", "run_id": "r", "seq": seq, "data": { "text": "x" } });
        serde_json::from_value(value).unwrap()
    }

    /// The numbers that are returned, with gaps in brackets, and how often a new subscription is needed.
    fn replayed(after: i64, events: Vec<Envelope>) -> (Vec<String>, usize) {
        let (mut order, mut shown, mut subscriptions) = (EventOrder::after(after), Vec::new(), 0);
        for event in events {
            match order.place(Box::new(event)) {
                Placement::Next(event) => shown.push(event.seq.unwrap().to_string()),
                Placement::AfterGap { first, last } => {
                    shown.push(format!("[{first}-{last}]"));
                    shown.push(order.deferred.take().unwrap().seq.unwrap().to_string());
                }
                Placement::Repeated => {}
                Placement::Ahead => subscriptions += 1,
            }
        }
        (shown, subscriptions)
    }

    fn numbered(numbers: &[i64]) -> Vec<Envelope> {
        numbers.iter().map(|seq| event(*seq)).collect()
    }

    #[test]
    fn each_event_is_returned_once_and_in_order() {
        let shown = |after, numbers: &[i64]| replayed(after, numbered(numbers)).0.join(" ");
        assert_eq!(shown(0, &[1, 2, 2, 1, 3]), "1 2 3");
        assert_eq!(shown(2, &[1, 2, 3]), "3");
    }

    #[test]
    fn an_event_sent_before_the_subscription_does_not_hide_the_earlier_ones() {
        let (shown, subscriptions) = replayed(0, numbered(&[7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2]));
        assert_eq!(shown.join(" "), "1 2 3 4 5 6 7 8 9");
        assert_eq!(subscriptions, 1);
    }

    #[test]
    fn events_that_the_hub_no_longer_has_are_reported_as_missing() {
        let (shown, subscriptions) = replayed(0, numbered(&[5, 6, 5, 6, 7]));
        assert_eq!(shown.join(" "), "[1-4] 5 6 7");
        assert_eq!(subscriptions, 1);
    }

    #[test]
    fn a_loss_takes_the_place_of_the_lost_events() {
        let lost = json!({ "type": "run.lost", "run_id": "r", "seq": 9, "data": { "first_seq": 3, "last_seq": 9, "bytes": 1 } });
        let mut events = numbered(&[1, 2]);
        events.push(serde_json::from_value(lost).unwrap());
        events.push(event(10));
        assert_eq!(replayed(0, events).0.join(" "), "1 2 9 10");
    }
}
