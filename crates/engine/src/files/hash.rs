//! Hashes of regular files.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::path::RootedPath;
use super::read::retry;
use super::refused;
use super::scan::ScanBudget;
use crate::Error;

/// Bytes read between two checks for cancellation; also the size of the buffer.
const CHUNK: usize = 256 * 1024;

/// Which bytes to hash; by default all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HashRange {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes; `None` for all up to the end.
    pub length: Option<u64>,
}

/// A file to be hashed. It is open: a later file with its name is not hashed.
#[derive(Debug)]
pub struct FileHasher {
    file: OwnedFd,
    path: PathBuf,
    /// Its size when it was opened. An offset behind it may be larger than the kernel accepts.
    size: u64,
}

/// The digest of a file or of a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHash {
    /// The SHA-256 of the bytes.
    pub sha256: [u8; 32],
    /// Number of bytes hashed: fewer than requested if the file is shorter.
    pub bytes: u64,
}

impl FileHasher {
    /// Opens the file like a read: following symlinks inside the roots, and only if a guard permits the read.
    pub fn open(path: &RootedPath) -> Result<Self, Error> {
        let (file, stat) = path.open_regular(OFlags::RDONLY)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(Self { file, path: path.as_path().to_owned(), size })
    }

    /// Hashes the bytes of `range`, within the budget of `scan`. Fewer are hashed if the file ends before.
    pub fn run(&self, range: HashRange, scan: &ScanBudget) -> Result<FileHash, Error> {
        let end = range.length.map_or(u64::MAX, |length| range.offset.saturating_add(length));
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; CHUNK];
        let mut at = range.offset;
        while at < end && range.offset <= self.size {
            scan.check("hash")?;
            let room = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            let got = retry(|| rustix::io::pread(&self.file, &mut buffer[..room], at))
                .map_err(refused("read", &self.path))?;
            if got == 0 {
                break;
            }
            hasher.update(&buffer[..got]);
            at += got as u64;
        }
        Ok(FileHash { sha256: hasher.finalize().into(), bytes: at - range.offset })
    }
}
