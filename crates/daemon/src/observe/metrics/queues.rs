//! The lengths of queues, read when the page is rendered, so that the queues themselves count nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Depth = Box<dyn Fn() -> usize + Send + Sync>;

/// All reported queues. The lock is taken when a queue is added or removed and while the page is rendered.
#[derive(Default)]
pub(super) struct Queues {
    next: AtomicU64,
    watched: Mutex<BTreeMap<u64, (&'static str, Depth)>>,
}

impl Queues {
    pub(super) fn watch(self: &Arc<Self>, name: &'static str, depth: Depth) -> QueueGauge {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, (name, depth));
        QueueGauge { queues: self.clone(), number }
    }

    /// The sum of the depths for each name.
    pub(super) fn depths(&self) -> BTreeMap<&'static str, usize> {
        let mut depths = BTreeMap::new();
        for (name, depth) in self.lock().values() {
            *depths.entry(*name).or_default() += depth();
        }
        depths
    }

    /// Locks the map. A panic of another thread leaves it consistent: every change is one call.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (&'static str, Depth)>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queues")
    }
}

/// A queue whose length is reported until this is dropped.
#[derive(Debug)]
#[must_use = "the queue is no longer reported when this is dropped"]
pub struct QueueGauge {
    queues: Arc<Queues>,
    number: u64,
}

impl Drop for QueueGauge {
    fn drop(&mut self) {
        // Dropping the closure can run any code, so it happens after the lock is released.
        let removed = self.queues.lock().remove(&self.number);
        drop(removed);
    }
}
