//! The processes of a toolbox: those it started and those it was asked about, the oldest forgotten first.

use std::sync::{Arc, Mutex, PoisonError};

use super::tracked::TrackedProcess;

/// TrackedProcesses that ended and are remembered.
const MAX_ENDED: usize = 64;

/// The processes of a toolbox.
#[derive(Debug, Default)]
pub struct TrackedProcesses(Mutex<Vec<Arc<TrackedProcess>>>);

impl TrackedProcesses {
    /// Remembers one, in place of one with the same id.
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

    /// One by its id.
    pub fn find(&self, id: &str) -> Option<Arc<TrackedProcess>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|known| known.id == id).cloned()
    }
}
