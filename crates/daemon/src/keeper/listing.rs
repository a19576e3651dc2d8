//! Lists detached processes from their directories and removes those past their retention. All functions block.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::process::{
    Cursor, Description, ExitCause, ExitStatus, ProcessId, ProcessState, ProcessSummary, Signal,
};

use super::convert;
use super::dir::{KeeperDir, UNFINISHED, is_name};
use super::record::EndRecord;

/// The age at which an incomplete directory belongs to a keeper that failed to start.
const UNFINISHED_RETENTION: Duration = Duration::from_secs(60);
/// The maximal number of ended processes; beyond it the oldest are removed early.
const MAX_ENDED: usize = 1_000;

/// A detached process, running or ended.
#[derive(Debug, Clone)]
pub struct ListedProcess {
    /// The id of the process.
    pub id: ProcessId,
    /// Its command, directory and start time.
    pub description: Description,
    /// The state of its log, and its end.
    pub facts: ProcessState,
    /// The caller that started it.
    pub by: String,
}

impl ListedProcess {
    /// Reads a keeper's directory; `None` if it is invalid.
    pub(super) fn read(dir: &KeeperDir, id: ProcessId) -> Option<ListedProcess> {
        let record = dir.record().ok()?;
        // Checked before the status: a keeper that exits in between has written the status.
        let is_alive = !dir.is_of_another_boot(&record) && dir.is_alive();
        let status = dir.status();
        let end = status.as_ref().map_or_else(|| dir.end(), |status| status.end);
        let closed = match status {
            Some(EndRecord { closed, .. }) => Some(convert::summary_from_wire(closed)),
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

/// All detached processes, the oldest first.
pub(super) fn list(keepers: &Path, keep: Duration) -> Vec<ListedProcess> {
    let entries = std::fs::read_dir(keepers).into_iter().flatten().flatten();
    let mut listed: Vec<ListedProcess> = entries
        .filter_map(|entry| {
            let dir = KeeperDir { path: entry.path() };
            let name = entry.file_name().into_string().ok()?;
            if !is_name(&name) {
                if name.starts_with(UNFINISHED) {
                    remove_expired(&dir, UNFINISHED_RETENTION);
                }
                return None;
            }
            let listed = ListedProcess::read(&dir, ProcessId(name));
            let is_over = listed.as_ref().is_none_or(|listed| listed.facts.closed.is_some());
            if is_over && remove_expired(&dir, keep) { None } else { listed }
        })
        .collect();
    listed.sort_by_key(|listed| listed.description.started_at);
    let is_over = |listed: &ListedProcess| listed.facts.closed.is_some();
    let mut too_many = listed.iter().filter(|listed| is_over(listed)).count().saturating_sub(MAX_ENDED);
    listed.retain(|listed| {
        let goes = too_many > 0 && is_over(listed);
        too_many -= usize::from(goes);
        !(goes && remove_expired(&KeeperDir { path: keepers.join(&listed.id.0) }, Duration::ZERO))
    });
    listed
}

/// An upper bound of the number of running processes. Exact, and with cleanup, only if there are at least `limit`
/// directories.
pub(super) fn count_running(keepers: &Path, keep: Duration, limit: usize) -> usize {
    let dirs = KeeperDir::all(keepers).count();
    if dirs < limit {
        return dirs;
    }
    list(keepers, keep).iter().filter(|listed| listed.facts.closed.is_none()).count()
}

/// Removes a directory whose keeper has ended and whose last write is older than `keep`. Returns whether it did.
fn remove_expired(dir: &KeeperDir, keep: Duration) -> bool {
    let is_old = dir.last_change().is_none_or(|changed| changed.elapsed().is_ok_and(|age| age > keep));
    is_old && !dir.is_alive() && dir.remove().is_ok()
}

/// The end of a process whose keeper was killed before it wrote the status.
fn killed(dir: &KeeperDir, started_at: SystemTime) -> ProcessSummary {
    let last = dir.last_change().unwrap_or(started_at);
    ProcessSummary {
        exit: ExitStatus::Signal(Signal::KILL),
        cause: ExitCause::Itself,
        duration: last.duration_since(started_at).unwrap_or_default(),
        // The shares of the two streams are unknown.
        stdout_bytes: dir.end(),
        stderr_bytes: 0,
        truncated_bytes: 0,
        held_by: Vec::new(),
        processes_refused: 0,
        denied: None,
    }
}
