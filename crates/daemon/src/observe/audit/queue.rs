//! The queue: what waits for the audit writer, bounded by its bytes, and the count of what did not fit.

use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use engine::audit::{AuditOutcome, AuditRecord, Detail};

use super::shorten::{MOST_BYTES, shorten};
use crate::observe::metrics::Metrics;

/// How much may wait for a disk that does not take it. Past it records are counted and not kept; the file says
/// how many, in the place where they are missing.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Past this the writer comes at once: a flood must not fill the rest while it gathers.
const MUCH_BYTES: usize = MAX_BYTES / 8;

/// Records on their way to the writer. Putting one in never waits for the disk: the lock is held only to move
/// pointers.
#[derive(Debug, Default)]
pub(super) struct RecordQueue {
    state: Mutex<State>,
    wake: Condvar,
    /// Where losses are counted, once somebody counts.
    metrics: OnceLock<Metrics>,
}

#[derive(Debug, Default)]
struct State {
    batch: RecordBatch,
    bytes: usize,
    /// Whether the writer sleeps until there is something at all.
    is_idle: bool,
    is_closed: bool,
}

/// What the writer takes at once, in its order: records, then how many after them are missing.
#[derive(Debug, Default)]
pub(super) struct RecordBatch {
    pub(super) records: Vec<AuditRecord>,
    pub(super) lost: u64,
    /// Who wants to know when all before this is written.
    pub(super) waiting: Vec<SyncSender<()>>,
}

impl RecordBatch {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.lost == 0 && self.waiting.is_empty()
    }
}

impl RecordQueue {
    /// Puts a record in, or counts it. Once one was counted, so are all until the writer comes: the gap has one
    /// place. Tells whether it is time that somebody writes.
    pub(super) fn put(&self, mut record: AuditRecord) -> bool {
        let mut bytes = size(&record);
        if bytes > MOST_BYTES {
            shorten(&mut record);
            bytes = size(&record);
        }
        let mut state = self.state();
        if state.batch.lost > 0 || state.bytes.saturating_add(bytes) > MAX_BYTES {
            state.batch.lost = state.batch.lost.saturating_add(1);
            self.metrics.get().into_iter().for_each(|metrics| metrics.audit_lost(1));
        } else {
            state.bytes += bytes;
            state.batch.records.push(record);
        }
        let is_much = state.bytes > MUCH_BYTES;
        if state.is_idle || is_much {
            self.wake.notify_one();
        }
        is_much
    }

    /// Asks to be told when everything before this is written.
    pub(super) fn put_waiting(&self, done: SyncSender<()>) {
        self.state().batch.waiting.push(done);
        self.wake.notify_one();
    }

    /// Has losses counted.
    pub(super) fn count_in(&self, metrics: &Metrics) {
        self.metrics.get_or_init(|| metrics.clone());
    }

    /// How many records wait, and how many after them are missing.
    pub(super) fn depth(&self) -> (usize, u64) {
        let state = self.state();
        (state.batch.records.len(), state.batch.lost)
    }

    /// Nothing comes after this.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.wake.notify_one();
    }

    /// Everything that gathered: waits for a first record, and then a moment for more, so that most records wake
    /// nobody. None once the queue is closed and empty.
    pub(super) fn take(&self, gather: Duration) -> Option<RecordBatch> {
        let mut state = self.state();
        while state.batch.is_empty() && !state.is_closed {
            state.is_idle = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_idle = false;
        let is_gathering = |state: &mut State| {
            state.batch.waiting.is_empty() && !state.is_closed && state.bytes <= MUCH_BYTES
        };
        let waited = self.wake.wait_timeout_while(state, gather, is_gathering);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.bytes = 0;
        let batch = std::mem::take(&mut state.batch);
        (!batch.is_empty()).then_some(batch)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// About how much memory a record holds.
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
