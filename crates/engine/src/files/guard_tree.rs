//! Operations on whole trees under a guard: a tree with a denied entry is not removed, renamed or copied.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::guard::{Access, PathGuard};
use super::path::RootedPath;
use super::refused;
use super::resolve::ResolvedName;
use super::scan::ScanBudget;
use super::stat::FileKind;
use super::walk::{DirNames, DirReader, MAX_DEPTH, open_child};
use crate::Error;

/// Fails if the guard denies one of these accesses to any entry of a tree.
pub(super) fn check_tree(
    path: &RootedPath,
    resolved: &ResolvedName,
    accesses: &[Access],
    scan: &ScanBudget,
) -> Result<(), Error> {
    let Some(guard) = path.roots().guard() else { return Ok(()) };
    let real = resolved.real()?;
    for access in accesses {
        check_known(guard, &real, *access)?;
    }
    if !guard.needs_every_entry() {
        return Ok(());
    }
    each_beneath(path.as_path(), resolved, scan, |below| {
        accesses.iter().try_for_each(|access| guard.check(&real.join(below), *access))
    })
}

/// Fails if a copy of a tree would create a denied path.
pub(super) fn check_copies(
    to: (&RootedPath, &ResolvedName),
    source: &ResolvedName,
    scan: &ScanBudget,
) -> Result<(), Error> {
    let (path, target) = to;
    let Some(guard) = path.roots().guard() else { return Ok(()) };
    let real = target.real()?;
    check_known(guard, &real, Access::Write)?;
    if !guard.needs_every_entry() {
        return Ok(());
    }
    each_beneath(path.as_path(), source, scan, |below| guard.check(&real.join(below), Access::Write))
}

fn check_known(guard: &dyn PathGuard, real: &Path, access: Access) -> Result<(), Error> {
    let Some(path) = guard.refused_beneath(real, access) else { return Ok(()) };
    guard.check(&path, access)?;
    let reason = "something beneath it may not be touched".to_owned();
    Err(Error::Guarded { path, access, rule: "guard".to_owned(), reason })
}

struct Level {
    dir: OwnedFd,
    names: DirNames,
    next: usize,
}

/// Calls `look` with the relative path of every entry of a tree, through descriptors and without following symlinks.
fn each_beneath(
    requested: &Path,
    resolved: &ResolvedName,
    scan: &ScanBudget,
    mut look: impl FnMut(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut reader = DirReader::new();
    let mut enter = |dir: &OwnedFd, name: &[u8]| match open_child(dir, name) {
        Ok(dir) => {
            let names = reader.names(&dir).map_err(refused("list", requested))?;
            Ok(Some(Level { dir, names, next: 0 }))
        }
        Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => Ok(None),
        Err(errno) => Err(refused("list", requested)(errno)),
    };
    let mut levels: Vec<Level> = enter(&resolved.dir, resolved.name.as_bytes())?.into_iter().collect();
    let mut below = PathBuf::new();
    while let Some(level) = levels.last_mut() {
        let Some((name, kind)) = level.names.get(level.next) else {
            levels.pop();
            below.pop();
            continue;
        };
        level.next += 1;
        below.push(OsStr::from_bytes(name));
        look(&below)?;
        let entered = if kind == FileKind::Dir { enter(&level.dir, name)? } else { None };
        let Some(deeper) = entered else {
            below.pop();
            continue;
        };
        scan.check("check")?;
        if levels.len() >= MAX_DEPTH {
            return Err(Error::LimitReached { what: "directory depth", limit: MAX_DEPTH as u64 });
        }
        levels.push(deeper);
    }
    Ok(())
}
