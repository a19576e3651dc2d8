//! Commands through a hub: output and echoed input of processes of an executor, over relay streams.

use std::time::Instant;

use client::exec_server::v1::ExecParams;
use client::exec_server::{
    ExecServerClient, ExecServerError, ExecServerEvent, ExecServerProcess, RemoteExecServerConnectArgs,
};

use super::{Workload, answer};
use crate::Stage;
use crate::counters::{Outcome, Work};
use crate::faults::FaultKind;
use crate::leftovers::WORK;
use crate::random::Random;
use crate::records::{RECORD, Records, bytes, writer};

const ROW: Work = Work::Relay;
/// Bytes of one `process/write`.
const PIECE: u64 = 40_000;
/// Sessions end with the executor, and if it or the hub is away for longer than they are kept.
const ENDS_SESSIONS: [FaultKind; 4] =
    [FaultKind::KillExecutor, FaultKind::KillHub, FaultKind::HalfOpenExecutor, FaultKind::HalfOpenHarness];

pub(super) struct Relay {
    name: &'static str,
    client: Option<ExecServerClient>,
    jobs: u64,
    /// When the session last proved to be alive, and the cuts of the executor's connection until then.
    proved: (Instant, usize),
}

impl Relay {
    pub(super) fn new(name: &'static str) -> Relay {
        Relay { name, client: None, jobs: 0, proved: (Instant::now(), 0) }
    }

    async fn client(&mut self, stage: &Stage) -> Result<ExecServerClient, Outcome> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        self.proved = now(stage);
        let args = RemoteExecServerConnectArgs {
            bearer_token: Some(stage.system.token.clone()),
            ..RemoteExecServerConnectArgs::new(stage.system.rendezvous(), "soak")
        };
        let connecting = ExecServerClient::connect_relay(args);
        match answer(stage, ROW, "initialize", connecting).await {
            Some(Ok(client)) => Ok(self.client.insert(client).clone()),
            // Any error at this point reports that nothing was done.
            Some(Err(_refused)) => Err(Outcome::Refused),
            None => Err(Outcome::InDoubt),
        }
    }

    fn judge(&mut self, stage: &Stage, error: &ExecServerError) -> Outcome {
        match error {
            ExecServerError::Ambiguous { .. } => Outcome::InDoubt,
            ExecServerError::Lost(_) | ExecServerError::Closed | ExecServerError::Connect(_) => {
                let (proved, cuts) = self.proved;
                let was_cut = stage.system.executor_link.cuts() > cuts;
                if !was_cut && !stage.history.since(proved, &ENDS_SESSIONS) {
                    stage.counters.lost(ROW, 1, format!("the executor was always there: {error}"));
                }
                self.client = None;
                Outcome::InDoubt
            }
            other => {
                stage.counters.unanswered(ROW, other.to_string());
                self.client = None;
                Outcome::InDoubt
            }
        }
    }

    fn params(&self, stage: &Stage, line: String) -> ExecParams {
        let path = ("PATH".to_owned(), "/usr/bin:/bin".to_owned());
        ExecParams {
            process_id: format!("{}-{}", self.name, self.jobs),
            argv: ["sh".to_owned(), "-c".to_owned(), line].into(),
            cwd: format!("file://{}", stage.system.sandbox.root().display()),
            env: [path, (WORK.to_owned(), ROW.name().to_owned())].into(),
            pipe_stdin: true,
            ..ExecParams::default()
        }
    }
}

impl Workload for Relay {
    const WORK: Work = ROW;

    async fn job(&mut self, stage: &Stage, random: &mut Random) -> Outcome {
        let begin = now(stage);
        self.jobs += 1;
        let client = match self.client(stage).await {
            Ok(client) => client,
            Err(outcome) => return outcome,
        };
        let (batches, per_batch) = (random.within(2..10), random.within(100..600));
        let (echoes, total) = (random.once_in(2), batches * per_batch * RECORD);
        let line = match echoes {
            true => format!("exec head -c {total}"),
            false => writer(batches, per_batch, "0.05"),
        };
        let starting = client.start(self.params(stage, line));
        let mut process = match answer(stage, ROW, "process/start", starting).await {
            Some(Ok(process)) => process,
            Some(Err(error)) => return self.judge(stage, &error),
            None => return Outcome::InDoubt,
        };
        let mut records = Records::default();
        let outcome = match follow(stage, &mut process, &mut records, (total, echoes)).await {
            Some(Ok(())) => {
                records.end(total);
                self.proved = begin;
                Outcome::Finished
            }
            Some(Err(error)) => self.judge(stage, &error),
            None => Outcome::InDoubt,
        };
        if records.lost + records.reported > 0 {
            stage.counters.lost(ROW, records.lost + records.reported, format!("{records:?}"));
        }
        if records.twice > 0 {
            stage.counters.twice(ROW, records.twice, format!("{records:?}"));
        }
        outcome
    }

    async fn end(&mut self, stage: &Stage) {
        if let Some(client) = self.client.take() {
            answer(stage, ROW, "the end of a connection", client.close()).await;
        }
    }
}

fn now(stage: &Stage) -> (Instant, usize) {
    (Instant::now(), stage.system.executor_link.cuts())
}

/// Reads to the end, and writes the records that are to be echoed. `None` if no event comes.
async fn follow(
    stage: &Stage,
    process: &mut ExecServerProcess,
    records: &mut Records,
    (total, echoes): (u64, bool),
) -> Option<Result<(), ExecServerError>> {
    let (mut sent, mut ended) = (if echoes { 0 } else { total }, 0);
    loop {
        // Input goes ahead of its echo by one piece, so that neither direction waits for the other.
        while sent < total && sent < records.position + PIECE {
            let piece = bytes(sent, total.min(sent + PIECE));
            sent += piece.len() as u64;
            if let Err(error) = answer(stage, ROW, "process/write", process.write(piece)).await? {
                return Some(Err(error));
            }
        }
        match answer(stage, ROW, "the next event of a process", process.next()).await? {
            Ok(Some(ExecServerEvent::Output { bytes, .. })) => records.add(&bytes, None),
            Ok(Some(ExecServerEvent::Lost { bytes })) => records.add_loss(bytes),
            Ok(Some(ExecServerEvent::Exited { exit_code, .. })) => {
                ended += 1;
                if ended > 1 {
                    stage.counters.twice(ROW, 1, "an exit".to_owned());
                }
                if exit_code != 0 {
                    stage.counters.lost(ROW, 1, format!("exit code {exit_code}"));
                }
            }
            Ok(Some(_closed)) => return Some(Ok(())),
            Ok(None) => return Some(Err(ExecServerError::Closed)),
            Err(error) => return Some(Err(error)),
        }
    }
}
