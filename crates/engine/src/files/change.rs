//! Creates directories and symlinks, and removes and renames files and directories.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, RenameFlags};
use rustix::io::Errno;

use super::guard::{Access, check_open};
use super::guard_tree::{check_copies, check_tree};
use super::path::RootedPath;
use super::refused;
use super::resolve::{ResolvedName, make_all};
use super::scan::ScanBudget;
use super::stat::FileKind;
use super::walk::{DirNames, DirReader, MAX_DEPTH, open_child};
use crate::Error;

/// Creates a directory. With `parents`, also creates missing parents and accepts an existing directory. `permissions` are set
/// in either case; without them, the umask decides about a new directory.
pub fn make_directory(path: &RootedPath, parents: bool, permissions: Option<u32>) -> Result<(), Error> {
    if parents {
        make_all(path)?;
    } else {
        let resolved = path.resolve_name(Access::Write)?;
        match rustix::fs::mkdirat(&resolved.dir, &resolved.name, Mode::from_raw_mode(0o777)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(Error::Exists { path: path.as_path().to_owned() }),
            Err(errno) => return Err(refused("mkdir", path.as_path())(errno)),
        }
    }
    match permissions {
        // An existing name must be a directory.
        None if parents => path.open_directory().map(drop),
        None => Ok(()),
        Some(mode) => {
            let directory = path.open_directory()?;
            if let Some(guard) = path.roots().guard() {
                check_open(guard, &directory, Access::Write)?;
            }
            chmod_opened(&directory, mode).map_err(refused("chmod", path.as_path()))
        }
    }
}

/// Changes the mode of an open object. Its descriptor may be a path only, which `fchmod` does not accept.
fn chmod_opened(object: &OwnedFd, mode: u32) -> Result<(), Errno> {
    let name = format!("/proc/self/fd/{}", object.as_raw_fd());
    rustix::fs::chmod(name, Mode::from_raw_mode(mode & 0o777))
}

/// Creates a symlink with this target. The target may lie anywhere, or not exist: every access through a symlink checks where it
/// leads.
pub fn make_symlink(path: &RootedPath, target: &str) -> Result<(), Error> {
    let resolved = named(path, Access::Write)?;
    match rustix::fs::symlinkat(target, &resolved.dir, &resolved.name) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(Error::Exists { path: path.as_path().to_owned() }),
        Err(errno) => Err(refused("symlink", path.as_path())(errno)),
    }
}

/// Removes a file, a symlink (not its target) or a directory. A directory that is not empty needs `recursive`; if the
/// scan is stopped, the remaining entries stay.
pub fn remove(path: &RootedPath, recursive: bool, scan: &ScanBudget) -> Result<(), Error> {
    scan.check("remove")?;
    let resolved = named(path, Access::Write)?;
    check_tree(path, &resolved, &[Access::Write], scan)?;
    let error = |errno| refused("remove", path.as_path())(errno);
    let Some(stat) = resolved.stat(path.as_path())? else { return Err(error(Errno::NOENT)) };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return rustix::fs::unlinkat(&resolved.dir, &resolved.name, AtFlags::empty()).map_err(error);
    }
    if recursive {
        let top = open_child(&resolved.dir, resolved.name.as_encoded_bytes()).map_err(error)?;
        remove_inside(top, path.as_path(), scan)?;
    }
    rustix::fs::unlinkat(&resolved.dir, &resolved.name, AtFlags::REMOVEDIR).map_err(error)
}

/// Renames a file, symlink or directory. Without `overwrite`, the new name must be free.
pub fn rename(from: &RootedPath, to: &RootedPath, overwrite: bool) -> Result<(), Error> {
    let (source, target) = (named(from, Access::Write)?, named(to, Access::Write)?);
    if let Some(guard) = from.roots().guard() {
        // Under another name it could be read.
        guard.check(&source.real()?, Access::Read)?;
        check_tree(from, &source, &[Access::Read, Access::Write], &ScanBudget::unbounded())?;
    }
    check_copies((to, &target), &source, &ScanBudget::unbounded())?;
    let flags = if overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    let renamed = rustix::fs::renameat_with(&source.dir, &source.name, &target.dir, &target.name, flags);
    let renamed = match renamed {
        // Not every file system supports a rename without replacement; then the name is checked first.
        Err(Errno::INVAL | Errno::NOSYS) if !overwrite => match target.stat(to.as_path())? {
            Some(_) => Err(Errno::EXIST),
            None => rustix::fs::renameat(&source.dir, &source.name, &target.dir, &target.name),
        },
        decided => decided,
    };
    match renamed {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) if !overwrite => Err(Error::Exists { path: to.as_path().to_owned() }),
        Err(errno) => Err(refused("rename", from.as_path())(errno)),
    }
}

/// The directory and name of a path that must not be a root itself.
pub(super) fn named(path: &RootedPath, access: Access) -> Result<ResolvedName, Error> {
    if path.is_root() {
        return Err(Error::BadPath { path: path.as_path().to_owned(), reason: "path is a root itself" });
    }
    path.resolve_name(access)
}

struct Level {
    dir: OwnedFd,
    names: DirNames,
    next: usize,
}

impl Level {
    fn open(dir: OwnedFd, reader: &mut DirReader) -> Result<Self, Errno> {
        let names = reader.names(dir.as_fd())?;
        Ok(Self { dir, names, next: 0 })
    }
}

/// Empties a directory through descriptors: a symlink that replaces a directory is removed, not followed.
fn remove_inside(top: OwnedFd, requested: &Path, scan: &ScanBudget) -> Result<(), Error> {
    let error = |errno| refused("remove", requested)(errno);
    let mut reader = DirReader::new();
    let mut levels = vec![Level::open(top, &mut reader).map_err(error)?];
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { return Ok(()) };
        let Some((name, kind)) = level.names.get(level.next) else {
            levels.pop();
            // The emptied directory is removed, and its parent continues.
            if let Some(parent) = levels.last_mut() {
                let name = parent.names.get(parent.next).map_or(&b""[..], |(name, _)| name);
                gone(rustix::fs::unlinkat(&parent.dir, name, AtFlags::REMOVEDIR)).map_err(error)?;
                parent.next += 1;
            }
            continue;
        };
        if kind == FileKind::Dir {
            scan.check("remove")?;
            match open_child(&level.dir, name) {
                Ok(dir) if depth < MAX_DEPTH => {
                    levels.push(Level::open(dir, &mut reader).map_err(error)?);
                    continue;
                }
                Ok(_) => {
                    return Err(Error::LimitReached { what: "directory depth", limit: MAX_DEPTH as u64 });
                }
                // It was replaced by another kind of file meanwhile, and is removed as such below.
                Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => {}
                Err(errno) => return Err(error(errno)),
            }
        }
        gone(rustix::fs::unlinkat(&level.dir, name, AtFlags::empty())).map_err(error)?;
        level.next += 1;
    }
}

/// Accepts that another process has removed it first.
fn gone(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        decided => decided,
    }
}
