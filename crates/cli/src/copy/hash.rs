//! Hashes of copied data and of local files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use sha2::{Digest as _, Sha256};

/// Bytes read at once.
const CHUNK: usize = 256 * 1024;

/// An incremental hash of a file.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningHash(Sha256);

impl RunningHash {
    /// Adds the next bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes so far, in hex.
    pub(super) fn text(&self) -> String {
        hex::encode(self.0.clone().finalize())
    }
}

/// The hash of some bytes, in hex.
pub(super) fn of(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The hash of the first bytes of a file; `None` if it is shorter.
pub(super) fn of_first(file: &File, first: u64) -> io::Result<Option<RunningHash>> {
    let mut running = RunningHash::default();
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while at < first {
        let room = usize::try_from(first - at).unwrap_or(CHUNK).min(CHUNK);
        match file.read_at(&mut buffer[..room], at)? {
            0 => return Ok(None),
            got => {
                running.add(&buffer[..got]);
                at += got as u64;
            }
        }
    }
    Ok(Some(running))
}
