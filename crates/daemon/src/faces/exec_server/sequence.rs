//! Sequence numbers of a process's notifications, from 1 without gaps, and where in its log each chunk of output lies.
//!
//! The bytes stay in the engine's log. The index records which of them belong to which number, so that a chunk that is
//! read again is the chunk that was sent.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use engine::process::{Cursor, Stream};
use tokio::sync::watch;

/// A chunk of output with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputChunk {
    pub(super) seq: u64,
    pub(super) stream: Stream,
    pub(super) start: Cursor,
    pub(super) end: Cursor,
}

impl OutputChunk {
    pub(super) fn bytes(&self) -> u64 {
        self.end.0 - self.start.0
    }
}

/// The exit of a process as clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessExit {
    pub(super) exit_code: i32,
    pub(super) is_denied: bool,
}

/// The state of one process as clients see it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SequenceState {
    /// The next number.
    pub(super) next: u64,
    pub(super) exited: Option<ProcessExit>,
    pub(super) closed_at: Option<Instant>,
    /// Whether it could not be started: its id is then unknown.
    pub(super) has_failed: bool,
    pub(super) is_running: bool,
    /// How many reads there were.
    pub(super) reads: u64,
    /// Whether some of its output was dropped: chunks then carry their offset.
    pub(super) has_lost: bool,
}

/// The index of one process. Its events write it, requests read it.
#[derive(Debug)]
pub(super) struct SequenceIndex {
    chunks: Mutex<VecDeque<OutputChunk>>,
    state: watch::Sender<SequenceState>,
}

impl SequenceIndex {
    pub(super) fn new() -> SequenceIndex {
        let state = SequenceState { next: 1, ..SequenceState::default() };
        SequenceIndex { chunks: Mutex::default(), state: watch::Sender::new(state) }
    }

    pub(super) fn state(&self) -> SequenceState {
        *self.state.borrow()
    }

    /// Notifies of every change.
    pub(super) fn subscribe(&self) -> watch::Receiver<SequenceState> {
        self.state.subscribe()
    }

    /// Numbers a chunk of output. Chunks before `first`, which the log no longer holds, are removed.
    pub(super) fn output(&self, stream: Stream, (start, end): (Cursor, Cursor), first: Cursor) -> u64 {
        let seq = self.state().next;
        let mut chunks = self.chunks();
        let mut has_lost = false;
        while chunks.front().is_some_and(|chunk| chunk.start < first) {
            chunks.pop_front();
            has_lost = true;
        }
        chunks.push_back(OutputChunk { seq, stream, start, end });
        drop(chunks);
        self.count(|state| state.has_lost |= has_lost)
    }

    /// Changes the state and notifies of it.
    pub(super) fn update(&self, change: impl FnOnce(&mut SequenceState)) {
        self.state.send_modify(change);
    }

    /// Assigns a number to the exit.
    pub(super) fn exited(&self, exit: ProcessExit) -> u64 {
        self.count(|state| state.exited = Some(exit))
    }

    /// Numbers the end of the output.
    pub(super) fn closed(&self) -> u64 {
        self.count(|state| state.closed_at = Some(Instant::now()))
    }

    /// The chunks after `after`, up to `max` bytes but at least one, and whether there are more.
    pub(super) fn after(&self, after: u64, max: u64) -> (Vec<OutputChunk>, bool) {
        let chunks = self.chunks();
        let from = chunks.partition_point(|chunk| chunk.seq <= after);
        let mut bytes = 0;
        let mut found = Vec::new();
        for chunk in chunks.range(from..) {
            bytes += chunk.bytes();
            if bytes > max && !found.is_empty() {
                return (found, true);
            }
            found.push(*chunk);
        }
        (found, false)
    }

    fn count(&self, change: impl FnOnce(&mut SequenceState)) -> u64 {
        let mut seq = 0;
        self.state.send_modify(|state| {
            seq = state.next;
            state.next += 1;
            change(state);
        });
        seq
    }

    fn chunks(&self) -> MutexGuard<'_, VecDeque<OutputChunk>> {
        // No code panics while it holds the lock.
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_chunk_comes_whole_and_the_rest_as_far_as_it_fits() {
        let numbers = SequenceIndex::new();
        for (start, end) in [(0, 10), (10, 15), (15, 20)] {
            numbers.output(Stream::Stdout, (Cursor(start), Cursor(end)), Cursor(0));
        }
        let seqs = |after, most| {
            let (chunks, has_more) = numbers.after(after, most);
            (chunks.iter().map(|chunk| chunk.seq).collect::<Vec<_>>(), has_more)
        };
        assert_eq!(seqs(0, 0), (vec![1], true));
        assert_eq!(seqs(0, 15), (vec![1, 2], true));
        assert_eq!(seqs(0, u64::MAX), (vec![1, 2, 3], false));
        assert_eq!(seqs(2, 5), (vec![3], false));
        assert_eq!(seqs(3, 5), (vec![], false));
    }

    #[test]
    fn every_fact_has_the_next_number_and_old_chunks_go_with_the_log() {
        let numbers = SequenceIndex::new();
        assert_eq!(numbers.output(Stream::Stdout, (Cursor(0), Cursor(5)), Cursor(0)), 1);
        assert_eq!(numbers.output(Stream::Stdout, (Cursor(5), Cursor(9)), Cursor(5)), 2);
        assert_eq!(numbers.exited(ProcessExit { exit_code: 0, is_denied: false }), 3);
        assert_eq!(numbers.closed(), 4);
        assert_eq!(numbers.state().next, 5);
        assert_eq!(numbers.after(0, u64::MAX).0.len(), 1);
    }
}
