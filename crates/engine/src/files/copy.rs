//! Copies files and trees, with shared blocks if the file system supports it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::atomic::{CreateOptions, NewMode, NoObserver, StagedFile};
use super::change::named;
use super::guard::{Access, check_open};
use super::guard_tree::{check_copies, check_tree};
use super::path::RootedPath;
use super::read::retry;
use super::refused;
use super::resolve::{DIRECTORY, ResolvedName, SAFE_FLAGS, require_regular};
use super::scan::ScanBudget;
use super::walk::{DirReader, MAX_DEPTH, open_child};
use super::write::{Durability, write_all};
use crate::Error;

const CHUNK: usize = 16 * 1024 * 1024;
const BUFFER: usize = 256 * 1024;

/// The options of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyOptions {
    /// Whether directories are copied with their content.
    pub recursive: bool,
    /// Whether existing files are replaced and existing directories extended.
    pub overwrite: bool,
    /// Whether FIFOs, sockets and devices in a tree are skipped; otherwise they are an error.
    pub skip_special: bool,
    /// Whether a symlink at the destination is followed, as `cp` does, instead of being replaced; a symlink is then
    /// copied only to a free name.
    pub follows: bool,
}

/// Copies a file, symlink or tree. Symlinks are copied as symlinks, modes are preserved, and each file appears
/// complete. If the copy is stopped, the copied files stay.
pub fn copy(
    from: &RootedPath,
    to: &RootedPath,
    options: CopyOptions,
    scan: &ScanBudget,
) -> Result<(), Error> {
    let source = named(from, Access::Read)?;
    let Some(stat) = source.stat(from.as_path())? else {
        return Err(refused("copy", from.as_path())(Errno::NOENT));
    };
    let kind = FileType::from_raw_mode(stat.st_mode);
    let is_directory = kind == FileType::Directory;
    let target = match options.follows && kind != FileType::Symlink && !to.is_root() {
        true => to.target(Access::Write)?,
        false => named(to, Access::Write)?,
    };
    if is_directory && !options.recursive {
        return Err(refused("copy", from.as_path())(Errno::ISDIR));
    }
    if is_directory && to.as_path().starts_with(from.as_path()) {
        return Err(Error::BadPath {
            path: to.as_path().to_owned(),
            reason: "a directory cannot be copied into itself",
        });
    }
    check_tree(from, &source, &[Access::Read], scan)?;
    check_copies((to, &target), &source, scan)?;
    let mut copy = Copy { from, to, options, scan, reader: DirReader::new(), top: None };
    copy.one(&source, &target, &stat, 0)
}

struct Copy<'a> {
    from: &'a RootedPath,
    to: &'a RootedPath,
    options: CopyOptions,
    scan: &'a ScanBudget,
    reader: DirReader,
    /// The first created directory, which is not copied into itself.
    top: Option<(u64, u64)>,
}

impl Copy<'_> {
    fn one(
        &mut self,
        source: &ResolvedName,
        target: &ResolvedName,
        stat: &Stat,
        depth: usize,
    ) -> Result<(), Error> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.directory(source, target, stat, depth),
            FileType::Symlink => self.link(source, target),
            FileType::RegularFile => self.file(source, target, stat),
            _ if self.options.skip_special && depth > 0 => Ok(()),
            _ => Err(Error::NotRegular { path: self.from.as_path().to_owned() }),
        }
    }

    fn file(&mut self, source: &ResolvedName, target: &ResolvedName, stat: &Stat) -> Result<(), Error> {
        let requested = self.to.as_path();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | SAFE_FLAGS;
        let from = rustix::fs::openat(&source.dir, &source.name, flags, Mode::empty())
            .map_err(refused("copy", requested))?;
        let real = rustix::fs::fstat(&from).map_err(refused("copy", requested))?;
        require_regular(&real, requested)?;
        let old = target.stat(requested)?;
        match &old {
            Some(_) if !self.options.overwrite => return Err(Error::Exists { path: requested.to_owned() }),
            Some(old) if FileType::from_raw_mode(old.st_mode) == FileType::Directory => {
                return Err(refused("copy", requested)(Errno::ISDIR));
            }
            _ => {}
        }
        // A symlink or FIFO at the destination is replaced; its mode is not used.
        let old = old.filter(|old| FileType::from_raw_mode(old.st_mode) == FileType::RegularFile);
        let durability = Durability::Relaxed;
        let create = CreateOptions {
            path: requested,
            durability,
            mode: NewMode::Suggested(stat.st_mode),
            unnamed: self.to.roots().unnamed(),
            guarded: false,
            steps: &NoObserver,
        };
        let resolved = ResolvedName {
            dir: duplicate(&target.dir).map_err(refused("copy", requested))?,
            name: target.name.clone(),
        };
        let scan = self.scan;
        let mut stopped = None;
        let staged = StagedFile::new(resolved, old, &create, &mut |file| {
            contents(&from, &real, file, || match scan.check("copy") {
                Ok(()) => true,
                Err(error) => {
                    stopped = Some(error);
                    false
                }
            })
        });
        match stopped {
            Some(error) => Err(error),
            None => staged?.commit(!self.options.overwrite, &create),
        }
    }

    fn link(&mut self, source: &ResolvedName, target: &ResolvedName) -> Result<(), Error> {
        let requested = self.to.as_path();
        let error = |errno| refused("copy", requested)(errno);
        let text = rustix::fs::readlinkat(&source.dir, &source.name, Vec::new()).map_err(error)?;
        match rustix::fs::symlinkat(&text, &target.dir, &target.name) {
            Err(Errno::EXIST) if self.options.overwrite && !self.options.follows => {
                let name = super::cleanup::temporary_name();
                rustix::fs::symlinkat(&text, &target.dir, &name).map_err(error)?;
                rustix::fs::renameat(&target.dir, &name, &target.dir, &target.name).map_err(error)
            }
            Err(Errno::EXIST) => Err(Error::Exists { path: requested.to_owned() }),
            made => made.map_err(error),
        }
    }

    fn directory(
        &mut self,
        source: &ResolvedName,
        target: &ResolvedName,
        stat: &Stat,
        depth: usize,
    ) -> Result<(), Error> {
        self.scan.check("copy")?;
        let requested = self.to.as_path();
        let error = |errno| refused("copy", requested)(errno);
        if depth >= MAX_DEPTH {
            return Err(Error::LimitReached { what: "directory depth", limit: MAX_DEPTH as u64 });
        }
        let from = open_child(&source.dir, source.name.as_bytes()).map_err(error)?;
        if let Some(guard) = self.from.roots().guard() {
            check_open(guard, &from, Access::Read)?;
        }
        let mode = Mode::from_raw_mode((stat.st_mode & 0o777) | 0o700);
        match rustix::fs::mkdirat(&target.dir, &target.name, mode) {
            Err(Errno::EXIST) if self.options.overwrite => {}
            Err(Errno::EXIST) => return Err(Error::Exists { path: requested.to_owned() }),
            made => made.map_err(error)?,
        }
        let into = rustix::fs::openat(&target.dir, &target.name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
        let into = into.map_err(error)?;
        if let Some(guard) = self.to.roots().guard() {
            check_open(guard, &into, Access::Write)?;
        }
        let made = rustix::fs::fstat(&into).map_err(error)?;
        let top = *self.top.get_or_insert((made.st_dev, made.st_ino));
        let names = self.reader.names(&from).map_err(error)?;
        for (name, _) in names.iter() {
            let name = OsStr::from_bytes(name).to_owned();
            let source = ResolvedName { dir: duplicate(&from).map_err(error)?, name: name.clone() };
            let Some(stat) = source.stat(requested)? else { continue };
            if (stat.st_dev, stat.st_ino) != top {
                let target = ResolvedName { dir: duplicate(&into).map_err(error)?, name };
                self.one(&source, &target, &stat, depth + 1)?;
            }
        }
        let listing = open_child(&target.dir, target.name.as_bytes()).map_err(error)?;
        rustix::fs::fchmod(listing, Mode::from_raw_mode(stat.st_mode & 0o777)).map_err(error)
    }
}

fn duplicate(fd: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(fd, 0)
}

/// Copies all bytes in the fastest available way, while `go_on` returns true.
fn contents(
    from: &OwnedFd,
    stat: &Stat,
    to: BorrowedFd<'_>,
    mut go_on: impl FnMut() -> bool,
) -> Result<(), Errno> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    // A file without a size, as in `/proc`, has content only when it is read.
    let mut in_kernel = stat.st_size > 0;
    let mut buffer = Vec::new();
    loop {
        if !go_on() {
            return Err(Errno::CANCELED);
        }
        let copied = if in_kernel {
            match retry(|| rustix::fs::copy_file_range(from, None, to, None, CHUNK)) {
                Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {
                    in_kernel = false;
                    continue;
                }
                copied => copied?,
            }
        } else {
            buffer.resize(BUFFER, 0);
            let got = retry(|| rustix::io::read(from, &mut buffer[..]))?;
            write_all(to.as_fd(), &buffer[..got])?;
            got
        };
        if copied == 0 {
            return Ok(());
        }
    }
}
