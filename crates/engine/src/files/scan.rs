//! The budget of a scan over many files: a deadline and a flag that cancels it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Error;

/// The bounds of one long operation: it stops soon after its deadline or after it was cancelled.
#[derive(Debug, Clone)]
pub struct ScanBudget {
    /// When to give up with [`Error::Deadline`]; none means never.
    pub deadline: Option<Instant>,
    /// Set to cancel the operation, which then fails with [`Error::Cancelled`].
    pub cancelled: Arc<AtomicBool>,
    started: Instant,
}

impl ScanBudget {
    /// A scan that may take as long as it needs.
    pub fn unbounded() -> Self {
        Self { deadline: None, cancelled: Arc::default(), started: Instant::now() }
    }

    /// A scan that gives up after `limit`.
    pub fn within(limit: Duration) -> Self {
        let scan = Self::unbounded();
        Self { deadline: scan.started.checked_add(limit), ..scan }
    }

    /// The same scan, cancelled through `flag`.
    pub fn cancelled_by(self, flag: Arc<AtomicBool>) -> Self {
        Self { cancelled: flag, ..self }
    }

    /// Fails when the scan should stop. Cheap enough to ask for each directory, not for each byte.
    pub(crate) fn check(&self, what: &'static str) -> Result<(), Error> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => {
                Err(Error::Deadline { what, after: deadline.saturating_duration_since(self.started) })
            }
            _ => Ok(()),
        }
    }
}

impl Default for ScanBudget {
    fn default() -> Self {
        Self::unbounded()
    }
}
