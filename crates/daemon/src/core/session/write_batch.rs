//! Consecutive writes on one worker thread.
//!
//! Waking a thread for each of ten thousand small writes, and the event loop after each, costs more than the writes. In
//! a batch the thread finds the next write in the queue when it has finished one.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedRwLockWriteGuard, oneshot};
use wire::jsonrpc::RpcError;

type WriteTask = Box<dyn FnOnce() + Send>;

/// Writes that share one turn. The turn ends when the last handle is dropped.
pub struct WriteBatch {
    _guard: OwnedRwLockWriteGuard<()>,
    /// As many tasks as requests may be in flight.
    queue: Mutex<WriteQueue>,
}

#[derive(Default)]
struct WriteQueue {
    tasks: VecDeque<WriteTask>,
    is_running: bool,
}

impl WriteBatch {
    pub(super) fn new(guard: OwnedRwLockWriteGuard<()>) -> WriteBatch {
        WriteBatch { _guard: guard, queue: Mutex::default() }
    }

    /// Runs a task after all tasks that were queued before it. It is queued before this returns.
    pub fn run<T, W>(self: &Arc<WriteBatch>, work: W) -> impl Future<Output = Result<T, RpcError>> + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, RpcError> + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        if self.push(Box::new(move || drop(done.send(work())))) {
            let batch = self.clone();
            tokio::task::spawn_blocking(move || batch.drain());
        }
        async {
            result
                .await
                .unwrap_or_else(|_panicked| Err(RpcError::internal("the operation failed inside the server")))
        }
    }

    /// Queues a task; true if no thread works on the queue yet.
    fn push(&self, task: WriteTask) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.tasks.push_back(task);
        !std::mem::replace(&mut queue.is_running, true)
    }

    fn pop(&self) -> Option<WriteTask> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let next = queue.tasks.pop_front();
        queue.is_running = next.is_some();
        next
    }

    fn drain(&self) {
        while let Some(task) = self.pop() {
            // The requester of a task that panicked gets an error; the others run.
            catch_unwind(AssertUnwindSafe(task)).ok();
        }
    }
}

impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteBatch")
    }
}
