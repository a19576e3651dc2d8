//! Path guards: which paths inside the roots may be accessed, checked on the descriptors that are used.
//!
//! A guard does not check the path that a caller sent. It checks the path of an open descriptor, which the kernel reports
//! after all symlinks were followed, and the operation then uses this descriptor, so that a symlink that is swapped meanwhile
//! has no effect. A name that is created, changed or removed is checked as the path of its open directory plus the name.
//!
//! Hard links and bind mounts give a file a second path, which a guard checks as a different file. A caller that may not
//! write to the file's directory cannot create such a link with these operations, but an existing one is not denied.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::path::{RootedPath, Roots};
use super::resolve::ResolvedName;
use crate::Error;

/// The suffix that the kernel appends to the path of a removed file.
const DELETED: &[u8] = b" (deleted)";

/// How a path is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Its content or its entries are read.
    Read,
    /// Its content or its name is created, changed or removed.
    Write,
}

impl Access {
    /// The name in messages and policies: `read` or `write`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Decides which paths inside the roots may be accessed, and how. It is called often, on blocking threads, and should decide
/// without I/O.
pub trait PathGuard: Send + Sync {
    /// Denies an access with [`Error::Guarded`]. `real` is absolute and contains no symlinks.
    fn check(&self, real: &Path, access: Access) -> Result<(), Error>;

    /// A denied path below `real`, if one is known without I/O. Operations on whole trees (remove, rename, copy) check this
    /// before they change anything.
    fn refused_beneath(&self, real: &Path, access: Access) -> Option<PathBuf>;

    /// Whether [`PathGuard::refused_beneath`] may miss paths, as with globs on names. Operations on whole trees then check each
    /// entry first.
    fn needs_every_entry(&self) -> bool {
        true
    }
}

/// Two guards that must both allow an access.
pub(super) struct CombinedGuard(pub(super) Arc<dyn PathGuard>, pub(super) Arc<dyn PathGuard>);

impl PathGuard for CombinedGuard {
    fn check(&self, real: &Path, access: Access) -> Result<(), Error> {
        self.0.check(real, access)?;
        self.1.check(real, access)
    }

    fn refused_beneath(&self, real: &Path, access: Access) -> Option<PathBuf> {
        self.0.refused_beneath(real, access).or_else(|| self.1.refused_beneath(real, access))
    }

    fn needs_every_entry(&self) -> bool {
        self.0.needs_every_entry() || self.1.needs_every_entry()
    }
}

/// The current path of an open descriptor, from the kernel.
pub(super) fn real_path(object: impl AsFd) -> Result<PathBuf, Error> {
    let link = format!("/proc/self/fd/{}", object.as_fd().as_raw_fd());
    let text = rustix::fs::readlink(link, Vec::new()).map_err(unknown_path)?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(text.into_bytes()));
    // The link of an unmounted object is not a path.
    if path.is_absolute() { Ok(path) } else { Err(unknown_path(Errno::NOENT)) }
}

fn unknown_path(errno: Errno) -> Error {
    let reason = format!("cannot determine the real path ({errno}): /proc must be mounted");
    Error::Unsupported { what: "guarded files", reason }
}

/// Checks the current path of an open descriptor.
pub(super) fn check_open(guard: &dyn PathGuard, object: impl AsFd, access: Access) -> Result<(), Error> {
    let real = real_path(object)?;
    // If it was removed or replaced since it was opened, its former path is checked. A file whose name ends with this
    // suffix is checked under both names.
    if let Some(former) = real.as_os_str().as_bytes().strip_suffix(DELETED) {
        guard.check(Path::new(OsStr::from_bytes(former)), access)?;
    }
    guard.check(&real, access)
}

impl ResolvedName {
    /// The current real path of this name.
    pub(super) fn real(&self) -> Result<PathBuf, Error> {
        let dir = real_path(&self.dir)?;
        Ok(if self.is_root() { dir } else { dir.join(&self.name) })
    }
}

impl RootedPath {
    /// The current path after all symlinks were followed, to show to a person before an operation. For a path that does not
    /// exist, the existing part is resolved. No guard is checked, and the result can change at any time.
    pub fn real(&self) -> Result<PathBuf, Error> {
        match self.target_unguarded() {
            Ok(name) => name.real(),
            Err(Error::File { source, .. }) if is_unreachable(&source) => {
                match (self.parent(), self.as_path().file_name()) {
                    (Some(parent), Some(name)) => Ok(parent.real()?.join(name)),
                    _ => Ok(resolved(self.roots().root(self.location.root))),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The path of the name itself: symlinks in its directory are followed, but not the name.
    pub fn entry(&self) -> Result<PathBuf, Error> {
        match (self.parent(), self.as_path().file_name()) {
            (Some(parent), Some(name)) => Ok(parent.real()?.join(name)),
            _ => self.real(),
        }
    }

    /// Whether the guard permits a write to the path that it currently resolves to, for a caller that writes later.
    pub fn may_write(&self) -> Result<(), Error> {
        self.check_ahead(Access::Write)
    }

    /// Checks the guard for the current path, before anything is changed. The check of the descriptor is still required.
    pub(super) fn check_ahead(&self, access: Access) -> Result<(), Error> {
        match self.roots().guard() {
            Some(guard) => guard.check(&self.real()?, access),
            None => Ok(()),
        }
    }

    /// The error for a path that could not be opened: for a denied path it does not reveal whether the path exists.
    pub(super) fn hide_if_denied(&self, error: Error, access: Access) -> Error {
        match (&error, self.check_ahead(access)) {
            (Error::File { .. }, Err(guarded @ Error::Guarded { .. })) => guarded,
            _ => error,
        }
    }
}

fn is_unreachable(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// Excludes denied names of one directory from a scan.
pub(super) enum EntryFilter<'a> {
    /// There is no guard.
    Unguarded,
    /// The real path of the directory is unknown, so all its names are excluded.
    UnknownPath,
    /// The real path of the directory, and the guard.
    Guarded(&'a dyn PathGuard, PathBuf),
}

impl<'a> EntryFilter<'a> {
    pub(super) fn new(roots: &'a Roots, dir: impl AsFd) -> Self {
        let Some(guard) = roots.guard() else { return Self::Unguarded };
        real_path(dir).map_or(Self::UnknownPath, |real| Self::Guarded(guard, real))
    }

    /// Whether a name in the directory, or a path below it, may be listed.
    pub(super) fn allows(&self, below: impl AsRef<Path>) -> bool {
        match self {
            Self::Unguarded => true,
            Self::UnknownPath => false,
            Self::Guarded(guard, real) if below.as_ref().as_os_str().is_empty() => {
                guard.check(real, Access::Read).is_ok()
            }
            Self::Guarded(guard, real) => guard.check(&real.join(below), Access::Read).is_ok(),
        }
    }
}

/// An absolute path with the symlinks in its existing part resolved.
fn resolved(path: &Path) -> PathBuf {
    for existing in path.ancestors() {
        if let Ok(real) = std::fs::canonicalize(existing) {
            return match path.strip_prefix(existing) {
                Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
                _ => real,
            };
        }
    }
    path.to_owned()
}
