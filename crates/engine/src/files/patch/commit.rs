//! Commits a plan: all new contents are prepared first, then get their names one by one. If one fails, the earlier ones
//! are rolled back.

use std::ffi::OsString;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::plan::FileChange;
use super::{PatchPlan, PatchResult};
use crate::Error;
use crate::files::atomic::{CreateOptions, NewMode, NoObserver, StagedFile, fingerprint, sync_directory};
use crate::files::cleanup::temporary_name;
use crate::files::guard::Access;
use crate::files::path::RootedPath;
use crate::files::refused;
use crate::files::resolve::{ResolvedName, SAFE_FLAGS, make_parents};
use crate::files::stat::mtime_ms;
use crate::files::write::{Durability, write_all};

impl PatchPlan {
    /// Applies the plan completely or not at all. Fails if a file has changed since the plan was made.
    pub fn apply(self, durability: Durability) -> Result<PatchResult, Error> {
        let mut made = Vec::new();
        let mut undo = Vec::new();
        let done = commit_all(&self.changes, durability, &mut made, &mut undo);
        match done {
            Ok(()) => undo.iter().for_each(Undo::forget),
            Err(_) => take_back(&undo, &made),
        }
        done.map(|()| self.patched)
    }
}

/// How to roll back one name.
enum Undo {
    /// The old file is kept under another name.
    Restore { resolved: ResolvedName, kept: OsString },
    /// The old file could not get a second name; its content is written back.
    Rewrite { resolved: ResolvedName, content: Arc<[u8]> },
    /// There was no file.
    Remove { resolved: ResolvedName },
}

fn commit_all(
    changes: &[FileChange],
    durability: Durability,
    made: &mut Vec<RootedPath>,
    undo: &mut Vec<Undo>,
) -> Result<(), Error> {
    let mut staged = Vec::new();
    for change in changes {
        staged.push(stage(change, durability, made)?);
    }
    for (change, staged) in changes.iter().zip(staged) {
        match staged {
            Some(mut staged) => {
                undo.extend(keep(change)?);
                let create = create(change, durability);
                staged.commit(change.seen.is_none(), &create)?;
                if change.seen.is_none() {
                    undo.push(Undo::Remove { resolved: change.path.target(Access::Write)? });
                }
            }
            None if change.after.is_none() => delete(change, durability, undo)?,
            None => {}
        }
    }
    Ok(())
}

fn create(change: &FileChange, durability: Durability) -> CreateOptions<'_> {
    let path = change.path.as_path();
    CreateOptions {
        path,
        durability,
        mode: change.mode.map_or(NewMode::Kept, NewMode::Suggested),
        unnamed: change.path.roots().unnamed(),
        guarded: true,
        steps: &NoObserver,
    }
}

/// Prepares the new content of a file; `None` if it has none or keeps its content.
fn stage(
    change: &FileChange,
    durability: Durability,
    made: &mut Vec<RootedPath>,
) -> Result<Option<StagedFile>, Error> {
    let Some(after) = change.after.as_ref().filter(|after| Some(*after) != change.before.as_ref()) else {
        return Ok(None);
    };
    let resolved = match change.path.target(Access::Write) {
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            made.extend(make_parents(&change.path)?);
            change.path.target(Access::Write)?
        }
        found => found?,
    };
    change.path.roots().cleanup().sweep(&resolved.dir);
    let create = create(change, durability);
    StagedFile::new(resolved, change.seen, &create, &mut |file| write_all(file, after)).map(Some)
}

/// Keeps the old file under a second name until the whole patch is committed.
fn keep(change: &FileChange) -> Result<Option<Undo>, Error> {
    if change.seen.is_none() {
        return Ok(None);
    }
    let resolved = change.path.target(Access::Write)?;
    let kept = temporary_name();
    match rustix::fs::linkat(&resolved.dir, &resolved.name, &resolved.dir, &kept, AtFlags::empty()) {
        Ok(()) => Ok(Some(Undo::Restore { resolved, kept })),
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            Ok(change.before.clone().map(|content| Undo::Rewrite { resolved, content }))
        }
        Err(errno) => Err(refused("link", change.path.as_path())(errno)),
    }
}

/// Removes a file by renaming it until the whole patch is committed. Of a symlink, only the name is removed, not its
/// target.
fn delete(change: &FileChange, durability: Durability, undo: &mut Vec<Undo>) -> Result<(), Error> {
    let requested = change.path.as_path();
    let target = change.path.target(Access::Write)?;
    let now = target.stat(requested)?;
    if now.as_ref().map(fingerprint) != change.seen.as_ref().map(fingerprint) {
        let expected_ms = change.seen.as_ref().map_or(0, mtime_ms);
        return Err(Error::Conflict {
            path: requested.to_owned(),
            expected_ms,
            found_ms: now.as_ref().map(mtime_ms),
        });
    }
    let resolved = change.path.resolve_name(Access::Write)?;
    let kept = temporary_name();
    rustix::fs::renameat(&resolved.dir, &resolved.name, &resolved.dir, &kept)
        .map_err(refused("remove", requested))?;
    if durability == Durability::Synced {
        sync_directory(&resolved.dir).map_err(refused("fsync", requested))?;
    }
    undo.push(Undo::Restore { resolved, kept });
    Ok(())
}

/// Restores all changed files, newest first. A file that cannot be restored is logged.
fn take_back(undo: &[Undo], made: &[RootedPath]) {
    for undo in undo.iter().rev() {
        if let Err(errno) = undo.restore() {
            tracing::error!(%errno, "a patched file could not be put back");
        }
    }
    for directory in made.iter().rev() {
        let Ok(resolved) = directory.resolve_name(Access::Write) else { continue };
        if let Err(errno) = rustix::fs::unlinkat(&resolved.dir, &resolved.name, AtFlags::REMOVEDIR) {
            tracing::debug!(%errno, "a directory made for a patch stays");
        }
    }
}

impl Undo {
    fn restore(&self) -> Result<(), Errno> {
        match self {
            Self::Restore { resolved, kept } => {
                rustix::fs::renameat(&resolved.dir, kept, &resolved.dir, &resolved.name)?;
                // If both names are still one file, a rename has no effect and leaves the second name.
                match rustix::fs::unlinkat(&resolved.dir, kept, AtFlags::empty()) {
                    Err(Errno::NOENT) => Ok(()),
                    removed => removed,
                }
            }
            Self::Rewrite { resolved, content } => {
                let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | SAFE_FLAGS;
                let file = rustix::fs::openat(&resolved.dir, &resolved.name, flags, Mode::empty())?;
                write_all(file, content)
            }
            Self::Remove { resolved } => {
                rustix::fs::unlinkat(&resolved.dir, &resolved.name, AtFlags::empty())
            }
        }
    }

    fn forget(&self) {
        if let Self::Restore { resolved, kept } = self
            && let Err(errno) = rustix::fs::unlinkat(&resolved.dir, kept, AtFlags::empty())
        {
            tracing::debug!(%errno, "a replaced file stays under a temporary name until the next write");
        }
    }
}
