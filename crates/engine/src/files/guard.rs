//! Path guards: which paths inside the roots may be accessed, checked on the descriptors that are used.
//!
//! A guard never sees the path a caller spelled. It sees where an open descriptor is, asked of the kernel after every
//! link was followed, and that descriptor is then used: to swap a link in between gains nothing. A name that is
//! about to be made, changed or removed is seen as its open directory's place and the name.
//!
//! What a guard cannot see: a hard link, or a bind mount, gives a refused file a second path, and by that path it is
//! another place. Whoever may not write beside the file cannot make such a link by these operations, but one that
//! exists already is not refused.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::path::{RootedPath, Roots};
use super::resolve::ResolvedName;
use crate::Error;

/// What the kernel puts behind the path of something that has lost its name.
const DELETED: &[u8] = b" (deleted)";

/// How a path is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Its content or its names are looked at.
    Read,
    /// Its content or its name is changed, made or removed.
    Write,
}

impl Access {
    /// One word for it: `read` or `write`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Says which places inside the roots may be touched, and how. Asked on threads made for blocking, often: it should
/// answer from memory.
pub trait PathGuard: Send + Sync {
    /// Refuses an access with [`Error::Guarded`]. `real` is absolute and has no links in it.
    fn check(&self, real: &Path, access: Access) -> Result<(), Error>;

    /// A place beneath `real` that is refused, if one is known without looking at the disk. What takes a whole tree
    /// (removing, renaming, copying) asks before it changes anything.
    fn refused_beneath(&self, real: &Path, access: Access) -> Option<PathBuf>;

    /// Whether [`PathGuard::refused_beneath`] may miss something, as with patterns on names: then what takes a whole
    /// tree has each entry checked first.
    fn needs_every_entry(&self) -> bool {
        true
    }
}

/// Two guards that must both agree.
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

/// Where an open descriptor is now, by the kernel's word.
pub(super) fn real_path(object: impl AsFd) -> Result<PathBuf, Error> {
    let link = format!("/proc/self/fd/{}", object.as_fd().as_raw_fd());
    let text = rustix::fs::readlink(link, Vec::new()).map_err(untold)?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(text.into_bytes()));
    // Something mounted away has a text that is no path.
    if path.is_absolute() { Ok(path) } else { Err(untold(Errno::NOENT)) }
}

fn untold(errno: Errno) -> Error {
    let reason = format!("where it really is cannot be told ({errno}): /proc must be mounted");
    Error::Unsupported { what: "guarded files", reason }
}

/// Checks what an open descriptor is.
pub(super) fn check_open(guard: &dyn PathGuard, object: impl AsFd, access: Access) -> Result<(), Error> {
    let real = real_path(object)?;
    // It was removed or replaced since it was opened: then it counts as what it was. A file that is really called
    // so is held against both names.
    if let Some(was) = real.as_os_str().as_bytes().strip_suffix(DELETED) {
        guard.check(Path::new(OsStr::from_bytes(was)), access)?;
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
    /// Where the path leads now, through all links: for those who tell a person before they act. What does not exist
    /// yet is named beneath the deepest directory that does. No guard is asked, and it may change the next moment.
    pub fn real(&self) -> Result<PathBuf, Error> {
        match self.target_unguarded() {
            Ok(place) => place.real(),
            Err(Error::File { source, .. }) if leads_nowhere(&source) => {
                match (self.parent(), self.as_path().file_name()) {
                    (Some(parent), Some(name)) => Ok(parent.real()?.join(name)),
                    _ => Ok(resolved(self.roots().root(self.location.root))),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Where the name itself stands: through all links on the way, but not through one of this name.
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

    /// Refuses, by where the path leads now, what would be refused once it is opened. It says so before anything is
    /// changed on the way; the check that counts is the one on the descriptor.
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

fn leads_nowhere(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// Leaves the refused names of one directory out of a scan.
pub(super) enum EntryFilter<'a> {
    /// Nobody guards it.
    Open,
    /// The real path of the directory is unknown, so all of its names are hidden.
    Shut,
    /// The real path of the directory, and the guard.
    Guarded(&'a dyn PathGuard, PathBuf),
}

impl<'a> EntryFilter<'a> {
    pub(super) fn new(roots: &'a Roots, dir: impl AsFd) -> Self {
        let Some(guard) = roots.guard() else { return Self::Open };
        real_path(dir).map_or(Self::Shut, |real| Self::Guarded(guard, real))
    }

    /// Whether a name in it, or a path below it, may be listed.
    pub(super) fn allows(&self, below: impl AsRef<Path>) -> bool {
        match self {
            Self::Open => true,
            Self::Shut => false,
            Self::Guarded(guard, real) if below.as_ref().as_os_str().is_empty() => {
                guard.check(real, Access::Read).is_ok()
            }
            Self::Guarded(guard, real) => guard.check(&real.join(below), Access::Read).is_ok(),
        }
    }
}

/// An absolute path with the links in its existing part resolved, and the rest as it is.
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
