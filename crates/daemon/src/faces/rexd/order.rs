//! The order of quick requests: what changes files waits for what was asked before it, and is waited for.
//!
//! Looking may overlap with looking. Who asked first goes first, so a write followed by a read or a start behaves as
//! if everything happened in turn, while a long wait or a kill passes by.

use std::pin::Pin;
use std::sync::{Arc, Weak};

use futures_util::FutureExt as _;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::train::Train;

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
    /// The same, and done by `Train::carry`: if nothing else was asked for since the one before, it goes along on its turn.
    Follows,
}

/// The right to run now. The next in line goes on when it is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "held for what dropping it does")]
pub(super) enum Turn {
    None,
    Shared(OwnedRwLockReadGuard<()>),
    Sole(OwnedRwLockWriteGuard<()>),
    /// A turn that changes share which follow each other.
    Train(Arc<Train>),
}

/// A place in the line.
pub(super) type Place = Pin<Box<dyn Future<Output = Turn> + Send>>;

/// The line of one session.
#[derive(Debug, Clone, Default)]
pub(super) struct Order {
    line: Arc<RwLock<()>>,
    /// The train that runs, as long as nobody stands in line behind it.
    train: Weak<Train>,
}

impl Order {
    /// A turn, if it is free now; else a place in the line, taken at once.
    pub(super) fn turn(&mut self, kind: Kind) -> Result<Turn, Place> {
        let turn = self.find(kind);
        if turn.is_err() {
            // Whoever comes now stands behind this one.
            self.train = Weak::new();
        }
        turn
    }

    fn find(&mut self, kind: Kind) -> Result<Turn, Place> {
        let lock = self.line.clone();
        let mut place: Place = match kind {
            Kind::Free => return Ok(Turn::None),
            Kind::Looks | Kind::Scans => match self.line.clone().try_read_owned() {
                Ok(guard) => return Ok(Order::begun(kind, guard)),
                Err(_busy) => Box::pin(lock.read_owned().map(move |guard| Order::begun(kind, guard))),
            },
            Kind::Follows if let Some(train) = self.train.upgrade() => return Ok(Turn::Train(train)),
            Kind::Changes | Kind::Follows => match self.line.clone().try_write_owned() {
                Ok(guard) if kind == Kind::Follows => {
                    let train = Arc::new(Train::new(guard));
                    self.train = Arc::downgrade(&train);
                    return Ok(Turn::Train(train));
                }
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
        drop(self.line.write().await);
    }
}

#[cfg(test)]
mod tests {
    use wire::rexd::v1::RpcError;

    use super::*;

    /// ARCHITECTURE.md, invariant 21.
    #[tokio::test]
    async fn a_change_waits_for_looks_and_later_looks_wait_for_it() {
        let mut order = Order::default();
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

    /// ARCHITECTURE.md, invariant 21.
    #[tokio::test]
    async fn a_scan_waits_for_its_turn_but_holds_up_nobody() {
        let mut order = Order::default();
        assert!(matches!(order.turn(Kind::Scans), Ok(Turn::None)));
        let change = order.turn(Kind::Changes).ok().expect("free");
        let scan = order.turn(Kind::Scans).expect_err("in line");
        drop(change);
        scan.await;
        assert!(order.turn(Kind::Changes).is_ok());
    }

    #[tokio::test]
    async fn changes_that_follow_each_other_share_a_turn_until_somebody_stands_in_line() {
        let mut order = Order::default();
        let (Ok(Turn::Train(first)), Ok(Turn::Train(second))) =
            (order.turn(Kind::Follows), order.turn(Kind::Follows))
        else {
            panic!("the second goes along with the first");
        };
        assert!(Arc::ptr_eq(&first, &second));
        let (said, heard) = std::sync::mpsc::channel();
        let say = |what| {
            let said = said.clone();
            move || said.send(what).map_err(|_| RpcError::internal("nobody hears it"))
        };
        let broken = first.carry(|| -> Result<(), RpcError> { panic!("as asked for") });
        let (one, two) = (first.carry(say(1)), second.carry(say(2)));
        let look = order.turn(Kind::Looks).expect_err("behind the train");
        let third = order.turn(Kind::Follows).expect_err("behind the look");
        assert!(broken.await.is_err());
        assert!(two.await.is_ok() && one.await.is_ok());
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [1, 2]);
        drop((first, second));
        drop(look.await);
        assert!(matches!(third.await, Turn::Sole(_)));
        assert!(matches!(order.turn(Kind::Follows), Ok(Turn::Train(_))));
    }
}
