//! Workloads: each repeats one kind of job and compares what it receives with what it must receive. One file per kind.

mod approvals;
mod commands;
mod copies;
mod detached;
mod reading;
mod relay;
mod sessions;
mod terminals;

use std::rc::Rc;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::counters::{Outcome, Work};
use crate::random::Random;
use crate::{ANSWER, Stage};
use sessions::Way;

/// One kind of job.
trait Workload {
    /// The row of its counters.
    const WORK: Work;

    /// Runs a job to its end.
    async fn job(&mut self, stage: &Stage, random: &mut Random) -> Outcome;

    /// Ends sessions and checks what can be checked only at the end.
    async fn end(&mut self, stage: &Stage);
}

/// Starts all workloads. Each ends when it has completed a job that began after the last fault.
pub(crate) fn start(stage: &Rc<Stage>, working: &mut JoinSet<()>) {
    let mut number = 0;
    let mut add = |stage: &Rc<Stage>| {
        number += 1;
        (stage.clone(), stage.settings.random(number))
    };
    for way in [Way::Unix, Way::WebSocket] {
        working.spawn_local(repeat(commands::Commands::new(way), add(stage)));
        working.spawn_local(repeat(terminals::Terminals::new(way), add(stage)));
        working.spawn_local(repeat(detached::Detached::new(way), add(stage)));
    }
    working.spawn_local(repeat(copies::Copies::new(stage, copies::CopyDirection::Up), add(stage)));
    working.spawn_local(repeat(copies::Copies::new(stage, copies::CopyDirection::Down), add(stage)));
    working.spawn_local(repeat(approvals::Approvals::new(stage), add(stage)));
    for name in ["a", "b"] {
        working.spawn_local(repeat(relay::Relay::new(name), add(stage)));
    }
}

async fn repeat<W: Workload>(mut workload: W, (stage, mut random): (Rc<Stage>, Random)) {
    loop {
        let is_calm = stage.is_calm.get();
        stage.counters.started(W::WORK);
        let outcome = workload.job(&stage, &mut random).await;
        stage.counters.ended(W::WORK, outcome);
        if is_calm && outcome == Outcome::Finished {
            break;
        }
        if outcome != Outcome::Finished {
            // A program that is not there yet refuses at once.
            timeout(random.time(50..250), std::future::pending::<()>()).await.ok();
        }
    }
    workload.end(&stage).await;
}

/// Waits for an answer; counts its absence.
async fn answer<T>(stage: &Stage, work: Work, what: &str, answer: impl Future<Output = T>) -> Option<T> {
    let answered = timeout(ANSWER, answer).await.ok();
    if answered.is_none() {
        stage.counters.unanswered(work, format!("{what} within {} s", ANSWER.as_secs()));
    }
    answered
}
