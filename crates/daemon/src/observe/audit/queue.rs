//! The queue of audit records: limited in bytes, with a count of the records that did not fit.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use engine::audit::{AuditOutcome, AuditRecord, Detail, RecordPriority};

use super::shorten::{MAX_RECORD_BYTES, shorten};
use crate::observe::metrics::Metrics;

/// The maximal size of queued records. Records beyond it are dropped; the file contains their number at the position
/// where they are missing.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The size at which requests are refused if no record may be lost. The rest is for records of what still runs, and of requests
/// that end it.
const REFUSE_BYTES: usize = MAX_BYTES / 2;
/// The size at which requests that end or release something are refused too, so that a client that repeats them causes no loss.
const REFUSE_ALL_BYTES: usize = MAX_BYTES / 4 * 3;
/// The size at which the writer is woken before the batch is due, so that a burst does not fill the queue.
const EARLY_WRITE_BYTES: usize = MAX_BYTES / 8;

/// The queue between requests and the writer. Adding a record never waits for the disk: the lock is held only to move
/// pointers.
#[derive(Debug, Default)]
pub(super) struct RecordQueue {
    state: Mutex<QueueState>,
    wake: Condvar,
    /// The metrics that count lost records, if there are any.
    metrics: OnceLock<Metrics>,
}

#[derive(Debug, Default)]
struct QueueState {
    batch: RecordBatch,
    bytes: usize,
    /// Whether the writer waits for a first record.
    is_idle: bool,
    is_closed: bool,
}

/// The records of one write, and the number of records lost after them.
#[derive(Debug, Default)]
pub(super) struct RecordBatch {
    pub(super) records: Vec<AuditRecord>,
    pub(super) lost: u64,
}

impl RecordBatch {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.lost == 0
    }
}

impl RecordQueue {
    /// Adds a record, or drops and counts it. After a drop, all records are dropped until the next write, so that the
    /// loss has one position in the file. Returns whether the queue should be written soon.
    pub(super) fn put(&self, mut record: AuditRecord) -> bool {
        let mut bytes = size(&record);
        if bytes > MAX_RECORD_BYTES {
            shorten(&mut record);
            bytes = size(&record);
        }
        let mut state = self.state();
        if state.batch.lost > 0 || state.bytes.saturating_add(bytes) > MAX_BYTES {
            state.batch.lost = state.batch.lost.saturating_add(1);
            self.count_lost(1);
        } else {
            state.bytes += bytes;
            state.batch.records.push(record);
        }
        let is_large = state.bytes > EARLY_WRITE_BYTES;
        if state.is_idle || is_large {
            self.wake.notify_one();
        }
        is_large
    }

    /// Whether so many records wait that no request with a record of this priority may run.
    pub(super) fn is_full_for(&self, record: RecordPriority) -> bool {
        let limit = match record {
            RecordPriority::Normal => REFUSE_BYTES,
            RecordPriority::Reserved => REFUSE_ALL_BYTES,
            RecordPriority::Unrecorded => return false,
        };
        let state = self.state();
        state.bytes > limit || state.batch.lost > 0
    }

    /// Counts records that could not be written.
    pub(super) fn count_lost(&self, records: u64) {
        self.metrics.get().into_iter().for_each(|metrics| metrics.audit_lost(records));
    }

    /// Counts lost records in the metrics.
    pub(super) fn report_to(&self, metrics: &Metrics) {
        self.metrics.get_or_init(|| metrics.clone());
    }

    /// The number of queued records, and the number lost after them.
    pub(super) fn depth(&self) -> (usize, u64) {
        let state = self.state();
        (state.batch.records.len(), state.batch.lost)
    }

    /// Closes the queue: no record follows.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.wake.notify_one();
    }

    /// Waits for a first record, then collects more for `delay`, so that most records do not wake the writer. `None`
    /// when the queue is closed and empty.
    pub(super) fn take(&self, delay: Duration) -> Option<RecordBatch> {
        let mut state = self.state();
        while state.batch.is_empty() && !state.is_closed {
            state.is_idle = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_idle = false;
        let is_collecting = |state: &mut QueueState| !state.is_closed && state.bytes <= EARLY_WRITE_BYTES;
        let waited = self.wake.wait_timeout_while(state, delay, is_collecting);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.bytes = 0;
        let batch = std::mem::take(&mut state.batch);
        (!batch.is_empty()).then_some(batch)
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The approximate size of a record in memory.
fn size(record: &AuditRecord) -> usize {
    let detail = |detail: &Detail| match detail {
        Detail::Text(text) | Detail::Shell(text) => text.len(),
        Detail::Argv(texts) | Detail::List(texts) => {
            texts.iter().map(|text| size_of::<String>() + text.len()).sum()
        }
        Detail::Number(_) | Detail::Flag(_) | Detail::Hidden { .. } => 0,
    };
    let details = record.details.iter().map(|(name, value)| {
        size_of::<(std::borrow::Cow<'static, str>, Detail)>() + name.len() + detail(value)
    });
    let message = match &record.outcome {
        AuditOutcome::Done(summary) => summary.len(),
        AuditOutcome::Failed { message, .. } => message.len(),
    };
    size_of::<AuditRecord>() + record.operation.len() + message + details.sum::<usize>()
}
