//! A train: changes that were asked for one after the other, done one after the other by one thread.
//!
//! A thread that is woken for each of ten thousand small writes, and wakes the event loop after each, does little
//! else. On a train the next write is at hand when the one before is done.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedRwLockWriteGuard, oneshot};
use wire::rexd::v1::RpcError;

type Wagon = Box<dyn FnOnce() + Send>;

/// Changes that share one turn. It ends when nobody holds it any more.
pub(super) struct Train {
    _turn: OwnedRwLockWriteGuard<()>,
    /// As many as may be in flight.
    wagons: Mutex<Wagons>,
}

#[derive(Default)]
struct Wagons {
    waiting: VecDeque<Wagon>,
    is_rolling: bool,
}

impl Train {
    pub(super) fn new(turn: OwnedRwLockWriteGuard<()>) -> Train {
        Train { _turn: turn, wagons: Mutex::default() }
    }

    /// Has the work done after all that was put on before. It is put on before this returns.
    pub(super) fn carry<T, W>(
        self: &Arc<Train>,
        work: W,
    ) -> impl Future<Output = Result<T, RpcError>> + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, RpcError> + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        let wagon: Wagon = Box::new(move || drop(done.send(work())));
        if self.put_on(wagon) {
            let train = self.clone();
            tokio::task::spawn_blocking(move || train.roll());
        }
        async {
            result.await.unwrap_or_else(|_| Err(RpcError::internal("the operation failed inside the server")))
        }
    }

    /// Puts a wagon on; whether somebody has to begin to roll.
    fn put_on(&self, wagon: Wagon) -> bool {
        let mut wagons = self.wagons.lock().unwrap_or_else(PoisonError::into_inner);
        wagons.waiting.push_back(wagon);
        !std::mem::replace(&mut wagons.is_rolling, true)
    }

    fn take_off(&self) -> Option<Wagon> {
        let mut wagons = self.wagons.lock().unwrap_or_else(PoisonError::into_inner);
        let next = wagons.waiting.pop_front();
        wagons.is_rolling = next.is_some();
        next
    }

    fn roll(&self) {
        while let Some(wagon) = self.take_off() {
            // Whoever waits for one that panicked hears of it; the others go on.
            catch_unwind(AssertUnwindSafe(wagon)).ok();
        }
    }
}

impl fmt::Debug for Train {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Train")
    }
}
