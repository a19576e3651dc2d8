//! Keepers as a daemon holds them: start, list, attach, kill, remove. Any daemon of the user can do all of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use engine::process::{
    Cursor, KeptProcess, KillOutcome, LogReader, Process, ProcessId, ProcessSpec, Signal, TerminalSize,
};
use engine::session::random_name;
use engine::{Error, Session};
use tokio::task::JoinHandle;

use super::client::{self, KeeperClient};
use super::client_connection;
use super::dir::KeeperDir;
use super::job::StartReport;
use super::listing::{self, ListedProcess};
use super::record::from_ms;
use super::settings::KeeperSettings;
use super::start::{self, IdleKeeper};

/// The way to all keepers of this user. Cheap to clone; dropping it changes nothing for them.
#[derive(Debug, Clone)]
pub struct Keepers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: KeeperSettings,
    /// A keeper that waits for its job, made after the first start: to execute one and to make its directory takes
    /// longer than the start itself.
    spare: Mutex<Option<JoinHandle<Option<IdleKeeper>>>>,
}

/// A kept process in the hands of a session.
#[derive(Debug)]
pub struct AttachedReader {
    /// The same handle as for any other process.
    pub process: Process,
    /// Its reader, for whom the keeper waits. Dropping it lets the output pass unread.
    pub reader: LogReader,
    /// Where it begins.
    pub from: Cursor,
    /// Bytes between the place that was asked for and there, which are gone.
    pub lost: u64,
}

/// A process that was started under a keeper.
#[derive(Debug, Clone)]
pub struct StartedProcess {
    /// Its name, for every daemon of this user.
    pub id: ProcessId,
    /// The number of its leader.
    pub pid: i32,
    /// When it started.
    pub started_at: SystemTime,
}

impl Keepers {
    /// The keepers of these settings.
    pub fn new(settings: KeeperSettings) -> Keepers {
        Keepers { shared: Arc::new(Shared { settings, spare: Mutex::default() }) }
    }

    /// Starts a process under a keeper of its own; `by` is who asked. Returns when it runs or could not be started,
    /// with the same errors as an attached start. Dropping this future may or may not stop the start.
    pub async fn start(&self, spec: ProcessSpec, by: &str) -> Result<StartedProcess, Error> {
        let (dir, config) = (self.shared.settings.dir.clone(), &self.shared.settings.config);
        let (keep, limit) = (config.keep, config.max);
        let running = off_the_loop(move || listing::count_running(&dir, keep, limit)).await?;
        if running >= limit {
            return Err(Error::LimitReached { what: "detached processes", limit: limit as u64 });
        }
        let id = ProcessId(format!("p_{}", random_name()?));
        let report = start::start(self.take_spare().await, &id, by, &spec, &self.shared.settings).await?;
        self.make_spare();
        match report {
            StartReport::Running { pid, started_at_ms } => {
                Ok(StartedProcess { id, pid, started_at: from_ms(started_at_ms) })
            }
            failed => Err(failed.into_error().unwrap_or(Error::Gone)),
        }
    }

    /// Every process that is kept, running or ended, the oldest first. Sweeps what was kept for long enough.
    pub async fn list(&self) -> Vec<ListedProcess> {
        let (dir, keep) = (self.shared.settings.dir.clone(), self.shared.settings.config.keep);
        off_the_loop(move || listing::list(&dir, keep)).await.unwrap_or_default()
    }

    /// One of them.
    pub async fn find(&self, id: &ProcessId) -> Result<ListedProcess, Error> {
        let dir = self.dir(id)?;
        let id = id.clone();
        off_the_loop(move || ListedProcess::read(&dir, id.clone()).ok_or(Error::NoSuchProcess(id))).await?
    }

    /// Has a session take up a kept process from a cursor on, whether it runs or has ended.
    pub async fn attach(
        &self,
        session: &mut Session,
        id: &ProcessId,
        from: Cursor,
    ) -> Result<AttachedReader, Error> {
        let (kept, lost) = self.kept(id, from).await?;
        let from = kept.from;
        let (process, reader) = session.adopt(kept);
        Ok(AttachedReader { process, reader, from, lost })
    }

    /// The same in two steps, for whoever must not hold the session while the disk is asked: what to adopt, and how
    /// many bytes before its beginning are gone.
    pub async fn kept(&self, id: &ProcessId, from: Cursor) -> Result<(KeptProcess, u64), Error> {
        let dir = self.dir(id)?;
        let listed = self.find(id).await?;
        let end = match listed.facts.closed {
            // The disk may be a moment behind what a viewer of a running process has seen.
            None if from > listed.facts.end => client_connection::end(&dir).await.unwrap_or(listed.facts.end),
            _ => listed.facts.end,
        };
        let asked = from.min(end);
        let look = dir.clone();
        let first = off_the_loop(move || listing::first_kept(&look, asked.0)).await?;
        // Behind the end as it was a moment ago there may be more by now.
        let from = Cursor(first.max(asked.0));
        let keeper = Box::new(KeeperClient::new(dir, from));
        let kept = KeptProcess {
            id: listed.id,
            description: listed.description,
            pid: listed.facts.pid,
            from,
            keeper,
        };
        Ok((kept, from.0 - asked.0))
    }

    /// TERM and KILL end the whole tree and say who died; any other signal goes once to the group. Gone if it ended.
    pub async fn kill(&self, id: &ProcessId, signal: Signal) -> Result<KillOutcome, Error> {
        self.find(id).await?;
        client_connection::kill(&self.dir(id)?, signal).await
    }

    /// Gives a kept process bytes to read, and the end of them if `is_last`.
    pub async fn input(&self, id: &ProcessId, bytes: Bytes, is_last: bool) -> Result<usize, Error> {
        self.find(id).await?;
        client::input(&self.dir(id)?, &mut None, bytes, is_last).await
    }

    /// Changes the size of a kept process's terminal.
    pub async fn resize(&self, id: &ProcessId, size: TerminalSize) -> Result<(), Error> {
        self.find(id).await?;
        client_connection::resize(&self.dir(id)?, size).await
    }

    /// Forgets a process that ended, log and all; false if its keeper still lives.
    pub async fn remove(&self, id: &ProcessId) -> Result<bool, Error> {
        self.find(id).await?;
        let dir = self.dir(id)?;
        off_the_loop(move || {
            if dir.is_alive() {
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

    /// The keeper that was made ready, or is just being.
    async fn take_spare(&self) -> Option<IdleKeeper> {
        let spare = self.shared.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        spare?.await.ok().flatten()
    }

    /// Makes a keeper for the next start, without making anybody wait for it.
    fn make_spare(&self) {
        let settings = self.shared.settings.clone();
        // Ends by itself: it owns nothing but the pipe whose end tells the spare to go.
        let making = tokio::spawn(async move { IdleKeeper::start(&settings).await.ok() });
        *self.shared.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(making);
    }
}

async fn off_the_loop<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_stopped| Error::Gone)
}
