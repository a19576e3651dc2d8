//! Attached commands: output on either stream, and input that is echoed. Some leave a background process behind.

use std::time::Instant;

use client::{Command, ProcessControl};

use super::reading::{End, read};
use super::sessions::{Sessions, Way};
use super::{Workload, answer};
use crate::Stage;
use crate::counters::{Outcome, Work};
use crate::faults::FaultKind;
use crate::leftovers::WORK;
use crate::random::Random;
use crate::records::{RECORD, Records, bytes, writer};

const ROW: Work = Work::Commands;
/// Bytes of one `exec.input`.
const PIECE: u64 = 40_000;
/// Sessions are closed after about so many jobs.
const JOBS_PER_SESSION: u64 = 8;

pub(super) struct Commands(Sessions);

impl Commands {
    pub(super) fn new(way: Way) -> Commands {
        Commands(Sessions::new(way, false))
    }
}

impl Workload for Commands {
    const WORK: Work = ROW;

    async fn job(&mut self, stage: &Stage, random: &mut Random) -> Outcome {
        let begin = Instant::now();
        if random.once_in(JOBS_PER_SESSION) {
            self.0.close(stage, ROW).await;
        }
        let session = match self.0.get(stage, ROW).await {
            Ok(session) => session,
            Err(outcome) => return outcome,
        };
        let (batches, per_batch) = (random.within(2..12), random.within(200..900));
        let total = batches * per_batch * RECORD;
        let echoes = random.once_in(3);
        let line = match echoes {
            true => "exec cat".to_owned(),
            false => writer(batches, per_batch, "0.05"),
        };
        let stray = if random.once_in(4) { "(setsid sleep 600 >/dev/null 2>&1 </dev/null &);" } else { "" };
        let to = if random.once_in(2) { "exec 1>&2;" } else { "" };
        let command = Command::line(format!("{to}{stray}{line}")).env(WORK, ROW.name());
        let mut process = match answer(stage, ROW, "exec.start", session.start(command)).await {
            Some(Ok(process)) => process,
            Some(Err(error)) => return self.0.judge(stage, ROW, &error),
            None => return Outcome::InDoubt,
        };
        let (control, mut records) = (process.control(), Records::default());
        let (end, ()) = tokio::join!(read(stage, ROW, &mut process, &mut records, u64::MAX), async {
            if echoes {
                feed(stage, &control, total).await;
            }
        });
        let outcome = match end {
            End::Exit(exit) => {
                records.end(total);
                if exit.status() != 0 {
                    stage.counters.lost(ROW, 1, format!("{exit:?}"));
                }
                self.0.prove(begin);
                Outcome::Finished
            }
            End::Failed(error) => self.0.judge(stage, ROW, &error),
            End::Silent | End::Enough => Outcome::InDoubt,
        };
        count(stage, ROW, &records, begin);
        outcome
    }

    async fn end(&mut self, stage: &Stage) {
        self.0.close(stage, ROW).await;
    }
}

/// Writes all records and closes the input. The reader reports a lost session.
async fn feed(stage: &Stage, control: &ProcessControl, total: u64) {
    for from in (0..total).step_by(usize::try_from(PIECE).unwrap()) {
        let piece = bytes(from, total.min(from + PIECE));
        let Some(Ok(())) = answer(stage, ROW, "exec.input", control.input(&piece)).await else { return };
    }
    answer(stage, ROW, "exec.input", control.close_input()).await;
}

/// Counts what the records of an attached process show. A disconnected process may drop output only on a full disk.
pub(super) fn count(stage: &Stage, work: Work, records: &Records, begin: Instant) {
    if records.lost > 0 {
        stage.counters.lost(work, records.lost, format!("{records:?}"));
    }
    if records.twice > 0 {
        stage.counters.twice(work, records.twice, format!("{records:?}"));
    }
    stage.counters.reported(work, records.reported);
    if records.reported > 0 && !stage.history.since(begin, &[FaultKind::FullDisk]) {
        stage.counters.lost(work, records.reported, format!("the disk was not full: {records:?}"));
    }
}
