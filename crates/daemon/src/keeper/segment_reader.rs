//! Reads the log of a detached process from disk, from any cursor on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use engine::process::{Cursor, KeeperEvent, Stream};

use super::segments::{self, HEADER_BYTES, MAX_SEGMENT_BYTES, Segment};

/// The size of one read.
const BLOCK_BYTES: usize = 256 * 1024;

/// A reader of a log on disk. It reads an open segment to its end even if the file is removed meanwhile.
#[derive(Debug)]
pub(super) struct SegmentReader {
    dir: PathBuf,
    at: u64,
    open: Option<OpenSegment>,
    /// A frame that was read and not returned yet.
    peeked: Option<Frame>,
}

#[derive(Debug)]
struct OpenSegment {
    first: u64,
    file: File,
    /// The end of the block in the file.
    offset: u64,
    /// Bytes that were read and not used yet.
    block: BytesMut,
}

#[derive(Debug)]
struct Frame {
    start: u64,
    stream: Option<Stream>,
    bytes: Bytes,
}

impl SegmentReader {
    /// A reader of the segments in `directory` at `from`.
    pub(super) fn new(dir: &Path, from: u64) -> SegmentReader {
        SegmentReader { dir: dir.to_owned(), at: from, open: None, peeked: None }
    }

    /// The cursor of the next byte.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The next event, with up to about `max` bytes of one stream; `None` at the end of the log on disk.
    pub(super) fn next(&mut self, max: usize) -> io::Result<Option<KeeperEvent>> {
        let mut collected: Option<(u64, Stream, BytesMut)> = None;
        loop {
            let Some(frame) = self.frame(collected.is_none())? else { break };
            let end = frame.start + frame.bytes.len() as u64;
            let Some(stream) = frame.stream.filter(|_| end > self.at) else { continue };
            if frame.start > self.at {
                if collected.is_some() {
                    self.peeked = Some(frame);
                    break;
                }
                self.at = frame.start;
                self.peeked = Some(frame);
                return Ok(Some(KeeperEvent::Lost { next: Cursor(self.at) }));
            }
            let skip = usize::try_from(self.at - frame.start).unwrap_or(usize::MAX);
            let bytes = frame.bytes.slice(skip.min(frame.bytes.len())..);
            match &mut collected {
                None if bytes.len() >= max / 2 => {
                    let start = Cursor(std::mem::replace(&mut self.at, end));
                    return Ok(Some(KeeperEvent::Output { start, stream, bytes }));
                }
                None => collected = Some((self.at, stream, BytesMut::from(&bytes[..]))),
                Some((_, same, all)) if *same == stream && all.len() + bytes.len() <= max => {
                    all.extend_from_slice(&bytes);
                }
                Some(_) => {
                    self.peeked = Some(frame);
                    break;
                }
            }
            self.at = end;
        }
        Ok(collected.map(|(start, stream, all)| KeeperEvent::Output {
            start: Cursor(start),
            stream,
            bytes: all.freeze(),
        }))
    }

    /// The next frame. Opens the next segment only if `may_open` is set, so that collected output is returned first.
    fn frame(&mut self, may_open: bool) -> io::Result<Option<Frame>> {
        if let Some(frame) = self.peeked.take() {
            return Ok(Some(frame));
        }
        loop {
            if let Some(open) = &mut self.open
                && let Some(frame) = open.frame()?
            {
                return Ok(Some(frame));
            }
            if !may_open || !self.open_next()? {
                return Ok(None);
            }
        }
    }

    /// Opens the segment of the reader's position, or the next one.
    fn open_next(&mut self) -> io::Result<bool> {
        let segments = segments::list(&self.dir);
        let next = match &self.open {
            Some(open) => segments.iter().find(|segment| segment.first > open.first),
            None => {
                let behind = segments.partition_point(|segment| segment.first <= self.at);
                segments.get(behind.saturating_sub(1))
            }
        };
        let Some(Segment { first, path, .. }) = next else { return Ok(false) };
        let file = match File::open(path) {
            // Removed since it was listed; the next segment exists.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.open_next(),
            file => file?,
        };
        self.open = Some(OpenSegment { first: *first, file, offset: 0, block: BytesMut::new() });
        Ok(true)
    }
}

impl OpenSegment {
    fn frame(&mut self) -> io::Result<Option<Frame>> {
        if !self.fill(HEADER_BYTES)? {
            return Ok(None);
        }
        let Some((start, stream, length)) = header(&self.block) else { return Ok(None) };
        // A keeper that was killed during a write leaves an incomplete frame; its bytes are valid.
        self.fill(HEADER_BYTES + length)?;
        let length = length.min(self.block.len() - HEADER_BYTES);
        if length == 0 {
            return Ok(None);
        }
        let mut frame = self.block.split_to(HEADER_BYTES + length);
        let bytes = frame.split_off(HEADER_BYTES).freeze();
        Ok(Some(Frame { start, stream, bytes }))
    }

    /// Reads until `wanted` bytes are available. Returns false at the end of the file.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        while self.block.len() < wanted {
            let held = self.block.len();
            self.block.resize(held + BLOCK_BYTES.max(wanted - held), 0);
            let room = self.block.get_mut(held..).unwrap_or_default();
            let count = match self.file.read_at(room, self.offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => {
                    self.block.truncate(held);
                    return Err(error);
                }
                Ok(0) => {
                    self.block.truncate(held);
                    return Ok(false);
                }
                Ok(count) => count,
            };
            self.block.truncate(held + count);
            self.offset += count as u64;
        }
        Ok(true)
    }
}

/// Start, stream and length of a frame. The stream is `None` for an unknown stream, whose frames are skipped.
fn header(block: &[u8]) -> Option<(u64, Option<Stream>, usize)> {
    let (start, rest) = block.split_first_chunk::<8>()?;
    let (stream, rest) = rest.split_first()?;
    let (length, _) = rest.split_first_chunk::<4>()?;
    let stream = match stream {
        1 => Some(Stream::Stdout),
        2 => Some(Stream::Stderr),
        3 => Some(Stream::Terminal),
        _ => None,
    };
    let (start, length) = (u64::from_le_bytes(*start), u32::from_le_bytes(*length));
    // No frame is larger than a segment or ends beyond the largest cursor.
    let is_valid = u64::from(length) <= MAX_SEGMENT_BYTES && start.checked_add(length.into()).is_some();
    Some((start, stream, usize::try_from(length).ok()?)).filter(|_| is_valid)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use proptest::prelude::*;

    use super::super::quota::Quota;
    use super::super::segments::{MARK_BYTES, SegmentWriter};
    use super::*;

    fn write(dir: &Path, log_bytes: u64, chunks: &[(u64, Stream, Vec<u8>)]) {
        let quota = Quota { keepers: dir.join("none"), bytes: u64::MAX };
        let life = File::create(dir.join("life")).unwrap();
        let mut segments = SegmentWriter::new(dir.to_owned(), life, log_bytes, quota);
        for (start, stream, bytes) in chunks {
            segments.append(*start, *stream, bytes);
        }
    }

    /// All bytes from `from` on; `None` for a lost byte.
    fn read(dir: &Path, from: u64, max: usize) -> Vec<Option<(Stream, u8)>> {
        let (mut reader, mut seen) = (SegmentReader::new(dir, from), Vec::new());
        loop {
            match reader.next(max).unwrap() {
                Some(KeeperEvent::Output { start, stream, bytes }) => {
                    assert_eq!(start.0, from + seen.len() as u64, "output where it belongs");
                    seen.extend(bytes.iter().map(|byte| Some((stream, *byte))));
                }
                Some(KeeperEvent::Lost { next }) => {
                    assert!(next.0 > from + seen.len() as u64, "a gap is never empty");
                    seen.resize(usize::try_from(next.0 - from).unwrap(), None);
                }
                _ => return seen,
            }
        }
    }

    fn chunk() -> impl Strategy<Value = (u64, Stream, Vec<u8>)> {
        let gap = prop_oneof![9 => Just(0_u64), 1 => 1_u64..50];
        let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
        (gap, stream, prop::collection::vec(any::<u8>(), 1..3000))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn the_log_is_read_from_any_cursor_and_gaps_are_reported(
            chunks in prop::collection::vec(chunk(), 1..20),
            max in 1_usize..5000,
            place in 0.0_f64..1.0,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let (mut at, mut placed, mut expected) = (0, Vec::new(), Vec::new());
            for (gap, stream, bytes) in chunks {
                expected.resize(expected.len() + usize::try_from(gap).unwrap(), None);
                expected.extend(bytes.iter().map(|byte| Some((stream, *byte))));
                placed.push((at + gap, stream, bytes.clone()));
                at += gap + bytes.len() as u64;
            }
            // Small segments within the limit.
            write(dir.path(), 16 * 8 * 1024, &placed);
            let from = (at as f64 * place) as u64;
            prop_assert_eq!(&read(dir.path(), from, max)[..], &expected[usize::try_from(from).unwrap()..]);
        }
    }

    #[test]
    fn an_incomplete_frame_returns_its_bytes_and_the_next_segment_is_read() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), u64::MAX, &[(0, Stream::Stdout, b"hello world".to_vec())]);
        let path = segments::list(dir.path()).remove(0).path;
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let start = MARK_BYTES + HEADER_BYTES;
        for (left, text) in [(start + 5, "hello"), (start, ""), (3, "")] {
            file.set_len(left as u64).unwrap();
            let seen: Vec<u8> = read(dir.path(), 0, 99).into_iter().flatten().map(|(_, byte)| byte).collect();
            assert_eq!(seen, text.as_bytes());
        }
        write(dir.path(), u64::MAX, &[(11, Stream::Stdout, b"!".to_vec())]);
        let mut reader = SegmentReader::new(dir.path(), 0);
        assert!(matches!(reader.next(99), Ok(Some(KeeperEvent::Lost { next: Cursor(11) }))));
    }

    #[test]
    fn invalid_bytes_end_the_log() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("00000000000000000000.seg"), vec![0xff; 100]).unwrap();
        assert!(matches!(SegmentReader::new(dir.path(), 0).next(99), Ok(None)));
    }
}
