//! Roster: the sessions that somebody may come back to, by their names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use link::rpc::InFlight;
use tokio_util::task::TaskTracker;

use super::mailbox::Handle;
use crate::auth::Caller;

/// Every session that is not bound to one link for good. Cheap to clone; locked for moments only.
#[derive(Clone, Default)]
pub struct Roster {
    open: Arc<Mutex<Open>>,
    /// The tasks of all sessions, so that the end of the daemon can wait for them.
    pub(super) tasks: TaskTracker,
}

#[derive(Default)]
struct Open {
    sessions: HashMap<Arc<str>, Handle>,
    /// The requests that run for those who come without a link, by caller.
    requests: HashMap<Arc<str>, InFlight>,
}

impl std::fmt::Debug for Roster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roster").field("sessions", &self.open().sessions.len()).finish_non_exhaustive()
    }
}

impl Roster {
    /// Adds a session that may be looked for.
    pub(super) fn add(&self, handle: Handle) {
        self.open().sessions.insert(handle.id.clone(), handle);
    }

    /// Forgets a session that is over.
    pub(super) fn remove(&self, id: &str) {
        self.open().sessions.remove(id);
    }

    /// The session of this name, if it is this caller's.
    pub(super) fn find(&self, id: &str, caller: &Caller) -> Option<Handle> {
        self.open().sessions.get(id).filter(|handle| handle.asker.caller.name == caller.name).cloned()
    }

    /// The requests that run for a caller who comes without a link.
    pub(super) fn requests_of(&self, caller: &Caller) -> InFlight {
        self.open().requests.entry(caller.name.clone()).or_default().clone()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Nothing in here can panic half way, so a poisoned map is still whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
