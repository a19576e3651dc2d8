//! The ledger: writes questions down, finds those that a daemon left behind, and forgets old ones.

use std::io;
use std::path::PathBuf;
use std::sync::{Once, OnceLock};
use std::time::{Duration, SystemTime};

use engine::approval::{Approval, ApprovalStore, Grant, Resolution};

use super::dir::{ApprovalDir, read};
use super::record::{ApprovalRecord, ApprovalState, DaemonId, GrantRecord};
use crate::core::state::{process_start, to_ms};

/// How long settled questions are kept.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Keeps approvals in a directory of the state.
#[derive(Debug)]
pub struct FileApprovalStore {
    dir: ApprovalDir,
    /// Who asks, once anybody is asked.
    daemon: OnceLock<DaemonId>,
    swept: Once,
}

impl FileApprovalStore {
    /// A ledger in this directory, which is made when it is needed.
    pub fn new(dir: PathBuf) -> FileApprovalStore {
        FileApprovalStore { dir: ApprovalDir::new(dir), daemon: OnceLock::new(), swept: Once::new() }
    }

    fn daemon(&self) -> DaemonId {
        let look = || {
            let pid = std::process::id();
            DaemonId { pid, started: process_start(pid).unwrap_or(0) }
        };
        self.daemon.get_or_init(look).clone()
    }

    /// The answers that hold until their rules change.
    pub fn grants(&self) -> Vec<Grant> {
        let records = self.dir.grants();
        records.iter().filter_map(|path| read::<GrantRecord>(path)).map(GrantRecord::grant).collect()
    }

    /// Settles what daemons that are gone left waiting, and forgets what was settled long ago.
    fn sweep(&self) {
        let now = to_ms(SystemTime::now());
        let oldest = now.saturating_sub(u64::try_from(KEPT_FOR.as_millis()).unwrap_or(u64::MAX));
        for path in self.dir.questions() {
            let Some(mut record) = read::<ApprovalRecord>(&path) else { continue };
            if record.state == ApprovalState::Pending && !is_alive(&record.daemon) {
                record.settle(&Resolution::Abandoned);
                self.warn(self.dir.write(&path, &record));
            } else if record.settled_at_ms.is_some_and(|settled| settled < oldest) {
                // If it stays, it is only old.
                let _removed = std::fs::remove_file(&path);
            }
        }
    }

    fn warn(&self, written: io::Result<()>) {
        if let Err(error) = written {
            tracing::warn!(%error, "an approval cannot be written down");
        }
    }
}

impl ApprovalStore for FileApprovalStore {
    fn record_request(&self, approval: &Approval) -> io::Result<()> {
        self.swept.call_once(|| self.sweep());
        let path = self.dir.question(&approval.id).ok_or(io::ErrorKind::InvalidInput)?;
        self.dir.write(&path, &ApprovalRecord::new(approval, self.daemon()))
    }

    fn record_resolution(&self, approval: &Approval, resolution: &Resolution) {
        let Some(path) = self.dir.question(&approval.id) else { return };
        let mut record = ApprovalRecord::new(approval, self.daemon());
        record.settle(resolution);
        self.warn(self.dir.write(&path, &record));
    }

    fn record_grant(&self, grant: &Grant) {
        if let Some(record) = GrantRecord::new(grant) {
            self.warn(self.dir.write(&self.dir.grant(&record.name()), &record));
        }
    }

    fn find_resolution(&self, id: &str) -> Option<Resolution> {
        self.swept.call_once(|| self.sweep());
        read::<ApprovalRecord>(&self.dir.question(id)?)?.outcome()
    }
}

fn is_alive(daemon: &DaemonId) -> bool {
    process_start(daemon.pid) == Some(daemon.started)
}
