//! The shelf: sessions between two connections, kept for a while, and which sessions are in use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::Service;
use super::session::Session;

/// How long a session waits for its client.
const KEPT_FOR: Duration = Duration::from_secs(30);
/// Sessions that wait at the same time; one more ends at once.
const MOST_WAITING: usize = 1_024;
/// How long somebody who asks for a session in use is put off before the connection that has it must give way. A client
/// asks only when its own connection is broken, even if nobody has told us yet.
const GIVES_WAY_AFTER: Duration = Duration::from_millis(500);

/// Every session of the face.
#[derive(Debug, Default)]
pub struct Shelf {
    slots: Mutex<HashMap<Arc<str>, Slot>>,
}

#[derive(Debug)]
enum Slot {
    /// A connection has it.
    Attached {
        /// Who it belongs to.
        caller: Arc<str>,
        /// Ends that connection.
        hang_up: CancellationToken,
        /// When somebody else first asked for it.
        wanted_since: Option<Instant>,
    },
    /// It waits.
    Waiting {
        session: Box<Session>,
        /// Ends the task that would end it.
        taken: CancellationToken,
    },
}

/// Why a session cannot be taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unavailable {
    /// There is none, or it is over, or it is somebody else's.
    Unknown,
    /// A connection has it; trying again soon may succeed.
    Attached,
}

impl Shelf {
    /// A new session is in use.
    pub(super) fn begin(&self, id: &Arc<str>, caller: &Arc<str>, hang_up: CancellationToken) {
        let slot = Slot::Attached { caller: caller.clone(), hang_up, wanted_since: None };
        self.slots().insert(id.clone(), slot);
    }

    /// Takes a session up that waits.
    pub(super) fn take(
        &self,
        id: &str,
        caller: &Arc<str>,
        hang_up: CancellationToken,
    ) -> Result<Box<Session>, Unavailable> {
        let mut slots = self.slots();
        let (key, slot) = slots.remove_entry(id).ok_or(Unavailable::Unknown)?;
        let (kept, found) = match slot {
            Slot::Waiting { session, taken } if session.asker.caller.name == *caller => {
                taken.cancel();
                let caller = caller.clone();
                (Slot::Attached { caller, hang_up, wanted_since: None }, Ok(session))
            }
            Slot::Attached { caller: owner, hang_up, wanted_since } if owner == *caller => {
                let since = wanted_since.unwrap_or_else(Instant::now);
                if since.elapsed() > GIVES_WAY_AFTER {
                    hang_up.cancel();
                }
                let wanted_since = Some(since);
                (Slot::Attached { caller: owner, hang_up, wanted_since }, Err(Unavailable::Attached))
            }
            others => (others, Err(Unavailable::Unknown)),
        };
        slots.insert(key, kept);
        found
    }

    /// Its connection is gone: it waits for the next one, and ends when none comes.
    pub(super) fn park(&self, service: &Arc<Service>, session: Box<Session>) -> Result<(), Box<Session>> {
        let (id, taken) = (session.id.clone(), CancellationToken::new());
        let mut slots = self.slots();
        let waiting = slots.values().filter(|slot| matches!(slot, Slot::Waiting { .. })).count();
        if waiting >= MOST_WAITING || service.stop.is_cancelled() {
            slots.remove(&id);
            return Err(session);
        }
        slots.insert(id.clone(), Slot::Waiting { session, taken: taken.clone() });
        drop(slots);
        let service = service.clone();
        service.tasks.clone().spawn(async move {
            tokio::select! {
                () = taken.cancelled() => return,
                () = tokio::time::sleep(KEPT_FOR) => {}
                () = service.stop.cancelled() => {}
            }
            if let Some(session) = service.shelf.expire(&id, &taken) {
                session.close().await;
            }
        });
        Ok(())
    }

    /// A session is over.
    pub(super) fn end(&self, id: &str) {
        self.slots().remove(id);
    }

    fn expire(&self, id: &str, taken: &CancellationToken) -> Option<Box<Session>> {
        let mut slots = self.slots();
        if taken.is_cancelled() {
            return None;
        }
        match slots.remove(id) {
            Some(Slot::Waiting { session, .. }) => Some(session),
            Some(other) => {
                slots.insert(id.into(), other);
                None
            }
            None => None,
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Arc<str>, Slot>> {
        // Held for moments; nothing in here can panic half way.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
