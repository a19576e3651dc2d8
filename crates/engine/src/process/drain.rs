//! How long output is waited for after the leader has ended.
//!
//! What the leader itself wrote is in the pipes when it ends; that much is always read. What somebody else who holds
//! the pipe adds later is waited for while it keeps coming, for a short time at the most.

use std::time::Duration;

use tokio::time::Instant;

use super::Bounds;
use super::streams::Output;

/// Decides when a process whose leader has ended is closed.
#[derive(Debug)]
pub(super) struct Drain {
    /// Bytes of each output that were there when the leader ended.
    owed: Vec<u64>,
    idle: Duration,
    quiet_at: Instant,
    latest: Instant,
    is_over: bool,
}

impl Drain {
    pub(super) fn new(outputs: &[Output], bounds: &Bounds) -> Drain {
        let now = Instant::now();
        Drain {
            owed: outputs.iter().map(Output::waiting_bytes).collect(),
            idle: bounds.drain_idle,
            quiet_at: now + bounds.drain_idle,
            latest: now + bounds.drain_at_most,
            is_over: false,
        }
    }

    /// When to stop waiting if nothing more comes.
    pub(super) fn until(&self) -> Instant {
        self.quiet_at
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Nothing came for a while: over, unless something that was there has not been seen yet.
    pub(super) fn quiet(&mut self) {
        self.is_over = self.owes_nothing();
        self.quiet_at = Instant::now() + self.idle;
    }

    fn owes_nothing(&self) -> bool {
        self.owed.iter().all(|owed| *owed == 0)
    }

    /// Output was read, perhaps long after it was written because its reader was slow.
    pub(super) fn read(&mut self, index: usize, bytes: usize) {
        let now = Instant::now();
        if let Some(owed) = self.owed.get_mut(index) {
            *owed = owed.saturating_sub(bytes as u64);
        }
        self.quiet_at = now + self.idle;
        if now >= self.latest && self.owes_nothing() {
            self.is_over = true;
        }
    }

    /// An output came to its end and left the list.
    pub(super) fn ended(&mut self, index: usize) {
        if index < self.owed.len() {
            self.owed.remove(index);
        }
    }
}
