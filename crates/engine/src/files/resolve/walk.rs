//! Walk: resolving a path by hand, one component and one link at a time, always relative to a descriptor.
//!
//! A directory is entered only by a descriptor opened without following links. A link is read, never
//! followed by the kernel; where it is absolute or climbs past its root, its target is held against
//! all roots again and the walk starts over from the root that contains it.

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

/// Links and restarts that one path may take, as in the kernel.
const MOST_LINKS: usize = 40;
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What a walk ends at.
pub(super) enum Found {
    /// An open descriptor.
    Object(OwnedFd),
    /// A name that is no link, or does not exist.
    Name(ResolvedName),
}

/// A walk under way.
pub(super) struct Walk<'a> {
    roots: &'a Roots,
    asked: &'a Path,
    root: usize,
    /// The directory reached, and the names that led to it from the root; none of them was a link.
    dir: OwnedFd,
    here: Vec<OsString>,
    /// What is still to be walked, next last.
    todo: Vec<OsString>,
    links: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn start(roots: &'a Roots, location: &RootLocation, asked: &'a Path) -> Result<Self, Error> {
        let dir = open_root(roots, location.root, asked)?;
        let mut walk =
            Self { roots, asked, root: location.root, dir, here: Vec::new(), todo: Vec::new(), links: 0 };
        walk.queue(&location.below);
        Ok(walk)
    }

    /// Opens what the path leads to.
    pub(super) fn open(mut self, flags: OFlags) -> Result<OwnedFd, Error> {
        match self.run(Some(flags))? {
            Found::Object(fd) => Ok(fd),
            Found::Name(_) => Err(self.refused(Errno::NOENT)),
        }
    }

    /// Finds the name the path leads to.
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
                        // It became a link since we looked: look again.
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

    /// Takes `..`, and those right behind it, from a link: back from the directory reached, which is no
    /// link, so its parent is the one in its path.
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
        self.dir = open_root(self.roots, self.root, self.asked)?;
        self.todo.extend(self.here.drain(..).rev());
        Ok(())
    }

    /// Holds a target, with all that is left to walk, against the roots again.
    fn start_over(&mut self, target: &Path) -> Result<(), Error> {
        let rest: PathBuf = self.todo.drain(..).rev().collect();
        let target = clean(&target.join(rest));
        let Some(location) = self.roots.locate(&target) else {
            return Err(self.roots.outside(self.asked.to_owned(), Some(target)));
        };
        self.root = location.root;
        self.dir = open_root(self.roots, location.root, self.asked)?;
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
        refused("open", self.asked)(errno)
    }
}

/// Links in `/proc` that lead to objects and not to paths (`/proc/self/root`, `/proc/self/fd/3`) have
/// absolute texts or name a kind, as in `pipe:[7]`; its ordinary links (`self`, `mounts`) have neither.
fn is_magic(link: &OwnedFd, target: &Path) -> bool {
    let odd = target.is_absolute() || OsStr::as_bytes(target.as_os_str()).contains(&b':');
    #[expect(clippy::unnecessary_cast, reason = "the type of f_type differs between architectures")]
    let in_proc = || rustix::fs::fstatfs(link).is_ok_and(|fs| fs.f_type == PROC_SUPER_MAGIC);
    odd && in_proc()
}
