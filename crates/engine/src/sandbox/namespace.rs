//! Namespaces of a confinement, in which only writable paths are mounted writable.
//!
//! Landlock cannot exclude a path below an allowed one and does not restrict changes of modes, owners and times. Mounts do
//! both. Namespaces are created once and entered by every child, since creating them costs more than a short command.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};

use super::confinement::{Confinement, DEVICES, KERNEL_DIRS, SHARED_MEMORY};
use super::features::Features;
use super::profile::Network;
use super::script::{DescriptorSlot, NO_DEVICES, NO_PROGRAMS, READ_ONLY, SetupError, SyscallScript};
use super::standin::{self, StandIns};
use crate::files::clean;

/// Limit on the private shared memory of a confinement in bytes (256 MiB); beyond it writes fail with ENOSPC.
const SHARED_MEMORY_BYTES: &str = "268435456";

/// Source of the mount that marks a namespace as one of a confinement.
const MARK: &str = "rexd-sandbox";

/// Mounts of a confinement, as real paths that exist.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MountPlan {
    /// Writable in every layer; none is below another.
    pub(super) writable: Vec<PathBuf>,
    /// Paths inside writable ones that are mounted over themselves, and whether read-only; parents first.
    pinned: BTreeMap<PathBuf, bool>,
    /// Hidden paths, parents first, and the paths inside each that stay visible.
    hidden: BTreeMap<PathBuf, Vec<PathBuf>>,
    has_private_network: bool,
}

/// Namespaces that exist while these descriptors are open.
#[derive(Debug)]
pub(super) struct Namespaces {
    pub(super) user: Option<OwnedFd>,
    pub(super) mounts: OwnedFd,
    pub(super) network: Option<OwnedFd>,
    /// System V shared memory, semaphores and queues, which paths and rules do not restrict.
    pub(super) ipc: OwnedFd,
    /// The private `/dev/shm`.
    pub(super) shared_memory: Option<OwnedFd>,
    /// Stand-ins that are mounted over. Kept open, so that their inode numbers are not reused.
    covered: Mutex<BTreeMap<PathBuf, OwnedFd>>,
}

impl MountPlan {
    pub(super) fn of(confinement: &Confinement) -> MountPlan {
        let layers = confinement.layers();
        let writable = writable(confinement);
        let mut pinned = BTreeMap::new();
        for path in layers.iter().flat_map(|layer| &layer.protect) {
            pin(&mut pinned, &writable, path);
        }
        let hidden = hidden(confinement);
        for path in hidden.keys() {
            pin_above(&mut pinned, &writable, path);
        }
        MountPlan {
            pinned,
            writable,
            hidden,
            has_private_network: layers.iter().any(|layer| layer.network == Network::Loopback),
        }
    }

    /// Whether a file can be created at this path: it is below a path that is writable in every layer.
    pub(super) fn is_writable(confinement: &Confinement, path: &Path) -> bool {
        writable(confinement).iter().any(|root| path != root && path.starts_with(root))
    }

    /// Creates the namespaces that the plan needs.
    pub(super) fn create(&self, features: &Features) -> Result<Namespaces, SetupError> {
        let mut script = SyscallScript::default();
        let proc = open_proc()?;
        let mut kinds = libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
        if features.needs_user_namespace {
            kinds |= libc::CLONE_NEWUSER;
            map_current_user(&mut script, proc.as_fd());
        }
        script.keep_mounts();
        self.mounts(&mut script);
        let shared_memory = private_shared_memory(&mut script);
        if self.has_private_network {
            kinds |= libc::CLONE_NEWNET;
            script.loopback();
        }
        let mut keep = |is_new: bool, path| is_new.then(|| script.open_file(path, libc::O_RDONLY));
        let mounts = keep(true, "/proc/self/ns/mnt");
        let ipc = keep(true, "/proc/self/ns/ipc");
        let user = keep(features.needs_user_namespace, "/proc/self/ns/user");
        let network = keep(self.has_private_network, "/proc/self/ns/net");
        let mut opened = script.run(kinds)?;
        let mut take = |slot: Option<DescriptorSlot>| slot.and_then(|slot| slot.take(&mut opened).ok());
        let (user, network, shared_memory) = (take(user), take(network), take(shared_memory));
        let mounts = take(mounts).ok_or_else(|| SetupError::missing("a namespace"))?;
        let ipc = take(ipc).ok_or_else(|| SetupError::missing("a namespace"))?;
        Ok(Namespaces { user, mounts, network, ipc, shared_memory, covered: Mutex::default() })
    }

    fn mounts(&self, script: &mut SyscallScript) {
        mark(script);
        // Nothing can be mounted over `/`, so if it is writable only the directories of the kernel are protected.
        match self.writable.iter().any(|path| path == Path::new("/")) {
            true => protect_kernel(script),
            false => self.freeze(script),
        }
        for (path, is_read_only) in &self.pinned {
            mount_over_itself(script, path, *is_read_only);
        }
        self.hide(script);
    }

    /// Makes everything read-only except the writable paths.
    fn freeze(&self, script: &mut SyscallScript) {
        // Copied first, so that the copies keep their attributes.
        let mut copies = Vec::with_capacity(self.writable.len());
        for path in &self.writable {
            let at = script.open(path);
            copies.push((path, script.copy(at)));
        }
        let devices = script.open(Path::new("/dev"));
        let devices = script.copy(devices);
        let root = script.open(Path::new("/"));
        script.forbid(root, READ_ONLY | NO_DEVICES);
        script.forbid(devices, READ_ONLY);
        let onto = script.open(Path::new("/dev"));
        script.mount(devices, onto);
        for (path, copy) in copies {
            if !path.starts_with("/dev") {
                script.forbid(copy, NO_DEVICES);
            }
            let onto = script.open(path);
            script.mount(copy, onto);
        }
    }

    fn hide(&self, script: &mut SyscallScript) {
        const NOTHING: u64 = READ_ONLY | NO_DEVICES | NO_PROGRAMS;
        for (path, exposed) in &self.hidden {
            let at = script.open(path);
            let mut copies = Vec::with_capacity(exposed.len());
            for path in exposed {
                let at = script.open(path);
                copies.push((path, script.copy(at)));
            }
            let cover = if !exposed.is_empty() {
                let cover = script.memory(&[("mode", "0755"), ("size", "4096")], 0);
                directories(exposed, path).iter().for_each(|inner| script.directory(cover, inner));
                script.forbid(cover, NOTHING);
                cover
            } else if path.is_dir() {
                script.memory(&[("mode", "0000"), ("size", "4096")], NOTHING)
            } else {
                let null = script.open(Path::new("/dev/null"));
                let copy = script.copy(null);
                script.forbid(copy, NOTHING);
                copy
            };
            script.mount(cover, at);
            for (path, copy) in copies {
                let onto = script.open(path);
                script.mount(copy, onto);
            }
        }
    }
}

impl Namespaces {
    /// Mounts new stand-ins over themselves. Mounts over removed stand-ins were removed with them.
    pub(super) fn cover(&self, stand_ins: &StandIns) -> Result<(), SetupError> {
        let mut covered = self.covered.lock().unwrap_or_else(PoisonError::into_inner);
        let is_covered = |path: &Path, identity| {
            covered.get(path).is_some_and(|opened| standin::identity(opened.as_fd()) == identity)
        };
        let new: Vec<_> =
            stand_ins.iter().filter(|stand_in| !is_covered(&stand_in.path, stand_in.identity())).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut script = SyscallScript::default();
        self.raw().into_iter().filter(|fd| *fd >= 0).for_each(|fd| script.enter(fd));
        let mut mount = |path: &Path, is_read_only| mount_over_itself(&mut script, path, is_read_only);
        let slots: Vec<DescriptorSlot> =
            new.iter().map(|stand_in| mount(&stand_in.path, stand_in.is_read_only)).collect();
        let mut opened = script.run(0)?;
        for (stand_in, slot) in new.into_iter().zip(slots) {
            let opened = slot.take(&mut opened).map_err(|_none| SetupError::missing("a stand-in"))?;
            covered.insert(stand_in.path.clone(), opened);
        }
        Ok(())
    }
}

/// Mounts a path over itself, so that it cannot be moved or, if read-only, changed. The opened file is the mount point.
fn mount_over_itself(script: &mut SyscallScript, path: &Path, is_read_only: bool) -> DescriptorSlot {
    let at = script.open(path);
    let copy = script.copy(at);
    if is_read_only {
        script.forbid(copy, READ_ONLY);
    }
    script.mount(copy, at);
    at
}

/// Marks the namespace with a mount below `/dev`, which no process inside can remove.
fn mark(script: &mut SyscallScript) {
    let devices = script.open(Path::new("/dev"));
    let copy = script.copy(devices);
    let options = [("source", MARK), ("mode", "0000"), ("size", "4096")];
    let mark = script.memory(&options, READ_ONLY | NO_DEVICES | NO_PROGRAMS);
    script.mount(mark, devices);
    script.mount(copy, mark);
}

/// Whether a process is in the namespaces of a confinement, of this or any other engine. Fails if it has ended.
pub fn is_confined(pid: i32) -> io::Result<bool> {
    let mounts = std::fs::read(format!("/proc/{pid}/mountinfo"))?;
    let mark = format!(" - tmpfs {MARK} ");
    Ok(mounts.windows(mark.len()).any(|text| text == mark.as_bytes()))
}

/// Makes the directories of the kernel read-only if `/` is writable: through settings, cgroups and devices root could escape
/// from the sandbox.
fn protect_kernel(script: &mut SyscallScript) {
    let is_plain = |path: &&Path| path.symlink_metadata().is_ok_and(|found| !found.is_symlink());
    let mut devices = Vec::new();
    for device in DEVICES.iter().map(Path::new).filter(is_plain) {
        let at = script.open(device);
        devices.push((device, script.copy(at)));
    }
    for path in KERNEL_DIRS.map(Path::new).iter().filter(|path| is_plain(path)) {
        let at = script.open(path);
        let copy = script.copy(at);
        script.forbid(copy, READ_ONLY | NO_DEVICES);
        script.mount(copy, at);
    }
    for (device, copy) in devices {
        let onto = script.open(device);
        script.mount(copy, onto);
    }
}

/// `/proc` as this process sees it.
///
/// The files of the new namespace must not be opened for writing through its own mounts: a mount with an open writer cannot
/// become read-only (EBUSY). The script closes them first, but the child has the descriptors of the daemon, and a process
/// that another thread clones meanwhile has a copy of them until its exec. The mount outside does not become read-only.
fn open_proc() -> Result<OwnedFd, SetupError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open("/proc", flags, Mode::empty()).map_err(|_missing| SetupError::missing("/proc"))
}

/// Maps the current user and group to themselves, and no others.
fn map_current_user(script: &mut SyscallScript, proc: BorrowedFd<'_>) {
    let proc = proc.as_raw_fd();
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    script.write(proc, "self/setgroups", "deny");
    script.write(proc, "self/uid_map", &format!("{user} {user} 1"));
    script.write(proc, "self/gid_map", &format!("{group} {group} 1"));
}

fn private_shared_memory(script: &mut SyscallScript) -> Option<DescriptorSlot> {
    let path = Path::new(SHARED_MEMORY);
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    is_directory.then(|| {
        let memory = script.memory(&[("mode", "1777"), ("size", SHARED_MEMORY_BYTES)], NO_DEVICES);
        let onto = script.open(path);
        script.mount(memory, onto);
        memory
    })
}

/// Probes whether namespaces can be created.
pub(super) fn can_be_created(needs_user_namespace: bool) -> bool {
    let features = Features { landlock: None, seccomp: false, namespaces: true, needs_user_namespace };
    MountPlan::default().create(&features).is_ok()
}

/// Existing paths that are writable in every layer.
fn writable(confinement: &Confinement) -> Vec<PathBuf> {
    let mut writable: Option<Vec<PathBuf>> = None;
    for layer in confinement.layers() {
        let paths = unlinked(&layer.write);
        writable = Some(match writable {
            None => paths,
            Some(before) => overlap(&before, &paths),
        });
    }
    outermost(writable.unwrap_or_default())
}

/// Existing paths to hide, and inside each the paths that every layer leaves visible.
fn hidden(confinement: &Confinement) -> BTreeMap<PathBuf, Vec<PathBuf>> {
    let layers = confinement.layers();
    let exposed = unlinked(&layers.iter().flat_map(|layer| layer.expose.clone()).collect::<Vec<_>>());
    let is_visible = |path: &PathBuf| path.is_dir() && layers.iter().all(|layer| !layer.hides(path));
    let exposed = outermost(exposed.into_iter().filter(is_visible).collect());
    let mut hidden: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    let mut paths: Vec<PathBuf> = layers.iter().flat_map(|layer| real(&layer.hide)).collect();
    paths.sort_unstable();
    for path in paths {
        let is_exposed =
            |outer: &PathBuf| exposed.iter().any(|inner| inner.starts_with(outer) && path.starts_with(inner));
        if !hidden.keys().any(|outer| path.starts_with(outer) && !is_exposed(outer)) {
            let inside = exposed.iter().filter(|inner| **inner != path && inner.starts_with(&path));
            let inside = inside.cloned().collect();
            hidden.insert(path, inside);
        }
    }
    hidden
}

/// Directories that lead to `paths` from `above`, relative to it; parents first.
fn directories(paths: &[PathBuf], above: &Path) -> BTreeSet<PathBuf> {
    let inner = paths.iter().filter_map(|path| path.strip_prefix(above).ok());
    inner.flat_map(Path::ancestors).filter(|path| *path != Path::new("")).map(Path::to_owned).collect()
}

/// Existing paths without symbolic links.
fn unlinked(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths
        .iter()
        .map(|path| clean(path))
        .filter(|path| real_path(path).is_ok_and(|real| real == *path))
        .collect()
}

/// Existing paths with links resolved.
fn real(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().filter_map(|path| real_path(path).ok()).collect()
}

fn real_path(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// Paths that are in both lists, or below a path of the other.
fn overlap(some: &[PathBuf], others: &[PathBuf]) -> Vec<PathBuf> {
    let inside = |these: &[PathBuf], those: &[PathBuf]| -> Vec<PathBuf> {
        these.iter().filter(|path| those.iter().any(|outer| path.starts_with(outer))).cloned().collect()
    };
    let mut both = inside(some, others);
    both.extend(inside(others, some));
    both
}

/// Paths that are not below another one.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_unstable();
    paths.dedup_by(|later, earlier| later.starts_with(earlier));
    paths
}

/// Pins `path` read-only inside writable paths, and its parents in place. A link can be replaced, so its directory is
/// pinned too. A missing path gets a stand-in when a process starts.
fn pin(pinned: &mut BTreeMap<PathBuf, bool>, writable: &[PathBuf], path: &Path) {
    if let Some(missing) = standin::missing(path) {
        pin_above(pinned, writable, &missing.first);
        return;
    }
    let Ok(found) = path.symlink_metadata() else { return };
    if let (true, Some(parent)) = (found.is_symlink(), path.parent()) {
        pin(pinned, writable, parent);
    }
    let Ok(path) = real_path(&clean(path)) else { return };
    if pin_above(pinned, writable, &path) {
        pinned.insert(path, true);
    }
}

/// Pins the parents of a path that are inside a writable path; returns false if the path is not in one.
fn pin_above(pinned: &mut BTreeMap<PathBuf, bool>, writable: &[PathBuf], path: &Path) -> bool {
    let Some(root) = writable.iter().find(|root| path.starts_with(root)) else { return false };
    for above in path.ancestors().skip(1).take_while(|above| *above != root && above.starts_with(root)) {
        pinned.entry(above.to_owned()).or_insert(false);
    }
    true
}
