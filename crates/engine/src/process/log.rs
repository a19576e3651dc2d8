//! The ordered log of one process: bounded, replayable from any cursor, honest about what it lost.
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

use bytes::{Bytes, BytesMut};
use tokio::sync::{Notify, watch};

use super::spec::{ExitStatus, ProcessSummary, Stream};
use super::spill::{Spill, Spilled};

/// A position in a log: the number of bytes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Cursor(pub u64);

/// What a chunk costs beside its bytes: its entry, and what the allocator keeps. A program that writes byte by byte
/// must not take a hundred times the memory it was given.
const CHUNK_COST: usize = 128;

/// What a log holds beside its bytes. Facts are only ever added.
#[derive(Debug, Clone, Default)]
pub struct ProcessState {
    /// The number of the leader, once it runs.
    pub pid: Option<i32>,
    /// Where the next byte goes.
    pub end: Cursor,
    /// Bytes of standard output, or of the terminal, so far.
    pub stdout_bytes: u64,
    /// Bytes of standard error so far.
    pub stderr_bytes: u64,
    /// The leader has ended; output may still come.
    pub exited: Option<ExitStatus>,
    /// Nothing follows any more.
    pub closed: Option<Arc<ProcessSummary>>,
    /// Nothing more is heard of it here, though it may run on: somebody else keeps it.
    pub is_disconnected: bool,
}

/// Where a reader stands: its cursor, and whether the entry of the exit is behind it.
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
        /// Where it came from.
        stream: Stream,
        /// What was written.
        bytes: Bytes,
        /// The position behind it.
        next: Cursor,
    },
    /// Output on disk; load it off the event loop.
    Spilled(Spilled),
    /// Output before `next` is gone.
    Lost {
        /// How much.
        bytes: u64,
        /// The first position that is still there.
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

/// Whether the writer may push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// There is room, or only bytes that nobody waits for would go.
    Yes,
    /// The primary reader has not taken what would have to go.
    Full,
}

/// How much is given up at once when the disk is full, so that it does not happen for every chunk.
const GIVEN_UP_AT_ONCE: u64 = 1024 * 1024;

/// Chunks below this are told together with those that follow.
const SMALL_CHUNK: usize = 4 * 1024;
/// The most that is put together.
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
    /// How far the primary reader has come; nothing when there is none.
    primary: Option<u64>,
    /// How many primary readers there have been; the number of the one that counts.
    claims: u64,
    /// The primary reader has left and may come back: it is kept what fits, and the process does not wait for it.
    is_away: bool,
}

/// The log itself. Shared between the supervisor and the readers; the lock is held for moments and never across a wait.
#[derive(Debug)]
pub(super) struct OutputLog {
    held: Mutex<Held>,
    facts: watch::Sender<ProcessState>,
    taken: Notify,
    memory_limit: usize,
}

impl OutputLog {
    /// An empty log that keeps at most `memory_limit` bytes in memory.
    pub(super) fn new(memory_limit: usize) -> OutputLog {
        OutputLog::starting_at(Cursor(0), memory_limit)
    }

    /// A log whose first byte will stand at `start`: that of a process which ran before anybody here looked.
    pub(super) fn starting_at(start: Cursor, memory_limit: usize) -> OutputLog {
        OutputLog {
            held: Mutex::new(Held { first: start.0, end: start.0, ..Held::default() }),
            facts: watch::Sender::new(ProcessState { end: start, ..ProcessState::default() }),
            taken: Notify::new(),
            memory_limit,
        }
    }

    /// The facts so far, and a way to wait for more of them.
    pub(super) fn state(&self) -> watch::Receiver<ProcessState> {
        self.facts.subscribe()
    }

    /// The oldest position still held.
    pub(super) fn first(&self) -> Cursor {
        Cursor(self.held().first)
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
        // Output is cut where the exit lies.
        let before_exit =
            exit.map_or(usize::MAX, |exit| usize::try_from(exit.at - from.0).unwrap_or(usize::MAX));
        if from.0 < held.first {
            return Found::Lost { bytes: held.first - from.0, next: Cursor(held.first) };
        }
        if from.0 >= held.end {
            drop(held);
            let facts = self.facts.borrow();
            return match &facts.closed {
                // Without its exit, the end was appended a moment ago: the next look finds both.
                Some(closed) if from >= facts.end && is_past_exit => Found::Closed(closed.clone()),
                None if facts.is_disconnected => Found::Disconnected,
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

    /// Gives up what is on disk and cannot be read back.
    pub(super) fn forget_spilled(&self) {
        self.held().forget_spilled_before(u64::MAX);
    }

    /// Whether what stands at `from` is still held; what was loaded from disk is only true if it is.
    pub(super) fn holds(&self, from: Cursor) -> bool {
        self.held().first <= from.0
    }

    /// Makes the reader at `from` the one that must not lose anything; its number is for `take` and `release`.
    pub(super) fn claim(&self, from: Cursor) -> u64 {
        let mut held = self.held();
        held.primary = Some(from.0);
        held.is_away = false;
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
            held.forget_spilled_before(cursor.0);
            drop(held);
            self.taken.notify_one();
        }
    }

    /// The primary reader is gone: nobody holds back the oldest bytes any more, unless another has taken its place.
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

    /// Drops all that is held of a process that ended, leaving its facts. Readers are told what they lost.
    pub(super) fn forget(&self) {
        let mut held = self.held();
        held.chunks = VecDeque::new();
        held.memory = 0;
        held.spill = None;
        held.first = held.end;
    }

    /// The primary reader has left for a while, or is back.
    pub(super) fn set_away(&self, is_away: bool) {
        self.held().is_away = is_away;
        self.taken.notify_one();
    }

    /// Whether the primary reader has left for a while.
    pub(super) fn is_away(&self) -> bool {
        self.held().is_away
    }

    /// Gives up the oldest output: nobody is there who could take it, and whoever comes back is told.
    pub(super) fn give_up_oldest(&self) {
        let mut held = self.held();
        if let Some(first) = held.spill.as_ref().and_then(Spill::first) {
            held.forget_spilled_before(first.saturating_add(GIVEN_UP_AT_ONCE));
        } else if let Some(oldest) = held.chunks.pop_front() {
            held.memory -= oldest.cost();
            held.first = oldest.end();
        }
    }

    pub(super) fn room(&self) -> Room {
        let held = self.held();
        if held.memory < self.memory_limit {
            return Room::Yes;
        }
        match (held.chunks.front(), held.primary) {
            (Some(oldest), Some(primary)) if oldest.end() > primary => Room::Full,
            _ => Room::Yes,
        }
    }

    /// Waits until the primary reader has moved or gone.
    pub(super) async fn taken(&self) {
        self.taken.notified().await;
    }

    /// Adds output; the oldest goes when memory is full and nobody waits for it.
    pub(super) fn push(&self, stream: Stream, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let end = {
            let mut held = self.held();
            let start = held.end;
            held.end += bytes.len() as u64;
            let chunk = Chunk { start, stream, bytes };
            held.memory += chunk.cost();
            held.chunks.push_back(chunk);
            held.evict(self.memory_limit);
            held.end
        };
        self.facts.send_modify(|facts| {
            let added = end - facts.end.0;
            facts.end = Cursor(end);
            match stream {
                Stream::Stdout | Stream::Terminal => facts.stdout_bytes += added,
                Stream::Stderr => facts.stderr_bytes += added,
            }
        });
    }

    /// Adds output that starts at `start`: what is missing before it will never come, what is there already is left
    /// out, and what no cursor could name is refused.
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

    /// What comes before `next` will never come. A place that was passed already is not gone back to.
    pub(super) fn skip_to(&self, next: Cursor) {
        {
            let mut held = self.held();
            if next.0 <= held.end {
                return;
            }
            held.end = next.0;
        }
        self.facts.send_modify(|facts| facts.end = next);
    }

    pub(super) fn running(&self, pid: i32) {
        self.facts.send_modify(|facts| facts.pid = Some(pid));
    }

    /// Hands out the oldest chunk so that the writer can put it on disk, off the event loop.
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
            held.forget_spilled_before(primary);
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
        self.facts.send_modify(|facts| facts.exited = Some(status));
    }

    /// Appends the entry of the exit behind the output so far. Only the first one counts.
    pub(super) fn append_exit(&self, status: ExitStatus, is_denied: bool) {
        self.held().insert_exit(status, is_denied);
        self.exited(status);
    }

    /// Nobody tells any more what happens to the process.
    pub(super) fn leave(&self) {
        self.facts.send_modify(|facts| facts.is_disconnected = true);
    }

    /// Appends the end, and the exit before it if its place was not known.
    pub(super) fn close(&self, closed: ProcessSummary) {
        self.held().insert_exit(closed.exit, closed.denied.is_some());
        self.facts.send_modify(|facts| {
            facts.exited = Some(closed.exit);
            facts.closed = Some(Arc::new(closed));
        });
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic while holding this lock cannot leave the counters half changed in a way that breaks memory safety;
        // serving what is there beats taking every reader down.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn insert_exit(&mut self, status: ExitStatus, is_denied: bool) {
        let at = self.end;
        self.exit.get_or_insert(ExitEntry { at, status, is_denied });
    }

    /// `first` and the small chunks of the same stream that follow it, as one: a reader that comes late to many small
    /// writes is told of them in few pieces.
    fn joined(&self, index: usize, first: Bytes) -> Bytes {
        let Some(chunk) = self.chunks.get(index) else { return first };
        let (stream, mut end) = (chunk.stream, chunk.end());
        let following = self.chunks.iter().skip(index + 1).take_while(|chunk| {
            // Across a gap nothing is put together.
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

    /// Gives up what the primary reader has taken from disk: a file that is read once need not be kept.
    fn forget_spilled_before(&mut self, cursor: u64) {
        let Some(spill) = &mut self.spill else { return };
        spill.forget_before(cursor);
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
            // Whatever was spilled is older still, so its readers have lost it too.
            self.spill = None;
        }
    }
}

/// At most `max` bytes, ending where a character ends if the bytes are text there.
pub(super) fn cut_at_character(bytes: Bytes, max: usize) -> Bytes {
    if bytes.len() <= max {
        return bytes;
    }
    let whole = max - incomplete_tail(&bytes[..max]);
    // A single character longer than `max` must still move.
    bytes.slice(..if whole == 0 { max } else { whole })
}

/// How many bytes at the end begin a UTF-8 character that is not complete; 0 when the end is whole or no text at all.
pub(super) fn incomplete_tail(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let needs = match byte {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => return 0,
        };
        return if needs > back { back } else { 0 };
    }
    0
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
