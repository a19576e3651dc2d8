//! Formats batches of records and appends them to the file, under a lock that all writers of the file take.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::audit::AuditRecord;
use rustix::fs::{FlockOperation, flock};

use super::chain::{self, Hash};
use super::line;
use super::verify::scan;

/// The pause before a retry of a required file.
const RETRY: Duration = Duration::from_millis(500);
/// How much of the end of the file is read to find its last line.
const TAIL: u64 = 4 * 1024;
/// How much is read if the last line is longer than [`TAIL`].
const LONG_TAIL: u64 = 64 * 1024;

/// The single writer of this process.
pub(super) struct Writer {
    path: PathBuf,
    required: bool,
    file: File,
    /// Bodies of the records to write, each without its closing brace.
    bodies: Vec<Vec<u8>>,
    /// The number of lost records before these.
    lost: u64,
    /// The number of lost records after these.
    lost_after: u64,
    /// The length of the file after the last write, and the hash of its last line.
    end: Option<(u64, Hash)>,
    /// Whether the last attempt failed: a failure is logged once, not at every attempt.
    is_failing: bool,
}

impl Writer {
    pub(super) fn open(path: &Path, required: bool) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        let file = open_file(path)?;
        let bodies = Vec::new();
        let path = path.to_owned();
        Ok(Self { path, required, file, bodies, lost: 0, lost_after: 0, end: None, is_failing: false })
    }

    pub(super) fn add(&mut self, record: &AuditRecord) {
        let mut body = Vec::with_capacity(512);
        line::body(record, &mut body);
        self.bodies.push(body);
    }

    /// Counts records that were lost after those added so far.
    pub(super) fn add_lost(&mut self, records: u64) {
        self.lost_after = self.lost_after.saturating_add(records);
    }

    /// Writes the added records and returns how many were dropped. Writes to a required file are retried until they
    /// succeed or `closing` is set; the queue fills meanwhile.
    pub(super) fn write_batch(&mut self, closing: &AtomicBool) -> u64 {
        while !self.bodies.is_empty() || self.lost_after > 0 {
            match self.append() {
                Ok(()) => return 0,
                Err(error) => self.log_failure(&error),
            }
            if closing.load(Ordering::Acquire) {
                return 0;
            }
            if self.required {
                std::thread::park_timeout(RETRY);
            } else {
                let dropped = self.bodies.len() as u64;
                self.lost += dropped + std::mem::take(&mut self.lost_after);
                self.bodies.clear();
                return dropped;
            }
        }
        0
    }

    /// Writes the added records without a retry, when the daemon stops.
    pub(super) fn write_last(&mut self) {
        if (!self.bodies.is_empty() || self.lost > 0 || self.lost_after > 0)
            && let Err(error) = self.append()
        {
            self.log_failure(&error);
        }
    }

    fn log_failure(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::error!(file = %self.path.display(), %error, "cannot write the audit file");
        }
    }

    fn append(&mut self) -> io::Result<()> {
        let same =
            std::fs::metadata(&self.path).and_then(|there| Ok(is_same(&there, &self.file.metadata()?)));
        if !same.unwrap_or(false) {
            // The file was moved, as log rotation does: a new file starts a new chain.
            self.file = open_file(&self.path)?;
            self.end = None;
        }
        flock(&self.file, FlockOperation::LockExclusive)?;
        let result = self.append_locked();
        flock(&self.file, FlockOperation::Unlock)?;
        result
    }

    fn append_locked(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let mut batch = Vec::new();
        let mut last = match self.end {
            Some((end, hash)) if end == length => hash,
            _ => self.find_last(length, &mut batch)?,
        };
        last = append_loss(self.lost, &mut batch, last);
        for body in &self.bodies {
            last = chain::append(&mut batch, body, &last);
        }
        last = append_loss(self.lost_after, &mut batch, last);
        if let Err(error) = self.file.write_all(&batch) {
            // An incomplete batch would leave a line that is not a record.
            rustix::fs::ftruncate(&self.file, length)?;
            return Err(error);
        }
        self.end = Some((length + batch.len() as u64, last));
        self.bodies.clear();
        (self.lost, self.lost_after, self.is_failing) = (0, 0, false);
        Ok(())
    }

    /// The last bytes of a file of this length.
    fn tail(&self, bytes: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut tail = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut tail, length - bytes)?;
        Ok(tail)
    }

    /// The hash that the next line continues. If the file ends with bytes that are not a record, such as the incomplete
    /// line of a crash, a line that accounts for them is added first.
    fn find_last(&mut self, length: u64, batch: &mut Vec<u8>) -> io::Result<Hash> {
        if length == 0 {
            return Ok(Hash::default());
        }
        let mut tail = self.tail(length.min(TAIL), length)?;
        if length > TAIL && !tail.strip_suffix(b"\n").unwrap_or(&tail).contains(&b'\n') {
            tail = self.tail(length.min(LONG_TAIL), length)?;
        }
        let complete = tail.strip_suffix(b"\n");
        let text = complete.unwrap_or(&tail);
        let line = &text[text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)..];
        if complete.is_none() {
            batch.push(b'\n');
        }
        if let Some(links) = chain::links(line) {
            return Ok(links.hash);
        }
        let scan = scan(&self.path)?;
        let mut body = Vec::new();
        line::recovered(&scan.unaccounted, &mut body);
        Ok(chain::append(batch, &body, &scan.last))
    }
}

fn append_loss(lost: u64, batch: &mut Vec<u8>, last: Hash) -> Hash {
    if lost == 0 {
        return last;
    }
    let mut body = Vec::new();
    line::lost(lost, &mut body);
    chain::append(batch, &body, &last)
}

fn is_same(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    one.dev() == other.dev() && one.ino() == other.ino()
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}
