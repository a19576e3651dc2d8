//! Hashes of what is copied, as it passes by or from a file here.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use sha2::{Digest as _, Sha256};

/// How much of a file is read at once.
const CHUNK: usize = 256 * 1024;

/// A hash that grows with what it is given.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningHash(Sha256);

impl RunningHash {
    /// Adds the next bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of everything so far, as the protocol writes it.
    pub(super) fn text(&self) -> String {
        digits(&self.0.clone().finalize())
    }
}

/// The hash of some bytes, as the protocol writes it.
pub(super) fn of(bytes: &[u8]) -> String {
    digits(&Sha256::digest(bytes))
}

/// The hash of the first bytes of a file; nothing if it has not so many.
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

fn digits(hash: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    hash.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}
