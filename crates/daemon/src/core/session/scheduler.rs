//! The order of a session's requests: a write waits for what arrived before it, and later requests wait for the write.
//!
//! Reads overlap with reads. A write that is followed by a read or a start behaves as if both ran in turn, while a long
//! wait or a kill is never held up.

use std::pin::Pin;
use std::sync::{Arc, Weak};

use futures_util::FutureExt as _;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::super::table::Schedule;
use super::write_batch::WriteBatch;

/// The right to run now. Requests behind it continue when it is dropped.
#[derive(Debug)]
pub enum SchedulerGuard {
    /// No order to keep.
    None,
    /// Together with other reads.
    Shared(OwnedRwLockReadGuard<()>),
    /// Alone.
    Exclusive(OwnedRwLockWriteGuard<()>),
    /// Alone, as part of a run of consecutive writes.
    Batch(Arc<WriteBatch>),
}

/// A place in the queue; resolves when the request may run.
pub type Waiting = Pin<Box<dyn Future<Output = SchedulerGuard> + Send>>;

/// Orders the requests of one session.
#[derive(Debug, Clone, Default)]
pub struct RequestScheduler {
    lock: Arc<RwLock<()>>,
    /// The batch that runs, while no other request waits behind it.
    batch: Weak<WriteBatch>,
}

impl RequestScheduler {
    /// A guard if the request may run now, else its place in the queue, taken at once.
    pub fn schedule(&mut self, class: Schedule) -> Result<SchedulerGuard, Waiting> {
        let guard = self.try_schedule(class);
        if guard.is_err() {
            // A later write must not overtake this request by joining the batch.
            self.batch = Weak::new();
        }
        guard
    }

    fn try_schedule(&mut self, class: Schedule) -> Result<SchedulerGuard, Waiting> {
        let lock = self.lock.clone();
        let mut waiting: Waiting = match class {
            Schedule::Immediate => return Ok(SchedulerGuard::None),
            Schedule::Read | Schedule::Scan => match self.lock.clone().try_read_owned() {
                Ok(guard) => return Ok(shared(class, guard)),
                Err(_locked) => Box::pin(lock.read_owned().map(move |guard| shared(class, guard))),
            },
            Schedule::Write if let Some(batch) = self.batch.upgrade() => {
                return Ok(SchedulerGuard::Batch(batch));
            }
            Schedule::Exclusive | Schedule::Write => match self.lock.clone().try_write_owned() {
                Ok(guard) if class == Schedule::Write => {
                    let batch = Arc::new(WriteBatch::new(guard));
                    self.batch = Arc::downgrade(&batch);
                    return Ok(SchedulerGuard::Batch(batch));
                }
                Ok(guard) => return Ok(SchedulerGuard::Exclusive(guard)),
                Err(_locked) => Box::pin(lock.write_owned().map(SchedulerGuard::Exclusive)),
            },
        };
        // The first poll enters the queue of the lock.
        match waiting.as_mut().now_or_never() {
            Some(guard) => Ok(guard),
            None => Err(waiting),
        }
    }

    /// Waits until every request in the queue has run.
    pub async fn drained(&self) {
        drop(self.lock.write().await);
    }
}

fn shared(class: Schedule, guard: OwnedRwLockReadGuard<()>) -> SchedulerGuard {
    if class == Schedule::Scan { SchedulerGuard::None } else { SchedulerGuard::Shared(guard) }
}

#[cfg(test)]
mod tests {
    use wire::jsonrpc::RpcError;

    use super::*;

    /// ARCHITECTURE.md, invariant 21.
    #[tokio::test]
    async fn a_write_waits_for_reads_and_later_reads_wait_for_it() {
        let mut scheduler = RequestScheduler::default();
        let first = scheduler.schedule(Schedule::Read).ok().expect("free");
        let second = scheduler.schedule(Schedule::Read).ok().expect("free");
        let write = scheduler.schedule(Schedule::Exclusive).expect_err("in the queue");
        let mut late = scheduler.schedule(Schedule::Read).expect_err("behind the write");
        drop((first, second));
        assert!(late.as_mut().now_or_never().is_none());
        drop(write.await);
        assert!(matches!(late.await, SchedulerGuard::Shared(_)));
        assert!(matches!(scheduler.schedule(Schedule::Exclusive), Ok(SchedulerGuard::Exclusive(_))));
    }

    /// ARCHITECTURE.md, invariant 21.
    #[tokio::test]
    async fn a_scan_waits_for_its_turn_but_delays_no_other_request() {
        let mut scheduler = RequestScheduler::default();
        assert!(matches!(scheduler.schedule(Schedule::Scan), Ok(SchedulerGuard::None)));
        let write = scheduler.schedule(Schedule::Exclusive).ok().expect("free");
        let scan = scheduler.schedule(Schedule::Scan).expect_err("in the queue");
        drop(write);
        scan.await;
        assert!(scheduler.schedule(Schedule::Exclusive).is_ok());
    }

    #[tokio::test]
    async fn consecutive_writes_share_a_batch_until_another_request_waits() {
        let mut scheduler = RequestScheduler::default();
        let (Ok(SchedulerGuard::Batch(first)), Ok(SchedulerGuard::Batch(second))) =
            (scheduler.schedule(Schedule::Write), scheduler.schedule(Schedule::Write))
        else {
            panic!("the second write joins the first");
        };
        assert!(Arc::ptr_eq(&first, &second));
        let (done, order) = std::sync::mpsc::channel();
        let task = |number| {
            let done = done.clone();
            move || done.send(number).map_err(|_| RpcError::internal("closed"))
        };
        let broken = first.run(|| -> Result<(), RpcError> { panic!("on purpose") });
        let (one, two) = (first.run(task(1)), second.run(task(2)));
        let read = scheduler.schedule(Schedule::Read).expect_err("behind the batch");
        let third = scheduler.schedule(Schedule::Write).expect_err("behind the read");
        assert!(broken.await.is_err());
        assert!(two.await.is_ok() && one.await.is_ok());
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [1, 2]);
        drop((first, second));
        drop(read.await);
        assert!(matches!(third.await, SchedulerGuard::Exclusive(_)));
        assert!(matches!(scheduler.schedule(Schedule::Write), Ok(SchedulerGuard::Batch(_))));
    }
}
