//! Numbers: every fact about a process in one gapless count from 1, and where in its log each piece of output lies.
//!
//! Bytes stay in the engine's log; here is only which of them belong to which number, so that a piece that is read again
//! is the piece that was told.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use engine::process::{Cursor, Stream};
use tokio::sync::watch;

/// A piece of output with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) seq: u64,
    pub(super) stream: Stream,
    pub(super) start: Cursor,
    pub(super) end: Cursor,
}

impl Piece {
    pub(super) fn bytes(&self) -> u64 {
        self.end.0 - self.start.0
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) exit_code: i32,
    pub(super) is_denied: bool,
}

/// What is known of one process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    /// The number that the next fact gets.
    pub(super) next: u64,
    pub(super) exited: Option<Ended>,
    pub(super) closed_at: Option<Instant>,
    /// It could not be started: it is as if it had never been.
    pub(super) never_ran: bool,
    pub(super) is_running: bool,
    /// How often it was read from.
    pub(super) reads: u64,
    /// Whether some of its output is kept no longer: from then on it is said where in all of it a piece lies.
    pub(super) has_given_up: bool,
}

/// The facts of one process. Its pump writes, requests read.
#[derive(Debug)]
pub(super) struct Numbers {
    pieces: Mutex<VecDeque<Piece>>,
    state: watch::Sender<State>,
}

impl Numbers {
    pub(super) fn new() -> Numbers {
        let state = State { next: 1, ..State::default() };
        Numbers { pieces: Mutex::default(), state: watch::Sender::new(state) }
    }

    pub(super) fn state(&self) -> State {
        *self.state.borrow()
    }

    /// To wait for more.
    pub(super) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Numbers a piece of output that ends at `end`. What the log no longer holds before `first` is given up here too.
    pub(super) fn output(&self, stream: Stream, (start, end): (Cursor, Cursor), first: Cursor) -> u64 {
        let seq = self.state().next;
        let mut pieces = self.pieces();
        let mut gives_up = false;
        while pieces.front().is_some_and(|piece| piece.start < first) {
            pieces.pop_front();
            gives_up = true;
        }
        pieces.push_back(Piece { seq, stream, start, end });
        drop(pieces);
        self.count(|state| state.has_given_up |= gives_up)
    }

    /// Some output was given up before it had a number.
    pub(super) fn gave_up(&self) {
        self.state.send_modify(|state| state.has_given_up = true);
    }

    pub(super) fn running(&self) {
        self.state.send_modify(|state| state.is_running = true);
    }

    /// Somebody has read what they wanted.
    pub(super) fn was_read(&self) {
        self.state.send_modify(|state| state.reads += 1);
    }

    pub(super) fn never_ran(&self) {
        self.state.send_modify(|state| state.never_ran = true);
    }

    /// Numbers the end of the leader.
    pub(super) fn exited(&self, ended: Ended) -> u64 {
        self.count(|state| state.exited = Some(ended))
    }

    /// Numbers the end of everything.
    pub(super) fn closed(&self) -> u64 {
        self.count(|state| state.closed_at = Some(Instant::now()))
    }

    /// The pieces behind `after`, as many as `most` bytes are, but one in any case; and whether there are more.
    pub(super) fn after(&self, after: u64, most: u64) -> (Vec<Piece>, bool) {
        let pieces = self.pieces();
        let from = pieces.partition_point(|piece| piece.seq <= after);
        let mut bytes = 0;
        let mut found = Vec::new();
        for piece in pieces.range(from..) {
            bytes += piece.bytes();
            if bytes > most && !found.is_empty() {
                return (found, true);
            }
            found.push(*piece);
        }
        (found, false)
    }

    fn count(&self, change: impl FnOnce(&mut State)) -> u64 {
        let mut seq = 0;
        self.state.send_modify(|state| {
            seq = state.next;
            state.next += 1;
            change(state);
        });
        seq
    }

    fn pieces(&self) -> MutexGuard<'_, VecDeque<Piece>> {
        // Held for moments; nothing in here can panic half way.
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_piece_comes_whole_and_the_rest_as_far_as_it_fits() {
        let numbers = Numbers::new();
        for (start, end) in [(0, 10), (10, 15), (15, 20)] {
            numbers.output(Stream::Stdout, (Cursor(start), Cursor(end)), Cursor(0));
        }
        let seqs = |after, most| {
            let (pieces, has_more) = numbers.after(after, most);
            (pieces.iter().map(|piece| piece.seq).collect::<Vec<_>>(), has_more)
        };
        assert_eq!(seqs(0, 0), (vec![1], true));
        assert_eq!(seqs(0, 15), (vec![1, 2], true));
        assert_eq!(seqs(0, u64::MAX), (vec![1, 2, 3], false));
        assert_eq!(seqs(2, 5), (vec![3], false));
        assert_eq!(seqs(3, 5), (vec![], false));
    }

    #[test]
    fn every_fact_has_the_next_number_and_old_pieces_go_with_the_log() {
        let numbers = Numbers::new();
        assert_eq!(numbers.output(Stream::Stdout, (Cursor(0), Cursor(5)), Cursor(0)), 1);
        assert_eq!(numbers.output(Stream::Stdout, (Cursor(5), Cursor(9)), Cursor(5)), 2);
        assert_eq!(numbers.exited(Ended { exit_code: 0, is_denied: false }), 3);
        assert_eq!(numbers.closed(), 4);
        assert_eq!(numbers.state().next, 5);
        assert_eq!(numbers.after(0, u64::MAX).0.len(), 1);
    }
}
