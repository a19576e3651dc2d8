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

/// A file to be hashed. It is open: a later file with its name is not hashed.
#[derive(Debug)]
pub struct FileHasher {
    file: OwnedFd,
    path: PathBuf,
}

/// The digest of a file or of its beginning.
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
        let (file, _) = path.open_regular(OFlags::RDONLY)?;
        Ok(Self { file, path: path.as_path().to_owned() })
    }

    /// Hashes the first bytes of the file, or all of it, within the budget of `scan`.
    pub fn run(&self, first: Option<u64>, scan: &ScanBudget) -> Result<FileHash, Error> {
        let wanted = first.unwrap_or(u64::MAX);
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; CHUNK];
        let mut at = 0;
        while at < wanted {
            scan.check("hash")?;
            let room = usize::try_from(wanted - at).unwrap_or(CHUNK).min(CHUNK);
            let got = retry(|| rustix::io::pread(&self.file, &mut buffer[..room], at))
                .map_err(refused("read", &self.path))?;
            if got == 0 {
                break;
            }
            hasher.update(&buffer[..got]);
            at += got as u64;
        }
        Ok(FileHash { sha256: hasher.finalize().into(), bytes: at })
    }
}
