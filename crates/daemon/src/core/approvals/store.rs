//! The store of approvals: saves them, settles those of daemons that have ended, and deletes old ones.

use std::io;
use std::path::PathBuf;
use std::sync::{Once, OnceLock};
use std::time::{Duration, SystemTime};

use engine::approval::{Approval, ApprovalStore, Grant, Resolution};
use engine::process::{is_reaped, own_start_time};

use super::dir::{ApprovalDir, read};
use super::record::{ApprovalRecord, ApprovalState, DaemonId, GrantRecord};
use crate::core::state::to_ms;

/// How long settled approvals are kept.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Stores approvals as files in a subdirectory of the state directory.
#[derive(Debug)]
pub struct FileApprovalStore {
    dir: ApprovalDir,
    /// The identity of this daemon, read when the first approval is stored.
    daemon: OnceLock<DaemonId>,
    cleanup: Once,
}

impl FileApprovalStore {
    /// A store in this directory, which is created when the first approval is stored.
    pub fn new(dir: PathBuf) -> FileApprovalStore {
        FileApprovalStore { dir: ApprovalDir::new(dir), daemon: OnceLock::new(), cleanup: Once::new() }
    }

    fn daemon(&self) -> DaemonId {
        let own = || DaemonId { pid: std::process::id(), started: own_start_time() };
        self.daemon.get_or_init(own).clone()
    }

    /// The grants that hold until their rules change.
    pub fn grants(&self) -> Vec<Grant> {
        let records = self.dir.grants();
        records.iter().filter_map(|path| read::<GrantRecord>(path)).map(GrantRecord::grant).collect()
    }

    /// Settles the pending approvals of daemons that have ended, and deletes approvals settled before [`RETENTION`].
    fn clean_up(&self) {
        let now = to_ms(SystemTime::now());
        let oldest = now.saturating_sub(u64::try_from(RETENTION.as_millis()).unwrap_or(u64::MAX));
        for path in self.dir.approvals() {
            let Some(mut record) = read::<ApprovalRecord>(&path) else { continue };
            if record.state == ApprovalState::Pending && is_reaped(record.daemon.pid, record.daemon.started) {
                record.settle(&Resolution::Abandoned);
                self.warn(self.dir.write(&path, &record));
            } else if record.settled_at_ms.is_some_and(|settled| settled < oldest) {
                // A file that cannot be removed is tried again by the next daemon.
                let _removed = std::fs::remove_file(&path);
            }
        }
    }

    fn warn(&self, written: io::Result<()>) {
        if let Err(error) = written {
            tracing::warn!(%error, "cannot store an approval");
        }
    }
}

impl ApprovalStore for FileApprovalStore {
    fn record_request(&self, approval: &Approval) -> io::Result<()> {
        self.cleanup.call_once(|| self.clean_up());
        let path = self.dir.approval(&approval.id).ok_or(io::ErrorKind::InvalidInput)?;
        self.dir.write(&path, &ApprovalRecord::new(approval, self.daemon()))
    }

    fn record_resolution(&self, approval: &Approval, resolution: &Resolution) {
        let Some(path) = self.dir.approval(&approval.id) else { return };
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
        self.cleanup.call_once(|| self.clean_up());
        read::<ApprovalRecord>(&self.dir.approval(id)?)?.outcome()
    }
}
