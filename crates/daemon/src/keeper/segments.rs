//! Writes the log of a detached process: segment files of frames, of which the oldest are removed at the limit.
//!
//! A segment is named by the cursor of its first byte. A frame has a start, a stream and a length; bytes that are missing
//! between two frames are lost. Output that cannot be written is left out, and a reader reports the gap. Frames of the
//! stream [`TIME_STREAM`] hold the time at which the output behind them was written; readers of output skip them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use engine::process::Stream;

use super::quota::Quota;

/// The size of a frame's header: start, stream and length.
pub(super) const HEADER_BYTES: usize = 13;
/// The number of segments of a full log: removing one loses little.
const SEGMENTS: u64 = 16;
const MIN_SEGMENT_BYTES: u64 = 1024;
pub(super) const MAX_SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
const SUFFIX: &str = ".seg";
/// The stream of a frame with a time: milliseconds since 1970, little endian.
pub(super) const TIME_STREAM: u8 = 4;
/// The size of a frame with a time.
pub(super) const MARK_BYTES: usize = HEADER_BYTES + 8;
/// The longest time between a mark and output that has no mark of its own.
pub(super) const MARK_SPACING: Duration = Duration::from_secs(1);

/// One segment file of a log.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) first: u64,
    pub(super) bytes: u64,
    pub(super) changed: SystemTime,
    pub(super) path: PathBuf,
}

/// The segments of a log in order; empty if there is no log.
pub(super) fn list(dir: &Path) -> Vec<Segment> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut segments: Vec<Segment> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let first = name.to_str()?.strip_suffix(SUFFIX)?.parse().ok()?;
            let found = entry.metadata().ok()?;
            let changed = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some(Segment { first, bytes: found.len(), changed, path: entry.path() })
        })
        .collect();
    segments.sort_unstable_by_key(|segment| segment.first);
    segments
}

pub(super) fn stream_byte(stream: Stream) -> u8 {
    match stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
        Stream::Terminal => 3,
    }
}

/// The single writer of a log.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    dir: PathBuf,
    /// The file with the end of the log, for listings.
    life: File,
    log_bytes: u64,
    segment_bytes: u64,
    quota: Quota,
    active: Option<Active>,
    /// The time of the last mark in the active segment.
    marked: Option<SystemTime>,
}

#[derive(Debug)]
struct Active {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl SegmentWriter {
    pub(super) fn new(dir: PathBuf, life: File, log_bytes: u64, quota: Quota) -> SegmentWriter {
        let segment_bytes = (log_bytes / SEGMENTS).clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES);
        SegmentWriter { dir, life, log_bytes, segment_bytes, quota, active: None, marked: None }
    }

    /// Writes output; leaves out what cannot be written.
    pub(super) fn append(&mut self, start: u64, stream: Stream, bytes: &[u8]) {
        self.append_at(SystemTime::now(), start, stream, bytes);
    }

    /// The same with the time of the output.
    pub(super) fn append_at(&mut self, now: SystemTime, start: u64, stream: Stream, bytes: &[u8]) {
        let largest = usize::try_from(self.segment_bytes).unwrap_or(usize::MAX) - HEADER_BYTES - MARK_BYTES;
        let mut at = start;
        for piece in bytes.chunks(largest) {
            self.append_frame(now, at, stream, piece);
            at += piece.len() as u64;
        }
        // Eight bytes in an existing block. If this fails, listings show an earlier end.
        let _written = self.life.write_all_at(&at.to_le_bytes(), 0);
    }

    fn append_frame(&mut self, now: SystemTime, start: u64, stream: Stream, bytes: &[u8]) {
        let mut frames = Vec::with_capacity(MARK_BYTES + HEADER_BYTES + bytes.len());
        if self.needs_mark(now, MARK_BYTES + HEADER_BYTES + bytes.len()) {
            put_frame(&mut frames, start, TIME_STREAM, &milliseconds(now).to_le_bytes());
            self.marked = Some(now);
        }
        put_frame(&mut frames, start, stream_byte(stream), bytes);
        // Each iteration removes a segment, so the loop ends when none is left.
        while let Err(error) = self.write(start, &frames) {
            if !self.drop_oldest() {
                tracing::debug!(%error, start, "cannot write output to the log of a detached process");
                return;
            }
        }
    }

    /// Whether a segment begins with a write of this many bytes.
    fn begins_segment(&self, bytes: usize) -> bool {
        self.active.as_ref().is_none_or(|active| active.bytes + bytes as u64 > self.segment_bytes)
    }

    /// Whether the next output needs a mark. Each segment begins with one.
    fn needs_mark(&self, now: SystemTime, bytes: usize) -> bool {
        let is_recent = |marked: SystemTime| now.duration_since(marked).is_ok_and(|age| age < MARK_SPACING);
        self.begins_segment(bytes) || !self.marked.is_some_and(is_recent)
    }

    fn write(&mut self, start: u64, frame: &[u8]) -> io::Result<()> {
        if self.begins_segment(frame.len()) {
            self.active = None;
            self.enforce_limits();
            let path = self.dir.join(format!("{start:020}{SUFFIX}"));
            let file =
                OpenOptions::new().append(true).create(true).truncate(false).mode(0o600).open(&path)?;
            self.active = Some(Active { file, path, bytes: 0 });
        }
        let Some(active) = &mut self.active else { return Ok(()) };
        if let Err(error) = active.file.write_all(frame) {
            // An incomplete frame would hide the next ones.
            if active.file.set_len(active.bytes).is_err() {
                remove(&active.path);
                self.active = None;
            }
            return Err(error);
        }
        active.bytes += frame.len() as u64;
        Ok(())
    }

    /// Removes the oldest segments of this log, then of all logs of the user, before a new segment is created.
    fn enforce_limits(&self) {
        let mut own = list(&self.dir);
        let mut total: u64 = own.iter().map(|segment| segment.bytes).sum();
        own.reverse();
        while total + self.segment_bytes > self.log_bytes {
            let Some(oldest) = own.pop() else { break };
            remove(&oldest.path);
            total -= oldest.bytes;
        }
        self.quota.enforce(self.segment_bytes);
    }

    /// Removes the oldest segment to free space for new output. Returns whether that freed anything.
    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = list(&self.dir).into_iter().next() else { return false };
        if self.active.as_ref().is_some_and(|active| active.path == oldest.path) {
            self.active = None;
        }
        remove(&oldest.path) && oldest.bytes > 0
    }
}

fn put_frame(frames: &mut Vec<u8>, start: u64, stream: u8, bytes: &[u8]) {
    frames.extend_from_slice(&start.to_le_bytes());
    frames.push(stream);
    frames.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    frames.extend_from_slice(bytes);
}

/// A time in milliseconds since 1970; 0 for an earlier one.
pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let passed = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
}

/// Removes a segment. Returns whether it is gone.
pub(super) fn remove(path: &Path) -> bool {
    match std::fs::remove_file(path) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}
