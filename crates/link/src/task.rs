//! Spawned tasks with an owner: the only place of the workspace that calls `tokio::spawn`.

use std::ops::Deref;
use std::pin::Pin;

use futures_util::FutureExt as _;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::TaskTracker;

/// A future of any type: spawned as such, the runtime's part is compiled once, and not for every future.
pub type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The tasks of one owner, which waits for them. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tasks(TaskTracker);

impl Tasks {
    /// An owner that has no tasks yet.
    pub fn new() -> Tasks {
        Tasks::default()
    }

    /// Runs a future on the current tokio runtime until it ends. Panics outside of one.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + Send + 'static) {
        // An `async` block around it would reserve memory for the future twice.
        self.spawn_boxed(Box::pin(future.map(drop)));
    }

    /// The same with a future that is boxed already.
    pub fn spawn_boxed(&self, future: BoxedFuture<()>) {
        self.0.spawn(future);
    }

    /// Runs a future at once as far as it does not wait, and the rest as a task.
    pub fn begin(&self, future: impl Future<Output = ()> + Send + 'static) {
        let mut future: BoxedFuture<()> = Box::pin(future);
        if future.as_mut().now_or_never().is_none() {
            self.spawn_boxed(future);
        }
    }
}

impl Deref for Tasks {
    type Target = TaskTracker;

    fn deref(&self) -> &TaskTracker {
        &self.0
    }
}

/// A spawned task and the right to its result. Dropping this aborts the task at its next `.await`; [`OwnedTask::join`]
/// waits for its end, and [`OwnedTask::stop`] aborts it and waits.
///
/// Use it for a task with one owner. An owner of many tasks keeps [`Tasks`] or a `JoinSet`.
#[derive(Debug)]
#[must_use = "dropping the owner aborts the task"]
pub struct OwnedTask<T> {
    /// Empty once the task is detached.
    handle: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> OwnedTask<T> {
    /// Runs `future` on the current tokio runtime. Panics outside of one.
    pub fn spawn(future: impl Future<Output = T> + Send + 'static) -> OwnedTask<T> {
        let future: BoxedFuture<T> = Box::pin(future);
        OwnedTask { handle: Some(tokio::spawn(future)) }
    }

    /// Requests cancellation without waiting for it.
    pub fn abort(&self) {
        if let Some(handle) = &self.handle {
            handle.abort();
        }
    }

    /// True after the task has returned, panicked or been cancelled.
    pub fn is_finished(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the task. Dropping this future aborts the task.
    ///
    /// # Errors
    ///
    /// The task panicked, or was cancelled.
    pub async fn join(mut self) -> Result<T, JoinError> {
        match &mut self.handle {
            Some(handle) => handle.await,
            // `detach` consumes the task, so a handle is always there.
            None => std::future::pending().await,
        }
    }

    /// Aborts the task and waits until its future has been dropped. Panics of the task are ignored.
    pub async fn stop(self) {
        self.abort();
        // The result is discarded: it was cancelled, or had finished.
        self.join().await.ok();
    }

    /// Lets the task run without an owner. Only for a task that ends by itself within a bounded time or with its link.
    pub(crate) fn detach(mut self) {
        self.handle.take();
    }
}

impl<T> Drop for OwnedTask<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn join_returns_the_result_of_the_task() {
        assert_eq!(OwnedTask::spawn(async { 7 }).join().await.unwrap(), 7);
    }

    #[tokio::test]
    async fn dropping_the_owner_ends_the_task() {
        let (held, ended) = oneshot::channel::<()>();
        let task = OwnedTask::spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        assert!(!task.is_finished());
        drop(task);
        // The sender is dropped with the task's future.
        ended.await.unwrap_err();
    }

    #[tokio::test]
    async fn stop_returns_after_the_future_was_dropped() {
        let (held, mut ended) = oneshot::channel::<()>();
        let task = OwnedTask::spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        task.stop().await;
        assert_eq!(ended.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }

    #[tokio::test]
    async fn dropping_a_pending_join_ends_the_task() {
        let (held, ended) = oneshot::channel::<()>();
        let task = OwnedTask::spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        let mut join = Box::pin(task.join());
        assert!(futures_util::poll!(&mut join).is_pending());
        drop(join);
        ended.await.unwrap_err();
    }
}
