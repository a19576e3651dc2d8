//! What is kept: read from the directories, off the event loop. What was kept long enough goes on the way.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::process::{
    Cursor, Description, ExitCause, ExitStatus, ProcessId, ProcessState, ProcessSummary, Signal,
};

use super::convert;
use super::dir::{KeeperDir, UNFINISHED, is_name};
use super::record::EndRecord;

/// A directory that was not completed within this time belongs to a keeper that died at its start.
const UNFINISHED_FOR: Duration = Duration::from_secs(60);
/// Ended processes that are kept; past it the oldest go before their time.
const MOST_ENDED: usize = 1_000;

/// A process with a keeper, running or ended.
#[derive(Debug, Clone)]
pub struct ListedProcess {
    /// Its name.
    pub id: ProcessId,
    /// What a listing says about it.
    pub description: Description,
    /// How far its log goes, and whether it ended.
    pub facts: ProcessState,
    /// Who asked for it.
    pub by: String,
}

impl ListedProcess {
    /// What stands in a directory; nothing if it cannot be read.
    pub(super) fn read(dir: &KeeperDir, id: ProcessId) -> Option<ListedProcess> {
        let record = dir.record().ok()?;
        // Looked at before the status: a keeper that ends between the two has written it.
        let is_alive = !dir.is_of_another_boot(&record) && dir.is_alive();
        let status = dir.status();
        let end = status.as_ref().map_or_else(|| dir.end(), |status| status.end);
        let closed = match status {
            Some(EndRecord { closed, .. }) => Some(convert::closed(closed)),
            None if is_alive => None,
            None => Some(killed(dir, record.description().started_at)),
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
        Some(ListedProcess { id, description: record.description(), facts, by: record.by })
    }
}

/// Every process that is kept, the oldest first. Blocks.
pub(super) fn list(keepers: &Path, keep: Duration) -> Vec<ListedProcess> {
    let entries = std::fs::read_dir(keepers).into_iter().flatten().flatten();
    let mut listed: Vec<ListedProcess> = entries
        .filter_map(|entry| {
            let dir = KeeperDir { path: entry.path() };
            let name = entry.file_name().into_string().ok()?;
            if !is_name(&name) {
                if name.starts_with(UNFINISHED) {
                    sweep(&dir, UNFINISHED_FOR);
                }
                return None;
            }
            let listed = ListedProcess::read(&dir, ProcessId(name));
            let is_over = listed.as_ref().is_none_or(|listed| listed.facts.closed.is_some());
            if is_over && sweep(&dir, keep) { None } else { listed }
        })
        .collect();
    listed.sort_by_key(|listed| listed.description.started_at);
    let is_over = |listed: &ListedProcess| listed.facts.closed.is_some();
    let mut too_many = listed.iter().filter(|listed| is_over(listed)).count().saturating_sub(MOST_ENDED);
    listed.retain(|listed| {
        let goes = too_many > 0 && is_over(listed);
        too_many -= usize::from(goes);
        !(goes && sweep(&KeeperDir { path: keepers.join(&listed.id.0) }, Duration::ZERO))
    });
    listed
}

/// How many processes may be running. Looks closer, and sweeps, only when there are directories enough to reach `limit`.
/// Blocks.
pub(super) fn count_running(keepers: &Path, keep: Duration, limit: usize) -> usize {
    let entries = std::fs::read_dir(keepers).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_name)).count();
    if dirs < limit {
        return dirs;
    }
    list(keepers, keep).iter().filter(|listed| listed.facts.closed.is_none()).count()
}

/// Removes what nobody keeps any more and nothing happened to for `keep`; whether it did.
fn sweep(dir: &KeeperDir, keep: Duration) -> bool {
    let is_old = dir.last_change().is_none_or(|changed| changed.elapsed().is_ok_and(|age| age > keep));
    is_old && !dir.is_alive() && dir.remove().is_ok()
}

/// The end of a process whose keeper did not live to write it down.
fn killed(dir: &KeeperDir, started_at: SystemTime) -> ProcessSummary {
    let last = dir.last_change().unwrap_or(started_at);
    ProcessSummary {
        exit: ExitStatus::Signal(Signal::KILL),
        cause: ExitCause::Itself,
        duration: last.duration_since(started_at).unwrap_or_default(),
        // How it was shared out between the streams nobody wrote down.
        stdout_bytes: dir.end(),
        stderr_bytes: 0,
        truncated_bytes: 0,
        held_by: Vec::new(),
        processes_refused: 0,
        denied: None,
    }
}

/// The first byte that is still there, if it lies behind `from`.
pub(super) fn first_kept(dir: &KeeperDir, from: u64) -> u64 {
    dir.first().map_or(from, |first| first.max(from))
}
