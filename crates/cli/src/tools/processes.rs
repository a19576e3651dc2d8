//! TrackedProcesses: the processes that a caller started or attached to.

use std::sync::{Arc, Mutex, PoisonError};

use super::process_owner::ProcessOwner;
use super::tracked::TrackedProcess;

/// Exited processes that are kept; beyond it, the oldest is dropped.
const MAX_ENDED: usize = 64;

/// The tracked processes of the toolboxes of one caller.
#[derive(Debug, Default)]
pub struct TrackedProcesses {
    all: Mutex<Vec<Arc<TrackedProcess>>>,
    /// The caller, where a server has several.
    owner: Option<ProcessOwner>,
}

impl TrackedProcesses {
    /// No processes yet, of this caller.
    pub fn of(owner: Option<ProcessOwner>) -> TrackedProcesses {
        TrackedProcesses { owner, ..TrackedProcesses::default() }
    }

    /// Adds a process that the caller has started.
    pub(super) fn add_started(&self, process: Arc<TrackedProcess>) {
        // Other processes end with their session, which belongs to this caller alone.
        if process.is_detached
            && let Some(owner) = &self.owner
        {
            owner.add(&process.id);
        }
        self.add(process);
    }

    /// Adds a process and replaces one with the same id.
    pub fn add(&self, process: Arc<TrackedProcess>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.id != process.id);
        all.push(process);
        let ended = all.iter().filter(|known| known.status().is_over()).count();
        let mut forgotten = ended.saturating_sub(MAX_ENDED);
        all.retain(|known| {
            let forgets = forgotten > 0 && known.status().is_over();
            forgotten -= usize::from(forgets);
            !forgets
        });
    }

    /// Finds a process by its id.
    pub fn find(&self, id: &str) -> Option<Arc<TrackedProcess>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|known| known.id == id).cloned()
    }

    /// Whether another caller of the server started a process.
    pub(super) fn is_of_another_caller(&self, id: &str) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.is_of_another(id))
    }
}
