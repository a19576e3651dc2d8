//! All runs of this host: those it starts, and those that an earlier daemon has left.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::Error;
use engine::process::{Cursor, ExitStatus, LogReader, ProcessId, ProcessSpec, Signal, TerminalSize};
use tokio::sync::{mpsc, watch};
use wire::hub::v1::{HeldRun, RunStarted, kind};

use super::convert::DEFAULT_SIZE;
use super::input::InputCommand;
use super::journal::{RunJournal, RunRecord};
use super::redaction::Redaction;
use super::run::Run;
use super::screen::RunScreen;
use crate::core::Core;
use crate::core::state::create_private_dir;
use crate::keeper::Keepers;

/// Wakes the connections to the hubs when a journal has changed. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct ChangeSignal(Arc<watch::Sender<u64>>);

impl ChangeSignal {
    pub(super) fn notify(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// What all runs share.
#[derive(Debug, Clone)]
pub(super) struct RunContext {
    pub(super) changed: ChangeSignal,
    pub(super) redaction: Arc<Redaction>,
    pub(super) keepers: Option<Keepers>,
    /// How long a prompt waits for a decision before it is denied; `None` for ever.
    pub(super) prompt_timeout: Option<Duration>,
}

/// The runs by their ids.
#[derive(Debug)]
pub(super) struct Runs {
    dir: PathBuf,
    /// Bytes of one journal; beyond it the oldest events are dropped.
    journal_bytes: u64,
    /// Every hub that must have an event before it is dropped.
    hubs: Vec<String>,
    context: RunContext,
    by_id: Mutex<HashMap<String, Arc<Run>>>,
    /// Runs of an earlier daemon whose process is gone. They end once a hub has said which events it has: after a crash of
    /// the machine, it may have events that are not in the journal.
    dead: Mutex<Vec<Arc<Run>>>,
}

impl Runs {
    /// The runs with journals in this directory, which is created.
    pub(super) fn new(
        dir: PathBuf,
        journal_bytes: u64,
        hubs: Vec<String>,
        context: RunContext,
    ) -> io::Result<Runs> {
        create_private_dir(&dir)?;
        Ok(Runs { dir, journal_bytes, hubs, context, by_id: Mutex::default(), dead: Mutex::default() })
    }

    /// Resolves when a journal has changed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.context.changed.subscribe()
    }

    /// The hubs that must have an event before it is dropped.
    pub(super) fn hubs(&self) -> &[String] {
        &self.hubs
    }

    /// The run with this id.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Run>> {
        self.by_id().get(id).cloned()
    }

    /// All runs, ended ones included.
    pub(super) fn all(&self) -> Vec<Arc<Run>> {
        self.by_id().values().cloned().collect()
    }

    /// The run that a request has started.
    pub(super) fn started_by(&self, request_id: &str) -> Option<Arc<Run>> {
        let is_started = |run: &&Arc<Run>| run.record.request_id.as_deref() == Some(request_id);
        self.by_id().values().find(is_started).cloned().filter(|_| !request_id.is_empty())
    }

    /// The runs with events that a hub does not have, and those that will have more, which are those that run and `others`:
    /// a hub that was restored from a backup may have lost the events that it has acknowledged.
    pub(super) fn held_for(&self, hub: &str, others: &HashSet<String>) -> Vec<HeldRun> {
        let held = self.all().into_iter().filter_map(|run| {
            let journal = run.journal();
            let last_seq = journal.last();
            let has_more = journal.acknowledged_by(hub) < last_seq
                || journal.ended().is_none()
                || others.contains(&run.record.run_id);
            (last_seq > 0 && has_more).then(|| HeldRun { run_id: run.record.run_id.clone(), last_seq })
        });
        held.collect()
    }

    fn by_id(&self) -> MutexGuard<'_, HashMap<String, Arc<Run>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, journal: RunJournal) -> (Arc<Run>, mpsc::Receiver<InputCommand>) {
        let screen = RunScreen::file_of(&self.dir, &journal.record().run_id);
        let (run, inputs) = Run::new(journal, screen, self.context.clone());
        self.by_id().insert(run.record.run_id.clone(), run.clone());
        (run, inputs)
    }

    /// Creates the journal and the screen of a run.
    async fn create(
        &self,
        record: RunRecord,
        size: TerminalSize,
    ) -> Result<(Arc<Run>, mpsc::Receiver<InputCommand>), Error> {
        let (dir, bytes) = (self.dir.clone(), self.journal_bytes);
        let created = tokio::task::spawn_blocking(move || RunJournal::create(&dir, record, bytes)).await;
        let failed = |source| Error::File { action: "create", path: self.dir.clone(), source };
        let (run, inputs) = self.insert(created.map_err(|_stopped| Error::Gone)?.map_err(failed)?);
        let owner = run.clone();
        let open = move || owner.open_screen(|file| RunScreen::create(file, size));
        tokio::task::spawn_blocking(open).await.map_err(|_stopped| Error::Gone)?;
        Ok((run, inputs))
    }

    /// Builds the screen of a run of an earlier daemon.
    async fn restore_screen(&self, run: &Arc<Run>) {
        let process = ProcessId(run.record.process.clone());
        let keepers = self.context.keepers.as_ref().filter(|_| run.record.is_kept);
        let log = keepers.and_then(|keepers| keepers.stored_output(&process).ok());
        let owner = run.clone();
        let open = move || {
            owner.open_screen(|file| RunScreen::restore(file, &owner.journal(), log));
        };
        // Fails only while the runtime ends.
        tokio::task::spawn_blocking(open).await.ok();
    }

    fn remove(&self, run: &Run) {
        let id = &run.record.run_id;
        self.by_id().remove(id);
        for file in
            [RunScreen::file_of(&self.dir, id), RunJournal::file_of(&self.dir, id)].into_iter().flatten()
        {
            match std::fs::remove_file(&file) {
                // A run without a terminal has no screen.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, "cannot remove {}", file.display());
                }
                _ => {}
            }
        }
    }

    /// Starts a run under a keeper. Its journal is there before its process, so that no crash leaves a process without one.
    pub(super) async fn start(
        &self,
        core: &Arc<Core>,
        (record, spec): (RunRecord, ProcessSpec),
        by: &str,
    ) -> Result<Arc<Run>, Error> {
        let keepers = keepers(core)?;
        let id = ProcessId(record.process.clone());
        let (run, inputs) = self.create(record, spec.terminal.unwrap_or(DEFAULT_SIZE)).await?;
        if let Err(error) = keepers.start_as(id, spec, by).await {
            self.remove(&run);
            return Err(error);
        }
        run.append(kind::RUN_STARTED, &started_event(&run.record)).await;
        self.attach(core, keepers, &run, inputs).await?;
        Ok(run)
    }

    /// Adds a process of another face as a run. `reader` reads its log from the start.
    pub(super) async fn share(
        &self,
        core: &Arc<Core>,
        record: RunRecord,
        (process, reader): (engine::process::Process, LogReader),
    ) -> Result<(), Error> {
        let (run, inputs) = self.create(record, DEFAULT_SIZE).await?;
        run.append(kind::RUN_STARTED, &started_event(&run.record)).await;
        run.set_process(Some(process));
        spawn(core, run, (reader, inputs), None);
        Ok(())
    }

    /// Adds a process of another face as a run that hub users may stop, but neither watch nor type into.
    pub(super) async fn share_unwatched(
        &self,
        core: &Arc<Core>,
        record: RunRecord,
        process: engine::process::Process,
    ) -> Result<(), Error> {
        let (run, _inputs) = self.create(record, DEFAULT_SIZE).await?;
        run.append(kind::RUN_STARTED, &started_event(&run.record)).await;
        run.set_process(Some(process.clone()));
        let stop = core.stop.clone();
        core.tasks.spawn(async move {
            if let Some(Ok(closed)) = stop.run_until_cancelled(process.closed()).await {
                run.append_exit(closed.exit).await;
            }
        });
        Ok(())
    }

    /// Adds a detached process of another face as a run.
    pub(super) async fn share_kept(&self, core: &Arc<Core>, record: RunRecord) -> Result<(), Error> {
        let keepers = keepers(core)?;
        let (run, inputs) = self.create(record, DEFAULT_SIZE).await?;
        run.append(kind::RUN_STARTED, &started_event(&run.record)).await;
        self.attach(core, keepers, &run, inputs).await
    }

    /// Adds a run that consists of a question only.
    pub(super) async fn add_question(&self, record: RunRecord) -> Result<Arc<Run>, Error> {
        let (run, _inputs) = self.create(record, DEFAULT_SIZE).await?;
        run.append(kind::RUN_STARTED, &started_event(&run.record)).await;
        Ok(run)
    }

    /// How many runs of other faces there are.
    pub(super) fn shared(&self) -> usize {
        self.by_id().values().filter(|run| !run.record.is_own && !run.is_over()).count()
    }

    /// Continues the runs of an earlier daemon.
    pub(super) async fn restore(&self, core: &Arc<Core>) {
        let (dir, bytes) = (self.dir.clone(), self.journal_bytes);
        let journals = tokio::task::spawn_blocking(move || open_all(&dir, bytes)).await.unwrap_or_default();
        for journal in journals {
            let (is_over, has_started) = (journal.ended().is_some(), journal.last() > 0);
            let (run, inputs) = self.insert(journal);
            if is_over {
                run.journal().close();
                continue;
            }
            self.restore_screen(&run).await;
            let attached = match keepers(core) {
                Ok(keepers) if run.record.is_kept => {
                    let found = keepers.find_started(&ProcessId(run.record.process.clone())).await;
                    if found.is_ok() && !has_started {
                        run.append(kind::RUN_STARTED, &started_event(&run.record)).await;
                    }
                    match found {
                        Ok(_) => self.attach(core, keepers, &run, inputs).await,
                        Err(error) => Err(error),
                    }
                }
                _ => Err(Error::Gone),
            };
            match attached {
                Ok(()) => tracing::info!(run = run.record.run_id, "continuing a run"),
                // The daemon ended before its process was started: no event was sent.
                Err(_gone) if !has_started => self.remove(&run),
                Err(_gone) => self.dead().push(run),
            }
        }
    }

    /// Ends the runs whose process did not survive.
    pub(super) async fn end_dead(&self) {
        let dead = std::mem::take(&mut *self.dead());
        for run in dead {
            tracing::info!(run = run.record.run_id, "the process of a run is gone");
            run.append_exit(ExitStatus::Signal(Signal::KILL)).await;
        }
    }

    fn dead(&self) -> MutexGuard<'_, Vec<Arc<Run>>> {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows a detached process after the last output that is an event.
    async fn attach(
        &self,
        core: &Arc<Core>,
        keepers: &Keepers,
        run: &Arc<Run>,
        inputs: mpsc::Receiver<InputCommand>,
    ) -> Result<(), Error> {
        let from = Cursor(run.journal().cursor());
        let (kept, lost) = keepers.kept(&ProcessId(run.record.process.clone()), from).await?;
        if lost > 0 {
            run.append_lost(lost).await;
        }
        let mut session = core.engine.open_uncounted_session(|_| ())?;
        let (process, reader) = session.adopt(kept);
        run.set_process(Some(process));
        spawn(core, run.clone(), (reader, inputs), Some(session));
        Ok(())
    }

    /// Forgets the oldest ended runs of other faces, so that at most `count` are left: while a hub cannot be reached, every
    /// process that ends would stay.
    pub(super) fn drop_ended_shared(&self, count: usize) {
        let is_ended = |run: &Arc<Run>| !run.record.is_own && run.is_over();
        let mut ended: Vec<Arc<Run>> = self.by_id().values().filter(|run| is_ended(run)).cloned().collect();
        ended.sort_by(|one, two| one.record.started_at.cmp(&two.record.started_at));
        for run in ended.iter().take(ended.len().saturating_sub(count)) {
            tracing::warn!(run = run.record.run_id, "dropping a run that not every hub has");
            self.remove(run);
        }
    }

    /// Forgets ended runs that every hub has and whose process is not kept any more, and frees the memory of the others.
    pub(super) async fn forget_old(&self, core: &Arc<Core>) {
        for run in self.all() {
            run.release_output();
            let is_delivered = {
                let journal = run.journal();
                let last = journal.last();
                journal.ended().is_some() && self.hubs.iter().all(|hub| journal.acknowledged_by(hub) >= last)
            };
            if !is_delivered {
                continue;
            }
            let is_kept = match keepers(core) {
                Ok(keepers) if run.record.is_own => {
                    keepers.find(&ProcessId(run.record.process.clone())).await.is_ok()
                }
                _ => false,
            };
            if !is_kept {
                self.remove(&run);
            }
        }
    }
}

/// Runs the two tasks of a run until it ends or the daemon does. `session` holds the connection to its keeper.
fn spawn(
    core: &Arc<Core>,
    run: Arc<Run>,
    (reader, inputs): (LogReader, mpsc::Receiver<InputCommand>),
    session: Option<engine::Session>,
) {
    let stop = core.stop.clone();
    core.tasks.spawn(async move {
        tokio::select! {
            () = run.clone().follow(reader) => {}
            () = run.write_inputs(inputs) => {}
            () = stop.cancelled() => {}
        }
        if let Some(session) = session {
            session.close().await;
        }
    });
}

fn keepers(core: &Core) -> Result<&Keepers, Error> {
    let reason = || "there is no state directory: set HOME or XDG_STATE_HOME".to_owned();
    core.keepers.as_ref().ok_or_else(|| Error::Unsupported { what: "runs", reason: reason() })
}

fn started_event(record: &RunRecord) -> RunStarted {
    RunStarted { tool: record.tool.clone(), cwd: record.cwd.clone(), command: record.command.clone() }
}

/// Opens every journal; one that cannot be read is set aside.
fn open_all(dir: &Path, bytes: u64) -> Vec<RunJournal> {
    let mut journals = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("jsonl") => match RunJournal::open(&path, bytes) {
                Ok(journal) => journals.push(journal),
                Err(error) => {
                    tracing::error!(%error, "cannot read the journal {}", path.display());
                    // The next start does not stumble over it, and a person can look at it.
                    std::fs::rename(&path, path.with_extension("unreadable")).ok();
                }
            },
            // Left by a crash; the file that it was to replace is complete.
            Some("draft" | "screen-draft") => drop(std::fs::remove_file(&path)),
            Some("screen") if !path.with_extension("jsonl").exists() => drop(std::fs::remove_file(&path)),
            _ => {}
        }
    }
    journals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: usize, is_own: bool) -> RunRecord {
        RunRecord {
            run_id: format!("run-{number}"),
            process: format!("p_{number}"),
            is_kept: false,
            tool: "rexd".to_owned(),
            cwd: "/".to_owned(),
            command: "true".to_owned(),
            has_terminal: false,
            is_own,
            started_at: format!("2026-01-01T00:00:0{number}Z"),
            boot: "boot".to_owned(),
            request_id: None,
        }
    }

    #[tokio::test]
    async fn ended_processes_that_no_hub_has_are_limited_in_number_and_hold_no_files() {
        let dir = tempfile::tempdir().unwrap();
        let context = RunContext {
            changed: ChangeSignal::default(),
            redaction: Arc::default(),
            keepers: None,
            prompt_timeout: None,
        };
        let runs = Runs::new(dir.path().join("runs"), u64::MAX, vec!["hub".to_owned()], context).unwrap();
        for number in 0..6 {
            let (run, _inputs) = runs.create(record(number, number == 0), DEFAULT_SIZE).await.unwrap();
            // The last one is still running.
            if number < 5 {
                run.append_exit(ExitStatus::Code(0)).await;
            }
        }
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let files = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        assert_eq!(files.filter(|file| file.starts_with(dir.path())).count(), 1);
        runs.drop_ended_shared(2);
        let mut left: Vec<String> = runs.all().iter().map(|run| run.record.run_id.clone()).collect();
        left.sort();
        assert_eq!(left, ["run-0", "run-3", "run-4", "run-5"]);
    }
}
