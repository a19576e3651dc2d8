//! Output on disk, for a primary reader that is slower than the process: an unnamed file of limited size. Holes are punched
//! where it was read.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::log::Cursor;
use super::spec::Stream;
use super::text::{cut_at_character, incomplete_tail};
use crate::files::WRITE_CHUNK;

/// Maximal number of segments of one log. They are kept and searched in memory. A program that alternates between its
/// streams reaches this limit before the quota, and its pipe then slows it down.
const MAX_SEGMENTS: usize = 4096;

/// Consecutive bytes of one stream, at `position` in the file.
#[derive(Debug, Clone, Copy)]
struct Segment {
    start: u64,
    len: u64,
    stream: Stream,
    position: u64,
}

/// The output on disk. Cheap to clone: adjacent segments are merged, and their number is limited.
#[derive(Debug, Clone)]
pub(super) struct Spill {
    file: Arc<OwnedFd>,
    segments: VecDeque<Segment>,
    next_position: u64,
    bytes: u64,
}

/// A part of the log on disk that can be loaded.
#[derive(Debug)]
pub(super) struct SpilledChunk {
    file: Arc<OwnedFd>,
    segment: Segment,
    offset: u64,
    len: usize,
}

impl Spill {
    /// Creates an unnamed file in `dir`, which the kernel removes when this process ends.
    pub(super) fn create(dir: &Path) -> io::Result<Spill> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match rustix::fs::open(dir, flags, mode) {
            Ok(file) => file,
            // Not every file system supports unnamed files; tmpfs does.
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => rustix::fs::open("/dev/shm", flags, mode)?,
            Err(error) => return Err(error.into()),
        };
        Ok(Spill { file: Arc::new(file), segments: VecDeque::new(), next_position: 0, bytes: 0 })
    }

    /// The number of bytes on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether `more` bytes fit into `quota`.
    pub(super) fn has_capacity(&self, more: usize, quota: u64) -> bool {
        self.bytes + more as u64 <= quota && self.segments.len() < MAX_SEGMENTS
    }

    /// The position of the oldest byte on disk.
    pub(super) fn first(&self) -> Option<u64> {
        self.segments.front().map(|segment| segment.start)
    }

    /// Appends a chunk. Blocks on the disk.
    pub(super) fn append(&mut self, start: u64, stream: Stream, bytes: &Bytes) -> io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            let at = self.next_position + written as u64;
            let end = bytes.len().min(written + WRITE_CHUNK);
            match rustix::io::pwrite(&self.file, &bytes[written..end], at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let len = bytes.len() as u64;
        match self.segments.back_mut() {
            Some(last) if last.stream == stream && last.start + last.len == start => last.len += len,
            _ => self.segments.push_back(Segment { start, len, stream, position: self.next_position }),
        }
        self.next_position += len;
        self.bytes += len;
        Ok(())
    }

    /// The bytes on disk from `from` on, at most `max`.
    pub(super) fn find(&self, from: u64, max: usize) -> Option<SpilledChunk> {
        let segment = self.segments.iter().find(|segment| from < segment.start + segment.len)?;
        let offset = from.checked_sub(segment.start)?;
        let len = usize::try_from(segment.len - offset).unwrap_or(usize::MAX).min(max);
        Some(SpilledChunk { file: self.file.clone(), segment: *segment, offset, len })
    }

    /// Frees the disk space of the bytes before `cursor`.
    pub(super) fn drop_before(&mut self, cursor: u64) {
        let mut punched: Option<(u64, u64)> = None;
        while let Some(front) = self.segments.front_mut() {
            let gone = cursor.saturating_sub(front.start).min(front.len);
            if gone == 0 {
                break;
            }
            punched = Some((punched.map_or(front.position, |(at, _)| at), front.position + gone));
            self.bytes -= gone;
            front.start += gone;
            front.position += gone;
            front.len -= gone;
            if front.len > 0 {
                break;
            }
            self.segments.pop_front();
        }
        if let Some((from, to)) = punched {
            self.punch(from, to);
        }
    }

    /// A failure is not an error: the space is then freed when the file is closed.
    fn punch(&self, from: u64, to: u64) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(error) = rustix::fs::fallocate(&self.file, flags, from, to - from) {
            tracing::debug!(%error, "cannot punch a hole into the spill file");
        }
    }
}

impl SpilledChunk {
    /// The position of its first byte.
    pub(super) fn start(&self) -> Cursor {
        Cursor(self.segment.start + self.offset)
    }

    /// Reads it. Blocks on the disk.
    pub(super) fn load(&self) -> io::Result<(Stream, Bytes, Cursor)> {
        let mut bytes = vec![0; self.len];
        let mut filled = 0;
        while filled < bytes.len() {
            let at = self.segment.position + self.offset + filled as u64;
            match rustix::io::pread(&self.file, &mut bytes[filled..], at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let start = self.segment.start + self.offset;
        let ends_here = self.offset + self.len as u64 == self.segment.len;
        let whole = Bytes::from(bytes);
        let max = if ends_here { whole.len() } else { whole.len().saturating_sub(incomplete_tail(&whole)) };
        let bytes = cut_at_character(whole, max.max(1));
        let next = Cursor(start + bytes.len() as u64);
        Ok((self.segment.stream, bytes, next))
    }
}
