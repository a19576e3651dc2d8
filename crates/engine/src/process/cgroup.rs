//! Cgroups prepared in advance, one per process: the only thing on Linux that holds a whole tree and can end it at once.
//!
//! Making a cgroup per command costs a fifth of the command; taking a used one from a pool costs nothing. The pool's
//! folder lies beneath the daemon's own cgroup and is named after the daemon, so that what a crashed one left behind
//! is found and removed by the next.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};

use super::limits::{Counted, number_after};
use super::{proc, sys};
use crate::sandbox::ResourceLimits;

/// Made at a time, when the pool is empty.
const BATCH: usize = 8;
/// Kept for the next commands; more than that were only needed for a moment.
const KEPT: usize = 64;
const FOLDER_PREFIX: &str = "rexd-";
/// Enough for most of what the kernel tells about cgroups and mounts.
const ROOM: usize = 8 * 1024;
/// Two engines in one process must not share a cgroup: to end a process of one would end one of the other.
static POOLS_MADE: AtomicUsize = AtomicUsize::new(0);

/// The pool. Its folder goes when the last lease and the pool are gone.
#[derive(Debug)]
pub(super) struct Pool {
    /// Made with the second cgroup: the first, which is all that most daemons need, lies beside it.
    dir: PathBuf,
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    idle: Vec<Cgroup>,
    made: usize,
    has_folder: bool,
}

/// One cgroup: its directory, opened.
#[derive(Debug)]
struct Cgroup {
    path: PathBuf,
    dir: OwnedFd,
    events: OwnedFd,
}

/// A cgroup in use by one process. Goes back to the pool when it is empty, and is removed otherwise.
#[derive(Debug)]
pub(super) struct Lease {
    cgroup: Option<Cgroup>,
    pool: Arc<Pool>,
    /// Since Linux 6.14 a child cloned into a cgroup that was ever killed is killed too, because the kernel compares
    /// the target's count of kills with that of the parent's cgroup. Such a cgroup is not used again, nor is one that
    /// had limits.
    is_used_up: AtomicBool,
}

impl Pool {
    /// A pool under this daemon's own cgroup; the error says why there can be none.
    pub(super) fn open() -> io::Result<Arc<Pool>> {
        Self::beneath(&own_cgroup_dir()?)
    }

    /// A pool beneath this cgroup.
    pub(super) fn beneath(parent: &Path) -> io::Result<Arc<Pool>> {
        let pool = Arc::new(Pool { dir: parent.join(new_name()), free: Mutex::default() });
        // A cgroup can be made by some who may not put a process into it; ask before relying on it.
        let first = pool.make()?;
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

    /// Ends and removes what daemons that are gone have left.
    pub(super) fn sweep(&self) {
        if let Some(parent) = self.dir.parent() {
            each_stray(parent, remove_stray);
        }
    }

    /// A cgroup for one process.
    pub(super) fn take(self: &Arc<Self>) -> io::Result<Lease> {
        let idle = self.free().idle.pop();
        let cgroup = match idle {
            Some(cgroup) => cgroup,
            None => {
                for _ in 1..BATCH {
                    let spare = self.make()?;
                    self.free().idle.push(spare);
                }
                self.make()?
            }
        };
        Ok(Lease { cgroup: Some(cgroup), pool: self.clone(), is_used_up: AtomicBool::new(false) })
    }

    /// A cgroup for one process that is held within limits. It is not used again: it keeps its counts and its memory.
    pub(super) fn take_limited(self: &Arc<Self>, limits: &ResourceLimits) -> io::Result<Lease> {
        let cgroup = self.make()?;
        let path = cgroup.path.clone();
        let lease = Lease { cgroup: Some(cgroup), pool: self.clone(), is_used_up: AtomicBool::new(true) };
        limit(&path, limits)?;
        Ok(lease)
    }

    /// Lets the cgroups of the pool be limited by a controller.
    pub(super) fn hand_on(&self, controller: &str) -> io::Result<()> {
        self.make_folder()?;
        fs::write(self.dir.join("cgroup.subtree_control"), format!("+{controller}"))
    }

    fn make_folder(&self) -> io::Result<()> {
        let mut free = self.free();
        if !free.has_folder {
            fs::create_dir(&self.dir)?;
            free.has_folder = true;
        }
        Ok(())
    }

    fn make(&self) -> io::Result<Cgroup> {
        let number = {
            let mut free = self.free();
            free.made += 1;
            free.made
        };
        let path = match number {
            1 => self.dir.with_added_extension("1"),
            _ => {
                self.make_folder()?;
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
        if self.free().has_folder {
            remove(&self.dir);
        }
    }
}

impl Lease {
    /// The directory that `clone3` puts the child into.
    pub(super) fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.cgroup.as_ref().map(|cgroup| cgroup.dir.as_fd())
    }

    /// Readable with priority when the cgroup becomes empty or is filled.
    pub(super) fn events(&self) -> io::Result<OwnedFd> {
        let cgroup = self.cgroup.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok(rustix::io::fcntl_dupfd_cloexec(&cgroup.events, 3)?)
    }

    /// Whether nothing alive is in it.
    pub(super) fn is_empty(&self) -> bool {
        let Some(cgroup) = &self.cgroup else { return true };
        let mut text = [0; 128];
        let count = rustix::io::pread(&cgroup.events, &mut text, 0).unwrap_or(0);
        text.get(..count).is_some_and(|text| {
            text.starts_with(b"populated 0") || memchr::memmem::find(text, b"\npopulated 0").is_some()
        })
    }

    /// Everything alive in it, children of cgroups that the command made for itself included.
    pub(super) fn members(&self) -> Vec<i32> {
        self.cgroup.as_ref().map_or_else(Vec::new, |cgroup| members(&cgroup.path))
    }

    /// What was counted because of its limits.
    pub(super) fn counted(&self) -> Counted {
        let Some(cgroup) = &self.cgroup else { return Counted::default() };
        let read = |name: &str| fs::read_to_string(cgroup.path.join(name)).unwrap_or_default();
        Counted {
            memory_kills: number_after(&read("memory.events"), "oom_kill"),
            processes_refused: number_after(&read("pids.events"), "max"),
        }
    }

    /// Ends everything in it at once. Kernels before 5.14 have no such file: then each member is ended in turn.
    pub(super) fn kill(&self) {
        let Some(cgroup) = &self.cgroup else { return };
        if fs::write(cgroup.path.join("cgroup.kill"), "1").is_ok() {
            self.is_used_up.store(true, Ordering::Relaxed);
            return;
        }
        for pid in self.members() {
            let handle = proc::open(pid);
            // Opened first, then looked up again: the handle is bound to a process that is in this cgroup.
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
        // A folder has a link from each folder in it, beside its own two.
        let has_children = rustix::fs::fstat(&cgroup.dir).map_or(true, |stat| stat.st_nlink > 2);
        let is_clean = is_empty && !has_children && !self.is_used_up.load(Ordering::Relaxed);
        let mut free = self.pool.free();
        if is_clean && free.idle.len() < KEPT {
            free.idle.push(cgroup);
        } else {
            drop(free);
            remove(&cgroup.path);
        }
    }
}

/// Bounds what a cgroup may use up.
fn limit(dir: &Path, limits: &ResourceLimits) -> io::Result<()> {
    let write = |name: &str, value: &str| fs::write(dir.join(name), value);
    if let Some(most) = limits.processes {
        write("pids.max", &most.to_string())?;
    }
    if let Some(most) = limits.memory_bytes {
        write("memory.max", &most.to_string())?;
        // Kernels without swap have no such file.
        match write("memory.swap.max", "0") {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Whoever used it up, the whole command ends: half of one is of no use.
        write("memory.oom.group", "1")?;
    }
    Ok(())
}

/// Everything alive in a cgroup and those beneath it.
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

/// Removes a cgroup and those beneath it; one that still holds processes stays, and that is all that can be done.
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

/// What the folders of daemons are named: after the namespace their numbers belong to, so that a daemon in another
/// container that shares the hierarchy is not taken for a dead one.
fn prefix() -> String {
    use std::os::unix::fs::MetadataExt as _;
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino());
    format!("{FOLDER_PREFIX}{namespace}-")
}

/// A name for a folder of this daemon that nobody else has.
pub(super) fn new_name() -> String {
    let number = POOLS_MADE.fetch_add(1, Ordering::Relaxed);
    format!("{}{}.{number}", prefix(), std::process::id())
}

/// Ends and removes what a daemon that is gone has left.
fn remove_stray(dir: &Path) {
    let _ended = fs::write(dir.join("cgroup.kill"), "1");
    remove(dir);
}

/// Calls `clean` for each folder of a daemon that is gone.
pub(super) fn each_stray(parent: &Path, clean: impl Fn(&Path)) {
    let prefix = prefix();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(&prefix)?.split_once('.')?.0.parse::<i32>().ok());
        if owner.is_some_and(|pid| !proc::is_alive(pid)) {
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

/// A file whose length the kernel does not tell: with room from the start, it takes no dozen of small reads.
fn read_at_once(path: &str) -> io::Result<String> {
    let mut text = String::with_capacity(ROOM);
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
