//! The counters of a run: what each kind of work came to, and the four that must stay zero.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    Commands,
    Terminals,
    Detached,
    Copies,
    Approvals,
    Relay,
    /// Runs of a host, and the inputs and operations of an app for them.
    Runs,
    Inputs,
    Operations,
    /// The programs themselves.
    System,
}

impl Work {
    /// The work of the run with sessions.
    pub(crate) const SESSIONS: &[Work] = &[
        Work::Commands,
        Work::Terminals,
        Work::Detached,
        Work::Copies,
        Work::Approvals,
        Work::Relay,
        Work::System,
    ];
    /// The work of the run with hosts.
    pub(crate) const HOSTS: &[Work] = &[Work::Runs, Work::Inputs, Work::Operations, Work::System];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Commands => "commands",
            Work::Terminals => "terminals",
            Work::Detached => "detached",
            Work::Copies => "copies",
            Work::Approvals => "approvals",
            Work::Relay => "relay",
            Work::Runs => "runs",
            Work::Inputs => "inputs",
            Work::Operations => "operations",
            Work::System => "programs",
        }
    }
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Completed, and everything is as expected.
    Finished,
    /// An error reported that nothing was done.
    Refused,
    /// An error reported that the work is lost, or may or may not have been done.
    InDoubt,
}

/// The row of one kind of work.
#[derive(Debug, Default, Clone)]
struct Row {
    started: u64,
    finished: u64,
    refused: u64,
    in_doubt: u64,
    /// Bytes that were reported as lost.
    reported: u64,
    lost: u64,
    twice: u64,
    left: u64,
    unanswered: u64,
}

#[derive(Debug, Default)]
struct State {
    rows: BTreeMap<Work, Row>,
    notes: Vec<String>,
}

/// The counters of a run.
#[derive(Debug)]
pub(crate) struct Counters {
    works: &'static [Work],
    state: Mutex<State>,
}

impl Counters {
    /// Counters of these kinds of work, each of which must be completed.
    pub(crate) fn new(works: &'static [Work]) -> Counters {
        Counters { works, state: Mutex::default() }
    }

    fn change(&self, work: Work, change: impl FnOnce(&mut Row)) {
        change(self.state.lock().unwrap().rows.entry(work).or_default());
    }

    fn violation(&self, work: Work, note: String, change: impl FnOnce(&mut Row)) {
        self.change(work, change);
        self.state.lock().unwrap().notes.push(format!("{}: {note}", work.name()));
    }

    pub(crate) fn started(&self, work: Work) {
        self.change(work, |row| row.started += 1);
    }

    pub(crate) fn ended(&self, work: Work, outcome: Outcome) {
        self.change(work, |row| match outcome {
            Outcome::Finished => row.finished += 1,
            Outcome::Refused => row.refused += 1,
            Outcome::InDoubt => row.in_doubt += 1,
        });
    }

    /// Counts bytes that the programs reported as lost.
    pub(crate) fn reported(&self, work: Work, bytes: u64) {
        self.change(work, |row| row.reported += bytes);
    }

    /// Counts bytes that are missing without a report, or with a report that no fault explains.
    pub(crate) fn lost(&self, work: Work, bytes: u64, note: String) {
        self.violation(work, format!("{bytes} bytes lost: {note}"), |row| row.lost += bytes);
    }

    /// Counts an event that was delivered twice, or an effect that was not requested once.
    pub(crate) fn twice(&self, work: Work, events: u64, note: String) {
        self.violation(work, format!("{events} seen twice: {note}"), |row| row.twice += events);
    }

    /// Counts a process that is left behind.
    pub(crate) fn left(&self, work: Work, note: String) {
        self.violation(work, format!("left behind: {note}"), |row| row.left += 1);
    }

    /// Counts a request or a job without an answer.
    pub(crate) fn unanswered(&self, work: Work, note: String) {
        self.violation(work, format!("no answer: {note}"), |row| row.unanswered += 1);
    }

    /// Whether nothing was lost, seen twice, left behind or unanswered, and each kind of work was completed.
    pub(crate) fn is_clean(&self) -> bool {
        let state = self.state.lock().unwrap();
        let works = self.works.iter().copied().filter(|work| *work != Work::System);
        let is_done = |work: Work| state.rows.get(&work).is_some_and(|row| row.finished > 0);
        state.notes.is_empty() && works.into_iter().all(is_done)
    }

    /// Each violation in one line.
    pub(crate) fn notes(&self) -> String {
        self.state.lock().unwrap().notes.join("\n")
    }

    /// The table for people.
    pub(crate) fn table(&self) -> String {
        let state = self.state.lock().unwrap();
        let mut text = String::from(
            "work       started finished refused in doubt reported bytes | lost bytes seen twice left behind no answer\n",
        );
        let mut total = Row::default();
        for work in self.works {
            let row = state.rows.get(work).cloned().unwrap_or_default();
            text += &line(work.name(), &row);
            total.started += row.started;
            total.finished += row.finished;
            total.refused += row.refused;
            total.in_doubt += row.in_doubt;
            total.reported += row.reported;
            total.lost += row.lost;
            total.twice += row.twice;
            total.left += row.left;
            total.unanswered += row.unanswered;
        }
        text + &line("all", &total)
    }
}

fn line(name: &str, row: &Row) -> String {
    let mut text = String::new();
    writeln!(
        text,
        "{name:<10} {:>7} {:>8} {:>7} {:>8} {:>14} | {:>10} {:>10} {:>11} {:>9}",
        row.started,
        row.finished,
        row.refused,
        row.in_doubt,
        row.reported,
        row.lost,
        row.twice,
        row.left,
        row.unanswered
    )
    .unwrap();
    text
}
