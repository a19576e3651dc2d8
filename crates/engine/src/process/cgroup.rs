//! A pool of cgroups, one per process: a cgroup contains a whole process tree and can kill it at once.
//!
//! Creating a cgroup takes a fifth of the time of a short command; reusing one from the pool takes none. The directory of
//! the pool is below the daemon's own cgroup and named after the daemon's pid, so that the next daemon finds and removes
//! the cgroups of a crashed one.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};

use super::limits::{LimitEvents, number_after};
use super::{proc, sys};
use crate::sandbox::ResourceLimits;

/// Number of cgroups created at a time when the pool is empty.
const BATCH: usize = 8;
/// Idle cgroups kept for the next commands; beyond it they are removed.
const MAX_IDLE: usize = 64;
const DIR_PREFIX: &str = "rexd-";
/// Initial buffer for `/proc/self/cgroup` and `/proc/self/mountinfo`, whose lengths are unknown.
const READ_CAPACITY: usize = 8 * 1024;
/// Distinguishes the pools of several engines in one process: in a shared cgroup, a kill would end processes of both.
static POOL_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The pool. Its directory is removed with the pool, which the last lease keeps alive.
#[derive(Debug)]
pub(super) struct Pool {
    /// Created with the second cgroup. The first one, which is all that most daemons need, is a sibling of this directory.
    dir: PathBuf,
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    idle: Vec<Cgroup>,
    created: usize,
    has_dir: bool,
}

/// One cgroup, with its open directory and its open `cgroup.events`.
#[derive(Debug)]
struct Cgroup {
    path: PathBuf,
    dir: OwnedFd,
    events: OwnedFd,
}

/// A cgroup in use by one process. Dropping the lease returns an empty cgroup to the pool and removes any other.
#[derive(Debug)]
pub(super) struct Lease {
    cgroup: Option<Cgroup>,
    pool: Arc<Pool>,
    /// Since Linux 6.14, a child that is cloned into a cgroup in which `cgroup.kill` was used is killed too, because the
    /// kernel compares the kill counter of the target with that of the parent's cgroup. Such a cgroup is not reused, and
    /// neither is one that had limits.
    is_spent: AtomicBool,
}

impl Pool {
    /// A pool below this daemon's own cgroup.
    pub(super) fn open() -> io::Result<Arc<Pool>> {
        Self::below(&own_cgroup_dir()?)
    }

    /// A pool below this cgroup. Fails if the daemon cannot create cgroups there or move processes into them.
    pub(super) fn below(parent: &Path) -> io::Result<Arc<Pool>> {
        let pool = Arc::new(Pool { dir: parent.join(new_name()), free: Mutex::default() });
        // The right to create a cgroup does not include the right to move a process into it.
        let first = pool.create()?;
        if rustix::fs::accessat(
            &first.dir,
            "cgroup.procs",
            rustix::fs::Access::WRITE_OK,
            rustix::fs::AtFlags::EACCESS,
        )
        .is_err()
        {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        pool.free().idle.push(first);
        Ok(pool)
    }

    /// Kills the processes that ended daemons left in their cgroups, and removes these cgroups.
    pub(super) fn remove_stale(&self) {
        if let Some(parent) = self.dir.parent() {
            for_each_stale(parent, remove_stale_dir);
        }
    }

    /// A cgroup for one process.
    pub(super) fn take(self: &Arc<Self>) -> io::Result<Lease> {
        let idle = self.free().idle.pop();
        let cgroup = match idle {
            Some(cgroup) => cgroup,
            None => {
                for _ in 1..BATCH {
                    let spare = self.create()?;
                    self.free().idle.push(spare);
                }
                self.create()?
            }
        };
        Ok(Lease { cgroup: Some(cgroup), pool: self.clone(), is_spent: AtomicBool::new(false) })
    }

    /// A cgroup with limits for one process. It is not reused, because its counters and its charged memory remain.
    pub(super) fn take_limited(self: &Arc<Self>, limits: &ResourceLimits) -> io::Result<Lease> {
        let cgroup = self.create()?;
        let path = cgroup.path.clone();
        let lease = Lease { cgroup: Some(cgroup), pool: self.clone(), is_spent: AtomicBool::new(true) };
        limit(&path, limits)?;
        Ok(lease)
    }

    /// Enables a controller for the cgroups of the pool.
    pub(super) fn enable_controller(&self, controller: &str) -> io::Result<()> {
        self.create_dir()?;
        fs::write(self.dir.join("cgroup.subtree_control"), format!("+{controller}"))
    }

    fn create_dir(&self) -> io::Result<()> {
        let mut free = self.free();
        if !free.has_dir {
            fs::create_dir(&self.dir)?;
            free.has_dir = true;
        }
        Ok(())
    }

    fn create(&self) -> io::Result<Cgroup> {
        let number = {
            let mut free = self.free();
            free.created += 1;
            free.created
        };
        let path = match number {
            1 => self.dir.with_added_extension("1"),
            _ => {
                self.create_dir()?;
                self.dir.join(number.to_string())
            }
        };
        fs::create_dir(&path)?;
        let dir = rustix::fs::open(&path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let events =
            rustix::fs::openat(&dir, "cgroup.events", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Cgroup { path, dir, events })
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for cgroup in self.free().idle.drain(..) {
            remove(&cgroup.path);
        }
        if self.free().has_dir {
            remove(&self.dir);
        }
    }
}

impl Lease {
    /// The directory for `CLONE_INTO_CGROUP`.
    pub(super) fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.cgroup.as_ref().map(|cgroup| cgroup.dir.as_fd())
    }

    /// A duplicate of `cgroup.events`, which reports priority data when the cgroup becomes empty or populated.
    pub(super) fn events(&self) -> io::Result<OwnedFd> {
        let cgroup = self.cgroup.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok(rustix::io::fcntl_dupfd_cloexec(&cgroup.events, 3)?)
    }

    /// Whether it contains no live process.
    pub(super) fn is_empty(&self) -> bool {
        let Some(cgroup) = &self.cgroup else { return true };
        let mut text = [0; 128];
        let count = rustix::io::pread(&cgroup.events, &mut text, 0).unwrap_or(0);
        text.get(..count).is_some_and(|text| {
            text.starts_with(b"populated 0") || memchr::memmem::find(text, b"\npopulated 0").is_some()
        })
    }

    /// The live processes in it and in cgroups that the command created below it.
    pub(super) fn members(&self) -> Vec<i32> {
        self.cgroup.as_ref().map_or_else(Vec::new, |cgroup| members(&cgroup.path))
    }

    /// The events that its limits caused so far.
    pub(super) fn counted(&self) -> LimitEvents {
        let Some(cgroup) = &self.cgroup else { return LimitEvents::default() };
        let read = |name: &str| fs::read_to_string(cgroup.path.join(name)).unwrap_or_default();
        LimitEvents {
            memory_kills: number_after(&read("memory.events"), "oom_kill"),
            processes_refused: number_after(&read("pids.events"), "max"),
        }
    }

    /// Kills all members at once with `cgroup.kill`, or one by one on kernels before 5.14.
    pub(super) fn kill(&self) {
        let Some(cgroup) = &self.cgroup else { return };
        if fs::write(cgroup.path.join("cgroup.kill"), "1").is_ok() {
            self.is_spent.store(true, Ordering::Relaxed);
            return;
        }
        for pid in self.members() {
            let handle = proc::open(pid);
            // Checked again after the pidfd was opened: it then refers to a member, not to a process that reused the pid.
            if let Some(handle) = handle.filter(|_| self.members().contains(&pid)) {
                sys::send(handle.as_fd(), super::Signal::KILL);
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let is_empty = self.is_empty();
        let Some(cgroup) = self.cgroup.take() else { return };
        // A directory has two links and one for each subdirectory.
        let has_children = rustix::fs::fstat(&cgroup.dir).map_or(true, |stat| stat.st_nlink > 2);
        let is_clean = is_empty && !has_children && !self.is_spent.load(Ordering::Relaxed);
        let mut free = self.pool.free();
        if is_clean && free.idle.len() < MAX_IDLE {
            free.idle.push(cgroup);
        } else {
            drop(free);
            remove(&cgroup.path);
        }
    }
}

/// Sets the limits of a cgroup.
fn limit(dir: &Path, limits: &ResourceLimits) -> io::Result<()> {
    let write = |name: &str, value: &str| fs::write(dir.join(name), value);
    if let Some(max) = limits.processes {
        write("pids.max", &max.to_string())?;
    }
    if let Some(max) = limits.memory_bytes {
        write("memory.max", &max.to_string())?;
        // Kernels without swap have no such file.
        match write("memory.swap.max", "0") {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Kill the whole command, not only the process that exceeded the limit.
        write("memory.oom.group", "1")?;
    }
    Ok(())
}

/// The live processes in a cgroup and in those below it.
pub(super) fn members(dir: &Path) -> Vec<i32> {
    let mut pids = Vec::new();
    collect(dir, &mut pids);
    pids
}

fn collect(dir: &Path, pids: &mut Vec<i32>) {
    let Ok(text) = fs::read_to_string(dir.join("cgroup.procs")) else { return };
    pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), pids);
        }
    }
}

/// Removes a cgroup and those below it. The kernel refuses to remove one that contains processes; it stays.
pub(super) fn remove(path: &Path) {
    if fs::remove_dir(path).is_ok() {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    if let Err(error) = fs::remove_dir(path) {
        tracing::debug!(path = %path.display(), %error, "cannot remove a cgroup");
    }
}

/// The prefix of the directories of daemons in this pid namespace, so that a daemon in another container with the same
/// hierarchy does not count as ended.
fn prefix() -> String {
    use std::os::unix::fs::MetadataExt as _;
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino());
    format!("{DIR_PREFIX}{namespace}-")
}

/// A unique name for a directory of this daemon.
pub(super) fn new_name() -> String {
    let number = POOL_COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}{}.{number}", prefix(), std::process::id())
}

/// Kills the processes in a directory of an ended daemon, and removes it.
fn remove_stale_dir(dir: &Path) {
    let _killed = fs::write(dir.join("cgroup.kill"), "1");
    remove(dir);
}

/// Calls `clean` for each directory whose daemon has ended.
pub(super) fn for_each_stale(parent: &Path, clean: impl Fn(&Path)) {
    for_each_dir(parent, proc::has_ended, clean);
}

/// Kills the processes in all cgroups of a daemon that has ended or is ending, and removes the cgroups.
pub(super) fn end_all_of(owner: i32, parent: &Path) {
    for_each_dir(parent, |pid| pid == owner, remove_stale_dir);
}

/// Calls `clean` for each directory of a daemon whose pid `is_wanted`.
fn for_each_dir(parent: &Path, is_wanted: impl Fn(i32) -> bool, clean: impl Fn(&Path)) {
    let prefix = prefix();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(&prefix)?.split_once('.')?.0.parse::<i32>().ok());
        if owner.is_some_and(&is_wanted) {
            clean(&entry.path());
        }
    }
}

/// The directory of this process in the cgroup v2 hierarchy, which may be mounted beside a v1 hierarchy.
pub fn own_cgroup_dir() -> io::Result<PathBuf> {
    let (own, mounts) = (read_at_once("/proc/self/cgroup")?, read_at_once("/proc/self/mountinfo")?);
    cgroup_dir(&own, &mounts).ok_or(io::ErrorKind::NotFound.into())
}

fn cgroup_dir(own: &str, mounts: &str) -> Option<PathBuf> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, mount) = mounts.lines().find_map(cgroup2_mount)?;
    // In a container the mount may show only a part of the hierarchy.
    Some(mount.join(Path::new(own).strip_prefix(&root).ok()?))
}

/// Reads a file of `/proc`, which has no length, with a large buffer instead of many small reads.
fn read_at_once(path: &str) -> io::Result<String> {
    let mut text = String::with_capacity(READ_CAPACITY);
    fs::File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Root and mount point of a line of `mountinfo` that mounts cgroup v2.
fn cgroup2_mount(line: &str) -> Option<(PathBuf, PathBuf)> {
    let (before, after) = line.split_once(" - ")?;
    if !after.starts_with("cgroup2 ") {
        return None;
    }
    let mut fields = before.split(' ');
    let root = fields.nth(3)?;
    let mount = fields.next()?;
    Some((PathBuf::from(root), PathBuf::from(mount)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_the_process_is_found_in_every_layout() {
        let unified = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let hybrid = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let container = "41 31 0:38 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let legacy = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        for (mounts, own, found) in [
            (unified, "0::/user.slice/a\n", Some("/sys/fs/cgroup/user.slice/a")),
            (hybrid, "3:cpu:/x\n0::/\n", Some("/sys/fs/cgroup/unified")),
            (container, "0::/docker/abc/sub\n", Some("/sys/fs/cgroup/sub")),
            (legacy, "3:cpu:/x\n", None),
        ] {
            assert_eq!(cgroup_dir(own, mounts), found.map(PathBuf::from), "{mounts}");
        }
    }
}
