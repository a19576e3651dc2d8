//! Session: the scope that owns processes. Processes that it started end with it.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::engine::SessionSlot;
use crate::files::WatchGroup;
use crate::process::{
    self, KeptProcess, Launcher, LogReader, PendingStart, Process, ProcessId, ProcessLimits, ProcessSpec,
    StartTime,
};
use crate::registry::Registry;

/// Output of finished processes kept in memory per session: 8 MiB; beyond it the oldest is dropped and reported as lost.
const FINISHED_BYTES: usize = 8 * 1024 * 1024;

/// Retained processes from which on their memory is returned to the system with the session: 64. Each has about 5 KiB.
const MANY_PROCESSES: usize = 64;

/// Owns processes. One task holds it; dropping it kills the processes it started, without waiting.
pub struct Session {
    bounds: ProcessLimits,
    launcher: Arc<Launcher>,
    registry: Registry,
    processes: HashMap<ProcessId, SessionProcess>,
    finished: VecDeque<Finished>,
    finished_bytes: usize,
    /// Prefix of the marks of all its processes.
    mark: String,
    /// The time just before the first of them was started.
    started: Option<StartTime>,
    /// Its file watches, which share one inotify instance.
    watches: WatchGroup,
    tasks: TaskTracker,
    stop: CancellationToken,
    _slot: Option<SessionSlot>,
}

#[derive(Debug)]
struct SessionProcess {
    process: Process,
    /// Whether it is among the finished ones; several readers may report the end of one process.
    is_finished: bool,
}

#[derive(Debug)]
struct Finished {
    id: ProcessId,
    at: Instant,
    bytes: usize,
}

/// How many finished processes a session retains, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct FinishedRetention {
    /// Number of finished processes; beyond it the oldest is removed.
    pub count: usize,
    /// Time after which a finished process is removed.
    pub time: Duration,
}

impl Session {
    pub(crate) fn new(
        bounds: ProcessLimits,
        launcher: Arc<Launcher>,
        registry: Registry,
        stop: CancellationToken,
        slot: Option<SessionSlot>,
    ) -> Result<Session, Error> {
        let mark = format!("{}{}.", launcher.mark()?, random_name()?);
        Ok(Session {
            bounds,
            launcher,
            registry,
            processes: HashMap::new(),
            finished: VecDeque::new(),
            finished_bytes: 0,
            mark,
            started: None,
            watches: WatchGroup::default(),
            tasks: TaskTracker::new(),
            stop,
            _slot: slot,
        })
    }

    /// The group of the session's file watches.
    pub fn watches(&self) -> &WatchGroup {
        &self.watches
    }

    /// Registers a process and begins to start it. It can be killed from now on.
    pub fn start(&mut self, spec: ProcessSpec) -> Result<PendingStart, Error> {
        let name = random_name()?;
        self.started.get_or_insert_with(StartTime::now);
        let id = (ProcessId(format!("p_{name}")), format!("{}{name}", self.mark));
        let life = (&self.tasks, self.stop.clone());
        let starting = Process::begin(id, spec, &self.bounds, (&self.launcher, &self.registry), life);
        self.insert(starting.process().clone());
        Ok(starting)
    }

    /// Attaches to a process that a keeper owns, with a primary reader from the cursor at which the keeper starts. The
    /// keeper waits for that reader until it is dropped. The process outlives the session.
    pub fn adopt(&mut self, kept: KeptProcess) -> (Process, LogReader) {
        let (process, reader) = Process::adopt(kept, &self.bounds, (&self.tasks, self.stop.clone()));
        self.insert(process.clone());
        (process, reader)
    }

    fn insert(&mut self, process: Process) {
        let id = process.id().clone();
        let before = self.processes.insert(id.clone(), SessionProcess { process, is_finished: false });
        // Attached again: it no longer counts as finished.
        if before.is_some_and(|known| known.is_finished)
            && let Some(slot) = self.finished.iter().position(|finished| finished.id == id)
            && let Some(finished) = self.finished.remove(slot)
        {
            self.finished_bytes -= finished.bytes;
        }
    }

    /// The process of this session with this id.
    pub fn process(&self, id: &ProcessId) -> Result<&Process, Error> {
        let known = self.processes.get(id).ok_or_else(|| Error::NoSuchProcess(id.clone()))?;
        Ok(&known.process)
    }

    /// All processes of this session, retained finished ones included.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.values().map(|known| &known.process)
    }

    /// How many of its own processes have not ended. Processes owned by a keeper do not count.
    pub fn running(&self) -> usize {
        let is_own = |process: &&Process| !process.description().is_detached;
        self.processes().filter(is_own).filter(|process| process.state().closed.is_none()).count()
    }

    /// Whether fewer than `limit` processes run. Counts them one by one only if the number of retained ones does not
    /// decide it.
    pub fn has_capacity(&self, limit: usize) -> bool {
        self.processes.len().saturating_sub(self.finished.len()) < limit || self.running() < limit
    }

    /// Removes a process, for example one that could not be started.
    pub fn remove(&mut self, id: &ProcessId) {
        self.processes.remove(id);
    }

    /// Retains a process whose end was read, and removes older ones beyond `memory`.
    pub fn retain_finished(&mut self, id: &ProcessId, memory: FinishedRetention) {
        let Some(known) = self.processes.get_mut(id).filter(|known| !known.is_finished) else { return };
        known.is_finished = true;
        let bytes = known.process.memory();
        self.finished.push_back(Finished { id: id.clone(), at: Instant::now(), bytes });
        self.finished_bytes += bytes;
        while self.finished_bytes > FINISHED_BYTES {
            let Some(oldest) = self.finished.iter_mut().find(|finished| finished.bytes > 0) else { break };
            self.finished_bytes -= std::mem::take(&mut oldest.bytes);
            if let Some(known) = self.processes.get(&oldest.id) {
                known.process.forget_output();
            }
        }
        let is_too_old = |finished: &Finished| finished.at.elapsed() > memory.time;
        while self.finished.len() > memory.count || self.finished.front().is_some_and(is_too_old) {
            let Some(oldest) = self.finished.pop_front() else { break };
            self.finished_bytes -= oldest.bytes;
            self.processes.remove(&oldest.id);
        }
    }

    /// Whether it retains so many processes that their memory should be returned to the system with [`crate::Engine::release_memory`]
    /// after it was closed.
    pub fn retains_many(&self) -> bool {
        self.processes.len() >= MANY_PROCESSES
    }

    /// Begins to kill every process, including those started later.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Kills every process and waits until all members of their trees are gone, background jobs included.
    pub async fn close(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(started) = self.started {
            process::end_runaways(self.mark.clone(), started, self.launcher.candidates()).await;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("processes", &self.processes.len()).finish_non_exhaustive()
    }
}

/// Twelve random hexadecimal digits, not guessable.
pub fn random_name() -> Result<String, Error> {
    let mut bytes = [0; 6];
    // The system call directly: in a static program the crate would open files.
    let asked = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if asked != Ok(bytes.len()) {
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::Unsupported { what: "randomness", reason: error.to_string() })?;
    }
    Ok(bytes.iter().fold(String::with_capacity(12), |mut name, byte| {
        for digit in [byte >> 4, byte & 15] {
            name.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
        name
    }))
}
