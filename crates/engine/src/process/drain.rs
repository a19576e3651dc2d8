//! How long output is waited for after the leader has ended.
//!
//! What the leader itself wrote is in the pipes when it ends; that much is always read. What somebody else who holds
//! the pipe adds later is waited for while it keeps coming, for a short time at the most.

use std::time::Duration;

use tokio::time::Instant;

use super::ProcessLimits;
use super::streams::Output;

/// Decides when a process whose leader has ended is closed.
#[derive(Debug)]
pub(super) struct Drain {
    /// How far each output goes with what was there when the leader ended.
    owed: Vec<u64>,
    idle: Duration,
    quiet_at: Instant,
    latest: Instant,
    is_over: bool,
}

impl Drain {
    pub(super) fn new(outputs: &[Output], bounds: &ProcessLimits) -> Drain {
        let now = Instant::now();
        Drain {
            owed: outputs.iter().map(|output| output.read_bytes() + output.waiting_bytes()).collect(),
            idle: bounds.drain_idle,
            quiet_at: now + bounds.drain_idle,
            latest: now + bounds.drain_max,
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
    pub(super) fn quiet(&mut self, outputs: &[Output]) {
        self.is_over = self.owes_nothing(outputs);
        self.quiet_at = Instant::now() + self.idle;
    }

    /// Counts what was read from the pipe, not what was made of it: half a character is read and held back.
    pub(super) fn owes_nothing(&self, outputs: &[Output]) -> bool {
        self.owed.iter().zip(outputs).all(|(owed, output)| output.read_bytes() >= *owed)
    }

    /// Output was read, perhaps long after it was written because its reader was slow.
    pub(super) fn read(&mut self, outputs: &[Output]) {
        let now = Instant::now();
        self.quiet_at = now + self.idle;
        if now >= self.latest && self.owes_nothing(outputs) {
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
