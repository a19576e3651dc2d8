//! Reading the events of a process to its end.

use client::process::OutputLoss;
use client::{Error, Process, ProcessEventKind, ProcessExit};

use super::answer;
use crate::Stage;
use crate::counters::Work;
use crate::records::Records;

/// How the events of a process ended.
pub(super) enum End {
    Exit(ProcessExit),
    Failed(Error),
    /// No event came in time; it is counted.
    Silent,
    /// There were as many bytes as requested; more follow.
    Enough,
}

/// Reads events until the exit, or until the records have so many bytes.
pub(super) async fn read(
    stage: &Stage,
    work: Work,
    process: &mut Process,
    records: &mut Records,
    until: u64,
) -> End {
    while records.position < until {
        let event = match answer(stage, work, "the next event of a process", process.next()).await {
            Some(Ok(Some(event))) => event,
            Some(Ok(None)) => return End::Failed(Error::MissingExit { process_id: process.id().to_owned() }),
            Some(Err(error)) => return End::Failed(error),
            None => return End::Silent,
        };
        match event.kind {
            ProcessEventKind::Stdout(bytes)
            | ProcessEventKind::Stderr(bytes)
            | ProcessEventKind::Terminal(bytes) => records.add(&bytes, event.cursor),
            ProcessEventKind::Lost(OutputLoss::Bytes { bytes, .. }) => records.add_loss(Some(bytes)),
            ProcessEventKind::Lost(OutputLoss::Events(_)) => records.add_loss(None),
            ProcessEventKind::Error(error) => {
                stage.counters.unanswered(work, format!("an error of a process: {error}"));
            }
            ProcessEventKind::Exit(exit) => {
                if let Some(Ok(Some(event))) = answer(stage, work, "the end of events", process.next()).await
                {
                    stage.counters.twice(work, 1, format!("an event after the exit: {event:?}"));
                }
                return End::Exit(exit);
            }
        }
    }
    End::Enough
}
