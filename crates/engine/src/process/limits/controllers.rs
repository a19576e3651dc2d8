//! Finds the cgroup controllers with which this daemon can limit memory and processes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::groups::Kind;
use crate::process::cgroup::{self, Pool};

/// What enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A version 2 cgroup.
    Unified,
    /// A version 1 cgroup.
    Legacy,
    /// An rlimit of a single process, or of its user.
    Rlimit,
}

/// What enforces limits on memory and processes on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Controllers {
    /// What limits the memory of a tree.
    pub memory: Holder,
    /// What limits its number of processes.
    pub processes: Holder,
    /// Whether `RLIMIT_NPROC` applies to this user. It does not apply to root.
    pub binds_user: bool,
}

impl Controllers {
    /// Probes the machine, once.
    pub fn probe() -> &'static Controllers {
        static FOUND: OnceLock<Controllers> = OnceLock::new();
        FOUND.get_or_init(|| {
            let holder = |kind: Kind| {
                if unified().as_ref().is_some_and(|found| found.has(kind)) {
                    return Holder::Unified;
                }
                if legacy_cgroup_dir(kind).is_some() { Holder::Legacy } else { Holder::Rlimit }
            };
            Controllers {
                memory: holder(Kind::Memory),
                processes: holder(Kind::Processes),
                binds_user: !rustix::process::geteuid().is_root(),
            }
        })
    }
}

/// A version 2 cgroup whose children can be limited.
#[derive(Debug)]
struct Unified {
    dir: PathBuf,
    controllers: String,
}

impl Unified {
    fn has(&self, kind: Kind) -> bool {
        self.controllers.split_ascii_whitespace().any(|name| name == kind.controller())
    }
}

/// The version 2 cgroup below which this daemon can set limits. A cgroup with processes, such as the daemon's own, cannot
/// enable controllers for its children; its parent may be delegated as well (`DelegateSubgroup=`).
fn unified() -> &'static Option<Unified> {
    static FOUND: OnceLock<Option<Unified>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let own = cgroup::own_cgroup_dir().ok()?;
        [Some(own.as_path()), own.parent()].into_iter().flatten().find_map(enable_controllers)
    })
}

fn enable_controllers(dir: &Path) -> Option<Unified> {
    let controllers = fs::read_to_string(dir.join("cgroup.controllers")).ok()?;
    let needed = [Kind::Memory, Kind::Processes].map(Kind::controller);
    for name in controllers.split_ascii_whitespace().filter(|name| needed.contains(name)) {
        // A controller that is refused is missing in the file read below.
        let _enabled = fs::write(dir.join("cgroup.subtree_control"), format!("+{name}"));
    }
    let controllers = fs::read_to_string(dir.join("cgroup.subtree_control")).ok()?;
    let found = Unified { dir: dir.to_owned(), controllers };
    (found.has(Kind::Memory) || found.has(Kind::Processes)).then_some(found)
}

/// A pool of version 2 cgroups with controllers.
pub(super) fn limited_pool() -> io::Result<Arc<Pool>> {
    let unified = unified().as_ref().ok_or(io::ErrorKind::Unsupported)?;
    let pool = Pool::below(&unified.dir)?;
    pool.remove_stale();
    for kind in [Kind::Memory, Kind::Processes] {
        if unified.has(kind) {
            pool.enable_controller(kind.controller())?;
        }
    }
    Ok(pool)
}

/// This daemon's own cgroup in the version 1 hierarchy of a controller, if the daemon can create cgroups in it.
pub(super) fn legacy_cgroup_dir(kind: Kind) -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let dir = legacy_dir(&own, &mounts, kind.controller())?;
    let may = rustix::fs::Access::WRITE_OK;
    let is_writable = rustix::fs::accessat(rustix::fs::CWD, &dir, may, rustix::fs::AtFlags::EACCESS);
    is_writable.is_ok().then_some(dir)
}

/// The directory of the cgroup in `own` (`/proc/self/cgroup`) below the version 1 mount of a controller in `mounts`
/// (`/proc/self/mountinfo`).
fn legacy_dir(own: &str, mounts: &str, controller: &str) -> Option<PathBuf> {
    let names = |list: &str| list.split(',').any(|name| name == controller);
    let own = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_number, list, path) = (fields.next()?, fields.next()?, fields.next()?);
        names(list).then_some(path)
    })?;
    let (root, mount) = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        if after.next() != Some("cgroup") || !names(after.next_back()?) {
            return None;
        }
        let mut fields = before.split(' ');
        Some((fields.nth(3)?, fields.next()?))
    })?;
    // In a container the mount may show only a part of the hierarchy.
    let relative = Path::new(own).strip_prefix(root).ok()?;
    Some(Path::new(mount).join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
36 31 0:33 /docker/7 /sys/fs/cgroup/cpu,pids rw,relatime - cgroup cgroup rw,cpu,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,memory
";

    #[test]
    fn the_own_cgroup_is_found_in_each_hierarchy() {
        let own = "9:name=systemd:/\n4:memory:/a/b:c\n3:cpu,pids:/docker/7/in\n0::/\n";
        let find = |controller| legacy_dir(own, MOUNTS, controller);
        assert_eq!(find("memory"), Some("/sys/fs/cgroup/memory/a/b:c".into()));
        assert_eq!(find("pids"), Some("/sys/fs/cgroup/cpu,pids/in".into()));
        assert_eq!(find("blkio"), None);
        assert_eq!(legacy_dir("3:cpu,pids:/elsewhere\n", MOUNTS, "pids"), None);
    }
}
