//! Processes and questions of the other faces of this daemon, as runs that hub users watch and answer.

use std::collections::HashSet;
use std::sync::Arc;

use engine::Error;
use engine::approval::{Approval, Operation};
use engine::process::{Description, ExitStatus, Process, ProcessId};
use sha2::{Digest as _, Sha256};

use super::Host;
use super::identity::to_uuid;
use super::journal::RunRecord;
use super::run::{Run, now};
use crate::core::is_unauthenticated;
use crate::core::session::Face as _;
use crate::keeper::{ListedProcess, boot_id};

/// Runs of other faces at the same time; further processes are not shared.
const MAX_SHARED: usize = 1_024;
/// Ended runs of other faces that not every hub has; beyond it the oldest is dropped.
const MAX_ENDED: usize = 256;

/// The id of the run of a process or question: the same after a restart, and different on every host.
fn run_id(host: &Host, id: &str) -> String {
    let digest = Sha256::digest(format!("{} {id}", host.settings.identity.id));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    format!("run-{}", to_uuid(bytes))
}

/// Shares every process of another face, those that run and those that are started later, until the daemon ends.
pub(super) async fn share_processes(host: Arc<Host>) {
    let core = host.core().clone();
    let mut starts = core.engine.process_starts();
    let mut kept_starts = core.keepers.as_ref().map(|keepers| keepers.process_starts());
    // A process that has ended stays listed while its session retains it, also after its run is forgotten.
    let mut shared: HashSet<ProcessId> = HashSet::new();
    loop {
        starts.mark_unchanged();
        let processes = core.engine.processes().await;
        let known =
            std::mem::replace(&mut shared, processes.iter().map(|found| found.id().clone()).collect());
        for process in processes.into_iter().filter(|process| !known.contains(process.id())) {
            share(&host, process).await;
        }
        if let (Some(keepers), Some(kept)) = (&core.keepers, &mut kept_starts) {
            kept.mark_unchanged();
            for listed in keepers.list().await {
                share_kept(&host, listed).await;
            }
        }
        let kept_changed = async {
            match &mut kept_starts {
                Some(kept) => kept.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        let is_open = tokio::select! {
            changed = starts.changed() => changed.is_ok(),
            is_open = kept_changed => is_open,
        };
        if !is_open {
            return;
        }
    }
}

async fn share(host: &Arc<Host>, process: Process) {
    let Some(record) = new_record(host, process.id(), process.description(), false) else { return };
    let shared = match is_unauthenticated(&process.description().origin) {
        true => host.runs.share_unwatched(host.core(), record, process).await,
        false => {
            let reader = process.reader(process.first());
            host.runs.share(host.core(), record, (process, reader)).await
        }
    };
    if let Err(error) = shared {
        tracing::warn!(%error, "hub users do not see a process");
    }
}

async fn share_kept(host: &Arc<Host>, listed: ListedProcess) {
    if listed.facts.closed.is_some() {
        return;
    }
    let Some(record) = new_record(host, &listed.id, &listed.description, true) else { return };
    if let Err(error) = host.runs.share_kept(host.core(), record).await {
        tracing::warn!(%error, "hub users do not see a process");
    }
}

/// The record of a process that is not shared yet.
fn new_record(host: &Host, id: &ProcessId, description: &Description, is_kept: bool) -> Option<RunRecord> {
    let run_id = run_id(host, &id.0);
    let is_known = description.origin == Host::NAME || host.runs.get(&run_id).is_some();
    if is_known || host.runs.shared() >= MAX_SHARED {
        return None;
    }
    host.runs.drop_ended_shared(MAX_ENDED);
    Some(RunRecord {
        run_id,
        process: id.0.clone(),
        is_kept,
        tool: description.origin.to_string(),
        cwd: description.cwd.display().to_string(),
        command: host.redaction.text(&description.argv.join(" ")),
        has_terminal: description.has_terminal,
        is_own: false,
        started_at: now(),
        boot: boot_id(),
        request_id: None,
    })
}

/// A run for a question that belongs to none.
pub(super) async fn question_run(host: &Arc<Host>, approval: &Approval) -> Result<Arc<Run>, Error> {
    let request = &approval.request;
    let run_id = run_id(host, &approval.id);
    if let Some(run) = host.runs.get(&run_id) {
        return Ok(run);
    }
    let cwd = match &request.operation {
        Operation::Run { cwd, .. } => cwd.display().to_string(),
        Operation::Files { paths, .. } => paths
            .first()
            .and_then(|path| path.parent())
            .map(|path| path.display().to_string())
            .unwrap_or_default(),
    };
    let record = RunRecord {
        run_id,
        process: approval.id.to_string(),
        is_kept: false,
        tool: request.requester.face.to_owned(),
        cwd,
        command: host.redaction.text(&request.operation.summary()),
        has_terminal: false,
        is_own: false,
        started_at: now(),
        boot: boot_id(),
        request_id: None,
    };
    host.runs.add_question(record).await
}

/// Ends the run of a question.
pub(super) async fn end_question_run(run: &Arc<Run>, decision: &str) {
    run.append_exit(ExitStatus::Code(i32::from(!decision.starts_with("approve")))).await;
}
