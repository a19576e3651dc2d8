//! The history of faults: what occurred when, to decide whether a fault explains a loss.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Instant;

use crate::faults::FaultKind;
use crate::system::System;

/// One fault.
#[derive(Debug)]
struct Entry {
    kind: FaultKind,
    begin: Instant,
    /// `None` while it lasts.
    end: Option<Instant>,
}

/// The faults so far.
#[derive(Debug, Default)]
pub(crate) struct History {
    entries: Mutex<Vec<Entry>>,
    /// The detached processes whose keeper was killed.
    killed: Mutex<BTreeSet<String>>,
}

impl History {
    /// Records the begin of a fault; [`History::ended`] takes the returned number.
    pub(crate) fn began(&self, kind: FaultKind) -> usize {
        let mut entries = self.entries.lock().unwrap();
        entries.push(Entry { kind, begin: Instant::now(), end: None });
        entries.len() - 1
    }

    pub(crate) fn ended(&self, number: usize) {
        self.entries.lock().unwrap()[number].end = Some(Instant::now());
    }

    /// Whether one of these faults lasted after that time.
    pub(crate) fn since(&self, time: Instant, kinds: &[FaultKind]) -> bool {
        let lasted = |entry: &Entry| entry.end.is_none_or(|end| end >= time);
        self.entries.lock().unwrap().iter().any(|entry| kinds.contains(&entry.kind) && lasted(entry))
    }

    /// The faults that lasted after that time, for a note.
    pub(crate) fn list(&self, time: Instant) -> String {
        let mut text = String::from("faults:");
        for entry in
            self.entries.lock().unwrap().iter().filter(|entry| entry.end.is_none_or(|end| end >= time))
        {
            let at = |instant: Instant| instant.saturating_duration_since(time).as_millis();
            let end = entry.end.map_or(0, at);
            write!(text, " {:?} {}..{end} ms;", entry.kind, at(entry.begin)).unwrap();
        }
        text
    }

    /// Records that the keeper of a detached process is going to be killed.
    pub(crate) fn kills_keeper_of(&self, process_id: &str) {
        self.killed.lock().unwrap().insert(process_id.to_owned());
    }

    /// Whether the keeper of a process was killed.
    pub(crate) fn killed_keeper_of(&self, process_id: &str) -> bool {
        self.killed.lock().unwrap().contains(process_id)
    }

    fn times(&self, kind: FaultKind) -> usize {
        self.entries.lock().unwrap().iter().filter(|entry| entry.kind == kind).count()
    }

    /// The faults that did not occur.
    pub(crate) fn missing(&self, is_long: bool) -> Vec<&'static str> {
        let wanted = FaultKind::ALL.iter().filter(|kind| is_long || !kind.is_slow());
        wanted.filter(|kind| self.times(**kind) == 0).map(|kind| kind.name()).collect()
    }

    /// The table for people.
    pub(crate) fn table(&self, system: &System) -> String {
        let mut text = String::from("fault                            times\n");
        for kind in FaultKind::ALL {
            let note = if *kind == FaultKind::FullDisk { system.disk.kind() } else { "" };
            writeln!(text, "{:<32} {:>5} {note}", kind.name(), self.times(*kind)).unwrap();
        }
        text
    }
}
