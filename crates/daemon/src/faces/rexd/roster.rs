//! Roster: the sessions that somebody may come back to, by their names.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use link::rpc::InFlight;
use tokio_util::task::TaskTracker;

use super::mailbox::Handle;
use crate::net::auth::Caller;

/// Callers whose requests are counted; past it those with none are forgotten.
const CALLERS_KEPT: usize = 1_024;

/// Every session that is not bound to one link for good. Cheap to clone; locked for moments only.
#[derive(Clone, Default)]
pub struct Roster {
    open: Arc<Mutex<Open>>,
    /// How many times a session fell silent.
    silences: Arc<AtomicU64>,
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

    /// Whether no session is left, found by name or not.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until no session is left.
    pub async fn all_over(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Forgets a session that is over.
    pub(super) fn remove(&self, id: &str) {
        self.open().sessions.remove(id);
    }

    /// The session of this name, if it is this caller's.
    pub(super) fn find(&self, id: &str, caller: &Caller) -> Option<Handle> {
        self.open().sessions.get(id).filter(|handle| handle.asker.caller.name == caller.name).cloned()
    }

    /// A number that is larger than that of every session that fell silent before.
    pub(super) fn next_silence(&self) -> u64 {
        self.silences.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The session of this caller that nobody has heard for the longest time, if there is one.
    pub(super) fn longest_silent(&self, caller: &Caller) -> Option<Handle> {
        let open = self.open();
        let own = open.sessions.values().filter(|handle| handle.asker.caller.name == caller.name);
        let silent = own.map(|handle| (handle.silent_since.load(Ordering::Relaxed), handle));
        silent
            .filter(|(since, _)| *since > 0)
            .min_by_key(|(since, _)| *since)
            .map(|(_, handle)| handle.clone())
    }

    /// Ends every session here whose caller `has_to_go`.
    pub fn end_of(&self, has_to_go: impl Fn(&Caller) -> bool) {
        for handle in self.open().sessions.values().filter(|handle| has_to_go(&handle.asker.caller)) {
            tracing::warn!(
                session = &*handle.id,
                caller = &*handle.asker.caller.name,
                "revoked: the session ends"
            );
            handle.end_soon();
        }
    }

    /// The requests that run for a caller who comes without a link.
    pub(super) fn requests_of(&self, caller: &Caller) -> InFlight {
        let mut open = self.open();
        if open.requests.len() >= CALLERS_KEPT {
            open.requests.retain(|_, requests| requests.running() > 0);
        }
        open.requests.entry(caller.name.clone()).or_default().clone()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Nothing in here can panic half way, so a poisoned map is still whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
