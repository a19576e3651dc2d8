//! The audit file: one JSON line per record, each chained to the one before it by a hash.
//!
//! Requests only put a small struct into a bounded queue. One thread takes what gathered within [`BATCH`], hides
//! secrets, formats, chains and appends it under a lock, so that any number of processes share one file and one
//! chain. Nobody ever waits for the disk: what finds the queue full is counted. A file the operator named is tried
//! until it works, so that it loses only what the queue cannot hold; the default one gives up what it cannot write.
//! Either way the file says how many records are missing, where they are missing.

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
pub(crate) use redact::HIDDEN;
pub use redact::{details, is_secret_name, redact_argv, redact_text};
pub use show::{DECISIONS, ShowArgs};
pub use verify::{ChainSummary, VerifyError, verify, verify_command};

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io, thread};

use engine::audit::{AuditRecord, AuditSink};

use crate::config::AuditConfig;
use crate::observe::metrics::{Metrics, QueueGauge};
use queue::RecordQueue;
use writer::Writer;

/// How long records gather before they are written together.
pub const BATCH: Duration = Duration::from_millis(20);

/// Why there is no audit file.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// It cannot be opened or written.
    #[error("the audit file {} cannot be written: {}", path.display(), engine::error::errno_text(source))]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nobody named a file, and there is no home directory to put the default in.
    #[error("there is no home directory for the audit file; set audit.path in the configuration")]
    NoPlace,
}

/// The audit file of a running daemon. Dropping it writes what is left.
pub struct AuditFile {
    queue: Arc<RecordQueue>,
    writing: Mutex<WriterState>,
    /// Set when nobody will wait for a disk that refuses any more.
    closing: Arc<AtomicBool>,
    path: PathBuf,
    /// Shows how many records wait.
    watched: Option<QueueGauge>,
}

/// Who writes.
enum WriterState {
    /// Nobody yet.
    Not(Box<Writer>),
    /// A thread.
    Thread(JoinHandle<()>),
    /// Nobody any more.
    Over,
}

impl fmt::Debug for AuditFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl AuditFile {
    /// Opens what the configuration says: nothing when auditing is off. An error is a reason not to start when
    /// the operator named the file ([`AuditConfig::configured`]), and a loud warning otherwise.
    pub fn from_config(config: &AuditConfig) -> Result<Option<Self>, AuditError> {
        if !config.enabled {
            return Ok(None);
        }
        let path = config.path.as_ref().ok_or(AuditError::NoPlace)?;
        Self::open_quietly(path, config.configured).map(Some)
    }

    /// Opens or creates a file, readable by its owner only, and starts its writer. With `required`, records wait
    /// for a disk that refuses them; otherwise they are counted and given up.
    pub fn open(path: &Path, required: bool) -> Result<Self, AuditError> {
        let file = Self::open_quietly(path, required)?;
        file.start();
        Ok(file)
    }

    /// As [`AuditFile::open`], but its writer is yet to be started. A daemon that ends before [`BATCH`] is over needs none:
    /// what it recorded is written at its end.
    fn open_quietly(path: &Path, required: bool) -> Result<Self, AuditError> {
        let unwritable = |source| AuditError::Unwritable { path: path.to_owned(), source };
        let writer = Writer::open(path, required).map_err(unwritable)?;
        Ok(Self {
            queue: Arc::default(),
            writing: Mutex::new(WriterState::Not(Box::new(writer))),
            closing: Arc::default(),
            path: path.to_owned(),
            watched: None,
        })
    }

    /// Starts the writer, unless it runs.
    pub fn start(&self) {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = match std::mem::replace(&mut *writing, WriterState::Over) {
            WriterState::Not(writer) => writer,
            other => {
                *writing = other;
                return;
            }
        };
        let (records, told) = (Arc::clone(&self.queue), Arc::clone(&self.closing));
        let thread = thread::Builder::new().name("audit".to_owned());
        match thread.spawn(move || run(*writer, &records, &told)) {
            Ok(thread) => *writing = WriterState::Thread(thread),
            Err(error) => {
                tracing::error!(%error, file = %self.path.display(), "NOTHING IS BEING AUDITED: no thread")
            }
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until everything recorded so far is written; with a required file on a full disk, until there is room.
    pub fn flush(&self) {
        self.start();
        let (done, wait) = sync_channel(1);
        self.queue.put_waiting(done);
        // The writer only ends when this queue does, so there is always an answer.
        wait.recv().unwrap_or_default();
    }

    /// Writes what is left and waits for it.
    pub fn close(self) {
        drop(self);
    }

    /// Has what waits and what is lost counted.
    pub fn count_in(&mut self, metrics: &Metrics) {
        self.queue.count_in(metrics);
        let queue = Arc::downgrade(&self.queue);
        let depth = move || queue.upgrade().map_or(0, |queue| queue.depth().0);
        self.watched = Some(metrics.queue("audit", depth));
    }

    /// How many records wait for the disk, and how many were too many since it last took some.
    pub fn waiting(&self) -> (usize, u64) {
        self.queue.depth()
    }
}

impl AuditSink for AuditFile {
    fn record(&self, record: AuditRecord) {
        if self.queue.put(record) {
            self.start();
        }
    }
}

impl Drop for AuditFile {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        self.queue.close();
        let writing = self.writing.get_mut().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(writing, WriterState::Over) {
            WriterState::Not(writer) => run(*writer, &self.queue, &self.closing),
            WriterState::Thread(writer) => {
                // It may be waiting for a disk that refuses.
                writer.thread().unpark();
                if writer.join().is_err() {
                    let file = self.path.display();
                    tracing::error!(%file, "the audit writer ended early; records are missing");
                }
            }
            WriterState::Over => {}
        }
    }
}

/// The writer's life: wait for a record, let a batch gather, write it.
fn run(mut writer: Writer, queue: &RecordQueue, closing: &AtomicBool) {
    while let Some(batch) = queue.take(BATCH) {
        batch.records.iter().for_each(|record| writer.add(record));
        writer.lose(batch.lost);
        writer.write_batch(closing);
        batch.waiting.into_iter().for_each(|done| done.send(()).unwrap_or_default());
    }
    writer.write_last();
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_show;
