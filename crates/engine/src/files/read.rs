//! Reads a range of a regular file, with a fast path for cached content.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::{OFlags, Stat};
use rustix::io::{Errno, ReadWriteFlags};

use super::path::RootedPath;
use super::refused;
use super::resolve::{SAFE_FLAGS, require_regular};
use super::stat::mtime_ms;
use crate::Error;

/// Bytes read at once from a file without a size.
const UNKNOWN_CHUNK: usize = 64 * 1024;
/// Bytes that [`read_cached`] copies: 256 KiB, so that an event loop is not blocked for long.
const MAX_CACHED_BYTES: u64 = 256 * 1024;

/// Which bytes to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRange {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes; `None` for all up to the end.
    pub length: Option<u64>,
    /// Limit on the number of bytes returned.
    pub max: u64,
}

impl ReadRange {
    /// The whole file, at most `max` bytes.
    pub fn whole(max: u64) -> Self {
        Self { offset: 0, length: None, max }
    }

    fn wanted(self) -> u64 {
        self.length.unwrap_or(u64::MAX).min(self.max)
    }
}

/// The bytes that were read, and facts about the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The bytes of the range.
    pub bytes: Vec<u8>,
    /// Size of the whole file.
    pub size: u64,
    /// Modification time in milliseconds since the epoch.
    pub mtime_ms: i64,
    /// Whether the file continues after these bytes.
    pub more: bool,
    /// File type and permission bits.
    pub mode: u32,
}

/// Reads a range of a regular file. Allocates memory for the existing content, not for the requested length. A file
/// that changes its size meanwhile, or reports none as in `/proc`, returns its content at the time of the read.
pub fn read(path: &RootedPath, range: ReadRange) -> Result<FileContent, Error> {
    let (file, stat) = path.open_regular(OFlags::RDONLY)?;
    read_open(&file, &stat, range, path.as_path())
}

/// Like [`read`], from an open file.
pub(super) fn read_open(
    file: &OwnedFd,
    stat: &Stat,
    range: ReadRange,
    requested: &Path,
) -> Result<FileContent, Error> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let wanted = range.wanted();
    let expected = to_usize(size.saturating_sub(range.offset).min(wanted));
    let mut bytes = Vec::with_capacity(expected);
    let mut at = range.offset;
    let mut more = false;
    loop {
        let left = wanted - bytes.len() as u64;
        if left == 0 {
            more = more_at(file, at).map_err(refused("read", requested))?;
            break;
        }
        // Beyond the reported size, the file is read in chunks until its end.
        let room = if bytes.len() < expected { expected - bytes.len() } else { UNKNOWN_CHUNK };
        let room = room.min(to_usize(left));
        let start = bytes.len();
        if start == expected && size != 0 {
            // The reported size was read. This is usually the end, so a small buffer is sufficient.
            if !more_at(file, at).map_err(refused("read", requested))? {
                break;
            }
        }
        bytes.reserve_exact(room);
        // Into uninitialised memory: clearing it would take as long as filling it.
        retry(|| rustix::io::pread(file, spare_capacity(&mut bytes), at))
            .map_err(refused("read", requested))?;
        // The allocator may have reserved more than requested.
        bytes.truncate(start + room);
        at = range.offset + bytes.len() as u64;
        if bytes.len() == start {
            break;
        }
    }
    // A file that grew meanwhile, or had no size, is at least as long as the bytes read.
    let size = if bytes.is_empty() { size } else { size.max(at) };
    Ok(FileContent { bytes, size, mtime_ms: mtime_ms(stat), more, mode: stat.st_mode })
}

/// Reads the range if this needs no disk access and no lock; otherwise returns `None`, and the caller uses [`read`].
/// For threads that must not block.
pub fn read_cached(path: &RootedPath, range: ReadRange) -> Option<Result<FileContent, Error>> {
    let file = match path.open_cached(OFlags::RDONLY | SAFE_FLAGS)? {
        Ok(file) => file,
        Err(Errno::NXIO) => return Some(Err(Error::NotRegular { path: path.as_path().to_owned() })),
        Err(errno) => return Some(Err(refused("open", path.as_path())(errno))),
    };
    let stat = rustix::fs::fstat(&file).ok()?;
    if let Err(error) = require_regular(&stat, path.as_path()) {
        return Some(Err(error));
    }
    let size = u64::try_from(stat.st_size).ok().filter(|size| *size > 0)?;
    let expected = size.saturating_sub(range.offset).min(range.wanted());
    if expected > MAX_CACHED_BYTES {
        return None;
    }
    let mut bytes = vec![0; to_usize(expected)];
    if expected > 0 {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let got = rustix::io::preadv2(&file, &mut parts, range.offset, ReadWriteFlags::NOWAIT).ok()?;
        if got as u64 != expected {
            return None;
        }
    }
    let more = range.offset.saturating_add(expected) < size;
    Some(Ok(FileContent { bytes, size, mtime_ms: mtime_ms(&stat), more, mode: stat.st_mode }))
}

fn more_at(file: &OwnedFd, at: u64) -> Result<bool, Errno> {
    let mut probe = [0];
    retry(|| rustix::io::pread(file, &mut probe[..], at)).map(|got| got > 0)
}

/// Repeats a call that a signal interrupted.
pub(super) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
