//! Hashes of regular files and of bytes.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::Xxh3;

use super::path::RootedPath;
use super::read::retry;
use super::refused;
use super::scan::ScanBudget;
use crate::Error;

/// Bytes read between two checks for cancellation; also the size of the buffer.
const CHUNK: usize = 256 * 1024;

/// A hash function for the content of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashKind {
    /// SHA-256: two contents with the same hash cannot be constructed.
    Sha256,
    /// XXH3 with 128 bits: detects errors at the speed of memory, but not contents that were constructed to collide.
    Xxh128,
}

/// A hash of the bytes so far.
enum RunningHash {
    Sha256(Sha256),
    Xxh128(Box<Xxh3>),
}

/// A file to be hashed. It is open: a later file with its name is not hashed.
#[derive(Debug)]
pub struct FileHasher {
    file: OwnedFd,
    path: PathBuf,
}

/// The digest of a file or of its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHash {
    /// The hash of the bytes, in the byte order in which it is printed.
    pub digest: Vec<u8>,
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
    pub fn run(&self, kind: HashKind, first: Option<u64>, scan: &ScanBudget) -> Result<FileHash, Error> {
        let wanted = first.unwrap_or(u64::MAX);
        let mut running = RunningHash::new(kind);
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
            running.add(&buffer[..got]);
            at += got as u64;
        }
        Ok(FileHash { digest: running.digest(), bytes: at })
    }
}

/// The hash of some bytes, in the byte order in which it is printed.
pub fn hash(kind: HashKind, bytes: &[u8]) -> Vec<u8> {
    let mut running = RunningHash::new(kind);
    running.add(bytes);
    running.digest()
}

impl RunningHash {
    fn new(kind: HashKind) -> Self {
        match kind {
            HashKind::Sha256 => Self::Sha256(Sha256::new()),
            HashKind::Xxh128 => Self::Xxh128(Box::new(Xxh3::new())),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::Xxh128(hash) => hash.update(bytes),
        }
    }

    fn digest(self) -> Vec<u8> {
        match self {
            Self::Sha256(hash) => hash.finalize().to_vec(),
            Self::Xxh128(hash) => hash.digest128().to_be_bytes().to_vec(),
        }
    }
}
