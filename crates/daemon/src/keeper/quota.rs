//! The quota of all logs of a user: output of ended processes is removed first, then the oldest of running ones.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use rustix::fs::FlockOperation;

use super::dir::{KeeperDir, LOG, STATUS};
use super::segments::{self, Segment};

/// Locked by the keeper that enforces the quota.
const LOCK: &str = "quota.lock";

/// The quota of all keepers of a directory.
#[derive(Debug, Clone)]
pub(super) struct Quota {
    pub(super) keepers: PathBuf,
    pub(super) bytes: u64,
}

impl Quota {
    /// Removes the oldest segments until `more` bytes fit. Returns at once if another keeper is doing so: the next call
    /// checks again.
    pub(super) fn enforce(&self, more: u64) {
        let options = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).clone();
        let Ok(lock) = options.open(self.keepers.join(LOCK)) else { return };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        let (mut ended, mut running, mut total) = (Vec::new(), Vec::new(), 0);
        for dir in KeeperDir::all(&self.keepers) {
            let mut found = segments::list(&dir.path.join(LOG));
            total += found.iter().map(|segment| segment.bytes).sum::<u64>();
            if dir.path.join(STATUS).exists() || dir.has_ended() {
                ended.append(&mut found);
            } else {
                // The newest segment is being written.
                found.pop();
                running.append(&mut found);
            }
        }
        for group in [&mut ended, &mut running] {
            group.sort_by_key(|segment: &Segment| segment.changed);
            for oldest in group.iter() {
                if total.saturating_add(more) <= self.bytes {
                    return;
                }
                if segments::remove(&oldest.path) {
                    total -= oldest.bytes;
                }
            }
        }
    }
}
