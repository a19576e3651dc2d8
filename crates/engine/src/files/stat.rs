//! The metadata of a name, without following it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, OFlags, Stat, StatxFlags};
use rustix::io::Errno;

use super::guard::Access;
use super::path::RootedPath;
use super::refused;
use crate::Error;

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

impl From<FileType> for FileKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Dir,
            FileType::Symlink => Self::Symlink,
            _ => Self::Other,
        }
    }
}

/// The metadata of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Its kind.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Modification time in milliseconds since the epoch.
    pub mtime_ms: i64,
    /// Time of the last inode change, in milliseconds since the epoch.
    pub ctime_ms: i64,
    /// File type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The target of a symlink, as written in it; it may be outside the roots.
    pub link_target: Option<PathBuf>,
}

impl Metadata {
    fn from_stat(stat: &Stat, link_target: Option<PathBuf>) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime_ms: mtime_ms(stat),
            ctime_ms: millis(stat.st_ctime, stat.st_ctime_nsec),
            mode: stat.st_mode,
            uid: stat.st_uid,
            gid: stat.st_gid,
            link_target,
        }
    }
}

/// The metadata of a name; `None` if it does not exist. A symlink is not followed, so only its directory must be inside
/// the roots.
pub fn stat(path: &RootedPath) -> Result<Option<Metadata>, Error> {
    let resolved = match path.resolve_name(Access::Read) {
        Ok(resolved) => resolved,
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(stat) = resolved.stat(path.as_path())? else { return Ok(None) };
    let mut target = None;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        target = match rustix::fs::readlinkat(&resolved.dir, &resolved.name, Vec::new()) {
            Ok(text) => Some(PathBuf::from(OsString::from_vec(text.into_bytes()))),
            // It is not a symlink any more.
            Err(Errno::INVAL | Errno::NOENT) => None,
            Err(errno) => return Err(refused("readlink", path.as_path())(errno)),
        };
    }
    Ok(Some(Metadata::from_stat(&stat, target)))
}

/// The metadata of the target of all symlinks and its creation time in milliseconds since the epoch, if the file system
/// has it; `None` if it does not exist.
pub fn stat_followed(path: &RootedPath) -> Result<Option<(Metadata, Option<i64>)>, Error> {
    let object = match path.open_path() {
        Ok(object) => object,
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let stat = rustix::fs::fstat(&object).map_err(refused("stat", path.as_path()))?;
    let made = rustix::fs::statx(&object, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok();
    let made = made.filter(|found| found.stx_mask & StatxFlags::BTIME.bits() != 0);
    let made_ms = made.map(|found| millis(found.stx_btime.tv_sec, u64::from(found.stx_btime.tv_nsec)));
    Ok(Some((Metadata::from_stat(&stat, None), made_ms)))
}

/// Like [`stat`], if the metadata is cached; otherwise `None`, and the caller uses [`stat`].
pub fn stat_cached(path: &RootedPath) -> Option<Result<Option<Metadata>, Error>> {
    let object = match path.open_cached(OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)? {
        Ok(object) => object,
        Err(Errno::NOENT) => return Some(Ok(None)),
        Err(errno) => return Some(Err(refused("stat", path.as_path())(errno))),
    };
    let stat = rustix::fs::fstat(&object).ok()?;
    match FileType::from_raw_mode(stat.st_mode) {
        // Reading a symlink may need disk access.
        FileType::Symlink => None,
        _ => Some(Ok(Some(Metadata::from_stat(&stat, None)))),
    }
}

/// Modification time in whole milliseconds since the epoch, rounded down.
#[expect(clippy::unnecessary_cast, reason = "the types of these fields differ between architectures")]
pub(super) fn mtime_ms(stat: &Stat) -> i64 {
    millis(stat.st_mtime as i64, stat.st_mtime_nsec as u64)
}

fn millis(seconds: i64, nanos: u64) -> i64 {
    seconds.saturating_mul(1000).saturating_add(i64::try_from(nanos / 1_000_000).unwrap_or(0))
}
