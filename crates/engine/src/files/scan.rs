//! The limits of a scan over many files: a deadline and a flag that cancels it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Error;

/// The limits of one long operation: it stops soon after its deadline or its cancellation.
#[derive(Debug, Clone)]
pub struct ScanBudget {
    /// The time at which it fails with [`Error::Deadline`]; `None` for no deadline.
    pub deadline: Option<Instant>,
    /// Set to cancel the operation, which then fails with [`Error::Cancelled`].
    pub cancelled: Arc<AtomicBool>,
    started: Instant,
}

impl ScanBudget {
    /// A scan without a deadline.
    pub fn unbounded() -> Self {
        Self { deadline: None, cancelled: Arc::default(), started: Instant::now() }
    }

    /// A scan with a deadline after `limit`.
    pub fn within(limit: Duration) -> Self {
        let scan = Self::unbounded();
        Self { deadline: scan.started.checked_add(limit), ..scan }
    }

    /// The same scan, cancelled through `flag`.
    pub fn cancelled_by(self, flag: Arc<AtomicBool>) -> Self {
        Self { cancelled: flag, ..self }
    }

    /// Fails if the scan should stop. Cheap enough for each directory, not for each byte.
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
