//! From a spec to a running child: pipes or terminal, cgroup or mark, clone, and the verdict of exec.

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
use super::limits::{Held, Limiter, MAX_JOINED_GROUPS};
use super::orphans;
use super::spawn::{self, PendingExec, SpawnError, SpawnRequest, SpawnedChild};
use super::spec::{ProcessSpec, Stdin};
use super::streams::{self, Input, Output, Wiring};
use super::sys;
use super::tree::{MemberScope, Tree};
use crate::Error;
use crate::files::{Access, RootedPath};
use crate::sandbox::{self, PreparedSandbox, SandboxCache, StandIns};

/// The name of the mark in the environment of every process.
pub(super) const MARK: &str = "REXD_TREE";

/// How trees are held together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Containment {
    /// By cgroups where they can be had, else by marks.
    #[default]
    Best,
    /// By session, group, ancestry and marks only.
    Marks,
}

/// Starts children. One per engine.
#[derive(Debug)]
pub(crate) struct Launcher {
    containment: Containment,
    /// Opened by the first start, so that a daemon that runs nothing makes nothing.
    pool: OnceLock<Option<Arc<Pool>>>,
    /// Whether what daemons that are gone have left was looked for.
    swept: Once,
    limiter: Limiter,
    adopting: Once,
    /// The task that reaps orphans; aborted with the launcher.
    reaper: Mutex<JoinSet<()>>,
    /// Whether the daemon has a terminal that commands must not reach.
    has_terminal: bool,
    sandboxes: Arc<SandboxCache>,
}

/// The children whose status belongs to a supervisor; every other child is an orphan that was handed to us. Children
/// are those of the whole process, whichever engine made them, so this is the one table of the process.
#[derive(Debug)]
pub(super) struct Leaders(Mutex<BTreeSet<i32>>);

pub(super) static LEADERS: Leaders = Leaders(Mutex::new(BTreeSet::new()));

/// A child that was started, wired to this process.
#[derive(Debug)]
pub(super) struct RunningChild {
    pub(super) leader: AsyncFd<OwnedFd>,
    pub(super) pid: i32,
    pub(super) tree: Tree,
    /// What holds its limits, if it has any.
    pub(super) held: Option<Held>,
    /// What is kept from being made as long as anything of the tree is left.
    pub(super) stand_ins: StandIns,
    pub(super) input: Option<Input>,
    pub(super) outputs: Vec<Output>,
}

impl Launcher {
    pub(crate) fn new(containment: Containment, sandbox: sandbox::SandboxSettings) -> Launcher {
        let terminal = rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        Launcher {
            containment,
            pool: OnceLock::new(),
            swept: Once::new(),
            limiter: Limiter::default(),
            adopting: Once::new(),
            reaper: Mutex::default(),
            has_terminal: terminal.is_ok(),
            sandboxes: Arc::new(SandboxCache::new(sandbox)),
        }
    }

    /// The leader was reaped.
    pub(super) fn reaped(&self, pid: i32) {
        LEADERS.forget(pid);
    }

    /// Whether cgroups hold the trees. Opens the pool if nobody has yet.
    pub(crate) fn uses_cgroups(&self) -> bool {
        self.pool().is_some()
    }

    /// Starts the child and waits until it has executed, or says why it could not.
    pub(super) async fn launch(&self, spec: &ProcessSpec, id: &str) -> Result<RunningChild, Error> {
        let cwd = open_directory(&spec.cwd).await?;
        let confined = match &spec.confinement {
            Some(confinement) if !confinement.is_off() => Some(self.sandboxes.prepare(confinement).await?),
            _ => None,
        };
        let (confined, stand_ins) = confined.unzip();
        let launched = self.launch_in(cwd, spec, confined, id).await;
        let stand_ins = stand_ins.unwrap_or_default();
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
            None => streams::pipes(spec.stdin != Stdin::Empty)?,
        };
        let (started, tree, held) = self.start(spec, (cwd.as_fd(), confined.as_ref()), &wiring, id)?;
        let Wiring { child, input, outputs } = wiring;
        drop(child);
        let SpawnedChild { pid, pidfd, pending } = started;
        // While the first child executes there is nothing else to do; before that, its start would wait for this.
        if let Some(Some(pool)) = self.pool.get() {
            self.swept.call_once(|| pool.sweep());
        }
        let wired = async {
            let leader = sys::watch(pidfd, Interest::READABLE)?;
            verdict(pending).await?;
            let outputs =
                outputs.into_iter().map(|(fd, stream)| Output::new(fd, stream)).collect::<io::Result<_>>()?;
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

    /// Clones the child with a mark in its environment and, where it can be had, into a cgroup of its own.
    fn start(
        &self,
        spec: &ProcessSpec,
        (cwd, confined): (BorrowedFd<'_>, Option<&Arc<PreparedSandbox>>),
        wiring: &Wiring,
        id: &str,
    ) -> io::Result<(SpawnedChild, Tree, Option<Held>)> {
        let argv = spec.program.argv();
        let (held, limited) = self.hold(spec)?;
        let order = |cgroup: Option<_>| SpawnRequest {
            argv: &argv,
            arg0: spec.arg0.as_deref(),
            env: &spec.env,
            mark: Some((MARK, id)),
            cwd,
            stdio: wiring.child.each_ref().map(AsFd::as_fd),
            session_mode: match (spec.terminal, cgroup) {
                (Some(_), _) => SessionMode::Terminal,
                (None, Some(_)) if !self.has_terminal => SessionMode::Group,
                (None, _) => SessionMode::Session,
            },
            cgroup,
            joins: held.as_ref().map_or([None; MAX_JOINED_GROUPS], Held::joins),
            rlimits: held.as_ref().map_or(&[], |held| held.rlimits.as_slice()),
            dies_with_parent: true,
            confined,
        };
        let mark = format!("{MARK}={id}");
        let is_limited = limited.is_some();
        let lease = limited.or_else(|| self.pool().and_then(|pool| pool.take().ok()));
        let within = LEADERS.hold(|| spawn::start(&order(lease.as_ref().and_then(Lease::dir))));
        let (started, lease) = match within {
            Err(error) if lease.is_some() && !is_limited && is_refusal(&error) => {
                // The cgroup is there, but this kernel or its filter lets nobody be cloned into it.
                self.adopting.call_once(|| orphans::adopt(&self.reaper));
                (LEADERS.hold(|| spawn::start(&order(None)))?, None)
            }
            started => (started?, lease),
        };
        let tree = Tree {
            leader: started.pid,
            mark,
            cgroup: lease.map(Arc::new),
            is_reaped: Arc::default(),
            scope: MemberScope::default(),
        };
        Ok((started, tree, held))
    }

    /// What holds the limits of a confined process, and the cgroup to clone it into if that is a part of it.
    fn hold(&self, spec: &ProcessSpec) -> io::Result<(Option<Held>, Option<Lease>)> {
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
                tracing::debug!(%error, "no cgroup to be had: trees are held together by marks");
            }
            // The first process of a container is handed every orphan there, cgroups or not.
            if pool.is_err() || std::process::id() == 1 {
                self.adopting.call_once(|| orphans::adopt(&self.reaper));
            }
            pool.ok()
        };
        self.pool.get_or_init(open).as_ref()
    }
}

impl Leaders {
    /// Starts a child while no orphan is reaped, so that its status cannot be mistaken for an orphan's.
    pub(super) fn hold(&self, start: impl FnOnce() -> io::Result<SpawnedChild>) -> io::Result<SpawnedChild> {
        let mut leaders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let started = start()?;
        leaders.insert(started.pid.as_raw_nonzero().get());
        Ok(started)
    }

    /// The leader was reaped: its number may belong to anybody now.
    pub(super) fn forget(&self, pid: i32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    /// Calls `reap` for each child that is no leader.
    pub(super) fn others(&self, children: Vec<i32>, reap: impl Fn(i32)) {
        let leaders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        children.into_iter().filter(|pid| !leaders.contains(pid)).for_each(reap);
    }
}

/// Whether a start failed because of the cgroup, and not for want of memory or processes.
fn is_refusal(error: &io::Error) -> bool {
    let refusals =
        [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP, libc::EINVAL, libc::ENODEV, libc::EBUSY];
    error.raw_os_error().is_some_and(|number| refusals.contains(&number))
}

/// What the caller is told about a child that came to nothing.
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

/// Whether a program could not be found or reached.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::ENOENT | libc::ENOTDIR))
}

/// Opens the directory on this thread if no disk is involved, else on one that may wait.
async fn open_directory(path: &RootedPath) -> Result<OwnedFd, Error> {
    if let Some(directory) = path.open_directory_cached() {
        return Ok(directory);
    }
    let path = path.clone();
    tokio::task::spawn_blocking(move || path.open_directory()).await.unwrap_or(Err(Error::Gone))
}

/// Ends and reaps a child that came to nothing: it could not execute, or could not be wired.
pub(super) async fn discard(leader: Pid) {
    // Its number is its own until it is reaped, which nobody else does.
    let _ended = rustix::process::kill_process(leader, rustix::process::Signal::KILL);
    let reap = move || {
        let _status = rustix::process::waitid(WaitId::Pid(leader), WaitIdOptions::EXITED);
        LEADERS.forget(leader.as_raw_nonzero().get());
    };
    // A killed child ends within moments, but a thread that may wait is there for it.
    let _reaped: Result<(), _> = tokio::task::spawn_blocking(reap).await;
}

/// Waits for exec to happen or fail. The child's memory is freed only then, or never.
pub(super) async fn verdict(pending: PendingExec) -> Result<(), SpawnError> {
    let mut pending = sys::watch(pending, Interest::READABLE)?;
    loop {
        let mut guard = pending.readable_mut().await?;
        match guard.try_io(|pending| pending.get_mut().verdict()) {
            Ok(verdict) => return verdict?,
            Err(_would_block) => {}
        }
    }
}
