//! The processes of a toolbox: those it started and those it was asked about, the oldest forgotten first.

use std::sync::{Arc, Mutex, PoisonError};

use super::follow::Followed;

/// Processes that ended and are remembered.
const MOST_ENDED: usize = 64;

/// The processes of a toolbox.
#[derive(Debug, Default)]
pub struct Processes(Mutex<Vec<Arc<Followed>>>);

impl Processes {
    /// Remembers one, in place of one with the same id.
    pub fn add(&self, process: Arc<Followed>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.id != process.id);
        all.push(process);
        let ended = all.iter().filter(|known| known.news().is_over()).count();
        let mut forgotten = ended.saturating_sub(MOST_ENDED);
        all.retain(|known| {
            let forgets = forgotten > 0 && known.news().is_over();
            forgotten -= usize::from(forgets);
            !forgets
        });
    }

    /// One by its id.
    pub fn find(&self, id: &str) -> Option<Arc<Followed>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|known| known.id == id).cloned()
    }
}
