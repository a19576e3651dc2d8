//! Hashes of copied data and of local files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::Xxh3;

/// Bytes read at once.
const CHUNK: usize = 256 * 1024;

/// A hash function for checks of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HashKind {
    /// Decides whether a file is copied at all: two contents with the same hash cannot be constructed.
    Sha256,
    /// Checks what was just copied, at the speed of memory.
    Xxh128,
}

/// An incremental hash of a file.
#[derive(Clone)]
pub(super) enum RunningHash {
    Sha256(Sha256),
    Xxh128(Box<Xxh3>),
}

impl HashKind {
    /// The name in the protocol.
    pub(super) fn name(self) -> &'static str {
        match self {
            HashKind::Sha256 => "sha256",
            HashKind::Xxh128 => "xxh128",
        }
    }

    /// The hash that both ends of a copy have.
    pub(super) fn common(self, other: HashKind) -> HashKind {
        match self {
            HashKind::Sha256 => HashKind::Sha256,
            HashKind::Xxh128 => other,
        }
    }

    /// The hash of some bytes, in hex.
    pub(super) fn of(self, bytes: &[u8]) -> String {
        let mut running = RunningHash::new(self);
        running.add(bytes);
        running.text()
    }
}

/// Adds the first bytes of a file to each of the hashes, which it reads once; false if the file is shorter.
pub(super) fn add_first(file: &File, first: u64, hashes: &mut [&mut RunningHash]) -> io::Result<bool> {
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while at < first {
        let room = usize::try_from(first - at).unwrap_or(CHUNK).min(CHUNK);
        match file.read_at(&mut buffer[..room], at)? {
            0 => return Ok(false),
            got => {
                hashes.iter_mut().for_each(|hash| hash.add(&buffer[..got]));
                at += got as u64;
            }
        }
    }
    Ok(true)
}

impl RunningHash {
    pub(super) fn new(kind: HashKind) -> RunningHash {
        match kind {
            HashKind::Sha256 => RunningHash::Sha256(Sha256::new()),
            HashKind::Xxh128 => RunningHash::Xxh128(Box::new(Xxh3::new())),
        }
    }

    pub(super) fn kind(&self) -> HashKind {
        match self {
            RunningHash::Sha256(_) => HashKind::Sha256,
            RunningHash::Xxh128(_) => HashKind::Xxh128,
        }
    }

    /// Adds the next bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        match self {
            RunningHash::Sha256(hash) => hash.update(bytes),
            RunningHash::Xxh128(hash) => hash.update(bytes),
        }
    }

    /// The hash of all bytes so far, in hex.
    pub(super) fn text(&self) -> String {
        match self {
            RunningHash::Sha256(hash) => hex::encode(hash.clone().finalize()),
            RunningHash::Xxh128(hash) => format!("{:032x}", hash.digest128()),
        }
    }
}
