//! Resolves a path component by component, always relative to a descriptor.
//!
//! A directory is entered only through a descriptor that was opened without following symlinks. The kernel never
//! follows a symlink: its target is read. If the target is absolute or leads above the root, it is checked against all
//! roots again, and the resolution starts again from the root that contains it.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{PROC_SUPER_MAGIC, ResolvedName, open_root};
use crate::Error;
use crate::files::path::{RootLocation, Roots, clean};
use crate::files::refused;

/// Limit on symlinks and restarts of one path, as in the kernel.
const MOST_LINKS: usize = 40;
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The result of a walk.
pub(super) enum Found {
    /// An open descriptor.
    Object(OwnedFd),
    /// A name that is not a symlink, or does not exist.
    Name(ResolvedName),
}

/// The state of a walk.
pub(super) struct Walk<'a> {
    roots: &'a Roots,
    requested: &'a Path,
    root: usize,
    /// The current directory, and its path from the root; no component is a symlink.
    dir: OwnedFd,
    here: Vec<OsString>,
    /// The remaining components, the next one last.
    todo: Vec<OsString>,
    links: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn start(
        roots: &'a Roots,
        location: &RootLocation,
        requested: &'a Path,
    ) -> Result<Self, Error> {
        let dir = open_root(roots, location.root, requested)?;
        let mut walk =
            Self { roots, requested, root: location.root, dir, here: Vec::new(), todo: Vec::new(), links: 0 };
        walk.queue(&location.below);
        Ok(walk)
    }

    /// Opens the target of the path.
    pub(super) fn open(mut self, flags: OFlags) -> Result<OwnedFd, Error> {
        match self.run(Some(flags))? {
            Found::Object(fd) => Ok(fd),
            Found::Name(_) => Err(self.refused(Errno::NOENT)),
        }
    }

    /// Finds the name that the path resolves to.
    pub(super) fn into_name(mut self) -> Result<Found, Error> {
        self.run(None)
    }

    fn run(&mut self, flags: Option<OFlags>) -> Result<Found, Error> {
        while let Some(part) = self.todo.pop() {
            if part == ".." {
                self.climb()?;
                continue;
            }
            let last = self.todo.is_empty();
            let object = match rustix::fs::openat(&self.dir, &part, LOOK, Mode::empty()) {
                Ok(object) => object,
                Err(Errno::NOENT) if last && flags.is_none() => return self.name(part),
                Err(errno) => return Err(self.refused(errno)),
            };
            let stat = rustix::fs::fstat(&object).map_err(|errno| self.refused(errno))?;
            match (FileType::from_raw_mode(stat.st_mode), flags) {
                (FileType::Symlink, _) => self.follow(&object)?,
                (FileType::Directory, _) if !last => {
                    self.dir = object;
                    self.here.push(part);
                }
                _ if !last => return Err(self.refused(Errno::NOTDIR)),
                (_, None) => return self.name(part),
                (_, Some(flags)) => {
                    match rustix::fs::openat(&self.dir, &part, flags | OFlags::NOFOLLOW, Mode::empty()) {
                        // It was replaced by a symlink meanwhile: check again.
                        Err(Errno::LOOP) => {
                            self.count()?;
                            self.todo.push(part);
                        }
                        opened => return opened.map(Found::Object).map_err(|errno| self.refused(errno)),
                    }
                }
            }
        }
        let flags = flags.unwrap_or(super::DIRECTORY);
        let opened = rustix::fs::openat(&self.dir, ".", flags, Mode::empty());
        opened.map(Found::Object).map_err(|errno| self.refused(errno))
    }

    fn name(&self, name: OsString) -> Result<Found, Error> {
        let dir = rustix::io::fcntl_dupfd_cloexec(&self.dir, 0).map_err(|errno| self.refused(errno))?;
        Ok(Found::Name(ResolvedName { dir, name }))
    }

    fn follow(&mut self, link: &OwnedFd) -> Result<(), Error> {
        self.count()?;
        let text = rustix::fs::readlinkat(link, "", Vec::new()).map_err(|errno| self.refused(errno))?;
        let target = PathBuf::from(OsString::from_vec(text.into_bytes()));
        if is_magic(link, &target) {
            return Err(self.refused(Errno::LOOP));
        }
        if target.is_absolute() {
            return self.start_over(&target);
        }
        self.queue(&target);
        Ok(())
    }

    /// Handles `..` components from a symlink: the current directory is not a symlink, so its parent is the one in its
    /// path.
    fn climb(&mut self) -> Result<(), Error> {
        self.count()?;
        loop {
            if self.here.pop().is_none() {
                let real =
                    self.roots.real(self.root).unwrap_or_else(|| self.roots.root(self.root).to_owned());
                return self.start_over(&real.join(".."));
            }
            if self.todo.last().is_none_or(|next| next != "..") {
                break;
            }
            self.todo.pop();
        }
        self.dir = open_root(self.roots, self.root, self.requested)?;
        self.todo.extend(self.here.drain(..).rev());
        Ok(())
    }

    /// Checks a target, with the remaining components, against the roots again.
    fn start_over(&mut self, target: &Path) -> Result<(), Error> {
        let rest: PathBuf = self.todo.drain(..).rev().collect();
        let target = clean(&target.join(rest));
        let Some(location) = self.roots.locate(&target) else {
            return Err(self.roots.outside(self.requested.to_owned(), Some(target)));
        };
        self.root = location.root;
        self.dir = open_root(self.roots, location.root, self.requested)?;
        self.here.clear();
        self.queue(&location.below);
        Ok(())
    }

    fn queue(&mut self, path: &Path) {
        for part in path.components().rev() {
            match part {
                Component::Normal(name) => self.todo.push(name.to_owned()),
                Component::ParentDir => self.todo.push(OsString::from("..")),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
    }

    fn count(&mut self) -> Result<(), Error> {
        self.links += 1;
        if self.links > MOST_LINKS { Err(self.refused(Errno::LOOP)) } else { Ok(()) }
    }

    fn refused(&self, errno: Errno) -> Error {
        refused("open", self.requested)(errno)
    }
}

/// Symlinks in `/proc` that lead to objects and not to paths (`/proc/self/root`, `/proc/self/fd/3`) are absolute or
/// contain a kind, as in `pipe:[7]`; its ordinary symlinks (`self`, `mounts`) are neither.
fn is_magic(link: &OwnedFd, target: &Path) -> bool {
    let odd = target.is_absolute() || OsStr::as_bytes(target.as_os_str()).contains(&b':');
    let in_proc = || rustix::fs::fstatfs(link).is_ok_and(|fs| fs.f_type == PROC_SUPER_MAGIC);
    odd && in_proc()
}
