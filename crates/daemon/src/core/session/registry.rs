//! The sessions that a later connection may use, by their ids.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::rpc::InFlight;
use link::task::Tasks;
use tokio::time::Instant;

use super::{Face, Retention, SessionHandle};
use crate::net::auth::Caller;

/// Callers whose requests are counted; beyond it, callers without a running request are dropped.
const MAX_CALLERS: usize = 1_024;
/// Reserved ids that are kept; beyond it, the oldest is dropped.
const MAX_RESERVED: usize = 4_096;

/// Every session that is not bound to one connection for good, and the tasks of all sessions of a face.
pub struct SessionRegistry<F: Face> {
    /// How long sessions are kept without a connection.
    pub retention: Retention,
    open: Mutex<OpenSessions<F>>,
    /// Counts how often a session lost its connection, to order them.
    disconnections: AtomicU64,
    tasks: Tasks,
}

struct OpenSessions<F: Face> {
    sessions: HashMap<Arc<str>, SessionHandle<F>>,
    /// The running requests of callers that use no connection.
    requests: HashMap<Arc<str>, InFlight>,
    reserved: ReservedIds,
}

/// The ids that clients have chosen for their sessions, also for those that have ended, and when.
struct ReservedIds {
    ids: VecDeque<(Instant, String)>,
    /// Every one that was reserved after this is in the list.
    complete_since: Instant,
}

impl<F: Face> SessionRegistry<F> {
    /// A registry without sessions.
    pub fn new(retention: Retention) -> SessionRegistry<F> {
        let reserved = ReservedIds { ids: VecDeque::new(), complete_since: Instant::now() };
        let open = OpenSessions { sessions: HashMap::new(), requests: HashMap::new(), reserved };
        SessionRegistry {
            retention,
            open: Mutex::new(open),
            disconnections: AtomicU64::new(0),
            tasks: Tasks::new(),
        }
    }

    pub(super) fn add(&self, handle: SessionHandle<F>) {
        self.open().sessions.insert(handle.id.clone(), handle);
    }

    pub(super) fn remove(&self, id: &str) {
        self.open().sessions.remove(id);
    }

    /// The tasks of all sessions; the end of the daemon waits for them.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Whether no session is open, registered or not.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until no session is open.
    pub async fn wait_empty(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The session with this id, if it is this caller's.
    pub fn find(&self, id: &str, caller: &Caller) -> Option<SessionHandle<F>> {
        self.open().sessions.get(id).filter(|handle| handle.requester.caller.name == caller.name).cloned()
    }

    /// Reserves the id of a session that its client has chosen; false if a session has it or had it. `resent_after` is the time
    /// since the client first sent it, if it did before: false if an earlier daemon may have
    /// received it, or if its id may have been dropped.
    pub fn reserve(&self, id: &str, resent_after: Option<Duration>) -> bool {
        let mut open = self.open();
        let is_complete = resent_after.is_none_or(|age| open.reserved.complete_since.elapsed() > age);
        let is_used = open.sessions.contains_key(id) || open.reserved.ids.iter().any(|(_, used)| used == id);
        if !is_complete || is_used {
            return false;
        }
        open.reserved.ids.push_back((Instant::now(), id.to_owned()));
        if open.reserved.ids.len() > MAX_RESERVED
            && let Some((at, _)) = open.reserved.ids.pop_front()
        {
            open.reserved.complete_since = at;
        }
        true
    }

    /// Cancels the reservation of an id with which no session was opened.
    pub fn release(&self, id: &str) {
        self.open().reserved.ids.retain(|(_, used)| used != id);
    }

    /// A number larger than that of every session that was disconnected before.
    pub(super) fn next_disconnection(&self) -> u64 {
        self.disconnections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How many sessions have no connection.
    pub(super) fn disconnected(&self) -> usize {
        self.open().sessions.values().filter(|handle| handle.disconnected_since() > 0).count()
    }

    /// The caller's session that has been without a connection for the longest time.
    pub fn longest_disconnected(&self, caller: &Caller) -> Option<SessionHandle<F>> {
        let open = self.open();
        let own = open.sessions.values().filter(|handle| handle.requester.caller.name == caller.name);
        let disconnected = own.filter(|handle| handle.disconnected_since() > 0);
        disconnected.min_by_key(|handle| handle.disconnected_since()).cloned()
    }

    /// Ends every session whose caller `is_revoked`.
    pub fn end_revoked(&self, is_revoked: impl Fn(&Caller) -> bool) {
        for handle in self.open().sessions.values().filter(|handle| is_revoked(&handle.requester.caller)) {
            let caller = &*handle.requester.caller.name;
            tracing::warn!(session = &*handle.id, caller, "credentials revoked: ending the session");
            handle.end_soon();
        }
    }

    /// The running requests of a caller that uses no connection.
    pub fn requests_of(&self, caller: &Caller) -> InFlight {
        let mut open = self.open();
        if open.requests.len() >= MAX_CALLERS {
            open.requests.retain(|_, requests| requests.running() > 0);
        }
        open.requests.entry(caller.name.clone()).or_default().clone()
    }

    fn open(&self) -> MutexGuard<'_, OpenSessions<F>> {
        // No code panics while it holds the lock, so the map is consistent.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Face> std::fmt::Debug for SessionRegistry<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionRegistry")
            .field("sessions", &self.open().sessions.len())
            .finish_non_exhaustive()
    }
}
