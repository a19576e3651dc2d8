//! Version 1 cgroups, one per limited process and controller.
//!
//! A child cannot be cloned into a version 1 cgroup, and the parent cannot move it before it executes. Therefore the child
//! joins the cgroup itself, through an open `tasks` file. A clean cgroup is reused for the next command with the same limit.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{Mode, OFlags};

use super::{LimitEvents, controllers, number_after};
use crate::process::{Signal, cgroup, proc, sys};

/// The resource that a group limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process) enum Kind {
    /// Memory of all members together.
    Memory,
    /// The number of members and their threads.
    Processes,
}

impl Kind {
    /// The name of the controller.
    pub(super) fn controller(self) -> &'static str {
        match self {
            Kind::Memory => "memory",
            Kind::Processes => "pids",
        }
    }
}

/// Idle version 1 cgroups kept for the next commands; beyond it they are removed.
const MAX_IDLE: usize = 16;
/// A group is reused only if less than this fraction of its memory limit is still charged.
const MAX_CHARGED_FRACTION: u64 = 32;

/// The groups of one engine. Their directories are created when they are first needed.
#[derive(Debug, Default)]
pub(super) struct Groups {
    memory: OnceLock<Option<Arc<ControllerDir>>>,
    processes: OnceLock<Option<Arc<ControllerDir>>>,
    count: AtomicUsize,
}

/// The directory of the groups of one controller; removed with the last of them.
#[derive(Debug)]
struct ControllerDir {
    path: PathBuf,
    idle: Mutex<Vec<LimitedCgroup>>,
}

/// A group in use by one process. Dropping it makes a clean group idle and removes any other.
#[derive(Debug)]
pub(in crate::process) struct Group {
    cgroup: Option<LimitedCgroup>,
    dir: Arc<ControllerDir>,
}

/// A version 1 cgroup with its limit.
#[derive(Debug)]
struct LimitedCgroup {
    kind: Kind,
    limit: u64,
    path: PathBuf,
    tasks_file: OwnedFd,
}

impl Groups {
    /// A group with this limit.
    pub(super) fn take(&self, kind: Kind, limit: u64) -> io::Result<Group> {
        let dir = match kind {
            Kind::Memory => &self.memory,
            Kind::Processes => &self.processes,
        };
        let dir = dir.get_or_init(|| ControllerDir::open(kind).ok().map(Arc::new));
        let dir = dir.clone().ok_or(io::ErrorKind::Unsupported)?;
        let cgroup = match dir.idle(limit) {
            Some(cgroup) => cgroup,
            None => {
                let number = self.count.fetch_add(1, Ordering::Relaxed);
                LimitedCgroup::new(kind, limit, dir.path.join(number.to_string()))?
            }
        };
        Ok(Group { cgroup: Some(cgroup), dir })
    }
}

impl ControllerDir {
    fn open(kind: Kind) -> io::Result<ControllerDir> {
        let parent = controllers::legacy_cgroup_dir(kind).ok_or(io::ErrorKind::NotFound)?;
        cgroup::for_each_stale(&parent, remove_stale);
        let dir = parent.join(cgroup::new_name());
        fs::create_dir(&dir)?;
        Ok(ControllerDir { path: dir, idle: Mutex::default() })
    }

    fn idle(&self, limit: u64) -> Option<LimitedCgroup> {
        let mut idle = self.lock();
        let index = idle.iter().rposition(|cgroup| cgroup.limit == limit)?;
        Some(idle.swap_remove(index))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LimitedCgroup>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ControllerDir {
    fn drop(&mut self) {
        // Removes the idle groups too.
        cgroup::remove(&self.path);
    }
}

impl Group {
    /// Writing `0` to this file moves the writing thread into the group.
    pub(super) fn tasks_file(&self) -> Option<BorrowedFd<'_>> {
        self.cgroup.as_ref().map(|cgroup| cgroup.tasks_file.as_fd())
    }

    /// The events so far.
    pub(super) fn counted(&self) -> LimitEvents {
        self.cgroup.as_ref().map_or_else(LimitEvents::default, LimitedCgroup::counted)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(cgroup) = self.cgroup.take() else { return };
        let is_clean = cgroup.is_clean();
        let mut idle = self.dir.lock();
        if is_clean && idle.len() < MAX_IDLE {
            idle.push(cgroup);
        } else {
            drop(idle);
            cgroup::remove(&cgroup.path);
        }
    }
}

impl LimitedCgroup {
    fn new(kind: Kind, limit: u64, path: PathBuf) -> io::Result<LimitedCgroup> {
        fs::create_dir(&path)?;
        // Not `cgroup.procs`: to move a whole process, the kernel blocks every fork of the machine and waits for all
        // CPUs, which took 8 ms. Moving its only thread through `tasks` took 0.1 ms.
        let open = || rustix::fs::open(path.join("tasks"), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        match set(kind, limit, &path).and_then(|()| Ok(open()?)) {
            Ok(tasks_file) => Ok(LimitedCgroup { kind, limit, path, tasks_file }),
            Err(error) => {
                cgroup::remove(&path);
                Err(error)
            }
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap_or_default()
    }

    fn counted(&self) -> LimitEvents {
        let mut counted = LimitEvents::default();
        match self.kind {
            Kind::Memory => counted.memory_kills = number_after(&self.read("memory.oom_control"), "oom_kill"),
            Kind::Processes => counted.processes_refused = number_after(&self.read("pids.events"), "max"),
        }
        counted
    }

    /// Whether it can be reused: no process, no child cgroup, no events, and little charged memory. Shared memory can stay
    /// charged after its processes have ended.
    fn is_clean(&self) -> bool {
        let has_capacity = || match self.kind {
            Kind::Memory => {
                let used = self.read("memory.usage_in_bytes").trim().parse().unwrap_or(u64::MAX);
                used < self.limit / MAX_CHARGED_FRACTION
            }
            Kind::Processes => true,
        };
        let has_children = || fs::metadata(&self.path).map_or(true, |found| found.nlink() > 2);
        let is_empty = fs::read_to_string(self.path.join("cgroup.procs")).is_ok_and(|pids| pids.is_empty());
        is_empty && self.counted() == LimitEvents::default() && has_capacity() && !has_children()
    }
}

fn set(kind: Kind, limit: u64, dir: &Path) -> io::Result<()> {
    let write = |name: &str, value: u64| fs::write(dir.join(name), value.to_string());
    match kind {
        Kind::Processes => write("pids.max", limit),
        Kind::Memory => {
            // The kernel rounds down to pages and accepts at most `i64::MAX`.
            let limit = limit.min(i64::MAX as u64);
            write("memory.limit_in_bytes", limit)?;
            // Swapped memory counts as well; the file is missing if the kernel does not account for swap.
            match write("memory.memsw.limit_in_bytes", limit) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                written => written,
            }
        }
    }
}

/// Kills the processes in the groups of an ended daemon, and removes the groups.
fn remove_stale(dir: &Path) {
    for pid in cgroup::members(dir) {
        let handle = proc::open(pid);
        // Checked again after the pidfd was opened: it then refers to a member, not to a process that reused the pid.
        if let Some(handle) = handle.filter(|_| cgroup::members(dir).contains(&pid)) {
            sys::send(handle.as_fd(), Signal::KILL);
        }
    }
    cgroup::remove(dir);
}
