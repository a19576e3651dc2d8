//! Spool: the received output of one process, readable from any offset.
//!
//! The server keeps only the newest output that was read from it. For paging and search, the output is also kept here:
//! first in memory, then in an unnamed file, up to a limit beyond which the oldest bytes are dropped.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::fs::{CWD, Mode, OFlags, openat};

/// Bytes kept in memory before a file is created.
const IN_MEMORY: usize = 256 * 1024;
/// The maximum number of bytes kept; the oldest are dropped first.
const MAX_KEPT: u64 = 256 * 1024 * 1024;
/// The maximum number of gaps recorded; beyond it, the output before the oldest gap is dropped.
const MAX_GAPS: usize = 256;

/// The output of one process, with one writer and any number of readers.
#[derive(Debug)]
pub struct Spool {
    state: Mutex<State>,
    kept: u64,
}

#[derive(Debug)]
struct State {
    /// The oldest offset that is kept.
    first: u64,
    /// The offset of the next byte.
    end: u64,
    /// The output, until there is a file.
    memory: Vec<u8>,
    /// The output as a ring: offset `n` is at `n % kept`.
    file: Option<Arc<File>>,
    /// Ranges that were never received: from, to.
    gaps: VecDeque<(u64, u64)>,
}

/// A range of output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpoolChunk {
    /// The start of the range, at or after the requested offset.
    pub start: u64,
    /// The output itself.
    pub bytes: Vec<u8>,
    /// Bytes lost between the requested offset and the start.
    pub lost: u64,
}

impl SpoolChunk {
    /// The offset after the last byte.
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// The range of output that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolSpan {
    /// The oldest offset that is kept.
    pub first: u64,
    /// The offset of the next byte.
    pub end: u64,
}

impl Spool {
    /// An empty spool whose first byte has the offset `start`.
    pub fn starting_at(start: u64) -> Spool {
        Spool::keeping(start, MAX_KEPT)
    }

    fn keeping(start: u64, kept: u64) -> Spool {
        let (memory, gaps) = (Vec::new(), VecDeque::new());
        Spool { state: Mutex::new(State { first: start, end: start, memory, file: None, gaps }), kept }
    }

    /// The range of output that is kept.
    pub fn span(&self) -> SpoolSpan {
        let state = self.state();
        SpoolSpan { first: state.first, end: state.end }
    }

    /// Appends output that ends at offset `end`, or follows directly. Only one task may call this.
    pub async fn append(self: &Arc<Self>, bytes: Bytes, end: Option<u64>) -> io::Result<()> {
        if let Some(start) = end.and_then(|end| end.checked_sub(bytes.len() as u64)) {
            self.skip_to(start);
        }
        if self.append_in_memory(&bytes) {
            return Ok(());
        }
        // A slow disk must not block the runtime.
        let spool = self.clone();
        let done = tokio::task::spawn_blocking(move || spool.append_to_file(&bytes));
        done.await.map_err(io::Error::other)?
    }

    /// Reads at most `limit` bytes from an offset.
    pub async fn read(self: &Arc<Self>, from: u64, limit: usize) -> io::Result<SpoolChunk> {
        if self.state().file.is_none() {
            return self.read_now(from, limit);
        }
        let spool = self.clone();
        let done = tokio::task::spawn_blocking(move || spool.read_now(from, limit));
        done.await.map_err(io::Error::other)?
    }

    /// Reads at most `limit` bytes; may block.
    pub fn read_now(&self, from: u64, limit: usize) -> io::Result<SpoolChunk> {
        loop {
            let (start, length, file) = {
                let state = self.state();
                let (start, stop) = state.readable(from);
                let length = usize::try_from(stop - start).unwrap_or(usize::MAX).min(limit);
                if state.file.is_none() {
                    let at = usize::try_from(start - state.first).unwrap_or(usize::MAX);
                    let bytes = state.memory.get(at..at.saturating_add(length)).unwrap_or_default().to_vec();
                    return Ok(SpoolChunk { start, bytes, lost: start.saturating_sub(from) });
                }
                (start, length, state.file.clone())
            };
            let mut bytes = vec![0; length];
            if let Some(file) = file {
                self.read_ring(&file, start, &mut bytes)?;
            }
            // A range that was overwritten meanwhile is read again.
            if self.state().first <= start {
                return Ok(SpoolChunk { start, bytes, lost: start.saturating_sub(from) });
            }
        }
    }

    fn skip_to(&self, start: u64) {
        let mut state = self.state();
        if start > state.end {
            let gap = (state.end, start);
            // Memory cannot represent a large gap: the output before it is dropped.
            if state.memory.is_empty() && state.file.is_none() {
                state.first = start;
            } else {
                state.gaps.push_back(gap);
                if state.file.is_none() {
                    let missing = usize::try_from(gap.1 - gap.0).unwrap_or(usize::MAX);
                    match state.memory.len().saturating_add(missing) <= IN_MEMORY {
                        true => {
                            let length = state.memory.len() + missing;
                            state.memory.resize(length, 0);
                        }
                        false => {
                            state.memory = Vec::new();
                            state.first = start;
                            state.gaps.clear();
                        }
                    }
                }
            }
            if state.gaps.len() > MAX_GAPS
                && let Some((_, end)) = state.gaps.pop_front()
            {
                state.first = state.first.max(end);
            }
            state.end = start;
        }
    }

    fn append_in_memory(&self, bytes: &Bytes) -> bool {
        let mut state = self.state();
        let fits = state.file.is_none() && state.memory.len() + bytes.len() <= IN_MEMORY;
        if fits {
            state.memory.extend_from_slice(bytes);
            state.grow(bytes, self.kept);
        }
        fits
    }

    fn append_to_file(&self, bytes: &[u8]) -> io::Result<()> {
        let (file, end) = self.file()?;
        // Of a chunk longer than the ring, only the end is kept.
        let skipped = bytes.len().saturating_sub(usize::try_from(self.kept).unwrap_or(usize::MAX));
        self.write_ring(&file, end + skipped as u64, bytes.get(skipped..).unwrap_or_default())?;
        self.state().grow(bytes, self.kept);
        Ok(())
    }

    /// The file, created with the contents of the memory if needed, and the offset of the next byte.
    fn file(&self) -> io::Result<(Arc<File>, u64)> {
        let (memory, first, end) = {
            let state = self.state();
            if let Some(file) = &state.file {
                return Ok((file.clone(), state.end));
            }
            (state.memory.clone(), state.first, state.end)
        };
        let file = Arc::new(unnamed()?);
        self.write_ring(&file, first, &memory)?;
        let mut state = self.state();
        state.file = Some(file.clone());
        state.memory = Vec::new();
        Ok((file, end))
    }

    fn write_ring(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let at = offset % self.kept;
        let room = usize::try_from(self.kept - at).unwrap_or(usize::MAX).min(bytes.len());
        let (before, after) = bytes.split_at(room);
        file.write_all_at(before, at)?;
        file.write_all_at(after, 0)
    }

    fn read_ring(&self, file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let at = offset % self.kept;
        let room = usize::try_from(self.kept - at).unwrap_or(usize::MAX).min(bytes.len());
        let (before, after) = bytes.split_at_mut(room);
        file.read_exact_at(before, at)?;
        file.read_exact_at(after, 0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn grow(&mut self, bytes: &[u8], kept: u64) {
        self.end += bytes.len() as u64;
        self.first = self.first.max(self.end.saturating_sub(kept));
        while self.gaps.front().is_some_and(|(_, end)| *end <= self.first) {
            self.gaps.pop_front();
        }
    }

    /// The first available offset at or after `from`, and the end of the contiguous range.
    fn readable(&self, from: u64) -> (u64, u64) {
        let mut start = from.clamp(self.first, self.end);
        for (gap, end) in &self.gaps {
            match start {
                start if start < *gap => return (start, *gap),
                inside if inside < *end => start = *end,
                _ => {}
            }
        }
        (start, self.end)
    }
}

/// An unnamed temporary file, removed with its last descriptor.
fn unnamed() -> io::Result<File> {
    let dir = std::env::temp_dir();
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(openat(CWD, &dir, flags, Mode::RUSR | Mode::WUSR).map(File::from)?)
}

/// Reads a spool from its start to its current end, for searching.
#[derive(Debug)]
pub struct SpoolReader {
    spool: Arc<Spool>,
    at: u64,
    end: u64,
}

impl SpoolReader {
    /// Starts at the oldest offset that is kept.
    pub fn new(spool: Arc<Spool>) -> SpoolReader {
        let span = spool.span();
        SpoolReader { spool, at: span.first, end: span.end }
    }
}

impl io::Read for SpoolReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let piece = self.spool.read_now(self.at, buffer.len().min(left))?;
        self.at = piece.end();
        let length = piece.bytes.len().min(buffer.len());
        buffer.iter_mut().zip(piece.bytes).for_each(|(to, from)| *to = from);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes without repetition.
    fn sample(start: u64, length: usize) -> Vec<u8> {
        (start..).take(length).map(|n| (n.wrapping_mul(2_654_435_761) >> 16) as u8).collect()
    }

    #[tokio::test]
    async fn output_is_read_back_from_memory_and_from_disk() {
        let spool = Arc::new(Spool::starting_at(0));
        for n in 0..40 {
            let start = n * 50_000;
            spool.append(sample(start, 50_000).into(), Some(start + 50_000)).await.unwrap();
        }
        assert!(spool.state().file.is_some() && spool.state().memory.is_empty());
        let mut whole = Vec::new();
        while whole.len() < 2_000_000 {
            let piece = spool.read(whole.len() as u64, 33_333).await.unwrap();
            assert_eq!((piece.start, piece.lost), (whole.len() as u64, 0));
            whole.extend(piece.bytes);
        }
        assert!(whole == sample(0, 2_000_000));
        assert_eq!(
            spool.read(5_000_000, 10).await.unwrap(),
            SpoolChunk { start: 2_000_000, ..SpoolChunk::default() }
        );
    }

    #[tokio::test]
    async fn beyond_the_limit_the_oldest_bytes_are_dropped_and_reported() {
        let spool = Arc::new(Spool::keeping(0, 300_000));
        for n in 0..8 {
            spool.append(sample(n * 100_000, 100_000).into(), None).await.unwrap();
        }
        let piece = spool.read(0, 1_000_000).await.unwrap();
        assert_eq!((piece.start, piece.lost, piece.end()), (500_000, 500_000, 800_000));
        assert!(piece.bytes == sample(500_000, 300_000));
    }

    #[tokio::test]
    async fn a_gap_is_reported_as_lost_and_not_read_as_zeros() {
        for (before, gap) in [(10_u64, 5_u64), (10, 400_000), (300_000, 400_000), (0, 7)] {
            let spool = Arc::new(Spool::starting_at(0));
            let length = usize::try_from(before).unwrap();
            spool.append(sample(0, length).into(), Some(before)).await.unwrap();
            spool.append(sample(before + gap, 20).into(), Some(before + gap + 20)).await.unwrap();
            let (mut at, mut lost, mut bytes) = (0, 0, Vec::new());
            while at < before + gap + 20 {
                let piece = spool.read(at, 100_000).await.unwrap();
                (at, lost) = (piece.end(), lost + piece.lost);
                bytes.extend(piece.bytes);
            }
            assert_eq!(lost + bytes.len() as u64, before + gap + 20, "{before} {gap}");
            assert!(bytes.ends_with(&sample(before + gap, 20)), "{before} {gap}");
        }
    }
}
