//! Descendants that left their trees: found by the mark in their environment, and killed.

use std::os::fd::AsFd;
use std::time::Duration;

use super::proc::{self, MarkState};
use super::start_time::StartTime;
use super::tree::Candidates;
use super::{Signal, launch, sys};

/// Searches for descendants that left their tree: a process shows its mark only once its exec is complete.
const SWEEPS: u32 = 20;
const BETWEEN_SWEEPS: Duration = Duration::from_millis(1);

/// Kills all of these processes whose mark starts with `prefix`: descendants that left their trees, started after `since`.
pub(crate) async fn end_runaways(prefix: String, since: StartTime, candidates: Candidates) {
    if let Some(few) = since.numbers_since() {
        let is_clear = sweep(&prefix, &since, &mut few.clone());
        // A process started meanwhile may be one of them.
        if is_clear && since.numbers_since() == Some(few) {
            return;
        }
    }
    let end = move || {
        for _ in 0..SWEEPS {
            proc::wait_for_descriptors();
            if sweep(&prefix, &since, &mut candidates.pids(|_| false).into_iter()) {
                return;
            }
            std::thread::sleep(BETWEEN_SWEEPS);
        }
    };
    // Fails only while the runtime shuts down.
    let _swept: Result<(), _> = tokio::task::spawn_blocking(end).await;
}

/// Kills the processes with the mark; returns whether there were none, and none whose environment was unreadable.
fn sweep(prefix: &str, since: &StartTime, pids: &mut dyn Iterator<Item = i32>) -> bool {
    let mut is_clear = true;
    for pid in pids {
        is_clear &= match kill_marked(pid, prefix) {
            MarkState::Absent => true,
            MarkState::Unknown => !since.may_precede(pid),
            MarkState::Present => false,
        };
    }
    is_clear
}

/// Kills a process if its mark starts with `prefix`; returns whether it had such a mark.
pub(super) fn kill_marked(pid: i32, prefix: &str) -> MarkState {
    let state = proc::mark_state(pid, launch::MARK, prefix);
    if state == MarkState::Present {
        // Opened first, then checked again: the handle refers to a process with the mark.
        let handle =
            proc::open(pid).filter(|_| proc::mark_state(pid, launch::MARK, prefix) == MarkState::Present);
        if let Some(handle) = handle {
            sys::send(handle.as_fd(), Signal::KILL);
        }
    }
    state
}
