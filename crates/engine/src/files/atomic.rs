//! Atomic replacement of files: the new content is complete before it gets its name, and the name changes in one step.
//!
//! The content is written to an unnamed file, which the kernel removes if the process ends. When it is complete, it
//! gets its final name if that is free, or a temporary name that is renamed over the old file. On file systems without
//! unnamed files, it has the temporary name from the start.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;

use super::cleanup::temporary_name;
use super::refused;
use super::resolve::{LISTING, ResolvedName, SAFE_FLAGS};
use super::stat::mtime_ms;
use super::write::Durability;
use crate::Error;

/// The steps of an atomic write. If the process ends after any of them, the file is still complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteStep {
    /// The new file exists, empty.
    Opened,
    /// The new file has its content.
    Filled,
    /// The new file has its owner, mode and attributes.
    PermissionsSet,
    /// The new file is on disk.
    Synced,
    /// The new file has a temporary name in the directory of the old one.
    Named,
    /// The new file has the final name.
    Renamed,
    /// The directory entry is on disk.
    NameSynced,
}

/// Observes the steps of an atomic write; crash tests end the process at one of them.
pub trait WriteObserver {
    /// Called after a step.
    fn done(&self, step: WriteStep);
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl WriteObserver for NoObserver {
    fn done(&self, _step: WriteStep) {}
}

/// New content, complete and on disk, without its final name. Dropping it removes it.
pub(super) struct StagedFile {
    pub(super) resolved: ResolvedName,
    path: PathBuf,
    old: Option<Stat>,
    file: OwnedFd,
    temporary: Option<OsString>,
}

/// The permissions of a new file.
#[derive(Debug, Clone, Copy)]
pub(super) enum NewMode {
    /// Those of the replaced file, otherwise the default.
    Kept,
    /// Those of the replaced file, otherwise these.
    Suggested(u32),
    /// These.
    Set(u32),
}

/// How a new file is created.
pub(super) struct CreateOptions<'a> {
    pub(super) path: &'a Path,
    pub(super) durability: Durability,
    /// Its permissions.
    pub(super) mode: NewMode,
    /// Whether it may be unnamed until it is complete.
    pub(super) unnamed: bool,
    /// Whether the replaced file must still be the one that was checked.
    pub(super) guarded: bool,
    pub(super) steps: &'a dyn WriteObserver,
}

/// Writes content to an open file.
pub(super) type Fill<'a> = dyn FnMut(BorrowedFd<'_>) -> Result<(), Errno> + 'a;

impl StagedFile {
    /// Prepares new content for a name whose current file is `old`.
    pub(super) fn new(
        resolved: ResolvedName,
        old: Option<Stat>,
        create: &CreateOptions<'_>,
        fill: &mut Fill<'_>,
    ) -> Result<Self, Error> {
        let error = |action| move |errno| refused(action, create.path)(errno);
        // A file whose mode is set later is private until then.
        let is_private = old.is_some() || !matches!(create.mode, NewMode::Kept);
        let mode = Mode::from_raw_mode(if is_private { 0o600 } else { 0o666 });
        let (file, temporary) = open_new(&resolved, mode, create.unnamed).map_err(error("create"))?;
        let staged = Self { resolved, path: create.path.to_owned(), old, file, temporary };
        create.steps.done(WriteStep::Opened);
        fill(staged.file.as_fd()).map_err(error("write"))?;
        create.steps.done(WriteStep::Filled);
        staged.copy_permissions(create.mode).map_err(error("chmod"))?;
        create.steps.done(WriteStep::PermissionsSet);
        if create.durability == Durability::Synced {
            rustix::fs::fsync(&staged.file).map_err(error("fsync"))?;
            create.steps.done(WriteStep::Synced);
        }
        Ok(staged)
    }

    /// Gives the content its name. If `exclusive`, the name must be free.
    pub(super) fn commit(&mut self, exclusive: bool, create: &CreateOptions<'_>) -> Result<(), Error> {
        if self.old.is_none() {
            match self.take_free_name() {
                Ok(()) => return self.sync_name(create),
                Err(Errno::EXIST) if exclusive => return Err(Error::Exists { path: self.path.clone() }),
                // Another process created it meanwhile; it is replaced.
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(refused("create", &self.path)(errno)),
            }
        }
        let name = match &self.temporary {
            Some(name) => name.clone(),
            None => {
                let name = temporary_name();
                link_unnamed(&self.file, &self.resolved, &name).map_err(refused("create", &self.path))?;
                self.temporary = Some(name.clone());
                name
            }
        };
        create.steps.done(WriteStep::Named);
        if create.guarded {
            self.check_unchanged()?;
        }
        rustix::fs::renameat(&self.resolved.dir, &name, &self.resolved.dir, &self.resolved.name)
            .map_err(refused("rename", &self.path))?;
        self.temporary = None;
        self.sync_name(create)
    }

    /// The modification time of the new file.
    pub(super) fn mtime_ms(&self) -> Result<i64, Error> {
        rustix::fs::fstat(&self.file).map(|stat| mtime_ms(&stat)).map_err(refused("stat", &self.path))
    }

    /// Links the file under its final name, which must be free.
    fn take_free_name(&mut self) -> Result<(), Errno> {
        let ResolvedName { dir, name } = &self.resolved;
        let Some(temporary) = &self.temporary else { return link_unnamed(&self.file, &self.resolved, name) };
        match rustix::fs::renameat_with(dir, temporary, dir, name, rustix::fs::RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(dir, temporary, dir, name, AtFlags::empty())?;
                rustix::fs::unlinkat(dir, temporary, AtFlags::empty())?;
            }
            renamed => renamed?,
        }
        self.temporary = None;
        Ok(())
    }

    /// Fails if the file to be replaced is not the one that was checked.
    fn check_unchanged(&self) -> Result<(), Error> {
        let now = self.resolved.stat(&self.path)?;
        if self.old.as_ref().map(fingerprint) == now.as_ref().map(fingerprint) {
            return Ok(());
        }
        let expected_ms = self.old.as_ref().map_or(0, mtime_ms);
        let found_ms = now.as_ref().map(mtime_ms);
        Err(Error::Conflict { path: self.path.clone(), expected_ms, found_ms })
    }

    fn sync_name(&self, create: &CreateOptions<'_>) -> Result<(), Error> {
        create.steps.done(WriteStep::Renamed);
        if create.durability == Durability::Synced {
            sync_directory(&self.resolved.dir).map_err(refused("fsync", &self.path))?;
            create.steps.done(WriteStep::NameSynced);
        }
        Ok(())
    }

    /// Copies owner, mode, attributes and access list of the old file.
    fn copy_permissions(&self, new: NewMode) -> Result<(), Errno> {
        let Some(old) = &self.old else {
            return match new {
                NewMode::Suggested(mode) | NewMode::Set(mode) => {
                    rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode & 0o777))
                }
                NewMode::Kept => Ok(()),
            };
        };
        let own = rustix::fs::fstat(&self.file)?;
        let mut mode = old.st_mode & 0o7777;
        if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid) {
            let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
            if rustix::fs::fchown(&self.file, Some(owner), Some(group)).is_err() {
                // The owner cannot be changed: then the set-user-ID bits must not be kept.
                mode &= 0o777;
            }
        }
        if let NewMode::Set(set) = new {
            mode = set & 0o777;
        }
        copy_attributes(&self.resolved, &self.file);
        // Last, because copying an access list changes the mode.
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode))
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(name) = &self.temporary
            && let Err(errno) = rustix::fs::unlinkat(&self.resolved.dir, name, AtFlags::empty())
        {
            tracing::debug!(%errno, "a temporary file stays until the next write");
        }
    }
}

/// Identifies a version of a file: device, inode, time of change in nanoseconds, and size.
pub(super) fn fingerprint(stat: &Stat) -> (u64, u64, i64, i64, u64) {
    (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec)
}

/// Syncs a directory. One that cannot be opened for reading is not synced.
pub(super) fn sync_directory(dir: impl AsFd) -> Result<(), Errno> {
    match rustix::fs::openat(dir, ".", LISTING, Mode::empty()) {
        Ok(dir) => match rustix::fs::fsync(dir) {
            // Some file systems do not support this.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            synced => synced,
        },
        Err(Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Opens a new file, unnamed if the file system supports it, otherwise with the returned temporary name.
fn open_new(
    resolved: &ResolvedName,
    mode: Mode,
    unnamed: bool,
) -> Result<(OwnedFd, Option<OsString>), Errno> {
    if unnamed && can_name_nameless() {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(&resolved.dir, ".", flags, mode) {
            Ok(file) => return Ok((file, None)),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
    }
    let name = temporary_name();
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | SAFE_FLAGS;
    let file = rustix::fs::openat(&resolved.dir, &name, flags, mode)?;
    Ok((file, Some(name)))
}

/// Whether `/proc` is mounted, through which an unnamed file gets its name.
fn can_name_nameless() -> bool {
    static KNOWN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *KNOWN.get_or_init(|| rustix::fs::stat("/proc/self/fd").is_ok())
}

fn link_unnamed(file: &OwnedFd, resolved: &ResolvedName, name: &OsString) -> Result<(), Errno> {
    let through = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(rustix::fs::CWD, through, &resolved.dir, name, AtFlags::SYMLINK_FOLLOW)
}

/// Copies user attributes and the access list, as far as they can be read.
fn copy_attributes(resolved: &ResolvedName, to: &OwnedFd) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | SAFE_FLAGS;
    let Ok(from) = rustix::fs::openat(&resolved.dir, &resolved.name, flags, Mode::empty()) else { return };
    let mut names = [0_u8; 4096];
    let Ok(length) = rustix::fs::flistxattr(&from, &mut names) else { return };
    for name in names[..length].split(|byte| *byte == 0) {
        if !name.starts_with(b"user.") && name != b"system.posix_acl_access" {
            continue;
        }
        let mut value = vec![0_u8; 64 * 1024];
        let Ok(length) = rustix::fs::fgetxattr(&from, name, value.as_mut_slice()) else { continue };
        if let Err(errno) = rustix::fs::fsetxattr(to, name, &value[..length], XattrFlags::empty()) {
            tracing::debug!(%errno, "an attribute of a replaced file was not kept");
        }
    }
}
