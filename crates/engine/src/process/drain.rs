//! How long to wait for output after the leader has exited.
//!
//! Output of the leader is in the pipes when it exits and is always read. Output that a descendant writes later is read
//! while it keeps coming, up to a limit.

use std::time::Duration;

use tokio::time::Instant;

use super::ProcessLimits;
use super::streams::Output;

/// Decides when a process whose leader has exited is closed.
#[derive(Debug)]
pub(super) struct Drain {
    /// Bytes that each output must have read: those read so far and those in the pipe when the leader exited.
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

    /// When to stop waiting if no more output arrives.
    pub(super) fn until(&self) -> Instant {
        self.quiet_at
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// No output arrived for a while: over, unless output of the leader is still unread.
    pub(super) fn quiet(&mut self, outputs: &[Output]) {
        self.is_over = self.owes_nothing(outputs);
        self.quiet_at = Instant::now() + self.idle;
    }

    /// Whether all output of the leader was read. Counts bytes read from the pipe, including an incomplete character that
    /// is held back.
    pub(super) fn owes_nothing(&self, outputs: &[Output]) -> bool {
        self.owed.iter().zip(outputs).all(|(owed, output)| output.read_bytes() >= *owed)
    }

    /// Notes that output was read, possibly long after it was written because the primary reader was slow.
    pub(super) fn read(&mut self, outputs: &[Output]) {
        let now = Instant::now();
        self.quiet_at = now + self.idle;
        if now >= self.latest && self.owes_nothing(outputs) {
            self.is_over = true;
        }
    }

    /// Notes that an output ended and was removed from the list.
    pub(super) fn ended(&mut self, index: usize) {
        if index < self.owed.len() {
            self.owed.remove(index);
        }
    }
}
