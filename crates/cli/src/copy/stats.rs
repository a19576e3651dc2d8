//! CopyStats: the counters of a copy, for the progress line and the summary.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

use super::error::CopyError;
use super::progress::size;
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
    links: AtomicU64,
    deleted: AtomicU64,
    /// Files whose hashes are being compared.
    verifying: AtomicU64,
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
    /// Symbolic links that were created.
    pub(super) links: u64,
    /// Files that were identical already.
    pub(super) skipped: u64,
    /// Special files, and links that the target cannot create.
    pub(super) left_out: u64,
    /// Files that could not be copied.
    pub(super) failed: u64,
    /// Files and directories that were removed from the destination.
    pub(super) deleted: u64,
    /// The duration of the copy.
    pub(super) seconds: f64,
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CopyProgress {
    pub(super) passed: u64,
    pub(super) total: u64,
    pub(super) seconds: f64,
    /// Whether hashes of complete files are compared.
    pub(super) is_verifying: bool,
}

/// A file whose hashes are compared.
#[derive(Debug)]
pub(super) struct Verification<'a>(&'a CopyStats);

impl Drop for Verification<'_> {
    fn drop(&mut self) {
        self.0.verifying.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CopySummary {
    /// The summary in one line for people.
    pub(super) fn line(&self) -> String {
        let count = |number: u64, one: &str, many: &str| match number {
            1 => format!("1 {one}"),
            _ => format!("{number} {many}"),
        };
        let mut copied = format!("{} ({})", count(self.files, "file", "files"), size(self.bytes));
        if self.links > 0 {
            copied.push_str(&format!(", {}", count(self.links, "link", "links")));
        }
        let mut line = format!("copied {copied} in {:.1} s", self.seconds);
        let others = [
            (self.skipped, "unchanged"),
            (self.deleted, "deleted"),
            (self.left_out, "skipped"),
            (self.failed, "failed"),
        ];
        for (number, what) in others.into_iter().filter(|(number, _)| *number > 0) {
            line.push_str(&format!(", {number} {what}"));
        }
        line
    }
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
            links: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            verifying: AtomicU64::new(0),
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

    pub(super) fn linked(&self) {
        self.links.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn deleted(&self) {
        self.deleted.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a file whose hashes are compared until the result is dropped.
    pub(super) fn verifying(&self) -> Verification<'_> {
        self.verifying.fetch_add(1, Ordering::Relaxed);
        Verification(self)
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

    /// Ends the progress line, so that it stays on the screen; does nothing if none is drawn.
    pub(super) fn finish_line(&self, line: &str) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *shown) {
            output::draw_line(line);
            output::end_line();
        }
    }

    /// Clears the progress line.
    pub(super) fn clear(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *shown) {
            output::draw_line("");
        }
    }

    pub(super) fn progress(&self) -> CopyProgress {
        let number = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let total = number(&self.total);
        CopyProgress {
            // What was sent twice counts once.
            passed: number(&self.passed).min(total),
            total,
            seconds: self.started.elapsed().as_secs_f64(),
            is_verifying: number(&self.verifying) > 0,
        }
    }

    pub(super) fn summary(&self) -> CopySummary {
        let number = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        CopySummary {
            files: number(&self.files),
            bytes: number(&self.bytes),
            skipped: number(&self.skipped),
            links: number(&self.links),
            left_out: number(&self.left_out),
            failed: number(&self.failed),
            deleted: number(&self.deleted),
            seconds: (self.started.elapsed().as_secs_f64() * 1e3).round() / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_happened_and_nothing_else() {
        let summary = CopySummary {
            files: 1,
            bytes: 1536,
            links: 0,
            skipped: 0,
            left_out: 0,
            failed: 0,
            deleted: 0,
            seconds: 0.25,
        };
        assert_eq!(summary.line(), "copied 1 file (1.5 KiB) in 0.2 s");
        let summary =
            CopySummary { files: 0, bytes: 0, links: 2, skipped: 3, deleted: 1, failed: 4, ..summary };
        assert_eq!(
            summary.line(),
            "copied 0 files (0 B), 2 links in 0.2 s, 3 unchanged, 1 deleted, 4 failed"
        );
    }
}
