//! The events of one run as an app sees them: each number once, without a gap, over any number of connections.

use serde_json::Value;

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunEvent {
    pub(super) seq: u64,
    pub(super) kind: String,
    /// The output, empty for other events.
    pub(super) text: String,
    /// The request or the input that it is about.
    pub(super) id: String,
}

impl RunEvent {
    /// The event of a message; `None` if the message is none.
    pub(super) fn parse(message: &Value) -> Option<RunEvent> {
        let data = &message["data"];
        let member = |name: &str| data[name].as_str().map(str::to_owned);
        let kind = message["type"].as_str()?.to_owned();
        let text = if kind == "run.output" { member("text")? } else { String::new() };
        let id = member("request_id").or_else(|| member("input_id")).unwrap_or_default();
        Some(RunEvent { seq: message["seq"].as_u64()?, kind, text, id })
    }

    /// Whether a connecting app receives it out of order, because it is pending.
    fn may_be_pending(&self) -> bool {
        matches!(self.kind.as_str(), "run.permission_requested" | "run.awaiting_input")
    }
}

/// Events behind the exit, at most.
const RECENT: usize = 32;

/// What is wrong with the events that an app received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Violation {
    Gap(String),
    Repeated(String),
}

/// The events of a run that one app has received.
///
/// An app that connects receives live events before the hub has read its subscription, and then those behind `after_seq`.
/// So the events of a connection count from the last time that the first missing one arrives.
#[derive(Debug, Default)]
pub(super) struct RunView {
    /// The events of earlier connections.
    events: Vec<RunEvent>,
    /// Those of this connection, which continue them.
    fresh: Vec<RunEvent>,
    /// How often the first of them arrived on this connection.
    begins: u32,
}

impl RunView {
    /// Begins a connection. Returns the number behind which the app continues.
    pub(super) fn connect(&mut self) -> u64 {
        self.events.append(&mut self.fresh);
        self.begins = 0;
        self.events.len() as u64
    }

    /// Adds an event of this connection.
    pub(super) fn add(&mut self, event: RunEvent) -> Result<(), Violation> {
        let seen = self.events.len() as u64;
        if event.seq == seen + 1 {
            self.begins += 1;
            self.fresh.clear();
            // Once because it is pending, once live before the subscription, and once by the subscription.
            if self.begins > 3 {
                return Err(Violation::Repeated(format!("{event:?} arrived {} times", self.begins)));
            }
            self.fresh.push(event);
            return Ok(());
        }
        let Some(last) = self.fresh.last() else { return Ok(()) };
        if event.seq == last.seq + 1 {
            self.fresh.push(event);
            return Ok(());
        }
        if event.seq > last.seq {
            // The first missing one was announced because it is pending; the others follow.
            if self.fresh.len() == 1 && last.may_be_pending() {
                self.fresh.clear();
                return Ok(());
            }
            return Err(Violation::Gap(format!("{event:?} behind {last:?}")));
        }
        match event.may_be_pending() && self.begins == 1 {
            true => Ok(()),
            false => Err(Violation::Repeated(format!("{event:?} behind {last:?}"))),
        }
    }

    /// All events so far.
    pub(super) fn events(&self) -> impl DoubleEndedIterator<Item = &RunEvent> {
        self.events.iter().chain(&self.fresh)
    }

    /// Whether there is such an event; it is likely to be one of the last.
    pub(super) fn has(&self, kind: &str, id: &str) -> bool {
        self.events().rev().any(|event| event.kind == kind && event.id == id)
    }

    /// Whether the run has ended; only events of operations follow.
    pub(super) fn has_exited(&self) -> bool {
        self.events().rev().take(RECENT).any(|event| event.kind == "run.exited")
    }

    /// The lines of the output.
    pub(super) fn lines(&self) -> Vec<String> {
        let output: String = self.events().map(|event| event.text.as_str()).collect();
        output.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_view_finds_gaps_and_repeated_events_over_several_connections() {
    let event = |seq: u64| RunEvent {
        seq,
        kind: if seq == 7 { "run.permission_requested" } else { "run.output" }.to_owned(),
        text: String::new(),
        id: String::new(),
    };
    let mut view = RunView::default();
    assert_eq!(view.connect(), 0);
    for seq in [5, 6, 1, 2, 3] {
        view.add(event(seq)).unwrap();
    }
    assert_eq!(view.connect(), 3);
    for seq in [7, 4, 5, 4, 5, 6, 7, 8] {
        view.add(event(seq)).unwrap();
    }
    assert!(matches!(view.add(event(8)), Err(Violation::Repeated(_))));
    assert!(matches!(view.add(event(10)), Err(Violation::Gap(_))));
    assert_eq!(view.connect(), 8);
    assert_eq!(view.events().map(|event| event.seq).collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
}
