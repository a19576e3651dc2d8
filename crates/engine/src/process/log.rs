//! The ordered log of one process: bounded, readable from any cursor, with every loss reported.
//!
//! A cursor is a byte offset over all streams together, so a reader can stop in the middle of a chunk and continue
//! there later. One writer, the supervisor, appends; any number of readers read from their own cursor. The reader of
//! the client that started the process is the primary one: output that it has not taken is never dropped.
//!
//! The exit of the leader is an entry of the log as well. It takes no bytes: the log remembers the cursor behind the
//! output that the leader wrote, and each reader whether it has passed the entry. A reader that starts before that
//! cursor receives the exit there, one that starts behind it receives the exit first, and one whose output around that
//! cursor is lost receives it after the loss. Each reader receives it exactly once, and always before the end.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use tokio::sync::{Notify, watch};

use super::flow::Capacity;
use super::spec::{ExitStatus, ProcessSummary, Stream};
use super::spill::{Spill, SpilledChunk};
use super::state::ProcessState;
use super::text::cut_at_character;
use super::times::TimeMarks;

/// A position in a log: the number of bytes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Cursor(pub u64);

/// Overhead of a chunk: its entry and the bookkeeping of the allocator. Counted, so that a program that writes single
/// bytes does not use a hundred times its limit.
const CHUNK_COST: usize = 128;

/// The position of a reader: its cursor, and whether it has passed the entry of the exit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) cursor: Cursor,
    pub(super) is_past_exit: bool,
}

/// What a reader finds at its position.
#[derive(Debug)]
pub(super) enum Found {
    /// Output in memory, of one stream, whole characters where it is text.
    Output {
        /// Its stream.
        stream: Stream,
        /// What was written.
        bytes: Bytes,
        /// The position behind it.
        next: Cursor,
    },
    /// Output on disk; load it off the event loop.
    Spilled(SpilledChunk),
    /// Output before `next` was dropped.
    Lost {
        /// How much.
        bytes: u64,
        /// The first available position.
        next: Cursor,
    },
    /// The leader has exited.
    Exited(ExitEntry),
    /// Nothing follows.
    Closed(Arc<ProcessSummary>),
    /// Nothing follows here.
    Disconnected,
    /// Nothing yet.
    Nothing,
}

/// The exit of the leader and its place between the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExitEntry {
    /// The cursor behind the last output that the leader wrote.
    at: u64,
    pub(super) status: ExitStatus,
    pub(super) is_denied: bool,
}

/// Output dropped at once when the disk is full: 1 MiB, so that it does not happen for every chunk.
const DROP_AT_ONCE: u64 = 1024 * 1024;

/// Chunks smaller than this are joined with those that follow.
const SMALL_CHUNK: usize = 4 * 1024;
/// The size of a joined chunk.
const JOINED_CHUNK: usize = 32 * 1024;

#[derive(Debug)]
struct Chunk {
    start: u64,
    stream: Stream,
    bytes: Bytes,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn cost(&self) -> usize {
        self.bytes.len() + CHUNK_COST
    }
}

#[derive(Debug, Default)]
struct Held {
    chunks: VecDeque<Chunk>,
    /// What `chunks` cost.
    memory: usize,
    /// The oldest position still held, in memory or on disk.
    first: u64,
    end: u64,
    spill: Option<Spill>,
    exit: Option<ExitEntry>,
    times: TimeMarks,
    /// The position of the primary reader; `None` if there is none.
    primary: Option<u64>,
    /// How many primary readers there have been; the number of the one that counts.
    claims: u64,
    /// The primary reader is disconnected for a while: output is kept as far as it fits, and the process does not wait.
    is_primary_disconnected: bool,
}

/// The log, shared between the supervisor and the readers. The lock is held briefly and never across an await.
#[derive(Debug)]
pub(super) struct OutputLog {
    held: Mutex<Held>,
    state: watch::Sender<ProcessState>,
    taken: Notify,
    memory_limit: usize,
}

impl OutputLog {
    /// An empty log that keeps at most `memory_limit` bytes in memory.
    pub(super) fn new(memory_limit: usize) -> OutputLog {
        OutputLog::starting_at(Cursor(0), memory_limit)
    }

    /// A log that starts at `start`, for a process that a keeper started earlier.
    pub(super) fn starting_at(start: Cursor, memory_limit: usize) -> OutputLog {
        OutputLog {
            held: Mutex::new(Held { first: start.0, end: start.0, ..Held::default() }),
            state: watch::Sender::new(ProcessState { end: start, ..ProcessState::default() }),
            taken: Notify::new(),
            memory_limit,
        }
    }

    /// The state so far, and a way to wait for changes.
    pub(super) fn state(&self) -> watch::Receiver<ProcessState> {
        self.state.subscribe()
    }

    /// The oldest position still held.
    pub(super) fn first(&self) -> Cursor {
        Cursor(self.held().first)
    }

    /// The position of the first output since `time`, or the end.
    pub(super) fn since(&self, time: SystemTime) -> Cursor {
        let held = self.held();
        Cursor(held.times.since(time).unwrap_or(held.end))
    }

    /// Bytes held in memory.
    pub(super) fn memory(&self) -> usize {
        self.held().memory
    }

    /// The entry at this position, at most `max` bytes of it.
    pub(super) fn look(&self, position: Position, max: usize) -> Found {
        let Position { cursor: from, is_past_exit } = position;
        let held = self.held();
        let exit = held.exit.filter(|_| !is_past_exit);
        if let Some(exit) = exit.filter(|exit| exit.at <= from.0) {
            return Found::Exited(exit);
        }
        // A chunk ends at the position of the exit.
        let before_exit =
            exit.map_or(usize::MAX, |exit| usize::try_from(exit.at - from.0).unwrap_or(usize::MAX));
        if from.0 < held.first {
            return Found::Lost { bytes: held.first - from.0, next: Cursor(held.first) };
        }
        if from.0 >= held.end {
            drop(held);
            let state = self.state.borrow();
            return match &state.closed {
                // Without its exit, the end was appended a moment ago: the next look finds both.
                Some(closed) if from >= state.end && is_past_exit => Found::Closed(closed.clone()),
                None if state.is_disconnected => Found::Disconnected,
                _ => Found::Nothing,
            };
        }
        if let Some(spilled) = held.spill.as_ref().and_then(|spill| spill.find(from.0, max.min(before_exit)))
        {
            return Found::Spilled(spilled);
        }
        let index = held.chunks.partition_point(|chunk| chunk.end() <= from.0);
        let Some(chunk) = held.chunks.get(index) else {
            return Found::Lost { bytes: held.end - from.0, next: Cursor(held.end) };
        };
        if chunk.start > from.0 {
            return Found::Lost { bytes: chunk.start - from.0, next: Cursor(chunk.start) };
        }
        let skip = usize::try_from(from.0.saturating_sub(chunk.start)).unwrap_or(usize::MAX);
        let rest = chunk.bytes.slice(skip.min(chunk.bytes.len())..);
        let rest = if rest.len() < SMALL_CHUNK { held.joined(index, rest) } else { rest };
        let rest = rest.slice(..rest.len().min(before_exit));
        let bytes = cut_at_character(rest, max);
        Found::Output { stream: chunk.stream, next: Cursor(from.0 + bytes.len() as u64), bytes }
    }

    /// Drops output on disk that cannot be read back.
    pub(super) fn drop_spilled(&self) {
        self.held().drop_spilled_before(u64::MAX);
    }

    /// Whether the output at `from` is still held. Output loaded from disk is valid only if it is.
    pub(super) fn holds(&self, from: Cursor) -> bool {
        self.held().first <= from.0
    }

    /// Makes the reader at `from` the primary one; returns the number of its claim for `take` and `release`.
    pub(super) fn claim(&self, from: Cursor) -> u64 {
        let mut held = self.held();
        held.primary = Some(from.0);
        held.is_primary_disconnected = false;
        held.claims += 1;
        let claim = held.claims;
        drop(held);
        self.taken.notify_one();
        claim
    }

    /// The primary reader has taken everything before `cursor`.
    pub(super) fn take(&self, claim: u64, cursor: Cursor) {
        let mut held = self.held();
        if held.claims == claim && held.primary.is_some_and(|at| at < cursor.0) {
            held.primary = Some(cursor.0);
            held.drop_spilled_before(cursor.0);
            drop(held);
            self.taken.notify_one();
        }
    }

    /// Releases the claim of a primary reader, unless another reader has replaced it.
    pub(super) fn release(&self, claim: u64) {
        let mut held = self.held();
        if held.claims == claim {
            held.primary = None;
        }
        drop(held);
        self.taken.notify_one();
    }

    /// Whether there is a primary reader.
    pub(super) fn is_claimed(&self) -> bool {
        self.held().primary.is_some()
    }

    /// Drops all output of a process that ended; its state remains. Readers receive the loss.
    pub(super) fn forget(&self) {
        let mut held = self.held();
        held.chunks = VecDeque::new();
        held.memory = 0;
        held.spill = None;
        held.first = held.end;
    }

    /// Sets whether the primary reader is disconnected for a while.
    pub(super) fn set_primary_disconnected(&self, is_primary_disconnected: bool) {
        self.held().is_primary_disconnected = is_primary_disconnected;
        self.taken.notify_one();
    }

    /// Whether the primary reader is disconnected for a while.
    pub(super) fn is_primary_disconnected(&self) -> bool {
        self.held().is_primary_disconnected
    }

    /// Drops the oldest output while the primary reader is disconnected; it receives the loss later.
    pub(super) fn drop_oldest(&self) {
        let mut held = self.held();
        if let Some(first) = held.spill.as_ref().and_then(Spill::first) {
            held.drop_spilled_before(first.saturating_add(DROP_AT_ONCE));
        } else if let Some(oldest) = held.chunks.pop_front() {
            held.memory -= oldest.cost();
            held.first = oldest.end();
        }
    }

    pub(super) fn capacity(&self) -> Capacity {
        let held = self.held();
        if held.memory < self.memory_limit {
            return Capacity::Available;
        }
        match (held.chunks.front(), held.primary) {
            (Some(oldest), Some(primary)) if oldest.end() > primary => Capacity::Full,
            _ => Capacity::Available,
        }
    }

    /// Waits until the primary reader has advanced or was dropped.
    pub(super) async fn taken(&self) {
        self.taken.notified().await;
    }

    /// Appends output. Drops the oldest when memory is full and the primary reader has taken it.
    pub(super) fn push(&self, stream: Stream, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let end = {
            let mut held = self.held();
            let start = held.end;
            held.times.note(SystemTime::now(), start);
            held.end += bytes.len() as u64;
            let chunk = Chunk { start, stream, bytes };
            held.memory += chunk.cost();
            held.chunks.push_back(chunk);
            held.evict(self.memory_limit);
            held.end
        };
        self.state.send_modify(|state| {
            let added = end - state.end.0;
            state.end = Cursor(end);
            match stream {
                Stream::Stdout | Stream::Terminal => state.stdout_bytes += added,
                Stream::Stderr => state.stderr_bytes += added,
            }
        });
    }

    /// Appends output that starts at `start`. A gap before it counts as lost, output that is there already is skipped, and
    /// output beyond the largest cursor is ignored.
    pub(super) fn push_at(&self, start: Cursor, stream: Stream, mut bytes: Bytes) {
        if start.0.checked_add(bytes.len() as u64).is_none() {
            return;
        }
        self.skip_to(start);
        let known = self.held().end - start.0;
        match usize::try_from(known) {
            Ok(known) if known < bytes.len() => self.push(stream, bytes.split_off(known)),
            _ => {}
        }
    }

    /// Marks all output before `next` that has not arrived as lost.
    pub(super) fn skip_to(&self, next: Cursor) {
        {
            let mut held = self.held();
            if next.0 <= held.end {
                return;
            }
            held.end = next.0;
        }
        self.state.send_modify(|state| state.end = next);
    }

    pub(super) fn running(&self, pid: i32) {
        self.state.send_modify(|state| state.pid = Some(pid));
    }

    /// The oldest chunk, to be written to disk off the event loop.
    pub(super) fn oldest(&self) -> Option<(u64, Stream, Bytes)> {
        let held = self.held();
        held.chunks.front().map(|chunk| (chunk.start, chunk.stream, chunk.bytes.clone()))
    }

    /// The chunk that starts at `start` is on disk now: it leaves memory.
    pub(super) fn moved_to_disk(&self, start: u64, spill: Spill) {
        let mut held = self.held();
        if held.chunks.front().is_some_and(|chunk| chunk.start == start)
            && let Some(chunk) = held.chunks.pop_front()
        {
            held.memory -= chunk.cost();
        }
        held.spill = Some(spill);
        if let Some(primary) = held.primary {
            held.drop_spilled_before(primary);
        }
    }

    /// The spill as it is now, to be written to; `moved_to_disk` makes what was written visible.
    pub(super) fn spill(&self, make: impl FnOnce() -> io::Result<Spill>) -> io::Result<Spill> {
        match &self.held().spill {
            Some(spill) => Ok(spill.clone()),
            None => make(),
        }
    }

    /// Publishes the exit while output that comes before its entry is still to be appended.
    pub(super) fn exited(&self, status: ExitStatus) {
        self.state.send_modify(|state| state.exited = Some(status));
    }

    /// Appends the entry of the exit behind the output so far. Only the first one counts.
    pub(super) fn append_exit(&self, status: ExitStatus, is_denied: bool) {
        self.held().insert_exit(status, is_denied);
        self.exited(status);
    }

    /// Ends the log of a process whose relay ends.
    pub(super) fn leave(&self) {
        self.state.send_modify(|state| state.is_disconnected = true);
    }

    /// Appends the end, and the exit before it if its place was not known.
    pub(super) fn close(&self, closed: ProcessSummary) {
        self.held().insert_exit(closed.exit, closed.denied.is_some());
        self.state.send_modify(|state| {
            state.exited = Some(closed.exit);
            state.closed = Some(Arc::new(closed));
        });
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic under this lock leaves the log readable, so the readers continue.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn insert_exit(&mut self, status: ExitStatus, is_denied: bool) {
        let at = self.end;
        self.exit.get_or_insert(ExitEntry { at, status, is_denied });
    }

    /// Joins `first` and the small chunks of the same stream that follow it, so that a late reader receives many small
    /// writes in few pieces.
    fn joined(&self, index: usize, first: Bytes) -> Bytes {
        let Some(chunk) = self.chunks.get(index) else { return first };
        let (stream, mut end) = (chunk.stream, chunk.end());
        let following = self.chunks.iter().skip(index + 1).take_while(|chunk| {
            // Chunks are not joined across a gap.
            let follows = chunk.stream == stream && chunk.start == end;
            end = chunk.end();
            follows
        });
        let mut small = following.take_while(|chunk| chunk.bytes.len() < SMALL_CHUNK).peekable();
        if small.peek().is_none() {
            return first;
        }
        let mut joined = BytesMut::from(&first[..]);
        for chunk in small {
            if joined.len() + chunk.bytes.len() > JOINED_CHUNK {
                break;
            }
            joined.extend_from_slice(&chunk.bytes);
        }
        joined.freeze()
    }

    /// Drops output on disk that the primary reader has taken.
    fn drop_spilled_before(&mut self, cursor: u64) {
        let Some(spill) = &mut self.spill else { return };
        spill.drop_before(cursor);
        if spill.bytes() == 0 {
            self.spill = None;
        }
        let on_disk = self.spill.as_ref().and_then(Spill::first);
        let in_memory = self.chunks.front().map(|chunk| chunk.start);
        self.first = on_disk.or(in_memory).unwrap_or(self.end);
    }

    /// Drops the oldest bytes beyond the limit that the primary reader does not wait for.
    fn evict(&mut self, limit: usize) {
        while self.memory > limit && self.chunks.len() > 1 {
            let Some(oldest) = self.chunks.front() else { return };
            if self.primary.is_some_and(|primary| oldest.end() > primary) {
                return;
            }
            self.first = oldest.end();
            self.memory -= oldest.cost();
            self.chunks.pop_front();
            // Spilled output is older still, so it is dropped too.
            self.spill = None;
        }
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
