//! Reading a log from a cursor on: what every delivery, of every face, comes down to.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::log::{Cursor, Found, OutputLog, Position, ProcessState};
use super::spec::{ExitStatus, ProcessSummary, Stream};

/// The next thing a reader is told.
#[derive(Debug)]
pub enum Item {
    /// Output of one stream, whole characters where it is text.
    Output {
        /// Where it came from.
        stream: Stream,
        /// What was written.
        bytes: Bytes,
        /// The position behind it.
        next: Cursor,
    },
    /// Output that this reader will not see.
    Lost {
        /// How much.
        bytes: u64,
        /// Where it goes on.
        next: Cursor,
    },
    /// The leader has exited. All output that it wrote came before; output of its descendants may follow.
    Exited {
        /// How the leader ended.
        status: ExitStatus,
        /// Whether its sandbox denied something, as far as the output so far shows.
        is_denied: bool,
    },
    /// The end; nothing follows. The exit came before.
    Closed(Arc<ProcessSummary>),
    /// Nothing more is told here: the session ends, and the process lives on with whoever keeps it.
    Disconnected,
}

/// One reader of one log, at its own place.
#[derive(Debug)]
pub struct LogReader {
    log: Arc<OutputLog>,
    facts: watch::Receiver<ProcessState>,
    at: Position,
    /// Its number, if it is the one that must not lose anything.
    claim: Option<u64>,
    /// How much of what it has taken is kept for it.
    keep: u64,
    /// Whether everything is kept that it takes from now on, and what was kept before.
    is_held: bool,
}

impl LogReader {
    pub(super) fn primary(log: Arc<OutputLog>, from: Cursor) -> LogReader {
        let claim = Some(log.claim(from));
        let at = Position { cursor: from, is_past_exit: false };
        LogReader { facts: log.state(), log, at, claim, keep: 0, is_held: false }
    }

    pub(super) fn viewer(log: Arc<OutputLog>, from: Cursor) -> LogReader {
        let at = Position { cursor: from, is_past_exit: false };
        LogReader { facts: log.state(), log, at, claim: None, keep: 0, is_held: false }
    }

    pub(super) fn keeping(mut self, keep: u64) -> LogReader {
        self.keep = keep;
        self
    }

    /// Whether this is the reader the process waits for.
    pub fn is_primary(&self) -> bool {
        self.claim.is_some()
    }

    /// Where this reader is.
    pub fn cursor(&self) -> Cursor {
        self.at.cursor
    }

    /// Skips [`Item::Exited`]: for a caller that reads output only, or learns of the exit by the end.
    pub fn ignore_exit(&mut self) {
        self.at.is_past_exit = true;
    }

    /// Has everything kept that it was given lately and is given from now on: somebody is about to read it again. Until
    /// it is no longer held; meanwhile the log goes to disk, and then the process waits.
    pub fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
        if !is_held {
            self.advance(self.at.cursor);
        }
    }

    /// Waits for the next item, of at most `max` bytes. Dropping this future loses nothing: what was taken is what
    /// was returned.
    pub async fn next(&mut self, max: usize) -> Item {
        loop {
            // Marked as seen before looking: whatever is added after this wakes the wait below.
            self.facts.mark_unchanged();
            match self.log.look(self.at, max) {
                Found::Output { stream, bytes, next } => {
                    self.advance(next);
                    return Item::Output { stream, bytes, next };
                }
                Found::Lost { bytes, next } => {
                    self.advance(next);
                    return Item::Lost { bytes, next };
                }
                Found::Exited(exit) => {
                    self.at.is_past_exit = true;
                    return Item::Exited { status: exit.status, is_denied: exit.is_denied };
                }
                Found::Closed(closed) => return Item::Closed(closed),
                Found::Disconnected => return Item::Disconnected,
                Found::Spilled(spilled) => {
                    let start = spilled.start();
                    let loaded = tokio::task::spawn_blocking(move || spilled.load()).await;
                    if let (Ok(Ok((stream, bytes, next))), true) = (loaded, self.log.holds(start)) {
                        self.advance(next);
                        return Item::Output { stream, bytes, next };
                    }
                    // Given up while it was loaded, or the disk failed: what is still held is found by looking again,
                    // and a disk that fails for good is declared as loss.
                    if self.log.holds(start) {
                        self.log.forget_spilled();
                    }
                }
                Found::Nothing => {
                    // The log outlives its readers' interest: a closed channel cannot happen while we hold it.
                    let _changed = self.facts.changed().await;
                }
            }
        }
    }

    fn advance(&mut self, next: Cursor) {
        self.at.cursor = next;
        if let Some(claim) = self.claim.filter(|_| !self.is_held) {
            self.log.take(claim, Cursor(next.0.saturating_sub(self.keep)));
        }
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        if let Some(claim) = self.claim {
            self.log.release(claim);
        }
    }
}
