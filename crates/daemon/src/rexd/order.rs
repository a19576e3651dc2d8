//! The order of quick requests: what changes files waits for what was asked before it, and is waited for.
//!
//! Looking may overlap with looking. Who asked first goes first, so a write followed by a read or a start behaves as
//! if everything happened in turn, while a long wait or a kill passes by.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// How a request relates to others on the same files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Needs no turn.
    Free,
    /// May overlap with others that look.
    Looks,
    /// Waits for its turn to begin, and lets others pass from then on.
    Scans,
    /// Overlaps with nothing.
    Changes,
}

/// The right to run now. The next in line goes on when it is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "held for what dropping it does")]
pub(super) enum Turn {
    None,
    Shared(OwnedRwLockReadGuard<()>),
    Sole(OwnedRwLockWriteGuard<()>),
}

/// A place in the line.
pub(super) type Place = Pin<Box<dyn Future<Output = Turn> + Send>>;

/// The line of one session.
#[derive(Debug, Clone, Default)]
pub(super) struct Order(Arc<RwLock<()>>);

impl Order {
    /// A turn, if it is free now; else a place in the line, taken at once.
    pub(super) fn turn(&self, kind: Kind) -> Result<Turn, Place> {
        let lock = self.0.clone();
        let mut place: Place = match kind {
            Kind::Free => return Ok(Turn::None),
            Kind::Looks | Kind::Scans => match self.0.clone().try_read_owned() {
                Ok(guard) => return Ok(Order::begun(kind, guard)),
                Err(_busy) => Box::pin(lock.read_owned().map(move |guard| Order::begun(kind, guard))),
            },
            Kind::Changes => match self.0.clone().try_write_owned() {
                Ok(guard) => return Ok(Turn::Sole(guard)),
                Err(_busy) => Box::pin(lock.write_owned().map(Turn::Sole)),
            },
        };
        // The first poll puts it in line.
        match place.as_mut().now_or_never() {
            Some(turn) => Ok(turn),
            None => Err(place),
        }
    }

    fn begun(kind: Kind, guard: OwnedRwLockReadGuard<()>) -> Turn {
        if kind == Kind::Scans { Turn::None } else { Turn::Shared(guard) }
    }

    /// Waits until everything that is in line has had its turn.
    pub(super) async fn settled(&self) {
        drop(self.0.write().await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_waits_for_looks_and_later_looks_wait_for_it() {
        let order = Order::default();
        let first = order.turn(Kind::Looks).ok().expect("free");
        let second = order.turn(Kind::Looks).ok().expect("free");
        let change = order.turn(Kind::Changes).expect_err("in line");
        let mut late = order.turn(Kind::Looks).expect_err("behind the change");
        drop((first, second));
        assert!(late.as_mut().now_or_never().is_none());
        drop(change.await);
        assert!(matches!(late.await, Turn::Shared(_)));
        assert!(matches!(order.turn(Kind::Changes), Ok(Turn::Sole(_))));
    }

    #[tokio::test]
    async fn a_scan_waits_for_its_turn_but_holds_up_nobody() {
        let order = Order::default();
        assert!(matches!(order.turn(Kind::Scans), Ok(Turn::None)));
        let change = order.turn(Kind::Changes).ok().expect("free");
        let scan = order.turn(Kind::Scans).expect_err("in line");
        drop(change);
        scan.await;
        assert!(order.turn(Kind::Changes).is_ok());
    }
}
