//! What the apps and the store must have at the end: every line and every effect once.

use std::collections::BTreeMap;

use super::HostStage;
use super::app::App;
use super::system::StoredEvent;
use super::view::RunView;
use super::work::{Done, Job};
use crate::counters::{Outcome, Work};

/// Compares one app's view of a run with what the run must have printed.
pub(super) fn compare_view(stage: &HostStage, name: &str, job: &Job, view: &RunView) {
    let run = job.run.as_deref().unwrap_or_default();
    let note = |text: String| format!("{name} of {run}: {text}");
    let lines = view.lines();
    let numbers: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("line ")).collect();
    let total = lines.last().and_then(|line| line.strip_prefix("total ")?.parse().ok());
    let Some(total) = total.filter(|total: &usize| *total > 0) else {
        return stage.counters.lost(Work::Runs, 1, note(format!("no total behind {:?}", lines.last())));
    };
    let expected: Vec<String> = (0..total).map(|number| number.to_string()).collect();
    if numbers != expected {
        let wrong = numbers.iter().zip(&expected).position(|(found, wanted)| found != wanted);
        let text = format!("{} lines of {total}, the first wrong one is {wrong:?}", numbers.len());
        match numbers.len() > total {
            true => stage.counters.twice(Work::Runs, 1, note(text)),
            false => stage.counters.lost(Work::Runs, 1, note(text)),
        }
    }
    for text in &job.typed {
        let times = lines.iter().filter(|line| line.strip_prefix("input ") == Some(text)).count();
        if times != 1 {
            stage.counters.twice(
                Work::Inputs,
                1,
                note(format!("the input {text} took effect {times} times")),
            );
        }
    }
    let is_known = |line: &str| ["line ", "input ", "total "].iter().any(|word| line.starts_with(word));
    if let Some(unknown) = lines.iter().find(|line| !is_known(line)) {
        stage.counters.twice(Work::Runs, 1, note(format!("{unknown:?} was not printed")));
    }
    let mut events: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for event in view.events().filter(|event| !event.id.is_empty() || event.kind == "run.lost") {
        *events.entry((&event.kind, &event.id)).or_default() += 1;
    }
    for ((kind, id), times) in events {
        if kind == "run.lost" {
            stage.counters.lost(Work::Runs, 1, note("events were reported as lost".to_owned()));
        } else if times > 1 {
            stage.counters.twice(Work::Runs, 1, note(format!("{times} events {kind} of {id}")));
        }
    }
}

/// Compares the effects of the operations of all runs with their responses.
pub(super) fn compare_effects(stage: &HostStage, jobs: &[Job]) {
    let root = stage.system.sandbox.root();
    let effects = std::fs::read_to_string(root.join("effects")).unwrap_or_default();
    for (text, done) in jobs.iter().flat_map(|job| &job.done) {
        let times = match text.starts_with("bash") {
            true => effects.lines().filter(|line| line == text).count(),
            false => {
                let content = std::fs::read_to_string(root.join(text)).ok();
                usize::from(content.is_some_and(|content| content == *text))
            }
        };
        let is_right = match done {
            Done::Approved => times == 1,
            Done::Denied => times == 0,
            Done::InDoubt => times <= 1,
        };
        if !is_right {
            let note = format!("{text}, which is {done:?}, took effect {times} times");
            stage.counters.twice(Work::Operations, 1, note);
        }
    }
}

/// Compares the store with an app: the same events under the same numbers, and no other run.
pub(super) fn compare_store(stage: &HostStage, stored: &[StoredEvent], jobs: &[Job], app: &App) {
    let mut by_run: BTreeMap<&str, Vec<&StoredEvent>> = BTreeMap::new();
    for event in stored {
        by_run.entry(&event.run).or_default().push(event);
    }
    for job in jobs {
        let run = job.run.as_deref().unwrap_or_default();
        let events = by_run.remove(run).unwrap_or_default();
        let found = events.iter().map(|event| {
            let text = if event.kind == "run.output" { event.text.as_str() } else { "" };
            (event.seq, event.kind.as_str(), text)
        });
        let seen = app.view(run).events().map(|event| (event.seq, event.kind.as_str(), event.text.as_str()));
        if found.eq(seen) {
            stage.counters.ended(Work::Runs, Outcome::Finished);
        } else {
            let counts = (events.len(), app.view(run).events().count());
            stage.counters.lost(Work::Runs, 1, format!("the store differs from an app of {run}: {counts:?}"));
        }
    }
    for (run, events) in by_run {
        stage.counters.twice(Work::Runs, 1, format!("{run} with {} events was not requested", events.len()));
    }
}
