//! Reading a log from a cursor on. Every face delivers output through such a reader.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::log::{Cursor, Found, OutputLog, Position};
use super::spec::{ExitStatus, ProcessSummary, Stream};
use super::state::ProcessState;

/// The next item of a log.
#[derive(Debug)]
pub enum Item {
    /// Output of one stream, whole characters where it is text.
    Output {
        /// The stream it was written to.
        stream: Stream,
        /// The bytes that were written.
        bytes: Bytes,
        /// The cursor behind it.
        next: Cursor,
    },
    /// Output that was dropped before this reader read it.
    Lost {
        /// Number of bytes dropped.
        bytes: u64,
        /// The first cursor after the loss.
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
    /// The relay to the keeper ended with its session; the process continues.
    Disconnected,
}

/// One reader of one log, with its own cursor.
#[derive(Debug)]
pub struct LogReader {
    log: Arc<OutputLog>,
    state: watch::Receiver<ProcessState>,
    at: Position,
    /// The number of its claim, if it is the primary reader.
    claim: Option<u64>,
    /// Bytes behind its cursor that are retained for it.
    keep: u64,
    /// Whether the retained output only grows for now.
    is_held: bool,
}

impl LogReader {
    pub(super) fn primary(log: Arc<OutputLog>, from: Cursor) -> LogReader {
        let claim = Some(log.claim(from));
        let at = Position { cursor: from, is_past_exit: false };
        LogReader { state: log.state(), log, at, claim, keep: 0, is_held: false }
    }

    pub(super) fn viewer(log: Arc<OutputLog>, from: Cursor) -> LogReader {
        let at = Position { cursor: from, is_past_exit: false };
        LogReader { state: log.state(), log, at, claim: None, keep: 0, is_held: false }
    }

    pub(super) fn keeping(mut self, keep: u64) -> LogReader {
        self.keep = keep;
        self
    }

    /// Whether this is the primary reader, which the process waits for.
    pub fn is_primary(&self) -> bool {
        self.claim.is_some()
    }

    /// The cursor of this reader.
    pub fn cursor(&self) -> Cursor {
        self.at.cursor
    }

    /// Skips [`Item::Exited`]: for a caller that reads output only, or learns of the exit by the end.
    pub fn ignore_exit(&mut self) {
        self.at.is_past_exit = true;
    }

    /// Retains all output from the retained part on, because a client is about to read it again, until this is called with
    /// `false`. Meanwhile the log grows to disk; when that is full, the process waits.
    pub fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
        if !is_held {
            self.advance(self.at.cursor);
        }
    }

    /// Waits for the next item, of at most `max` bytes. Dropping this future loses nothing: the cursor moves only when an
    /// item is returned.
    pub async fn next(&mut self, max: usize) -> Item {
        loop {
            // Marked as seen before the lookup: an entry appended after it wakes the wait below.
            self.state.mark_unchanged();
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
                    // Dropped while it was loaded, or the disk failed. The next lookup finds what is still held; a
                    // failed disk is reported as a loss.
                    if self.log.holds(start) {
                        self.log.drop_spilled();
                    }
                }
                Found::Nothing => {
                    // The channel cannot be closed while this reader holds the log.
                    let _changed = self.state.changed().await;
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
