//! Ranges of a detached process's output, read from disk one after the other.

use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use engine::process::{Cursor, KeeperEvent};
use wire::keeper::MAX_OUTPUT_BYTES;

use super::segment_reader::SegmentReader;

/// Reads ranges of a log. Ranges in ascending order are read without searching. All functions block.
#[derive(Debug)]
pub struct StoredOutput {
    dir: PathBuf,
    reader: SegmentReader,
    /// Output that was read beyond the last range.
    ahead: (u64, Bytes),
}

impl StoredOutput {
    pub(super) fn new(dir: PathBuf) -> StoredOutput {
        StoredOutput { reader: SegmentReader::new(&dir, 0), dir, ahead: (0, Bytes::new()) }
    }

    /// The output between two cursors; `None` if a part of it is not on disk.
    pub fn read(&mut self, from: Cursor, to: Cursor) -> Option<Bytes> {
        let length = usize::try_from(to.0.checked_sub(from.0)?).ok()?;
        let (start, ahead) = &self.ahead;
        if from.0 < *start || from.0 > start + ahead.len() as u64 {
            self.reader = SegmentReader::new(&self.dir, from.0);
            self.ahead = (from.0, Bytes::new());
        }
        let (start, mut ahead) = std::mem::take(&mut self.ahead);
        let known = ahead.split_off(usize::try_from(from.0 - start).ok()?);
        let mut found = BytesMut::from(&known[..]);
        while found.len() < length {
            match self.reader.next(MAX_OUTPUT_BYTES) {
                Ok(Some(KeeperEvent::Output { start, bytes, .. }))
                    if start.0 == from.0 + found.len() as u64 =>
                {
                    found.extend_from_slice(&bytes);
                }
                // Removed, not written yet, or unreadable: start over with the next range.
                _ => {
                    self.ahead = (u64::MAX, Bytes::new());
                    return None;
                }
            }
        }
        let rest = found.split_off(length).freeze();
        self.ahead = (to.0, rest);
        Some(found.freeze())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use engine::process::Stream;

    use super::super::quota::Quota;
    use super::super::segments::SegmentWriter;
    use super::*;

    #[test]
    fn ranges_are_read_in_any_order_and_missing_ones_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let quota = Quota { keepers: dir.path().join("none"), bytes: u64::MAX };
        let life = File::create(dir.path().join("life")).unwrap();
        let mut segments = SegmentWriter::new(dir.path().to_owned(), life, u64::MAX, quota);
        let text: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
        for (index, chunk) in text.chunks(777).enumerate() {
            segments.append(index as u64 * 777, Stream::Terminal, chunk);
        }
        let mut stored = StoredOutput::new(dir.path().to_owned());
        for (from, to) in
            [(0, 10), (10, 5_000), (5_000, 5_001), (90_000, 100_000), (3, 70_000), (70_000, 70_000)]
        {
            let expected = &text[from..to];
            assert_eq!(
                stored.read(Cursor(from as u64), Cursor(to as u64)).unwrap(),
                expected,
                "{from}..{to}"
            );
        }
        assert_eq!(stored.read(Cursor(99_999), Cursor(100_001)), None);
        assert_eq!(stored.read(Cursor(99_999), Cursor(100_000)).unwrap(), &text[99_999..]);
    }
}
