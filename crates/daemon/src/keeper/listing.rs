//! Lists detached processes from their directories and removes those past their retention. All functions block.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::process::{
    Cursor, Description, ExitCause, ExitStatus, ProcessId, ProcessState, ProcessSummary, Signal, TerminalSize,
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
    /// The size of its terminal: at the end, or at the start if it runs. `None` without a terminal and from older keepers.
    pub terminal_size: Option<TerminalSize>,
}

impl ListedProcess {
    /// Reads a keeper's directory. Fails with `NotFound` or `InvalidData` if there is no such process.
    pub(super) fn read(dir: &KeeperDir, id: ProcessId) -> io::Result<ListedProcess> {
        let record = dir.record()?;
        // Checked before the status: a keeper that exits in between has written the status.
        let is_alive = !dir.is_of_another_boot(&record) && dir.is_alive()?;
        let status = dir.status()?;
        let end = status.as_ref().map_or_else(|| dir.end(), |status| status.end);
        let size = status.as_ref().and_then(|status| status.size).or(record.size);
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
        let terminal_size = size.map(|(cols, rows)| TerminalSize { cols, rows });
        Ok(ListedProcess { id, description: record.description(), facts, by: record.by, terminal_size })
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
            let listed = ListedProcess::read(&dir, ProcessId(name)).ok();
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
    is_old && dir.has_ended() && dir.remove().is_ok()
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

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test makes a keeper's directory by hand")]
mod tests {
    use super::*;

    /// A file that exists and cannot be opened proves nothing about the keeper. As for a daemon without descriptors.
    #[test]
    fn a_directory_that_cannot_be_read_is_neither_unknown_nor_ended_and_is_not_removed() {
        let keepers = tempfile::tempdir().unwrap();
        let id = ProcessId("p_0123456789ab".to_owned());
        let dir = KeeperDir { path: keepers.path().join(&id.0) };
        let unreadable = |name: &str| {
            std::fs::remove_file(dir.path.join(name)).ok();
            std::os::unix::fs::symlink(name, dir.path.join(name)).unwrap();
        };
        std::fs::create_dir(&dir.path).unwrap();
        let missing = ListedProcess::read(&dir, id.clone()).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        unreadable("record.json");
        let failed = ListedProcess::read(&dir, id.clone()).unwrap_err();
        assert!(!matches!(failed.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData), "{failed}");
        assert!(dir.has_ended(), "there is no sign of life");
        unreadable("life");
        assert!(dir.is_alive().is_err() && !dir.has_ended());
        list(keepers.path(), Duration::ZERO);
        assert!(dir.path.exists(), "a directory of a keeper that may be running was removed");
    }
}
