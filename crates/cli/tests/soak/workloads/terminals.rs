//! Terminals: raw output, and input that is echoed while the terminal is resized.

use std::time::Instant;

use client::{Command, Process, TerminalSize};

use super::commands::count;
use super::reading::{End, read};
use super::sessions::{Sessions, Way};
use super::{Workload, answer};
use crate::Stage;
use crate::counters::{Outcome, Work};
use crate::leftovers::WORK;
use crate::random::Random;
use crate::records::{RECORD, Records, bytes, writer};

const ROW: Work = Work::Terminals;
/// Bytes of one `pty.input`.
const PIECE: u64 = 3_000;

pub(super) struct Terminals(Sessions);

impl Terminals {
    pub(super) fn new(way: Way) -> Terminals {
        Terminals(Sessions::new(way, false))
    }
}

impl Workload for Terminals {
    const WORK: Work = ROW;

    async fn job(&mut self, stage: &Stage, random: &mut Random) -> Outcome {
        let begin = Instant::now();
        let session = match self.0.get(stage, ROW).await {
            Ok(session) => session,
            Err(outcome) => return outcome,
        };
        let (batches, per_batch) = (random.within(2..10), random.within(50..300));
        let (echoes, total) = (random.once_in(2), batches * per_batch * RECORD);
        // The terminal is raw before the first record, which is written by the shell in either case.
        let line = match echoes {
            true => format!("stty raw -echo; seq -f %063.0f 0 0; exec head -c {}", total - RECORD),
            false => format!("stty raw -echo; {}", writer(batches, per_batch, "0.05")),
        };
        let command = Command::line(line).terminal(size(random)).env(WORK, ROW.name());
        let mut process = match answer(stage, ROW, "pty.open", session.start(command)).await {
            Some(Ok(process)) => process,
            Some(Err(error)) => return self.0.judge(stage, ROW, &error),
            None => return Outcome::InDoubt,
        };
        let mut records = Records::default();
        let mut end = read(stage, ROW, &mut process, &mut records, RECORD).await;
        if matches!(end, End::Enough) {
            end = follow(stage, &mut process, &mut records, (total, echoes), random).await;
        }
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

fn size(random: &mut Random) -> TerminalSize {
    let mut number = |range| u16::try_from(random.within(range)).unwrap();
    TerminalSize { cols: number(20..200), rows: number(5..80) }
}

/// Reads to the end, and writes the records that are to be echoed.
async fn follow(
    stage: &Stage,
    process: &mut Process,
    records: &mut Records,
    (total, echoes): (u64, bool),
    random: &mut Random,
) -> End {
    let control = process.control();
    let feed = async {
        for from in (RECORD..total).step_by(usize::try_from(PIECE).unwrap()).filter(|_| echoes) {
            let piece = bytes(from, total.min(from + PIECE));
            let Some(Ok(())) = answer(stage, ROW, "pty.input", control.input(&piece)).await else { return };
            if random.once_in(4) {
                // It may be refused, because the process has ended, but it is answered.
                answer(stage, ROW, "pty.resize", control.resize(size(random))).await;
            }
        }
    };
    tokio::join!(read(stage, ROW, process, records, u64::MAX), feed).0
}
