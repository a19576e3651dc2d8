//! One limit on the bytes of all messages that are being received or wait to be handled.
//!
//! A connection takes its bytes from the budget as they arrive. A message keeps its part until its last reference is
//! dropped, so a queue of messages is covered too. [`FREE_BYTES`] of each connection are outside of the budget: small
//! messages are received whatever other connections hold. A connection that needs more than is free waits for a limited
//! time, then its message fails; so partial messages that never complete cannot block the others for good.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::intake::Intake;

/// Bytes of each connection that do not count.
pub const FREE_BYTES: usize = 64 * 1024;
/// Bytes are taken from the budget in multiples of this.
const STEP: usize = 64 * 1024;
/// The time that a connection waits for bytes of the budget, for one message in all; then the message fails.
const WAIT: Duration = Duration::from_secs(10);

/// The budget that connections share. Without a limit by default.
#[derive(Debug, Clone, Default)]
pub struct ByteBudget(Option<Arc<BudgetState>>);

#[derive(Debug)]
struct BudgetState {
    limit: usize,
    free: Arc<Semaphore>,
}

/// The budget stayed exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes are being received (limit {limit}); try again later, or with a smaller message")]
pub struct BudgetExhausted {
    /// The limit of the budget.
    pub limit: usize,
}

impl ByteBudget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> ByteBudget {
        let limit = limit.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        ByteBudget(Some(Arc::new(BudgetState { limit, free: Arc::new(Semaphore::new(limit)) })))
    }

    /// The bytes that are taken.
    pub fn used(&self) -> usize {
        self.0.as_ref().map_or(0, |state| state.limit - state.free.available_permits().min(state.limit))
    }

    /// The share of one connection or request, empty at first.
    pub fn allowance(&self) -> Allowance {
        Allowance { budget: self.clone(), taken: None, waiting: None, deadline: None }
    }
}

type Waiting = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send + Sync>>;

/// What one connection or request has of the budget; returned when this is dropped.
pub struct Allowance {
    budget: ByteBudget,
    taken: Option<OwnedSemaphorePermit>,
    waiting: Option<Waiting>,
    /// When the message fails that had to wait.
    deadline: Option<Instant>,
}

impl Allowance {
    /// Fails for a message that the whole budget cannot hold.
    pub fn check(&self, bytes: usize) -> Result<(), BudgetExhausted> {
        match &self.budget.0 {
            Some(state) if needed(bytes) > state.limit => Err(BudgetExhausted { limit: state.limit }),
            _ => Ok(()),
        }
    }

    /// Takes as much as `bytes` need, if it is free now.
    pub fn try_hold(&mut self, bytes: usize) -> Result<(), BudgetExhausted> {
        let Some(state) = self.budget.0.clone() else { return Ok(()) };
        let Some(more) = self.missing(bytes) else { return Ok(()) };
        match state.free.clone().try_acquire_many_owned(more) {
            Ok(permit) => {
                self.add(permit);
                Ok(())
            }
            Err(_) => Err(BudgetExhausted { limit: state.limit }),
        }
    }

    /// Takes as much as `bytes` need; waits for a limited time.
    pub async fn hold(&mut self, bytes: usize) -> Result<(), BudgetExhausted> {
        poll_fn(|cx| self.poll_hold(cx, bytes)).await
    }

    fn poll_hold(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<Result<(), BudgetExhausted>> {
        loop {
            let Some(state) = self.budget.0.clone() else { return Poll::Ready(Ok(())) };
            let Some(more) = self.missing(bytes) else {
                self.waiting = None;
                return Poll::Ready(Ok(()));
            };
            if self.waiting.is_none() {
                if self.try_hold(bytes).is_ok() {
                    return Poll::Ready(Ok(()));
                }
                // Never free, however long it waits.
                self.check(bytes)?;
            }
            let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + WAIT);
            let acquire = || -> Waiting { Box::pin(acquire(state.free.clone(), more, deadline)) };
            let waiting = self.waiting.get_or_insert_with(acquire);
            let acquired = ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
            match acquired {
                Some(permit) => self.add(permit),
                None => {
                    self.deadline = None;
                    return Poll::Ready(Err(BudgetExhausted { limit: state.limit }));
                }
            }
        }
    }

    /// Takes as much as the next read into a buffer needs, with bytes that were read before. Reads less at once if the
    /// budget is exhausted.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        intake: &mut Intake,
        before: usize,
    ) -> Poll<Result<(), BudgetExhausted>> {
        let held = intake.buffer.len() + before;
        if self.try_hold(held + intake.read_bytes()).is_err() {
            intake.read_less();
        }
        self.poll_hold(cx, held + intake.read_bytes())
    }

    /// Returns what `bytes` do not need.
    pub(crate) fn keep(&mut self, bytes: usize) {
        self.waiting = None;
        let surplus = self.taken().saturating_sub(needed(bytes));
        drop(self.taken.as_mut().and_then(|taken| taken.split(surplus)));
    }

    /// Moves the bytes of a message into it: they are returned when its last reference is dropped.
    pub(crate) fn attach(&mut self, message: Bytes) -> Bytes {
        self.deadline = None;
        let bytes = self.taken().min(message.len());
        match self.taken.as_mut().filter(|_| bytes > 0).and_then(|taken| taken.split(bytes)) {
            Some(permit) => Bytes::from_owner(CountedMessage { message, _permit: permit }),
            None => message,
        }
    }

    /// Takes over what another one has.
    pub(crate) fn merge(&mut self, mut other: Allowance) {
        if let Some(permit) = other.taken.take() {
            self.add(permit);
        }
    }

    fn taken(&self) -> usize {
        self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// The bytes that have to be taken in addition; `None` if there are enough.
    fn missing(&self, bytes: usize) -> Option<u32> {
        let more = needed(bytes).saturating_sub(self.taken());
        // A budget is never larger.
        (more > 0).then(|| u32::try_from(more).unwrap_or(u32::MAX))
    }

    fn add(&mut self, permit: OwnedSemaphorePermit) {
        match &mut self.taken {
            Some(taken) => taken.merge(permit),
            none => *none = Some(permit),
        }
    }
}

impl fmt::Debug for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowance").field("taken", &self.taken()).finish_non_exhaustive()
    }
}

/// What a connection with so many bytes takes from the budget.
fn needed(bytes: usize) -> usize {
    bytes.saturating_sub(FREE_BYTES).next_multiple_of(STEP)
}

async fn acquire(free: Arc<Semaphore>, bytes: u32, deadline: Instant) -> Option<OwnedSemaphorePermit> {
    // The semaphore is never closed.
    tokio::time::timeout_at(deadline, free.acquire_many_owned(bytes)).await.ok()?.ok()
}

struct CountedMessage {
    message: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for CountedMessage {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn small_messages_need_no_budget_and_large_ones_wait_for_a_limited_time() {
        let budget = ByteBudget::new(MIB);
        let (mut greedy, mut other) = (budget.allowance(), budget.allowance());
        greedy.hold(MIB + FREE_BYTES).await.unwrap();
        assert_eq!(budget.used(), MIB);
        other.hold(FREE_BYTES).await.unwrap();
        assert_eq!(other.hold(FREE_BYTES + 1).await, Err(BudgetExhausted { limit: MIB }));
        // Nothing that was waited for is kept, and what becomes free is taken.
        let (waited, ()) = tokio::join!(other.hold(2 * FREE_BYTES), async { greedy.keep(MIB) });
        waited.unwrap();
        assert_eq!(budget.used(), MIB);
        assert!(greedy.try_hold(2 * MIB).is_err());
        drop((greedy, other));
        assert_eq!(budget.used(), 0);
        let mut whole = budget.allowance();
        assert!(whole.hold(2 * MIB).await.is_err(), "more than the whole budget");
        whole.hold(MIB).await.unwrap();
    }

    #[tokio::test]
    async fn a_message_keeps_its_bytes_until_its_last_reference_is_dropped() {
        let budget = ByteBudget::new(4 * MIB);
        let mut allowance = budget.allowance();
        allowance.hold(2 * MIB).await.unwrap();
        let message = allowance.attach(Bytes::from(vec![7; 2 * MIB]));
        allowance.keep(0);
        let part = message.slice(..10);
        drop((message, allowance));
        assert_eq!(budget.used(), 2 * MIB - FREE_BYTES);
        assert_eq!(part, vec![7; 10]);
        drop(part);
        assert_eq!(budget.used(), 0);
    }
}
