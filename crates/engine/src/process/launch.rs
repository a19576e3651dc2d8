//! Starts the child of a [`ProcessSpec`]: streams, limits, cgroup or mark, clone, and the outcome of exec.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, WaitId, WaitIdOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinSet;

use super::cgroup::{Lease, Pool};
use super::child::SessionMode;
use super::descendants;
use super::guardian::{self, Guarded};
use super::limits::{ChildLimits, Limiter, MAX_JOINED_GROUPS};
use super::orphans;
use super::side_channel;
use super::spawn::{self, PendingExec, SpawnError, SpawnRequest, SpawnedChild};
use super::spec::{ProcessSpec, Stdin};
use super::streams::{self, Input, Output, Wiring};
use super::sys;
use super::tree::{Candidates, MemberScope, Tree};
use crate::Error;
use crate::engine::EngineSettings;
use crate::files::{Access, RootedPath};
use crate::sandbox::{PreparedSandbox, SandboxCache, StandIns};
use crate::session::random_name;

/// The environment variable that marks every process of a tree.
pub(super) const MARK: &str = "REXD_TREE";

/// How the members of a process tree are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Containment {
    /// By cgroups where they are available, otherwise by marks.
    #[default]
    Best,
    /// By session, group, ancestry and marks only.
    Marks,
}

/// Starts children. One per engine.
#[derive(Debug)]
pub(crate) struct Launcher {
    containment: Containment,
    /// Opened by the first start, so that a daemon without commands creates no cgroup.
    pool: OnceLock<Option<Arc<Pool>>>,
    /// Runs the cleanup of the cgroups of ended daemons once.
    cleanup: Once,
    limiter: Limiter,
    /// Whether orphans are adopted also where cgroups hold the trees.
    adopts_orphans: bool,
    /// Whether this process has become the subreaper; set by the first attempt.
    is_subreaper: OnceLock<bool>,
    guarding: Once,
    /// The program to execute as the guardian; `None` for no guardian.
    guardian: Option<PathBuf>,
    /// Prefix of the marks of all trees of this engine.
    mark: OnceLock<String>,
    /// What the guardian ends and removes if this process is killed.
    guarded: Arc<Guarded>,
    /// The tasks that reap orphans and keep the guardian running; aborted with the launcher.
    tasks: Mutex<JoinSet<()>>,
    /// Whether the daemon has a controlling terminal, to which commands must not have access.
    has_terminal: bool,
    sandboxes: Arc<SandboxCache>,
}

/// The children whose exit status belongs to a supervisor; every other child is an adopted orphan. Children belong to the
/// whole process and not to one engine, so the process has one table.
#[derive(Debug)]
pub(super) struct Leaders(Mutex<BTreeSet<i32>>);

pub(super) static LEADERS: Leaders = Leaders(Mutex::new(BTreeSet::new()));

/// A started child and this process's ends of its streams.
#[derive(Debug)]
pub(super) struct RunningChild {
    pub(super) leader: AsyncFd<OwnedFd>,
    pub(super) pid: i32,
    pub(super) tree: Tree,
    /// Its resource limits, if it has any.
    pub(super) held: Option<ChildLimits>,
    /// Stand-ins for missing protected paths, kept until the whole tree has ended.
    pub(super) stand_ins: StandIns,
    pub(super) input: Option<Input>,
    pub(super) outputs: Vec<Output>,
}

impl Launcher {
    pub(crate) fn new(settings: &EngineSettings) -> Launcher {
        let terminal = rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        Launcher {
            containment: settings.containment,
            pool: OnceLock::new(),
            cleanup: Once::new(),
            limiter: Limiter::default(),
            adopts_orphans: settings.adopts_orphans,
            is_subreaper: OnceLock::new(),
            guarding: Once::new(),
            guardian: settings.guardian.clone(),
            mark: OnceLock::new(),
            guarded: Arc::default(),
            tasks: Mutex::default(),
            has_terminal: terminal.is_ok(),
            sandboxes: Arc::new(SandboxCache::new(settings.sandbox.clone())),
        }
    }

    /// Prefix of the marks of all trees of this engine; no other process has it.
    pub(crate) fn mark(&self) -> Result<&str, Error> {
        if let Some(mark) = self.mark.get() {
            return Ok(mark);
        }
        let mark = format!("{}.{}.", std::process::id(), random_name()?);
        Ok(self.mark.get_or_init(|| mark))
    }

    /// Notes that a tree is being started.
    pub(super) fn tree_starts(&self) {
        self.guarded.tree_starts();
    }

    /// Notes that a tree has ended or could not be started.
    pub(super) fn tree_ended(&self) {
        self.guarded.tree_ended();
    }

    /// Starts the guardian in the background, once. Called after a start, which it must not delay.
    pub(super) fn guard(&self) {
        let (Some(program), Some(mark)) = (&self.guardian, self.mark.get()) else { return };
        self.guarding.call_once(|| {
            let keeping = guardian::keep(program.clone(), mark.clone(), self.guarded.clone());
            self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(keeping);
        });
    }

    /// Notes that a leader was reaped.
    pub(super) fn reaped(&self, pid: i32) {
        LEADERS.forget(pid);
    }

    /// Whether trees are in cgroups. Opens the pool if it is not open.
    pub(crate) fn uses_cgroups(&self) -> bool {
        self.pool().is_some()
    }

    /// Starts the child and waits until it has executed its program.
    pub(super) async fn launch(&self, spec: &ProcessSpec, id: &str) -> Result<RunningChild, Error> {
        let cwd = open_directory(&spec.cwd).await?;
        let confined = match &spec.confinement {
            Some(confinement) if !confinement.is_off() => Some(self.sandboxes.prepare(confinement).await?),
            _ => None,
        };
        let (confined, stand_ins) = confined.unzip();
        let stand_ins = stand_ins.unwrap_or_default();
        self.guarded.report_stand_ins(stand_ins.paths());
        let launched = self.launch_in(cwd, spec, confined, id).await;
        launched.map(|live| RunningChild { stand_ins, ..live }).map_err(|reason| explain(reason, spec))
    }

    async fn launch_in(
        &self,
        cwd: OwnedFd,
        spec: &ProcessSpec,
        confined: Option<Arc<PreparedSandbox>>,
        id: &str,
    ) -> Result<RunningChild, SpawnError> {
        let wiring = match spec.terminal {
            Some(size) => streams::terminal(size)?,
            None => streams::pipes(spec.stdin != Stdin::Empty, spec.merges_stderr)?,
        };
        let (started, tree, held) = self.start(spec, (cwd.as_fd(), confined.as_ref()), &wiring, id)?;
        let Wiring { child, input, outputs } = wiring;
        drop(child);
        let SpawnedChild { pid, pidfd, pending } = started;
        // After the clone, so that the cleanup does not delay the first start.
        if let Some(Some(pool)) = self.pool.get() {
            self.cleanup.call_once(|| pool.remove_stale());
        }
        let wired = async {
            let leader = sys::watch(pidfd, Interest::READABLE)?;
            exec_outcome(pending).await?;
            let outputs = outputs
                .into_iter()
                .map(|(fd, stream)| Output::new(fd, stream, spec.is_text))
                .collect::<io::Result<_>>()?;
            let input = input.map(Input::new).transpose()?;
            let (pid, stand_ins) = (pid.as_raw_nonzero().get(), StandIns::default());
            Ok(RunningChild { leader, pid, tree, held, stand_ins, input, outputs })
        };
        match wired.await {
            Ok(launched) => Ok(launched),
            Err(error) => {
                discard(pid).await;
                Err(error)
            }
        }
    }

    /// Clones the child with a mark in its environment and, if available, into its own cgroup.
    fn start(
        &self,
        spec: &ProcessSpec,
        (cwd, confined): (BorrowedFd<'_>, Option<&Arc<PreparedSandbox>>),
        wiring: &Wiring,
        id: &str,
    ) -> io::Result<(SpawnedChild, Tree, Option<ChildLimits>)> {
        let argv = spec.program.argv();
        let candidates = self.candidates();
        let (held, limited) = self.prepare_limits(spec)?;
        // Closed here after the start, so that the end of the program is the end of its reports.
        let side_ends = spec.side_pipes.as_ref().and_then(|pipes| pipes.take());
        let request = |cgroup: Option<_>| SpawnRequest {
            argv: &argv,
            arg0: spec.arg0.as_deref(),
            env: &spec.env,
            mark: Some((MARK, id)),
            cwd,
            stdio: wiring.child.each_ref().map(AsFd::as_fd),
            inherited: side_channel::borrowed(&side_ends),
            session_mode: match (spec.terminal, cgroup) {
                (Some(_), _) => SessionMode::Terminal,
                (None, Some(_)) if !self.has_terminal => SessionMode::Group,
                (None, _) => SessionMode::Session,
            },
            cgroup,
            joins: held.as_ref().map_or([None; MAX_JOINED_GROUPS], ChildLimits::joins),
            rlimits: held.as_ref().map_or(&[], |held| held.rlimits.as_slice()),
            dies_with_parent: true,
            confined,
        };
        let mark = format!("{MARK}={id}");
        let is_limited = limited.is_some();
        let lease = limited.or_else(|| self.pool().and_then(|pool| pool.take().ok()));
        let spawned = LEADERS.register(|| spawn::start(&request(lease.as_ref().and_then(Lease::dir))));
        let (started, lease) = match spawned {
            Err(error) if lease.is_some() && !is_limited && is_refusal(&error) => {
                // The kernel or a seccomp filter does not permit a clone into a cgroup.
                self.adopt_orphans();
                (LEADERS.register(|| spawn::start(&request(None)))?, None)
            }
            started => (started?, lease),
        };
        let tree = Tree {
            leader: started.pid,
            mark,
            cgroup: lease.map(Arc::new),
            is_reaped: Arc::default(),
            scope: MemberScope::default(),
            candidates,
            has_left_cgroup: Arc::default(),
        };
        Ok((started, tree, held))
    }

    /// Where to search for members of trees. Becomes the subreaper first if orphans are always adopted.
    pub(crate) fn candidates(&self) -> Candidates {
        match self.adopts_orphans && self.adopt_orphans() {
            true => Candidates::Descendants,
            false => Candidates::All,
        }
    }

    fn adopt_orphans(&self) -> bool {
        *self.is_subreaper.get_or_init(|| orphans::adopt(&self.tasks) && descendants::are_listed())
    }

    /// The limits of a confined process, and the cgroup to clone it into if that enforces some of them.
    fn prepare_limits(&self, spec: &ProcessSpec) -> io::Result<(Option<ChildLimits>, Option<Lease>)> {
        let Some(confinement) = spec.confinement.as_ref().filter(|confinement| !confinement.is_off()) else {
            return Ok((None, None));
        };
        let (held, lease) = self.limiter.prepare(&confinement.limits())?;
        Ok((Some(held), lease))
    }

    fn pool(&self) -> Option<&Arc<Pool>> {
        let open = || {
            let pool = match self.containment {
                Containment::Best => Pool::open(),
                Containment::Marks => Err(io::ErrorKind::Unsupported.into()),
            };
            if let Err(error) = &pool {
                tracing::debug!(%error, "no cgroups available: process trees are tracked by marks");
            }
            // The first process of a container adopts every orphan there, with or without cgroups.
            if pool.is_err() || std::process::id() == 1 {
                self.adopt_orphans();
            }
            pool.ok()
        };
        self.pool.get_or_init(open).as_ref()
    }
}

impl Leaders {
    /// Starts a child and registers it as a leader. Holds the lock meanwhile, so that the child is not reaped as an orphan.
    pub(super) fn register(
        &self,
        start: impl FnOnce() -> io::Result<SpawnedChild>,
    ) -> io::Result<SpawnedChild> {
        let mut leaders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let started = start()?;
        leaders.insert(started.pid.as_raw_nonzero().get());
        Ok(started)
    }

    /// Removes a reaped leader: its pid may be reused.
    pub(super) fn forget(&self, pid: i32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    /// Whether this child is a leader.
    pub(super) fn contains(&self, pid: i32) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&pid)
    }

    /// Calls `reap` for each child that is not a leader.
    pub(super) fn for_each_orphan(&self, children: Vec<i32>, reap: impl Fn(i32)) {
        let leaders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        children.into_iter().filter(|pid| !leaders.contains(pid)).for_each(reap);
    }
}

/// Whether a start failed because of the cgroup, and not because of missing memory or too many processes.
fn is_refusal(error: &io::Error) -> bool {
    let refusals =
        [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP, libc::EINVAL, libc::ENODEV, libc::EBUSY];
    error.raw_os_error().is_some_and(|number| refusals.contains(&number))
}

/// The error of a failed start for the caller.
fn explain(reason: SpawnError, spec: &ProcessSpec) -> Error {
    let program = spec.program.argv().into_iter().next().unwrap_or_default();
    match (reason, &spec.confinement) {
        (SpawnError::Unconfined(step, source), Some(confinement)) => Error::Sandbox {
            profile: confinement.name(),
            reason: format!("the process could not {}: {source}", step.describe()),
        },
        (SpawnError::Refused(source), Some(confinement)) if is_missing(&source) => {
            let is_denied = |path: &PathBuf| path.exists() && !confinement.permits(path, Access::Read);
            let mut paths = spawn::search(&spec.program.argv(), &spec.env).into_iter();
            match paths.by_ref().map(|path| spec.cwd.as_path().join(path)).find(is_denied) {
                Some(path) => Error::SandboxDenied { path },
                None => Error::Spawn { program, source },
            }
        }
        (reason, _) => Error::Spawn { program, source: reason.into() },
    }
}

/// Whether a program was not found or not accessible.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::ENOENT | libc::ENOTDIR))
}

/// Opens the directory on this thread if it is cached, otherwise on a blocking thread.
async fn open_directory(path: &RootedPath) -> Result<OwnedFd, Error> {
    if let Some(directory) = path.open_directory_cached() {
        return Ok(directory);
    }
    let path = path.clone();
    tokio::task::spawn_blocking(move || path.open_directory()).await.unwrap_or(Err(Error::Gone))
}

/// Kills and reaps a child that could not execute its program or whose streams could not be opened.
pub(super) async fn discard(leader: Pid) {
    // Its pid cannot be reused before it is reaped, which happens only here.
    let _killed = rustix::process::kill_process(leader, rustix::process::Signal::KILL);
    let reap = move || {
        let _status = rustix::process::waitid(WaitId::Pid(leader), WaitIdOptions::EXITED);
        LEADERS.forget(leader.as_raw_nonzero().get());
    };
    // A killed child ends soon, but possibly not at once.
    let _reaped: Result<(), _> = tokio::task::spawn_blocking(reap).await;
}

/// Waits until exec has succeeded or failed. Only then is the child's memory freed.
pub(super) async fn exec_outcome(pending: PendingExec) -> Result<(), SpawnError> {
    let mut pending = sys::watch(pending, Interest::READABLE)?;
    loop {
        let mut guard = pending.readable_mut().await?;
        match guard.try_io(|pending| pending.get_mut().outcome()) {
            Ok(outcome) => return outcome?,
            Err(_would_block) => {}
        }
    }
}
