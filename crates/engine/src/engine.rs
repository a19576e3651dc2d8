//! The engine: opens sessions, lists what runs, shuts down.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::process::{Containment, Launcher, Process, ProcessLimits, release_memory};
use crate::registry::Registry;
use crate::sandbox::{self, Confinement, Gap};
use crate::session::Session;

/// Settings that an engine is started with.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Limits of every process.
    pub process_limits: ProcessLimits,
    /// How the members of a process tree are found again.
    pub containment: Containment,
    /// Sessions that one owner may have open at the same time.
    pub max_sessions: usize,
    /// The sandbox of processes that have a confinement.
    pub sandbox: sandbox::SandboxSettings,
    /// The program that calls [`crate::process::guard`] with the argument after `guardian`. It kills the process trees when
    /// this process is killed. Without it, only their leaders end.
    pub guardian: Option<PathBuf>,
    /// Whether this process adopts the orphans of its trees also where cgroups hold them. It then searches for members only
    /// among its descendants, not among all processes of the machine. For a program with few trees beside many others.
    pub adopts_orphans: bool,
}

/// Runs processes for any number of sessions. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    settings: EngineSettings,
    launcher: Arc<Launcher>,
    registry: Registry,
    sessions: SessionCounts,
    stop: CancellationToken,
}

impl Engine {
    /// An engine that has started nothing yet. Must be called within a runtime.
    pub fn start(settings: EngineSettings) -> Engine {
        let tasks = TaskTracker::new();
        let launcher = Arc::new(Launcher::new(&settings));
        let registry = Registry::start(&tasks);
        let shared =
            Shared { settings, launcher, registry, sessions: Arc::default(), stop: CancellationToken::new() };
        Engine { shared: Arc::new(shared) }
    }

    /// Opens a session. Its processes end with it.
    pub fn open_session(&self) -> Result<Session, Error> {
        self.open_session_of("")
    }

    /// Opens a session of this owner. Each owner has its own limit, so that none can use up the sessions of another.
    pub fn open_session_of(&self, owner: &str) -> Result<Session, Error> {
        let shared = &self.shared;
        let limit = shared.settings.max_sessions;
        let slot = SessionSlot::take(&shared.sessions, owner, limit)
            .ok_or(Error::LimitReached { what: "concurrent sessions of this caller", limit: limit as u64 })?;
        self.session(shared.settings.process_limits.clone(), Some(slot))
    }

    /// Opens a session that does not count for `max_sessions`, with adjusted process limits: for a face that limits its
    /// sessions itself.
    pub fn open_uncounted_session(&self, adjust: impl FnOnce(&mut ProcessLimits)) -> Result<Session, Error> {
        let mut bounds = self.shared.settings.process_limits.clone();
        adjust(&mut bounds);
        self.session(bounds, None)
    }

    fn session(&self, bounds: ProcessLimits, slot: Option<SessionSlot>) -> Result<Session, Error> {
        let shared = &self.shared;
        let stop = shared.stop.child_token();
        Session::new(bounds, shared.launcher.clone(), shared.registry.clone(), stop, slot)
    }

    /// All processes of all sessions, finished ones included while their session retains them.
    pub async fn processes(&self) -> Vec<Process> {
        self.shared.registry.list().await
    }

    /// Changes when a process of any session has started; [`Engine::processes`] then lists it.
    pub fn process_starts(&self) -> watch::Receiver<u64> {
        self.shared.registry.starts()
    }

    /// Returns the memory of processes that no session retains to the system: for the end of a large session.
    pub async fn release_memory(&self) {
        self.shared.registry.sweep().await;
        release_memory().await;
    }

    /// Whether process trees are held in cgroups. Probes the system if nothing was started yet.
    pub fn uses_cgroups(&self) -> bool {
        self.shared.launcher.uses_cgroups()
    }

    /// The parts of a confinement that this kernel cannot enforce.
    pub fn gaps(&self, confinement: &Confinement) -> Vec<Gap> {
        confinement.gaps(&self.shared.settings.sandbox.features())
    }

    /// Kills the processes of all sessions. [`Session::close`] then waits until they are gone.
    pub fn shut_down(&self) {
        self.shared.stop.cancel();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

/// The open sessions of each owner that has any.
type SessionCounts = Arc<Mutex<HashMap<Arc<str>, usize>>>;

/// One of an owner's places for sessions; free again when dropped.
#[derive(Debug)]
pub(crate) struct SessionSlot {
    counts: SessionCounts,
    owner: Arc<str>,
}

impl SessionSlot {
    fn take(counts: &SessionCounts, owner: &str, limit: usize) -> Option<SessionSlot> {
        let mut open = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let owner: Arc<str> = Arc::from(owner);
        let count = open.get(&owner).copied().unwrap_or(0);
        if count >= limit {
            return None;
        }
        open.insert(owner.clone(), count + 1);
        Some(SessionSlot { counts: counts.clone(), owner })
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let mut open = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&self.owner) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.owner)),
        }
    }
}
