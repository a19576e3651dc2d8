//! Hashes of copied data and of local files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use sha2::{Digest as _, Sha256};

/// Bytes read at once.
const CHUNK: usize = 256 * 1024;

/// A part of a file: its first byte and its length, or all up to the end.
pub(super) type FilePart = (u64, Option<u64>);

/// Where a file is divided into two parts, which a target hashes at the same time: half of the time for a large file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HashSplit(u64);

impl HashSplit {
    /// The whole file has one hash.
    pub(super) const NONE: HashSplit = HashSplit(u64::MAX);

    /// Two parts of equal size.
    pub(super) fn middle_of(size: u64) -> HashSplit {
        HashSplit(size.div_ceil(2))
    }

    /// The parts of the first bytes of a file, or of all of it.
    pub(super) fn parts(self, first: Option<u64>) -> (FilePart, Option<FilePart>) {
        match (self, first) {
            (HashSplit::NONE, _) => ((0, first), None),
            (HashSplit(split), Some(first)) if first <= split => ((0, Some(first)), None),
            (HashSplit(split), _) => ((0, Some(split)), Some((split, first.map(|first| first - split)))),
        }
    }
}

/// An incremental hash of a file.
#[derive(Debug, Clone)]
pub(super) struct RunningHash {
    split: HashSplit,
    at: u64,
    parts: [Sha256; 2],
}

impl RunningHash {
    pub(super) fn new(split: HashSplit) -> RunningHash {
        RunningHash { split, at: 0, parts: Default::default() }
    }

    /// Adds the next bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let left = usize::try_from(self.split.0.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let (first, second) = bytes.split_at(left.min(bytes.len()));
        self.parts[0].update(first);
        self.parts[1].update(second);
        self.at += bytes.len() as u64;
    }

    /// The hashes of the parts so far, in hex. A part without bytes has none, except the first.
    pub(super) fn text(&self) -> String {
        let count = if self.at > self.split.0 { 2 } else { 1 };
        self.parts.iter().take(count).map(|part| hex::encode(part.clone().finalize())).collect()
    }
}

/// The hash of some bytes, in hex.
pub(super) fn of(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The hash of the first bytes of a file; `None` if it is shorter.
pub(super) fn of_first(file: &File, first: u64, split: HashSplit) -> io::Result<Option<RunningHash>> {
    let mut running = RunningHash::new(split);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_file_are_hashed_apart_however_it_is_read() {
        let whole = b"abcdefg";
        for piece in 1..=whole.len() {
            let mut running = RunningHash::new(HashSplit::middle_of(whole.len() as u64));
            let mut undivided = RunningHash::new(HashSplit::NONE);
            let mut at = 0;
            for bytes in whole.chunks(piece) {
                running.add(bytes);
                undivided.add(bytes);
                at += bytes.len();
                let (first, second) = whole[..at].split_at(at.min(4));
                let second = if second.is_empty() { String::new() } else { of(second) };
                assert_eq!(running.text(), of(first) + &second);
                assert_eq!(undivided.text(), of(&whole[..at]));
            }
        }
    }

    #[test]
    fn the_parts_of_the_first_bytes_end_with_them() {
        let split = HashSplit::middle_of(7);
        assert_eq!(split.parts(Some(4)), ((0, Some(4)), None));
        assert_eq!(split.parts(Some(5)), ((0, Some(4)), Some((4, Some(1)))));
        assert_eq!(split.parts(None), ((0, Some(4)), Some((4, None))));
        assert_eq!(HashSplit::NONE.parts(Some(5)), ((0, Some(5)), None));
        assert_eq!(HashSplit::NONE.parts(None), ((0, None), None));
    }
}
