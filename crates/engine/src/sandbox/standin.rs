//! Stand-ins: empty directories in the place of protected paths that do not exist, so that something can be mounted there.
//!
//! Landlock knows no names and the kernel mounts only onto what is there, so that nothing else keeps a missing path
//! from being made. A stand-in is made before a process starts, and removed when nothing of the process is left. Whoever
//! uses one holds a shared lock on it, and who can have it alone removes it: commands and daemons share stand-ins that
//! way. The mode tells them from everybody's directories, so that one whose daemon was killed is found by the next.

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

/// The mode of a stand-in: nobody gives a private directory the bit for shared ones.
const MARK: RawMode = 0o1700;
/// What of a mode is compared with it: parents hand on the bit for groups.
const COMPARED: RawMode = 0o5777;
/// What is left of the mode once somebody has put something into it.
const UNMARKED: Mode = Mode::RWXU;
/// How often one that is just being removed by somebody else is tried again, a millisecond apart.
const TRIES: usize = 1000;

/// Those of one process. The innermost goes first.
#[derive(Debug, Default)]
pub(crate) struct StandIns(Vec<StandIn>);

/// One of them, held by its lock.
#[derive(Debug)]
pub(super) struct StandIn {
    pub(super) path: PathBuf,
    /// Whether nothing can be put into it; those on the way to such a one only stay in their place.
    pub(super) is_read_only: bool,
    parent: OwnedFd,
    name: OsString,
    opened: OwnedFd,
}

/// Where stand-ins are needed for a confinement, outermost first, and which of them are read-only.
///
/// A part of a repository that does not exist is left out: a repository that a command makes is its own.
pub(super) fn wanted(confinement: &Confinement) -> BTreeMap<PathBuf, bool> {
    let protected = || confinement.layers().iter().flat_map(|layer| &layer.protect).map(|path| clean(path));
    let mut wanted = BTreeMap::new();
    for path in protected().filter(|path| is_missing(path)) {
        let is_inner = protected().any(|outer| path != outer && path.starts_with(&outer));
        let Some(MissingPath { first, whole }) = missing(&path).filter(|_| !is_inner) else { continue };
        let is_of_repository = first.file_name().is_some_and(|name| name == ".git") && first != whole;
        if is_of_repository || !MountPlan::is_writable(confinement, &first) {
            continue;
        }
        for part in whole.ancestors().take_while(|part| part.starts_with(&first)) {
            *wanted.entry(part.to_owned()).or_default() |= part == whole;
        }
    }
    wanted
}

/// A missing path, below the real path of what is there.
#[derive(Debug)]
pub(super) struct MissingPath {
    /// Its outermost part that is missing.
    pub(super) first: PathBuf,
    whole: PathBuf,
}

/// What is missing of a path, if anything is.
pub(super) fn missing(path: &Path) -> Option<MissingPath> {
    let first = path.ancestors().take_while(|part| is_missing(part)).last()?;
    let above = first.parent()?;
    let real = above.canonicalize().ok()?;
    Some(MissingPath {
        first: real.join(first.strip_prefix(above).ok()?),
        whole: real.join(path.strip_prefix(above).ok()?),
    })
}

/// Whether nothing is there, or only a stand-in.
pub(super) fn is_missing(path: &Path) -> bool {
    match rustix::fs::lstat(path) {
        Ok(found) => is_marked(&found),
        Err(error) => error == Errno::NOENT,
    }
}

/// Whether this is a stand-in.
pub(super) fn is_marked(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
        && found.st_mode & COMPARED == MARK
        && found.st_uid == rustix::process::geteuid().as_raw()
}

impl StandIns {
    /// Makes those that are wanted, or joins those who have.
    pub(super) fn make(wanted: BTreeMap<PathBuf, bool>) -> Result<StandIns, String> {
        let mut made = StandIns::default();
        for (path, is_read_only) in wanted {
            let failed = |error| format!("could not keep {} from being made: {error}", path.display());
            made.0.extend(StandIn::at(&path, is_read_only).map_err(failed)?);
        }
        Ok(made)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &StandIn> {
        self.0.iter()
    }

    /// Whether there are none.
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
    /// A stand-in at a path that has no link in it; nothing where nobody could make anything.
    fn at(path: &Path, is_read_only: bool) -> io::Result<Option<StandIn>> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let none = Mode::empty();
        let parent = rustix::fs::openat2(rustix::fs::CWD, parent, flags, none, ResolveFlags::NO_SYMLINKS)?;
        for _ in 0..TRIES {
            match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(MARK)) {
                Ok(()) | Err(Errno::EXIST) => {}
                // The commands have no more rights than we have.
                Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NAMETOOLONG) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            if let Some(opened) = join(parent.as_fd(), name.as_ref())? {
                let (path, name) = (path.to_owned(), name.to_owned());
                return Ok(Some(StandIn { path, is_read_only, parent, name, opened }));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(Errno::BUSY.into())
    }

    /// Device and number.
    pub(super) fn identity(&self) -> Option<(u64, u64)> {
        identity(self.opened.as_fd())
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // Somebody else still needs it, and removes it.
        if rustix::fs::flock(&self.opened, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        let Ok(found) = rustix::fs::statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) else {
            return;
        };
        if !is_marked(&found) || Some((found.st_dev, found.st_ino)) != self.identity() {
            return;
        }
        match rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR) {
            Ok(()) => {}
            // Somebody outside has made it theirs.
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let _unmarked = rustix::fs::fchmod(&self.opened, UNMARKED);
            }
            Err(error) => tracing::warn!(path = %self.path.display(), %error, "cannot remove a stand-in"),
        }
    }
}

/// Opens and locks what is there; nothing if somebody is just removing it.
fn join(parent: BorrowedFd<'_>, name: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    let is_there = rustix::fs::fstat(&opened)?.st_nlink > 0;
    Ok(is_there.then_some(opened))
}

/// Device and number of what is open.
pub(super) fn identity(opened: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let found = rustix::fs::fstat(opened).ok()?;
    Some((found.st_dev, found.st_ino))
}
