//! Opens a rooted path without a race in which a symlink could lead outside the roots.
//!
//! The kernel resolves a path in one call (`openat2` with `RESOLVE_BENEATH`). It rejects symlinks that are absolute or
//! lead above the root, even if they lead into a root again. In this case, and if the call is missing, the path is
//! resolved component by component.

mod walk;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use self::walk::{Found, Walk};
use super::guard::{Access, check_open};
use super::path::{ResolveStrategy, RootLocation, RootedPath, Roots};
use super::refused;
use crate::Error;

/// Flags of every open: no blocking on FIFOs, close-on-exec, no controlling terminal.
pub(super) const SAFE_FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::CLOEXEC).union(OFlags::NOCTTY);
/// A directory as a base of other calls; needs no read permission.
pub(super) const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// A directory to list.
pub(super) const LISTING: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The magic number of the proc file system.
const PROC_SUPER_MAGIC: rustix::fs::FsWord = 0x9fa0;
/// Attempts with `openat2` while other processes rename; then the path is resolved component by component.
const TRIES: usize = 4;

/// A name in an open directory, for operations on the name itself.
#[derive(Debug)]
pub(super) struct ResolvedName {
    pub(super) dir: OwnedFd,
    /// `.` for a root.
    pub(super) name: OsString,
}

impl RootedPath {
    /// Opens the directory, following symlinks inside the roots. A guard must permit the read. The descriptor is a base
    /// for other calls (`fchdir`, `openat`), not for reading names.
    pub fn open_directory(&self) -> Result<OwnedFd, Error> {
        self.open_with(DIRECTORY)
    }

    /// Opens the regular file for reading, following symlinks inside the roots.
    pub fn open_file(&self) -> Result<File, Error> {
        self.open_regular(OFlags::RDONLY).map(|(file, _)| File::from(file))
    }

    /// Opens the target of any kind, for its metadata only.
    pub(super) fn open_path(&self) -> Result<OwnedFd, Error> {
        self.open_with(OFlags::PATH | OFlags::CLOEXEC)
    }

    /// Opens the directory for reading its names.
    pub(super) fn open_listing(&self) -> Result<OwnedFd, Error> {
        self.open_with(LISTING)
    }

    /// Opens a regular file and returns its metadata.
    pub(super) fn open_regular(&self, access: OFlags) -> Result<(OwnedFd, Stat), Error> {
        let file = self.open_with(access | SAFE_FLAGS).map_err(|error| not_regular(error, self.as_path()))?;
        let stat = rustix::fs::fstat(&file).map_err(refused("stat", self.as_path()))?;
        require_regular(&stat, self.as_path())?;
        Ok((file, stat))
    }

    /// The directory and the name at the end of this path, if the guard permits the access; a symlink there is not
    /// followed.
    pub(super) fn resolve_name(&self, access: Access) -> Result<ResolvedName, Error> {
        self.permitted(self.resolve_name_unguarded(), access)
    }

    /// The directory and the name that this path resolves to, if the guard permits the access: the destination of a
    /// write.
    pub(super) fn target(&self, access: Access) -> Result<ResolvedName, Error> {
        self.permitted(self.target_unguarded(), access)
    }

    fn permitted(&self, found: Result<ResolvedName, Error>, access: Access) -> Result<ResolvedName, Error> {
        let Some(guard) = self.roots.guard() else { return found };
        let resolved = found.map_err(|error| self.hide_if_denied(error, access))?;
        guard.check(&resolved.real()?, access)?;
        Ok(resolved)
    }

    fn resolve_name_unguarded(&self) -> Result<ResolvedName, Error> {
        let (Some(parent), Some(name)) = (self.parent(), self.location.below.file_name()) else {
            let dir = open(&self.roots, &self.location, DIRECTORY, self.as_path())?;
            return Ok(ResolvedName { dir, name: OsString::from(".") });
        };
        Ok(ResolvedName {
            dir: open(&self.roots, &parent.location, DIRECTORY, self.as_path())?,
            name: name.to_owned(),
        })
    }

    pub(super) fn target_unguarded(&self) -> Result<ResolvedName, Error> {
        let resolved = self.resolve_name_unguarded()?;
        match resolved.stat(self.as_path())? {
            Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                match Walk::start(&self.roots, &self.location, self.as_path())?.into_name()? {
                    Found::Name(ResolvedName { dir, name }) => {
                        Ok(ResolvedName { dir: refuse_process(dir, self.as_path())?, name })
                    }
                    Found::Object(dir) => Ok(ResolvedName {
                        dir: refuse_process(dir, self.as_path())?,
                        name: OsString::from("."),
                    }),
                }
            }
            _ => Ok(resolved),
        }
    }

    /// Opens for reading. The guard checks the opened descriptor.
    fn open_with(&self, flags: OFlags) -> Result<OwnedFd, Error> {
        let opened = open(&self.roots, &self.location, flags, self.as_path());
        let Some(guard) = self.roots.guard() else { return opened };
        let object = opened.map_err(|error| self.hide_if_denied(error, Access::Read))?;
        check_open(guard, &object, Access::Read)?;
        Ok(object)
    }

    /// The working directory of a child, if it can be opened without disk access.
    pub(crate) fn open_directory_cached(&self) -> Option<OwnedFd> {
        self.open_cached(OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC)?.ok()
    }

    /// Opens the path if every component is cached, so that it does not wait for a disk. `None` if one is not cached,
    /// if the kernel does not support this, or if there is a guard.
    pub(super) fn open_cached(&self, flags: OFlags) -> Option<Result<OwnedFd, Errno>> {
        let slow = self.roots.strategy() == ResolveStrategy::Walk || self.roots.outer().is_some();
        if slow || self.roots.guard().is_some() {
            return None;
        }
        let cached = ResolveFlags::CACHED | ResolveFlags::NO_MAGICLINKS;
        let root_path = self.roots.root(self.location.root);
        let root = rustix::fs::openat2(rustix::fs::CWD, root_path, DIRECTORY, Mode::empty(), cached).ok()?;
        let resolve = ResolveFlags::CACHED | beneath(root_path);
        match rustix::fs::openat2(&root, or_dot(&self.location.below), flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::XDEV | Errno::NOSYS | Errno::PERM | Errno::INVAL) => None,
            Ok(object) if is_of_process(&object).unwrap_or(true) => None,
            decided => Some(decided),
        }
    }
}

impl ResolvedName {
    /// The metadata of the name, without following it; `None` if it does not exist.
    pub(super) fn stat(&self, requested: &Path) -> Result<Option<Stat>, Error> {
        match rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(refused("stat", requested)(errno)),
        }
    }

    /// Whether it is a root rather than a name inside one.
    pub(super) fn is_root(&self) -> bool {
        self.name == "."
    }
}

/// Opens a path below a root. Process directories of procfs are refused: they contain the daemon's own memory,
/// environment and descriptors.
fn open(roots: &Roots, location: &RootLocation, flags: OFlags, requested: &Path) -> Result<OwnedFd, Error> {
    refuse_process(open_any(roots, location, flags, requested)?, requested)
}

fn refuse_process(opened: OwnedFd, requested: &Path) -> Result<OwnedFd, Error> {
    match is_of_process(&opened).map_err(refused("open", requested))? {
        true => Err(Error::Guarded {
            path: requested.to_owned(),
            access: Access::Read,
            rule: "procfs".to_owned(),
            reason: "the directories of processes in procfs are not served".to_owned(),
        }),
        false => Ok(opened),
    }
}

/// Whether a descriptor is in the directory of a process on procfs, or is that directory.
pub(super) fn is_of_process(object: &OwnedFd) -> Result<bool, Errno> {
    if rustix::fs::fstatfs(object)?.f_type != PROC_SUPER_MAGIC {
        return Ok(false);
    }
    let link = format!("/proc/self/fd/{}", object.as_raw_fd());
    let real = rustix::fs::readlink(link, Vec::new())?;
    let is_process = |name: &[u8]| name.iter().all(u8::is_ascii_digit) && !name.is_empty();
    Ok(real.to_bytes().split(|byte| *byte == b'/').any(is_process))
}

fn open_any(
    roots: &Roots,
    location: &RootLocation,
    flags: OFlags,
    requested: &Path,
) -> Result<OwnedFd, Error> {
    if roots.strategy() == ResolveStrategy::Kernel {
        let root = open_root(roots, location.root, requested)?;
        if let Some(decided) = open_beneath(&root, &location.below, flags, beneath(roots.root(location.root)))
        {
            return decided.map_err(refused("open", requested));
        }
    }
    Walk::start(roots, location, requested)?.open(flags)
}

/// One `openat2` below a directory; `None` if the kernel cannot decide.
pub(super) fn open_beneath(
    dir: impl AsFd,
    below: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Option<Result<OwnedFd, Errno>> {
    for _ in 0..TRIES {
        match rustix::fs::openat2(dir.as_fd(), or_dot(below), flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::XDEV | Errno::NOSYS | Errno::PERM | Errno::INVAL) => return None,
            decided => return Some(decided),
        }
    }
    None
}

/// Opens a root. It is opened each time: checking that a kept descriptor still has this path would also take one call.
fn open_root(roots: &Roots, root: usize, requested: &Path) -> Result<OwnedFd, Error> {
    let path = roots.root(root);
    match roots.outer() {
        // Unguarded: the guard checks the final descriptor.
        Some(outer) => {
            let root = outer.admit(Path::new("/"), path)?;
            open(outer, &root.location, DIRECTORY, root.as_path())
        }
        None => rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(refused("open", requested)),
    }
}

/// A root of `/` resolves absolute symlinks within itself.
fn beneath(root: &Path) -> ResolveFlags {
    let inside = if root == Path::new("/") { ResolveFlags::IN_ROOT } else { ResolveFlags::BENEATH };
    inside | ResolveFlags::NO_MAGICLINKS
}

fn or_dot(below: &Path) -> &OsStr {
    if below.as_os_str().is_empty() { OsStr::new(".") } else { below.as_os_str() }
}

/// Rejects everything except regular files, with a separate error for directories.
pub(super) fn require_regular(stat: &Stat, requested: &Path) -> Result<(), Error> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(refused("read", requested)(Errno::ISDIR)),
        _ => Err(Error::NotRegular { path: requested.to_owned() }),
    }
}

/// A socket, or a FIFO without a reader, fails with ENXIO.
fn not_regular(error: Error, requested: &Path) -> Error {
    match error {
        Error::File { ref source, .. } if source.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            Error::NotRegular { path: requested.to_owned() }
        }
        other => other,
    }
}

/// Creates the parent directory of a path and all missing directories above it, including the root. Returns the created
/// ones, outermost first, for a rollback.
pub(super) fn make_parents(path: &RootedPath) -> Result<Vec<RootedPath>, Error> {
    path.check_ahead(Access::Write)?;
    match path.parent() {
        Some(parent) => make_all(&parent),
        None => Ok(Vec::new()),
    }
}

/// Creates a directory and all missing directories above it.
pub(super) fn make_all(path: &RootedPath) -> Result<Vec<RootedPath>, Error> {
    let mut missing: Vec<RootedPath> = Vec::new();
    let mut next = Some(path.clone());
    while let Some(directory) = next {
        match open(&directory.roots, &directory.location, DIRECTORY, directory.as_path()) {
            Ok(_) => break,
            Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if directory.is_root() {
            directory.check_ahead(Access::Write)?;
            make_root(&directory)?;
            break;
        }
        next = directory.parent();
        missing.push(directory);
    }
    missing.reverse();
    if !missing.is_empty() {
        path.check_ahead(Access::Write)?;
    }
    for directory in &missing {
        let resolved = directory.resolve_name(Access::Write)?;
        match rustix::fs::mkdirat(&resolved.dir, &resolved.name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(refused("mkdir", path.as_path())(errno)),
        }
    }
    Ok(missing)
}

/// Creates a missing root. Its path comes from the operator, not from a caller.
fn make_root(directory: &RootedPath) -> Result<(), Error> {
    let path: PathBuf = directory.roots.root(directory.location.root).to_owned();
    match directory.roots.outer() {
        Some(outer) => make_all(&outer.admit(Path::new("/"), &path)?).map(|_| ()),
        None => {
            std::fs::create_dir_all(&path).map_err(|source| Error::File { action: "mkdir", path, source })
        }
    }
}
