//! CopyStats: the counters of a copy, for the progress line and the summary.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

use super::error::CopyError;
use crate::output;

/// The counters of a copy.
#[derive(Debug)]
pub(super) struct CopyStats {
    started: Instant,
    json: bool,
    /// Bytes to copy, and bytes done.
    total: AtomicU64,
    passed: AtomicU64,
    /// Bytes that were transferred, some of them more than once.
    sent: AtomicU64,
    files: AtomicU64,
    bytes: AtomicU64,
    skipped: AtomicU64,
    left_out: AtomicU64,
    failed: AtomicU64,
    /// Whether a progress line is drawn; the lock keeps other lines out of it.
    shown: Mutex<bool>,
}

/// The summary that `--json` prints.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct CopySummary {
    /// Files that were copied.
    pub(super) files: u64,
    /// Bytes in copied files.
    pub(super) bytes: u64,
    /// Files that were identical already.
    pub(super) skipped: u64,
    /// Symbolic links and special files that were skipped.
    pub(super) left_out: u64,
    /// Files that could not be copied.
    pub(super) failed: u64,
    /// The duration of the copy.
    pub(super) seconds: f64,
}

impl CopyStats {
    pub(super) fn new(json: bool) -> CopyStats {
        CopyStats {
            started: Instant::now(),
            json,
            total: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            shown: Mutex::new(false),
        }
    }

    pub(super) fn expects(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that are done.
    pub(super) fn passed(&self, bytes: u64) {
        self.passed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that are done and were transferred for it.
    pub(super) fn sent(&self, bytes: u64) {
        self.passed(bytes);
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes that were transferred so far.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn copied(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn skipped(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, error: &CopyError) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.clear();
        match self.json {
            true => output::json_failure(&error.failure),
            false => match &error.failure.hint {
                Some(hint) => output::note(format!("{} ({hint})", error.failure.message)),
                None => output::note(&error.failure.message),
            },
        }
    }

    /// Counts and reports an entry that is not copied.
    pub(super) fn left_out(&self, path: &str, why: &str) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
        self.note(format!("skipped {path}: {why}"));
    }

    /// Prints a note on stderr.
    pub(super) fn note(&self, text: impl std::fmt::Display) {
        self.clear();
        output::note(text);
    }

    /// Draws the progress line over the previous one.
    pub(super) fn show(&self, line: &str) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        output::draw_line(line);
        *shown = true;
    }

    /// Clears the progress line.
    pub(super) fn clear(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *shown) {
            output::draw_line("");
        }
    }

    pub(super) fn progress(&self) -> (u64, u64, f64) {
        let seconds = self.started.elapsed().as_secs_f64();
        (self.passed.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed), seconds)
    }

    pub(super) fn summary(&self) -> CopySummary {
        let number = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        CopySummary {
            files: number(&self.files),
            bytes: number(&self.bytes),
            skipped: number(&self.skipped),
            left_out: number(&self.left_out),
            failed: number(&self.failed),
            seconds: (self.started.elapsed().as_secs_f64() * 1e3).round() / 1e3,
        }
    }
}
