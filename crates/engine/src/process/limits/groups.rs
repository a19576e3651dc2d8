//! Groups: cgroups of version 1, one per limited process and controller. The child joins them itself.
//!
//! Nothing can be cloned into a cgroup of version 1, and nobody else could move the child in time. So it gets an open
//! file through which it moves itself before it executes.
//! What is as it was made serves the next command of the same limit.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{Mode, OFlags};

use super::{Counted, controllers, number_after};
use crate::process::{Signal, cgroup, proc, sys};

/// What a group holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process) enum Kind {
    /// Memory of all members together.
    Memory,
    /// The number of members and their threads.
    Processes,
}

impl Kind {
    /// What the kernel calls it.
    pub(super) fn controller(self) -> &'static str {
        match self {
            Kind::Memory => "memory",
            Kind::Processes => "pids",
        }
    }
}

/// Kept for the next commands of the same limit; more than that were only needed for a moment.
const KEPT: usize = 16;
/// The part of its limit that may still be in use when a group is used again: one of so many.
const MOST_LEFT: u64 = 32;

/// The folders of one engine, made when they are first needed.
#[derive(Debug, Default)]
pub(super) struct Groups {
    memory: OnceLock<Option<Arc<Folder>>>,
    processes: OnceLock<Option<Arc<Folder>>>,
    made: AtomicUsize,
}

/// Where the groups of one controller lie; goes with the last of them.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    idle: Mutex<Vec<Made>>,
}

/// A group in use by one process. Goes back to its folder if it is as it was made, and is removed otherwise.
#[derive(Debug)]
pub(in crate::process) struct Group {
    made: Option<Made>,
    dir: Arc<Folder>,
}

/// A group with its limit set.
#[derive(Debug)]
struct Made {
    kind: Kind,
    limit: u64,
    path: PathBuf,
    entrance: OwnedFd,
}

impl Groups {
    /// A group with this limit.
    pub(super) fn take(&self, kind: Kind, limit: u64) -> io::Result<Group> {
        let dir = match kind {
            Kind::Memory => &self.memory,
            Kind::Processes => &self.processes,
        };
        let dir = dir.get_or_init(|| Folder::open(kind).ok().map(Arc::new));
        let dir = dir.clone().ok_or(io::ErrorKind::Unsupported)?;
        let made = match dir.idle(limit) {
            Some(made) => made,
            None => {
                let number = self.made.fetch_add(1, Ordering::Relaxed);
                Made::new(kind, limit, dir.path.join(number.to_string()))?
            }
        };
        Ok(Group { made: Some(made), dir })
    }
}

impl Folder {
    fn open(kind: Kind) -> io::Result<Folder> {
        let parent = controllers::legacy_cgroup_dir(kind).ok_or(io::ErrorKind::NotFound)?;
        cgroup::each_stray(&parent, remove_stray);
        let dir = parent.join(cgroup::new_name());
        fs::create_dir(&dir)?;
        Ok(Folder { path: dir, idle: Mutex::default() })
    }

    fn idle(&self, limit: u64) -> Option<Made> {
        let mut idle = self.lock();
        let index = idle.iter().rposition(|made| made.limit == limit)?;
        Some(idle.swap_remove(index))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Made>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // With all that are idle in it.
        cgroup::remove(&self.path);
    }
}

impl Group {
    /// Writing `0` to it moves the writer into the group.
    pub(super) fn entrance(&self) -> Option<BorrowedFd<'_>> {
        self.made.as_ref().map(|made| made.entrance.as_fd())
    }

    /// What was counted so far.
    pub(super) fn counted(&self) -> Counted {
        self.made.as_ref().map_or_else(Counted::default, Made::counted)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(made) = self.made.take() else { return };
        let is_clean = made.is_clean();
        let mut idle = self.dir.lock();
        if is_clean && idle.len() < KEPT {
            idle.push(made);
        } else {
            drop(idle);
            cgroup::remove(&made.path);
        }
    }
}

impl Made {
    fn new(kind: Kind, limit: u64, path: PathBuf) -> io::Result<Made> {
        fs::create_dir(&path)?;
        // Not `cgroup.procs`: to move a whole process the kernel holds up every fork of the machine and waits for its
        // processors, eight milliseconds as measured. To move itself, as the only thread it has, takes a tenth of one.
        let open = || rustix::fs::open(path.join("tasks"), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        match set(kind, limit, &path).and_then(|()| Ok(open()?)) {
            Ok(entrance) => Ok(Made { kind, limit, path, entrance }),
            Err(error) => {
                cgroup::remove(&path);
                Err(error)
            }
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap_or_default()
    }

    fn counted(&self) -> Counted {
        let mut counted = Counted::default();
        match self.kind {
            Kind::Memory => counted.memory_kills = number_after(&self.read("memory.oom_control"), "oom_kill"),
            Kind::Processes => counted.processes_refused = number_after(&self.read("pids.events"), "max"),
        }
        counted
    }

    /// Whether the next command finds it as this one did: nobody in it, nothing beneath it, nothing counted, and no
    /// memory to speak of, as of shared memory that outlived its makers.
    fn is_clean(&self) -> bool {
        let has_capacity = || match self.kind {
            Kind::Memory => {
                let used = self.read("memory.usage_in_bytes").trim().parse().unwrap_or(u64::MAX);
                used < self.limit / MOST_LEFT
            }
            Kind::Processes => true,
        };
        let has_children = || fs::metadata(&self.path).map_or(true, |found| found.nlink() > 2);
        let is_empty = fs::read_to_string(self.path.join("cgroup.procs")).is_ok_and(|pids| pids.is_empty());
        is_empty && self.counted() == Counted::default() && has_capacity() && !has_children()
    }
}

fn set(kind: Kind, limit: u64, dir: &Path) -> io::Result<()> {
    let write = |name: &str, value: u64| fs::write(dir.join(name), value.to_string());
    match kind {
        Kind::Processes => write("pids.max", limit),
        Kind::Memory => {
            // The kernel rounds down to pages, and takes no more than fits a signed number.
            let limit = limit.min(i64::MAX as u64);
            write("memory.limit_in_bytes", limit)?;
            // What is swapped out counts as well; kernels without that account have no such file.
            match write("memory.memsw.limit_in_bytes", limit) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                written => written,
            }
        }
    }
}

/// Ends and removes the groups of a daemon that is gone.
fn remove_stray(dir: &Path) {
    for pid in cgroup::members(dir) {
        let handle = proc::open(pid);
        // Opened first, then looked up again: the handle is bound to a process that is in there.
        if let Some(handle) = handle.filter(|_| cgroup::members(dir).contains(&pid)) {
            sys::send(handle.as_fd(), Signal::KILL);
        }
    }
    cgroup::remove(dir);
}
