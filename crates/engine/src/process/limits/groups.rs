//! Groups: cgroups of version 1, one per limited process and controller. The child joins them itself.
//!
//! Nothing can be cloned into a cgroup of version 1, and nobody else could move the child in time. So it gets an open
//! file through which it moves itself before it executes.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

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

/// The folders of one engine, made when they are first needed.
#[derive(Debug, Default)]
pub(super) struct Groups {
    memory: OnceLock<Option<Arc<Folder>>>,
    processes: OnceLock<Option<Arc<Folder>>>,
    made: AtomicUsize,
}

/// Where the groups of one controller lie; goes with the last of them.
#[derive(Debug)]
struct Folder(PathBuf);

/// A group in use by one process.
#[derive(Debug)]
pub(in crate::process) struct Group {
    kind: Kind,
    path: PathBuf,
    entrance: Option<OwnedFd>,
    _folder: Arc<Folder>,
}

impl Groups {
    /// A new group with its limit set.
    pub(super) fn make(&self, kind: Kind, limit: u64) -> io::Result<Group> {
        let folder = match kind {
            Kind::Memory => &self.memory,
            Kind::Processes => &self.processes,
        };
        let folder = folder.get_or_init(|| Folder::open(kind).ok().map(Arc::new));
        let folder = folder.clone().ok_or(io::ErrorKind::Unsupported)?;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let path = folder.0.join(number.to_string());
        fs::create_dir(&path)?;
        // From here on it is removed whatever fails.
        let mut group = Group { kind, path, entrance: None, _folder: folder };
        group.limit(limit)?;
        let procs = group.path.join("cgroup.procs");
        group.entrance = Some(rustix::fs::open(procs, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?);
        Ok(group)
    }
}

impl Folder {
    fn open(kind: Kind) -> io::Result<Folder> {
        let parent = controllers::legacy_folder(kind).ok_or(io::ErrorKind::NotFound)?;
        cgroup::each_stray(&parent, remove_stray);
        let folder = parent.join(cgroup::new_name());
        fs::create_dir(&folder)?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        cgroup::remove(&self.0);
    }
}

impl Group {
    /// Writing `0` to it moves the writer into the group.
    pub(super) fn entrance(&self) -> Option<BorrowedFd<'_>> {
        self.entrance.as_ref().map(AsFd::as_fd)
    }

    /// The entrance is not needed again.
    pub(super) fn shut(&mut self) {
        self.entrance = None;
    }

    /// What was counted so far.
    pub(super) fn counted(&self) -> Counted {
        let read = |name: &str| fs::read_to_string(self.path.join(name)).unwrap_or_default();
        let mut counted = Counted::default();
        match self.kind {
            Kind::Memory => counted.memory_kills = number_after(&read("memory.oom_control"), "oom_kill"),
            Kind::Processes => counted.processes_refused = number_after(&read("pids.events"), "max"),
        }
        counted
    }

    fn limit(&self, limit: u64) -> io::Result<()> {
        let write = |name: &str, value: u64| fs::write(self.path.join(name), value.to_string());
        match self.kind {
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
}

impl Drop for Group {
    fn drop(&mut self) {
        cgroup::remove(&self.path);
    }
}

/// Ends and removes the groups of a daemon that is gone.
fn remove_stray(folder: &Path) {
    for pid in cgroup::members(folder) {
        let handle = proc::open(pid);
        // Opened first, then looked up again: the handle is bound to a process that is in there.
        if let Some(handle) = handle.filter(|_| cgroup::members(folder).contains(&pid)) {
            sys::send(handle.as_fd(), Signal::KILL);
        }
    }
    cgroup::remove(folder);
}
