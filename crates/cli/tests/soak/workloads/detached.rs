//! Detached processes: followed by one reader after another, across the ends of daemons, to the last byte.

use std::time::Instant;

use client::{Command, Error, Process, ProcessExit, TerminalSize};

use super::reading::{End, read};
use super::sessions::{Sessions, Way};
use super::{Workload, answer};
use crate::Stage;
use crate::counters::{Outcome, Work};
use crate::faults::FaultKind;
use crate::leftovers::WORK;
use crate::random::Random;
use crate::records::{RECORD, Records, writer};

const ROW: Work = Work::Detached;
/// Readers of one process; each ends by an error or on purpose.
const MAX_READERS: u64 = 100;

pub(super) struct Detached(Sessions);

impl Detached {
    pub(super) fn new(way: Way) -> Detached {
        Detached(Sessions::new(way, false))
    }

    /// Another reader of the same process, on the same or on another session, where the last one ended.
    async fn attach(&mut self, stage: &Stage, id: &str, records: &mut Records) -> Result<Process, Outcome> {
        let session = self.0.get(stage, ROW).await?;
        let attaching = session.attach(id, records.cursor);
        let Some(attached) = answer(stage, ROW, "exec.attach", attaching).await else {
            return Err(Outcome::InDoubt);
        };
        let process = attached.map_err(|error| self.judge(stage, &error))?;
        match process.attach_result().map_or(0, |result| result.lost) {
            0 => {}
            lost => records.add_loss(Some(lost)),
        }
        Ok(process)
    }

    /// A request about the process may fail with the daemon; its events do not.
    fn judge(&mut self, stage: &Stage, error: &Error) -> Outcome {
        if error.is_unknown_process() {
            stage.counters.lost(ROW, 1, format!("a detached process is unknown: {error}"));
            return Outcome::InDoubt;
        }
        self.0.judge(stage, ROW, error)
    }

    fn check(
        &self,
        stage: &Stage,
        id: &str,
        exit: &ProcessExit,
        records: &mut Records,
        total: u64,
    ) -> Outcome {
        if exit.signal.as_deref() == Some("KILL") && stage.history.killed_keeper_of(id) {
            return Outcome::InDoubt;
        }
        if exit.status() != 0 {
            stage.counters.lost(ROW, 1, format!("{id}: {exit:?}"));
        }
        records.end(total);
        Outcome::Finished
    }
}

impl Workload for Detached {
    const WORK: Work = ROW;

    async fn job(&mut self, stage: &Stage, random: &mut Random) -> Outcome {
        let begin = Instant::now();
        let session = match self.0.get(stage, ROW).await {
            Ok(session) => session,
            Err(outcome) => return outcome,
        };
        let (batches, per_batch) = (random.within(5..25), random.within(100..600));
        let total = batches * per_batch * RECORD;
        let line = writer(batches, per_batch, "0.1");
        let command = match random.once_in(3) {
            true => {
                Command::line(format!("stty raw -echo; {line}")).terminal(TerminalSize { cols: 80, rows: 24 })
            }
            false => Command::line(line),
        };
        let starting = session.start(command.env(WORK, ROW.name()).detach());
        let mut process = match answer(stage, ROW, "exec.start", starting).await {
            Some(Ok(process)) => process,
            // If it was started, it is not followed; it must have ended by itself at the end of the run.
            Some(Err(error)) => return self.0.judge(stage, ROW, &error),
            None => return Outcome::InDoubt,
        };
        let (id, mut records) = (process.id().to_owned(), Records::default());
        let mut trail = Vec::new();
        let mut outcome = Outcome::InDoubt;
        for _ in 0..MAX_READERS {
            let part = records.position + random.within(1..2 * total);
            match read(stage, ROW, &mut process, &mut records, part).await {
                End::Exit(exit) => {
                    outcome = self.check(stage, &id, &exit, &mut records, total);
                    break;
                }
                End::Silent => break,
                End::Failed(error) => {
                    self.judge(stage, &error);
                    trail.push(format!(
                        "{error} at {} after {} ms",
                        records.cursor,
                        begin.elapsed().as_millis()
                    ));
                }
                End::Enough => {
                    self.0.close(stage, ROW).await;
                    trail.push(format!(
                        "closed at {} after {} ms",
                        records.cursor,
                        begin.elapsed().as_millis()
                    ));
                }
            }
            match self.attach_again(stage, &id, &mut records, random).await {
                Some(attached) => process = attached,
                None => break,
            }
        }
        if outcome == Outcome::Finished {
            self.0.prove(begin);
        }
        count(stage, &format!("{id} {}", trail.join(", ")), (&id, &records), begin);
        outcome
    }

    async fn end(&mut self, stage: &Stage) {
        self.0.close(stage, ROW).await;
    }
}

impl Detached {
    /// Attaches as soon as a daemon is there.
    async fn attach_again(
        &mut self,
        stage: &Stage,
        id: &str,
        records: &mut Records,
        random: &mut Random,
    ) -> Option<Process> {
        for _ in 0..MAX_READERS {
            if let Ok(process) = self.attach(stage, id, records).await {
                return Some(process);
            }
            tokio::time::timeout(random.time(50..250), std::future::pending::<()>()).await.ok();
        }
        stage.counters.unanswered(ROW, format!("{id} cannot be attached to"));
        None
    }
}

/// Counts what the records show: only a full disk excuses a report of lost output.
fn count(stage: &Stage, note: &str, (id, records): (&str, &Records), begin: Instant) {
    let note = |what: &str| format!("{what}{note}: {records:?}; {}", stage.history.list(begin));
    if records.lost > 0 {
        stage.counters.lost(ROW, records.lost, note(""));
    }
    if records.twice > 0 {
        stage.counters.twice(ROW, records.twice, note(""));
    }
    stage.counters.reported(ROW, records.reported);
    let excuses = [FaultKind::FullDisk];
    if records.reported > 0 && !stage.history.since(begin, &excuses) && !stage.history.killed_keeper_of(id) {
        stage.counters.lost(ROW, records.reported, note("the disk was not full: "));
    }
}
