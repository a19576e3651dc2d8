//! TrackedProcesses: the processes that a toolbox started or attached to.

use std::sync::{Arc, Mutex, PoisonError};

use super::tracked::TrackedProcess;

/// Exited processes that are kept; beyond it, the oldest is dropped.
const MAX_ENDED: usize = 64;

/// The tracked processes of a toolbox.
#[derive(Debug, Default)]
pub struct TrackedProcesses(Mutex<Vec<Arc<TrackedProcess>>>);

impl TrackedProcesses {
    /// Adds a process and replaces one with the same id.
    pub fn add(&self, process: Arc<TrackedProcess>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|known| known.id == id).cloned()
    }
}
