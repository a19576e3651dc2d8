//! Queues: how deep they are is asked when the metrics are rendered, so that a queue's own way costs nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Depth = Box<dyn Fn() -> usize + Send + Sync>;

/// Every queue that is watched. The lock is taken when a queue comes or goes and while rendering.
#[derive(Default)]
pub(super) struct Queues {
    next: AtomicU64,
    watched: Mutex<BTreeMap<u64, (&'static str, Depth)>>,
}

impl Queues {
    pub(super) fn watch(self: &Arc<Self>, name: &'static str, depth: Depth) -> QueueGauge {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, (name, depth));
        QueueGauge { place: Some((self.clone(), number)) }
    }

    /// The sum of the depths for each name.
    pub(super) fn depths(&self) -> BTreeMap<&'static str, usize> {
        let mut depths = BTreeMap::new();
        for (name, depth) in self.lock().values() {
            *depths.entry(*name).or_default() += depth();
        }
        depths
    }

    /// What another thread left behind after a panic is whole: every change is one call.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (&'static str, Depth)>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queues")
    }
}

/// A queue that is shown in the metrics until this is dropped.
#[derive(Debug)]
#[must_use = "the queue is no longer shown when this is dropped"]
pub struct QueueGauge {
    place: Option<(Arc<Queues>, u64)>,
}

impl QueueGauge {
    /// Nothing is shown.
    pub(super) fn none() -> QueueGauge {
        QueueGauge { place: None }
    }
}

impl Drop for QueueGauge {
    fn drop(&mut self) {
        if let Some((queues, number)) = self.place.take() {
            // What `depth` holds is dropped after the lock is free: it may be anything.
            let removed = queues.lock().remove(&number);
            drop(removed);
        }
    }
}
