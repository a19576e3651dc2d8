//! Controllers: which cgroups of this machine can hold memory and processes for this daemon.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::groups::Kind;
use crate::process::cgroup::{self, Pool};

/// What holds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A cgroup of version 2.
    Unified,
    /// A cgroup of version 1.
    Legacy,
    /// No cgroup: a limit of the single process, or of its user.
    Rlimit,
}

/// What holds memory and processes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Controllers {
    /// What holds the memory of a tree.
    pub memory: Holder,
    /// What holds its number of processes.
    pub processes: Holder,
    /// Whether this user is bound by limits on the processes of a user. Root is not.
    pub binds_user: bool,
}

impl Controllers {
    /// What there is, found out by trying, once.
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

/// A folder of version 2 whose children can be limited.
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

/// Where version 2 lets us limit. Controllers cannot be handed on from a cgroup that has processes in it, as the
/// daemon's own has; its parent may be ours as well, when the daemon was given a cgroup within its service.
fn unified() -> &'static Option<Unified> {
    static FOUND: OnceLock<Option<Unified>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let own = cgroup::own_cgroup_dir().ok()?;
        [Some(own.as_path()), own.parent()].into_iter().flatten().find_map(hands_on)
    })
}

fn hands_on(dir: &Path) -> Option<Unified> {
    let controllers = fs::read_to_string(dir.join("cgroup.controllers")).ok()?;
    let wanted = [Kind::Memory, Kind::Processes].map(Kind::controller);
    for name in controllers.split_ascii_whitespace().filter(|name| wanted.contains(name)) {
        // One that is refused is missing below, which is what is looked at.
        let _handed_on = fs::write(dir.join("cgroup.subtree_control"), format!("+{name}"));
    }
    let controllers = fs::read_to_string(dir.join("cgroup.subtree_control")).ok()?;
    let found = Unified { dir: dir.to_owned(), controllers };
    (found.has(Kind::Memory) || found.has(Kind::Processes)).then_some(found)
}

/// A pool of cgroups of version 2 that can be limited.
pub(super) fn limited_pool() -> io::Result<Arc<Pool>> {
    let unified = unified().as_ref().ok_or(io::ErrorKind::Unsupported)?;
    let pool = Pool::beneath(&unified.dir)?;
    pool.sweep();
    for kind in [Kind::Memory, Kind::Processes] {
        if unified.has(kind) {
            pool.hand_on(kind.controller())?;
        }
    }
    Ok(pool)
}

/// This daemon's own cgroup in the version 1 hierarchy of a controller, if it may make others in it.
pub(super) fn legacy_cgroup_dir(kind: Kind) -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let dir = folder_of(&own, &mounts, kind.controller())?;
    let may = rustix::fs::Access::WRITE_OK;
    let is_writable = rustix::fs::accessat(rustix::fs::CWD, &dir, may, rustix::fs::AtFlags::EACCESS);
    is_writable.is_ok().then_some(dir)
}

/// Where `own` lies in the hierarchy that `mounts` has for a controller of version 1.
fn folder_of(own: &str, mounts: &str, controller: &str) -> Option<PathBuf> {
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
    fn the_own_folder_is_found_in_each_hierarchy() {
        let own = "9:name=systemd:/\n4:memory:/a/b:c\n3:cpu,pids:/docker/7/in\n0::/\n";
        let find = |controller| folder_of(own, MOUNTS, controller);
        assert_eq!(find("memory"), Some("/sys/fs/cgroup/memory/a/b:c".into()));
        assert_eq!(find("pids"), Some("/sys/fs/cgroup/cpu,pids/in".into()));
        assert_eq!(find("blkio"), None);
        assert_eq!(folder_of("3:cpu,pids:/elsewhere\n", MOUNTS, "pids"), None);
    }
}
