//! The audit file: one JSON line per record, each chained to the one before it by a hash.
//!
//! A request puts a small struct into a bounded queue. One thread takes the records of each [`BATCH`], replaces secrets,
//! formats and chains them, and appends them under a lock, so that many processes can share one file and one chain. No
//! request waits for the disk. Writes to a configured file are retried until they succeed, and while many records wait,
//! requests are refused. Records that cannot be written to the default file are dropped: the file contains their number
//! at the position where they are missing.

mod chain;
mod line;
mod queue;
mod records;
mod redact;
mod shorten;
mod show;
mod verify;
mod writer;

pub use records::{AuditEntry, printable, read_records};
pub(crate) use redact::{HIDDEN, is_secret_name, redact_argv, redact_text};
pub use show::{DECISIONS, ShowArgs};
pub use verify::{ChainSummary, VerifyError, verify, verify_command};

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io, thread};

use engine::audit::{AuditRecord, AuditSink, RecordPriority};

use crate::config::AuditConfig;
use crate::observe::metrics::{Metrics, QueueGauge};
use queue::RecordQueue;
use writer::Writer;

/// How long records are collected into one write.
pub const BATCH: Duration = Duration::from_millis(20);

/// Why the audit file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file cannot be opened for writing.
    #[error("cannot write the audit file {}: {}", path.display(), engine::error::errno_text(source))]
    Unwritable {
        /// The path of the audit file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// No file is configured, and without a home directory there is no default.
    #[error("no path for the audit file: there is no home directory; set audit.path in the configuration")]
    NoPath,
}

/// The audit file of a running daemon. Dropping it writes the remaining records.
pub struct AuditFile {
    queue: Arc<RecordQueue>,
    writer: Mutex<WriterState>,
    /// Set when the file is dropped: the writer then stops retrying.
    closing: Arc<AtomicBool>,
    path: PathBuf,
    /// Whether no record may be lost.
    required: bool,
    /// Reports the length of the queue.
    watched: Option<QueueGauge>,
}

/// The state of the writer thread.
enum WriterState {
    /// Not started yet.
    Idle(Box<Writer>),
    /// Running.
    Running(JoinHandle<()>),
    /// Stopped, or could not be started.
    Stopped,
}

impl fmt::Debug for AuditFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl AuditFile {
    /// Opens the file of the configuration; `None` when the audit is off. On an error the daemon must not start if the
    /// file is configured ([`AuditConfig::configured`]), and warns otherwise.
    pub fn from_config(config: &AuditConfig) -> Result<Option<Self>, AuditError> {
        if !config.enabled {
            return Ok(None);
        }
        let path = config.path.as_ref().ok_or(AuditError::NoPath)?;
        Self::open(path, config.configured).map(Some)
    }

    /// Opens or creates a file with mode 0600. With `required`, failed writes are retried; otherwise their records are
    /// dropped and counted. A daemon that ends within [`BATCH`] needs no writer thread: dropping the file writes its
    /// records.
    pub fn open(path: &Path, required: bool) -> Result<Self, AuditError> {
        let unwritable = |source| AuditError::Unwritable { path: path.to_owned(), source };
        let writer = Writer::open(path, required).map_err(unwritable)?;
        Ok(Self {
            queue: Arc::default(),
            writer: Mutex::new(WriterState::Idle(Box::new(writer))),
            closing: Arc::default(),
            path: path.to_owned(),
            required,
            watched: None,
        })
    }

    /// Starts the writer thread if it is not running.
    pub fn start(&self) {
        let mut state = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = match std::mem::replace(&mut *state, WriterState::Stopped) {
            WriterState::Idle(writer) => writer,
            other => {
                *state = other;
                return;
            }
        };
        let (records, closing) = (Arc::clone(&self.queue), Arc::clone(&self.closing));
        let thread = thread::Builder::new().name("audit".to_owned());
        match thread.spawn(move || run(*writer, &records, &closing)) {
            Ok(thread) => *state = WriterState::Running(thread),
            Err(error) => {
                tracing::error!(%error, file = %self.path.display(), "cannot start the audit thread: NOTHING IS AUDITED")
            }
        }
    }

    /// Reports the length of the queue and lost records in the metrics.
    pub fn report_to(&mut self, metrics: &Metrics) {
        self.queue.report_to(metrics);
        let queue = Arc::downgrade(&self.queue);
        let depth = move || queue.upgrade().map_or(0, |queue| queue.depth().0);
        self.watched = Some(metrics.queue("audit", depth));
    }
}

impl AuditSink for AuditFile {
    fn record(&self, record: AuditRecord) {
        if self.queue.put(record) {
            self.start();
        }
    }

    fn refusal(&self, record: RecordPriority) -> Option<String> {
        let is_refused = self.required && self.queue.is_full_for(record);
        is_refused.then(|| {
            let path = self.path.display();
            format!("not executed: the audit file {path} cannot be written in time; free space on its disk")
        })
    }
}

impl Drop for AuditFile {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        self.queue.close();
        let state = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(state, WriterState::Stopped) {
            WriterState::Idle(writer) => run(*writer, &self.queue, &self.closing),
            WriterState::Running(writer) => {
                // It may be waiting before a retry.
                writer.thread().unpark();
                if writer.join().is_err() {
                    let file = self.path.display();
                    tracing::error!(%file, "the audit thread panicked; records are missing");
                }
            }
            WriterState::Stopped => {}
        }
    }
}

/// Writes batches until the queue is closed.
fn run(mut writer: Writer, queue: &RecordQueue, closing: &AtomicBool) {
    while let Some(batch) = queue.take(BATCH) {
        batch.records.iter().for_each(|record| writer.add(record));
        writer.add_lost(batch.lost);
        queue.count_lost(writer.write_batch(closing));
    }
    writer.write_last();
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_redact;
#[cfg(test)]
mod tests_show;
