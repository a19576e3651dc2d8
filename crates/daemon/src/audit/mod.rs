//! The audit file: one JSON line per record, each chained to the one before it by a hash.
//!
//! Requests only put a small struct into a bounded queue. One thread takes what gathered within [`BATCH`], hides
//! secrets, formats, chains and appends it under a lock, so that any number of processes share one file and one
//! chain. When the queue is full the caller waits. A file the operator named is never given up on; the default
//! one may lose records, and the file says how many.

mod chain;
mod line;
mod redact;
mod verify;
mod writer;

pub use redact::{details, is_secret_name, redact_argv, redact_text};
pub use verify::{Summary, VerifyError, verify, verify_command};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;
use std::{fmt, io, thread};

use engine::audit::{AuditRecord, AuditSink};

use crate::config::AuditConfig;
use writer::Writer;

/// How long records gather before they are written together.
pub const BATCH: Duration = Duration::from_millis(20);
/// Records that may wait for the writer; past it callers wait.
const QUEUE: usize = 1_024;

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

enum Message {
    Record(Box<AuditRecord>),
    /// Everything before this is on its way to the disk when the answer comes.
    Flush(SyncSender<()>),
}

/// The audit file of a running daemon. Dropping it writes what is left.
pub struct AuditFile {
    queue: Option<SyncSender<Message>>,
    writer: Option<JoinHandle<()>>,
    /// Set when nobody will wait for a disk that refuses any more.
    closing: Arc<AtomicBool>,
    path: PathBuf,
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
        Self::open(path, config.configured).map(Some)
    }

    /// Opens or creates a file, readable by its owner only, and starts its writer. With `required`, records wait
    /// for a disk that refuses them; otherwise they are counted and given up.
    pub fn open(path: &Path, required: bool) -> Result<Self, AuditError> {
        let unwritable = |source| AuditError::Unwritable { path: path.to_owned(), source };
        let writer = Writer::open(path, required).map_err(unwritable)?;
        let (queue, messages) = sync_channel(QUEUE);
        let thread = thread::Builder::new().name("audit".to_owned());
        let closing = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&closing);
        let writer = thread.spawn(move || run(writer, &messages, &told)).map_err(unwritable)?;
        Ok(Self { queue: Some(queue), writer: Some(writer), closing, path: path.to_owned() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until everything recorded so far is written; with a required file on a full disk, until there is room.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(1);
        self.send(Message::Flush(done));
        self.wake();
        // The writer only ends when this queue does, so there is always an answer, or nothing to wait for.
        wait.recv().unwrap_or_default();
    }

    /// Writes what is left and waits for it.
    pub fn close(self) {
        drop(self);
    }

    fn send(&self, message: Message) {
        let Some(queue) = &self.queue else { return };
        if let Err(TrySendError::Full(message)) = queue.try_send(message) {
            self.wake();
            // Only a writer that died refuses, and then it has said why.
            queue.send(message).unwrap_or_default();
        }
    }

    /// The writer sleeps while a batch gathers, so that records wake nobody; this ends its sleep.
    fn wake(&self) {
        if let Some(thread) = self.writer.as_ref().map(JoinHandle::thread) {
            Thread::unpark(thread);
        }
    }
}

impl AuditSink for AuditFile {
    fn record(&self, record: AuditRecord) {
        self.send(Message::Record(Box::new(record)));
    }
}

impl Drop for AuditFile {
    fn drop(&mut self) {
        self.queue = None;
        self.closing.store(true, Ordering::Release);
        self.wake();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!(file = %self.path.display(), "the audit writer ended early; records are missing");
        }
    }
}

/// The writer's life: wait for a record, let a batch gather, write it.
fn run(mut writer: Writer, messages: &Receiver<Message>, closing: &AtomicBool) {
    while let Ok(first) = messages.recv() {
        let mut waiting = Vec::new();
        let urgent = matches!(first, Message::Flush(_));
        take(first, &mut writer, &mut waiting);
        if !urgent {
            thread::park_timeout(BATCH);
        }
        for message in messages.try_iter().take(QUEUE) {
            take(message, &mut writer, &mut waiting);
        }
        writer.write_batch(closing);
        waiting.into_iter().for_each(|done| done.send(()).unwrap_or_default());
    }
    writer.write_last();
}

fn take(message: Message, writer: &mut Writer, waiting: &mut Vec<SyncSender<()>>) {
    match message {
        Message::Record(record) => writer.add(&record),
        Message::Flush(done) => waiting.push(done),
    }
}

#[cfg(test)]
mod tests;
