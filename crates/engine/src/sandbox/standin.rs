//! Stand-ins: empty directories at protected paths that do not exist, as mount points for read-only mounts.
//!
//! Landlock rules apply to existing files only, and so do mounts, so nothing else prevents a process from creating a missing
//! path. A stand-in is created before a process starts and removed when all processes of its tree have ended. Every user
//! holds a shared lock on it, and removes it if it can get the lock exclusively: commands and daemons share stand-ins this
//! way. The mode distinguishes stand-ins from other directories, so that the guardian of a killed daemon, or a later daemon,
//! recognises its stand-ins.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RawMode, ResolveFlags, Stat};
use rustix::io::Errno;

use super::confinement::Confinement;
use super::namespace::MountPlan;
use crate::files::clean;

/// Mode of a stand-in: a private directory with the sticky bit, which only makes sense on shared ones.
const MARK: RawMode = 0o1700;
/// Bits of the mode that are compared with [`MARK`]: the set-group-ID bit may be inherited from the parent.
const COMPARED: RawMode = 0o5777;
/// Mode of a stand-in after another process has created a file in it.
const UNMARKED: Mode = Mode::RWXU;
/// Limit on attempts, 1 ms apart, to create a stand-in that another process is removing.
const MAX_ATTEMPTS: usize = 1000;

/// Stand-ins of one process, removed from the innermost outwards.
#[derive(Debug, Default)]
pub(crate) struct StandIns(Vec<StandIn>);

/// A stand-in with its shared lock.
#[derive(Debug)]
pub(super) struct StandIn {
    pub(super) path: PathBuf,
    /// Whether it is read-only. Parents of such a stand-in are not, but cannot be moved.
    pub(super) is_read_only: bool,
    parent: OwnedFd,
    name: OsString,
    opened: OwnedFd,
}

/// Paths of the stand-ins that a confinement needs, outermost first, and whether each is read-only.
///
/// Paths inside a missing Git repository are skipped: a command may create a repository with its own hooks.
pub(super) fn needed_paths(confinement: &Confinement) -> BTreeMap<PathBuf, bool> {
    let protected = || confinement.layers().iter().flat_map(|layer| &layer.protect).map(|path| clean(path));
    let mut needed = BTreeMap::new();
    for path in protected().filter(|path| is_missing(path)) {
        let is_inner = protected().any(|outer| path != outer && path.starts_with(&outer));
        let Some(MissingPath { first, whole }) = missing(&path).filter(|_| !is_inner) else { continue };
        let is_of_repository = first.file_name().is_some_and(|name| name == ".git") && first != whole;
        if is_of_repository || !MountPlan::is_writable(confinement, &first) {
            continue;
        }
        for part in whole.ancestors().take_while(|part| part.starts_with(&first)) {
            *needed.entry(part.to_owned()).or_default() |= part == whole;
        }
    }
    needed
}

/// A missing path with the links of its existing parent resolved.
#[derive(Debug)]
pub(super) struct MissingPath {
    /// The outermost missing component.
    pub(super) first: PathBuf,
    whole: PathBuf,
}

/// The missing part of a path; `None` if it exists.
pub(super) fn missing(path: &Path) -> Option<MissingPath> {
    let first = path.ancestors().take_while(|part| is_missing(part)).last()?;
    let above = first.parent()?;
    let real = above.canonicalize().ok()?;
    Some(MissingPath {
        first: real.join(first.strip_prefix(above).ok()?),
        whole: real.join(path.strip_prefix(above).ok()?),
    })
}

/// Whether the path does not exist or is a stand-in.
pub(super) fn is_missing(path: &Path) -> bool {
    match rustix::fs::lstat(path) {
        Ok(found) => is_stand_in(&found),
        Err(error) => error == Errno::NOENT,
    }
}

/// Whether the mode and owner are those of a stand-in.
pub(super) fn is_stand_in(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
        && found.st_mode & COMPARED == MARK
        && found.st_uid == rustix::process::geteuid().as_raw()
}

impl StandIns {
    /// Creates stand-ins at these paths, or shares existing ones.
    pub(super) fn create(paths: BTreeMap<PathBuf, bool>) -> Result<StandIns, String> {
        let mut created = StandIns::default();
        for (path, is_read_only) in paths {
            let failed = |error| format!("cannot prevent the creation of {}: {error}", path.display());
            created.0.extend(StandIn::create(&path, is_read_only).map_err(failed)?);
        }
        Ok(created)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &StandIn> {
        self.0.iter()
    }

    /// The paths of the stand-ins, in the order of creation.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|stand_in| stand_in.path.as_path())
    }

    /// Whether there are no stand-ins.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

impl StandIn {
    /// Creates a stand-in at a path without symbolic links; `None` if this user cannot create files there.
    fn create(path: &Path, is_read_only: bool) -> io::Result<Option<StandIn>> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let parent = open_parent(parent)?;
        for _ in 0..MAX_ATTEMPTS {
            match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(MARK)) {
                Ok(()) | Err(Errno::EXIST) => {}
                // Commands run with the same privileges, so they cannot create the path either.
                Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NAMETOOLONG) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            if let Some(opened) = open_locked(parent.as_fd(), name.as_ref())? {
                let (path, name) = (path.to_owned(), name.to_owned());
                return Ok(Some(StandIn { path, is_read_only, parent, name, opened }));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(Errno::BUSY.into())
    }

    /// Device and inode of the stand-in.
    pub(super) fn identity(&self) -> Option<(u64, u64)> {
        identity(self.opened.as_fd())
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // Another process still uses it and will remove it.
        if rustix::fs::flock(&self.opened, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        let Ok(found) = rustix::fs::statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) else {
            return;
        };
        if !is_stand_in(&found) || Some((found.st_dev, found.st_ino)) != self.identity() {
            return;
        }
        match rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR) {
            Ok(()) => {}
            // A process outside the sandbox has created a file in it.
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let _unmarked = rustix::fs::fchmod(&self.opened, UNMARKED);
            }
            Err(error) => tracing::warn!(path = %self.path.display(), %error, "cannot remove a stand-in"),
        }
    }
}

/// Removes the stand-in of a killed process, unless another process uses it or there is something else at its path.
pub(crate) fn remove_abandoned_stand_in(path: &Path) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
    let Ok(parent) = open_parent(parent) else { return };
    if let Ok(Some(opened)) = open_locked(parent.as_fd(), name.as_ref()) {
        // Dropped as the last user would do.
        drop(StandIn { path: path.to_owned(), is_read_only: true, parent, name: name.to_owned(), opened });
    }
}

/// Opens the parent of a stand-in, whose path has no symbolic links.
fn open_parent(parent: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let (none, resolve) = (Mode::empty(), ResolveFlags::NO_SYMLINKS);
    Ok(rustix::fs::openat2(rustix::fs::CWD, parent, flags, none, resolve)?)
}

/// Opens and locks a stand-in; `None` if another process is removing it.
fn open_locked(parent: BorrowedFd<'_>, name: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    let is_linked = rustix::fs::fstat(&opened)?.st_nlink > 0;
    Ok(is_linked.then_some(opened))
}

/// Device and inode of an open file.
pub(super) fn identity(opened: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let found = rustix::fs::fstat(opened).ok()?;
    Some((found.st_dev, found.st_ino))
}
