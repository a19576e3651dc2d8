//! Writes: replaces a whole file, atomically by default, or appends to it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::atomic::{CreateOptions, NewMode, NoObserver, StagedFile, WriteObserver, sync_directory};
use super::guard::Access;
use super::path::RootedPath;
use super::read::retry;
use super::refused;
use super::resolve::{ResolvedName, SAFE_FLAGS, make_parents, require_regular};
use super::stat::mtime_ms;
use crate::Error;
use crate::error::errno_text;

/// Bytes copied at a time from one file to another.
const COPY_BUFFER: usize = 256 * 1024;
/// Bytes given to the kernel at a time. For a longer write it allocates pages of that size, which take several times longer
/// in a virtual machine whose free memory was returned to the host: measured 1.8 s instead of 0.3 s for 1 GiB.
pub(crate) const WRITE_CHUNK: usize = 64 * 1024;

/// What to do with an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// Fail. Of several concurrent calls, one succeeds.
    Create,
    /// Replace its content; create it if it is missing.
    #[default]
    Replace,
    /// Append to it; create it if it is missing.
    Append,
}

/// Which failures a finished write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A crash of the machine: file and directory entry are on disk.
    #[default]
    Synced,
    /// A crash of the process; the kernel writes to disk later.
    Relaxed,
}

/// The options of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// What to do with an existing file.
    pub mode: WriteMode,
    /// Whether to create missing directories, including the root.
    pub mkdir_parents: bool,
    /// Whether readers see the old or the new content and no mixture. Appending never replaces the file; the bytes are
    /// appended together if this is set.
    pub atomic: bool,
    /// If above zero, the required modification time of the file, in milliseconds since the epoch.
    pub expected_mtime_ms: Option<i64>,
    /// The durability of the write when this returns.
    pub durability: Durability,
    /// The permission bits of the file; `None` keeps those of the replaced file, or uses the default.
    pub permissions: Option<u32>,
    /// The modification time of the file, in milliseconds since the epoch; `None` is the time of the write.
    pub mtime_ms: Option<i64>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            mode: WriteMode::default(),
            mkdir_parents: false,
            atomic: true,
            expected_mtime_ms: None,
            durability: Durability::default(),
            permissions: None,
            mtime_ms: None,
        }
    }
}

/// The result of a write to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteResult {
    /// The number of bytes written.
    pub bytes: u64,
    /// The new modification time, in milliseconds since the epoch.
    pub mtime_ms: i64,
    /// Whether the file is new.
    pub created: bool,
}

/// Writes a file. A symlink is followed if it leads into the roots, and stays. Mode, owner and attributes of a replaced
/// file are preserved; its other hard links keep the old content.
pub fn write(path: &RootedPath, bytes: &[u8], options: &WriteOptions) -> Result<WriteResult, Error> {
    write_observed(path, bytes, options, &NoObserver)
}

/// Replaces a file with the content of `source`, in one step like [`write()`].
pub fn write_from(path: &RootedPath, source: &File, durability: Durability) -> Result<WriteResult, Error> {
    let options = WriteOptions { durability, ..WriteOptions::default() };
    let found = destination(path, &options)?;
    let create = CreateOptions {
        path: path.as_path(),
        durability,
        mode: NewMode::Kept,
        unnamed: path.roots().unnamed(),
        guarded: false,
        steps: &NoObserver,
    };
    let mut bytes = 0;
    let fill = &mut |file: BorrowedFd<'_>| {
        bytes = copy_all(source, file)?;
        Ok(())
    };
    let (mtime_ms, created) = replace(path, found, false, &create, fill)?;
    Ok(WriteResult { bytes, mtime_ms, created })
}

/// An unnamed temporary file. The kernel removes it when it is closed.
pub fn unnamed_file() -> Result<File, Error> {
    let directory = std::env::temp_dir();
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
    let made = rustix::fs::open(&directory, flags, Mode::from_raw_mode(0o600));
    made.map(File::from).map_err(refused("create", &directory))
}

fn copy_all(source: &File, file: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut buffer = vec![0; COPY_BUFFER];
    let mut at = 0;
    loop {
        let read = retry(|| rustix::io::pread(source, &mut buffer, at))?;
        if read == 0 {
            return Ok(at);
        }
        write_all(file, &buffer[..read])?;
        at += read as u64;
    }
}

/// [`write()`] with an observer of the steps of an atomic write.
pub fn write_observed(
    path: &RootedPath,
    bytes: &[u8],
    options: &WriteOptions,
    steps: &dyn WriteObserver,
) -> Result<WriteResult, Error> {
    let (resolved, old) = destination(path, options)?;
    check_expected(path.as_path(), old.as_ref(), options.expected_mtime_ms)?;
    match options.mode {
        WriteMode::Append => append(resolved, bytes, path.as_path(), options),
        WriteMode::Create | WriteMode::Replace if !options.atomic => {
            in_place(resolved, bytes, path.as_path(), options)
        }
        WriteMode::Create | WriteMode::Replace => {
            let guarded = options.expected_mtime_ms.is_some_and(|expected| expected > 0);
            let create = CreateOptions {
                path: path.as_path(),
                durability: options.durability,
                mode: options.permissions.map_or(NewMode::Kept, NewMode::Set),
                unnamed: path.roots().unnamed(),
                guarded,
                steps,
            };
            let exclusive = options.mode == WriteMode::Create;
            let fill = &mut |file: BorrowedFd<'_>| {
                write_all(file, bytes)?;
                set_mtime(file, options.mtime_ms)
            };
            replace(path, (resolved, old), exclusive, &create, fill).map(|(mtime_ms, created)| WriteResult {
                bytes: bytes.len() as u64,
                mtime_ms,
                created,
            })
        }
    }
}

/// Stages new content and commits it; returns the time of modification and whether the file is new.
pub(super) fn replace(
    path: &RootedPath,
    (resolved, old): (ResolvedName, Option<Stat>),
    exclusive: bool,
    create: &CreateOptions<'_>,
    fill: &mut super::atomic::Fill<'_>,
) -> Result<(i64, bool), Error> {
    let created = old.is_none();
    path.roots().cleanup().sweep(&resolved.dir);
    let mut staged = StagedFile::new(resolved, old, create, fill)?;
    staged.commit(exclusive, create)?;
    path.roots().cleanup().remember(&staged.resolved.dir);
    Ok((staged.mtime_ms()?, created))
}

/// The destination of a write, and its current file.
pub(super) fn destination(
    path: &RootedPath,
    options: &WriteOptions,
) -> Result<(ResolvedName, Option<Stat>), Error> {
    // For an exclusive creation the name itself must be free: a symlink, even a dangling one, is not.
    let find = || match options.mode {
        WriteMode::Create => path.resolve_name(Access::Write),
        WriteMode::Replace | WriteMode::Append => path.target(Access::Write),
    };
    let resolved = match find() {
        Err(Error::File { source, .. })
            if options.mkdir_parents && source.kind() == std::io::ErrorKind::NotFound =>
        {
            make_parents(path)?;
            find()?
        }
        found => found?,
    };
    if resolved.is_root() {
        return Err(refused("open", path.as_path())(Errno::ISDIR));
    }
    let old = resolved.stat(path.as_path())?;
    if options.mode == WriteMode::Create && old.is_some() {
        return Err(Error::Exists { path: path.as_path().to_owned() });
    }
    if let Some(old) = &old {
        require_regular(old, path.as_path())?;
    }
    Ok((resolved, old))
}

/// Fails if the file is not the one that the caller last saw.
pub(super) fn check_expected(path: &Path, old: Option<&Stat>, expected_ms: Option<i64>) -> Result<(), Error> {
    let Some(expected_ms) = expected_ms.filter(|expected| *expected > 0) else { return Ok(()) };
    let found_ms = old.map(mtime_ms);
    if found_ms == Some(expected_ms) {
        return Ok(());
    }
    Err(Error::Conflict { path: path.to_owned(), expected_ms, found_ms })
}

fn append(
    resolved: ResolvedName,
    bytes: &[u8],
    requested: &Path,
    options: &WriteOptions,
) -> Result<WriteResult, Error> {
    let (file, created) = open_for_writing(&resolved, OFlags::APPEND, requested, options)?;
    // One write is not interleaved with those of other processes.
    let chunk = if options.atomic { bytes.len() } else { WRITE_CHUNK };
    append_all(&file, bytes, chunk).map_err(|source| Error::File {
        action: "write",
        path: requested.to_owned(),
        source,
    })?;
    finish(&resolved, &file, bytes, created, (requested, options))
}

/// Appends all bytes or none: after an error, such as a full disk, the file gets its former length. If another process has
/// appended meanwhile, the error names the number of bytes that stay.
fn append_all(file: &OwnedFd, bytes: &[u8], chunk: usize) -> io::Result<()> {
    let mut written = 0;
    // Where the first byte is, and whether all others follow it.
    let (mut start, mut is_contiguous) = (0, true);
    while written < bytes.len() {
        let end = bytes.len().min(written + chunk);
        let count = match retry(|| rustix::io::write(file, &bytes[written..end])) {
            Ok(0) => Err(Errno::IO),
            count => count,
        };
        match count {
            Ok(count) => {
                // The kernel has moved the position of this descriptor behind the appended bytes.
                let begin = rustix::fs::tell(file)?.saturating_sub(count as u64);
                start = if written == 0 { begin } else { start };
                is_contiguous &= begin == start + written as u64;
                written += count;
            }
            Err(errno) if written == 0 => return Err(errno.into()),
            Err(errno) => {
                let is_last = rustix::fs::fstat(file)
                    .is_ok_and(|stat| u64::try_from(stat.st_size) == Ok(start + written as u64));
                if is_contiguous && is_last && rustix::fs::ftruncate(file, start).is_ok() {
                    return Err(errno.into());
                }
                let reason = format!("{}; {written} bytes were appended", errno_text(&errno.into()));
                return Err(io::Error::other(reason));
            }
        }
    }
    Ok(())
}

/// Writes into the existing file; a concurrent reader may see a mix of old and new content.
fn in_place(
    resolved: ResolvedName,
    bytes: &[u8],
    requested: &Path,
    options: &WriteOptions,
) -> Result<WriteResult, Error> {
    let (file, created) = open_for_writing(&resolved, OFlags::empty(), requested, options)?;
    write_all(file.as_fd(), bytes).map_err(refused("write", requested))?;
    rustix::fs::ftruncate(&file, bytes.len() as u64).map_err(refused("truncate", requested))?;
    finish(&resolved, &file, bytes, created, (requested, options))
}

fn finish(
    resolved: &ResolvedName,
    file: &OwnedFd,
    bytes: &[u8],
    created: bool,
    (requested, options): (&Path, &WriteOptions),
) -> Result<WriteResult, Error> {
    if let Some(mode) = options.permissions {
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode & 0o777)).map_err(refused("chmod", requested))?;
    }
    set_mtime(file.as_fd(), options.mtime_ms).map_err(refused("set the time of", requested))?;
    if options.durability == Durability::Synced {
        rustix::fs::fsync(file).map_err(refused("fsync", requested))?;
        if created {
            sync_directory(&resolved.dir).map_err(refused("fsync", requested))?;
        }
    }
    let stat = rustix::fs::fstat(file).map_err(refused("stat", requested))?;
    Ok(WriteResult { bytes: bytes.len() as u64, mtime_ms: mtime_ms(&stat), created })
}

/// Sets the modification time, if there is one to set.
fn set_mtime(file: BorrowedFd<'_>, mtime_ms: Option<i64>) -> Result<(), Errno> {
    let Some(mtime_ms) = mtime_ms else { return Ok(()) };
    let modified =
        Timespec { tv_sec: mtime_ms.div_euclid(1_000), tv_nsec: mtime_ms.rem_euclid(1_000) * 1_000_000 };
    let times =
        Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: modified };
    rustix::fs::futimens(file, &times)
}

/// Opens a file, creating it if it is missing; returns whether it was created.
fn open_for_writing(
    resolved: &ResolvedName,
    how: OFlags,
    requested: &Path,
    options: &WriteOptions,
) -> Result<(OwnedFd, bool), Error> {
    let exclusive = options.mode == WriteMode::Create;
    // A file whose mode is set later is private until then.
    let mode = if options.permissions.is_some() { 0o600 } else { 0o666 };
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | SAFE_FLAGS | how;
    let make = flags | OFlags::CREATE | OFlags::EXCL;
    match rustix::fs::openat(&resolved.dir, &resolved.name, make, Mode::from_raw_mode(mode)) {
        Ok(file) => return Ok((file, true)),
        Err(Errno::EXIST) if exclusive => return Err(Error::Exists { path: requested.to_owned() }),
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(refused("create", requested)(errno)),
    }
    let file = match rustix::fs::openat(&resolved.dir, &resolved.name, flags, Mode::empty()) {
        Err(Errno::NXIO) => return Err(Error::NotRegular { path: requested.to_owned() }),
        opened => opened.map_err(refused("open", requested))?,
    };
    let stat = rustix::fs::fstat(&file).map_err(refused("stat", requested))?;
    require_regular(&stat, requested)?;
    Ok((file, false))
}

/// Writes all bytes in chunks and repeats partial or interrupted writes.
pub(super) fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = retry(|| rustix::io::write(file.as_fd(), &bytes[..bytes.len().min(WRITE_CHUNK)]))?;
        if written == 0 {
            return Err(Errno::IO);
        }
        bytes = &bytes[written..];
    }
    Ok(())
}
