//! The daemon's interface to all keepers of the user: start, list, attach, kill, remove.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use engine::Error;
use engine::process::{
    Cursor, KeptProcess, KillOutcome, ProcessId, ProcessSpec, Signal, TerminalSize, TerminalState,
};
use engine::session::random_name;
use link::task::{OwnedTask, Tasks};
use tokio::sync::watch;
use tokio::time::Instant;

use super::client::{self, KeeperClient};
use super::client_connection::{self, InputOutcome};
use super::dir::{KeeperDir, LOG};
use super::listing::{self, ListedProcess};
use super::log_times;
use super::name_lock::NameLock;
use super::record::from_ms;
use super::settings::KeeperSettings;
use super::start::{self, IdleKeeper};
use super::stored_output::StoredOutput;

/// How often a process is looked for that is about to start, or that cannot be read for lack of descriptors.
const START_INTERVAL: Duration = Duration::from_millis(10);

/// A handle to all keepers of this user. Cheap to clone; dropping it does not affect them.
#[derive(Debug, Clone)]
pub struct Keepers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: KeeperSettings,
    /// Owns the tasks that reap keepers which end before this daemon.
    tasks: Tasks,
    /// A keeper without a job, started in advance after the first start: executing it and creating its directory takes
    /// longer than starting the process.
    spare: Mutex<Option<OwnedTask<Option<IdleKeeper>>>>,
    /// The number of processes that this daemon has started.
    starts: watch::Sender<u64>,
    /// Held by the one request that gives a process a name.
    naming: Arc<tokio::sync::Mutex<()>>,
}

/// A detached process that was started.
#[derive(Debug, Clone)]
pub struct StartedProcess {
    /// Its id, valid for every daemon of this user.
    pub id: ProcessId,
    /// The pid of its leader.
    pub pid: i32,
    /// The time of the start.
    pub started_at: SystemTime,
}

impl Keepers {
    /// A handle to the keepers in the directory of these settings.
    pub fn new(settings: KeeperSettings) -> Keepers {
        let (spare, tasks) = (Mutex::default(), Tasks::new());
        let (starts, naming) = (watch::Sender::default(), Arc::default());
        Keepers { shared: Arc::new(Shared { settings, spare, tasks, starts, naming }) }
    }

    /// Starts a process under a new keeper, on behalf of `by`. Returns when it runs or failed to start, with the same
    /// errors as a start without a keeper. Dropping this future may or may not prevent the start.
    pub async fn start(&self, spec: ProcessSpec, by: &str) -> Result<StartedProcess, Error> {
        self.start_as(Keepers::new_id()?, spec, by).await
    }

    /// A new id, for a caller that must store it before the process runs.
    pub fn new_id() -> Result<ProcessId, Error> {
        Ok(ProcessId(format!("p_{}", random_name()?)))
    }

    /// The same as [`Keepers::start`] with an id of [`Keepers::new_id`].
    pub async fn start_as(
        &self,
        id: ProcessId,
        spec: ProcessSpec,
        by: &str,
    ) -> Result<StartedProcess, Error> {
        let (dir, config) = (self.shared.settings.dir.clone(), &self.shared.settings.config);
        let (keep, limit) = (config.keep, config.max);
        let running = run_blocking(move || listing::count_running(&dir, keep, limit)).await?;
        if running >= limit {
            return Err(Error::LimitReached { what: "detached processes", limit: limit as u64 });
        }
        let environment = (&self.shared.settings, &self.shared.tasks);
        let report = start::start(self.take_spare().await, &id, by, &spec, environment).await?;
        self.prepare_spare();
        let (pid, started_at_ms) = report.into_result()?;
        self.shared.starts.send_modify(|count| *count += 1);
        Ok(StartedProcess { id, pid, started_at: from_ms(started_at_ms) })
    }

    /// Locks the names of processes for all daemons of this user, so that two starts cannot choose the same one.
    pub async fn lock_names(&self) -> Result<NameLock, Error> {
        let dir = self.shared.settings.dir.clone();
        let turn = self.shared.naming.clone().lock_owned().await;
        run_blocking(move || NameLock::take(&dir, turn)).await?
    }

    /// Changes when this daemon has started a detached process.
    pub fn process_starts(&self) -> watch::Receiver<u64> {
        self.shared.starts.subscribe()
    }

    /// All detached processes, running or ended, the oldest first. Removes those past their retention.
    pub async fn list(&self) -> Vec<ListedProcess> {
        let (dir, keep) = (self.shared.settings.dir.clone(), self.shared.settings.config.keep);
        run_blocking(move || listing::list(&dir, keep)).await.unwrap_or_default()
    }

    /// The detached process with this id.
    pub async fn find(&self, id: &ProcessId) -> Result<ListedProcess, Error> {
        let dir = self.dir(id)?;
        let id = id.clone();
        run_blocking(move || {
            ListedProcess::read(&dir, id.clone()).map_err(|source| match source.kind() {
                ErrorKind::NotFound | ErrorKind::InvalidData => Error::NoSuchProcess(id),
                // The process may exist: this daemon cannot open its files.
                _ => Error::File { action: "read", path: dir.path.clone(), source },
            })
        })
        .await?
    }

    /// The same for a process that a daemon may have been starting when it ended: waits until it runs or is not started, for
    /// at most the time of a start.
    pub async fn find_started(&self, id: &ProcessId) -> Result<ListedProcess, Error> {
        let dir = self.dir(id)?;
        let decided = async {
            while dir.is_starting() {
                tokio::time::sleep(START_INTERVAL).await;
            }
        };
        tokio::time::timeout(start::REPORT_TIMEOUT, decided).await.ok();
        self.find(id).await
    }

    /// A detached process for a session to adopt, from a cursor on, whether it runs or has ended; and the number of lost
    /// bytes before its start. Waits while this daemon is out of descriptors, for at most the time of a start: a process that
    /// runs must be followed.
    pub async fn kept(&self, id: &ProcessId, from: Cursor) -> Result<(KeptProcess, u64), Error> {
        let dir = self.dir(id)?;
        let deadline = Instant::now() + start::REPORT_TIMEOUT;
        let listed = loop {
            match self.find(id).await {
                Err(Error::File { source, .. })
                    if client::is_exhausted(&source) && Instant::now() < deadline =>
                {
                    tokio::time::sleep(START_INTERVAL).await;
                }
                found => break found?,
            }
        };
        let end = match listed.facts.closed {
            // A viewer of a running process can be ahead of the log on disk.
            None if from > listed.facts.end => client_connection::end(&dir).await.unwrap_or(listed.facts.end),
            _ => listed.facts.end,
        };
        let requested = from.min(end);
        let log_dir = dir.clone();
        let first = run_blocking(move || log_dir.first()).await?;
        let from = first.map_or(requested, |first| requested.max(Cursor(first)));
        let keeper = Box::new(KeeperClient::new(dir, from));
        let ListedProcess { id, description, facts, .. } = listed;
        Ok((KeptProcess { id, description, pid: facts.pid, from, keeper }, from.0 - requested.0))
    }

    /// The position of the first output of a detached process since a time, to about a second.
    pub async fn since(&self, id: &ProcessId, time: SystemTime) -> Result<Cursor, Error> {
        let log = self.dir(id)?.path.join(LOG);
        run_blocking(move || Cursor(log_times::since(&log, time))).await
    }

    /// The output of a detached process on disk.
    pub fn stored_output(&self, id: &ProcessId) -> Result<StoredOutput, Error> {
        Ok(StoredOutput::new(self.dir(id)?.path.join(LOG)))
    }

    /// Kills the whole tree with TERM or KILL and returns the killed processes; sends any other signal once to the group.
    /// Fails with `Gone` if the process has ended.
    pub async fn kill(&self, id: &ProcessId, signal: Signal) -> Result<KillOutcome, Error> {
        self.find(id).await?;
        client_connection::kill(&self.dir(id)?, signal).await
    }

    /// Sends input to a detached process, with end of file if `is_last`.
    pub async fn input(&self, id: &ProcessId, bytes: Bytes, is_last: bool) -> Result<usize, Error> {
        self.find(id).await?;
        client::input(&self.dir(id)?, &mut None, bytes, is_last).await
    }

    /// Sends input that takes effect once per key, also if it is repeated by another daemon after this one was killed.
    /// A failed input leaves its key unused. The keeper remembers the last [`wire::keeper::MAX_INPUT_KEYS`] keys. Fails
    /// with [`Error::Unsupported`] for a process of an older keeper, which remembers no keys.
    pub async fn input_once(&self, id: &ProcessId, key: &str, bytes: &[u8]) -> Result<InputOutcome, Error> {
        self.find(id).await?;
        client_connection::input_once(&self.dir(id)?, key, bytes).await
    }

    /// Examines the terminal of a running detached process: its size, the echo, and whether a process waits for input. Costs
    /// the keeper some milliseconds; call it when output has paused. Fails with [`Error::Unsupported`] for a process of an
    /// older keeper. The size of an ended process is in [`ListedProcess::terminal_size`].
    pub async fn terminal_state(&self, id: &ProcessId) -> Result<TerminalState, Error> {
        self.find(id).await?;
        client_connection::terminal(&self.dir(id)?).await
    }

    /// Resizes the terminal of a detached process.
    pub async fn resize(&self, id: &ProcessId, size: TerminalSize) -> Result<(), Error> {
        self.find(id).await?;
        client_connection::resize(&self.dir(id)?, size).await
    }

    /// Removes an ended process and its log. Returns false if its keeper still runs.
    pub async fn remove(&self, id: &ProcessId) -> Result<bool, Error> {
        self.find(id).await?;
        let dir = self.dir(id)?;
        run_blocking(move || {
            if !dir.has_ended() {
                return Ok(false);
            }
            let failed = |source| Error::File { action: "remove", path: dir.path.clone(), source };
            dir.remove().map(|()| true).map_err(failed)
        })
        .await?
    }

    fn dir(&self, id: &ProcessId) -> Result<KeeperDir, Error> {
        KeeperDir::of(&self.shared.settings.dir, id).ok_or_else(|| Error::NoSuchProcess(id.clone()))
    }

    /// The prepared keeper; waits for one that is being prepared.
    async fn take_spare(&self) -> Option<IdleKeeper> {
        let spare = self.shared.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        spare?.join().await.ok().flatten()
    }

    /// Prepares a keeper for the next start, in the background.
    fn prepare_spare(&self) {
        let settings = self.shared.settings.clone();
        // Bounded by the start of a keeper; the spare exits when its pipe is closed.
        let tasks = self.shared.tasks.clone();
        let preparing = OwnedTask::spawn(async move { IdleKeeper::start(&settings, &tasks).await.ok() });
        *self.shared.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(preparing);
    }
}

async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_stopped| Error::Gone)
}
