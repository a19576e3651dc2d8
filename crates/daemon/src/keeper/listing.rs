//! What is kept: read from the folders, off the event loop. What was kept long enough goes on the way.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::process::{
    Cursor, Description, ExitCause, ExitStatus, ProcessId, ProcessState, ProcessSummary, Signal,
};

use super::convert;
use super::folder::{Folder, UNFINISHED, is_name};
use super::record::Status;

/// A folder that was not completed within this time belongs to a keeper that died at its start.
const UNFINISHED_FOR: Duration = Duration::from_secs(60);
/// Ended processes that are kept; past it the oldest go before their time.
const MOST_ENDED: usize = 1_000;

/// A process with a keeper, running or ended.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its name.
    pub id: ProcessId,
    /// What a listing says about it.
    pub description: Description,
    /// How far its log goes, and whether it ended.
    pub facts: ProcessState,
    /// Who asked for it.
    pub by: String,
}

impl Listed {
    /// What stands in a folder; nothing if it cannot be read.
    pub(super) fn read(folder: &Folder, id: ProcessId) -> Option<Listed> {
        let record = folder.record().ok()?;
        // Looked at before the status: a keeper that ends between the two has written it.
        let is_alive = !folder.is_of_another_boot(&record) && folder.is_alive();
        let status = folder.status();
        let end = status.as_ref().map_or_else(|| folder.end(), |status| status.end);
        let closed = match status {
            Some(Status { closed, .. }) => Some(convert::closed(closed)),
            None if is_alive => None,
            None => Some(killed(folder, record.description().started_at)),
        };
        let facts = ProcessState {
            pid: Some(record.pid),
            end: Cursor(end),
            stdout_bytes: closed.as_ref().map_or(0, |closed| closed.stdout_bytes),
            stderr_bytes: closed.as_ref().map_or(0, |closed| closed.stderr_bytes),
            exited: closed.as_ref().map(|closed| closed.exit),
            closed: closed.map(Arc::new),
            is_disconnected: false,
        };
        Some(Listed { id, description: record.description(), facts, by: record.by })
    }
}

/// Every process that is kept, the oldest first. Blocks.
pub(super) fn list(keepers: &Path, keep: Duration) -> Vec<Listed> {
    let entries = std::fs::read_dir(keepers).into_iter().flatten().flatten();
    let mut listed: Vec<Listed> = entries
        .filter_map(|entry| {
            let folder = Folder { path: entry.path() };
            let name = entry.file_name().into_string().ok()?;
            if !is_name(&name) {
                if name.starts_with(UNFINISHED) {
                    sweep(&folder, UNFINISHED_FOR);
                }
                return None;
            }
            let listed = Listed::read(&folder, ProcessId(name));
            let is_over = listed.as_ref().is_none_or(|listed| listed.facts.closed.is_some());
            if is_over && sweep(&folder, keep) { None } else { listed }
        })
        .collect();
    listed.sort_by_key(|listed| listed.description.started_at);
    let is_over = |listed: &Listed| listed.facts.closed.is_some();
    let mut too_many = listed.iter().filter(|listed| is_over(listed)).count().saturating_sub(MOST_ENDED);
    listed.retain(|listed| {
        let goes = too_many > 0 && is_over(listed);
        too_many -= usize::from(goes);
        !(goes && sweep(&Folder { path: keepers.join(&listed.id.0) }, Duration::ZERO))
    });
    listed
}

/// How many processes may be running. Looks closer, and sweeps, only when there are folders enough to reach `limit`.
/// Blocks.
pub(super) fn count_running(keepers: &Path, keep: Duration, limit: usize) -> usize {
    let entries = std::fs::read_dir(keepers).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_name)).count();
    if folders < limit {
        return folders;
    }
    list(keepers, keep).iter().filter(|listed| listed.facts.closed.is_none()).count()
}

/// Removes what nobody keeps any more and nothing happened to for `keep`; whether it did.
fn sweep(folder: &Folder, keep: Duration) -> bool {
    let is_old = folder.last_change().is_none_or(|changed| changed.elapsed().is_ok_and(|age| age > keep));
    is_old && !folder.is_alive() && folder.remove().is_ok()
}

/// The end of a process whose keeper did not live to write it down.
fn killed(folder: &Folder, started_at: SystemTime) -> ProcessSummary {
    let last = folder.last_change().unwrap_or(started_at);
    ProcessSummary {
        exit: ExitStatus::Signal(Signal::KILL),
        cause: ExitCause::Itself,
        duration: last.duration_since(started_at).unwrap_or_default(),
        // How it was shared out between the streams nobody wrote down.
        stdout_bytes: folder.end(),
        stderr_bytes: 0,
        truncated_bytes: 0,
        held_by: Vec::new(),
        processes_refused: 0,
        denied: None,
    }
}

/// The first byte that is still there, if it lies behind `from`.
pub(super) fn first_kept(folder: &Folder, from: u64) -> u64 {
    folder.first().map_or(from, |first| first.max(from))
}
