//! The directory of one keeper, as whoever is not the keeper sees it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use engine::process::ProcessId;
use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::de::DeserializeOwned;

use super::record::{EndRecord, ProcessRecord, boot_id};
use super::segments;

/// Who started what, when.
pub(super) const RECORD: &str = "record.json";
/// How it ended.
pub(super) const STATUS: &str = "status.json";
/// Room for the status, taken at the start so that a full disk cannot refuse it at the end.
pub(super) const STATUS_DRAFT: &str = "status.draft";
/// Locked while the keeper lives; holds where the log ends.
pub(super) const LIFE: &str = "life";
/// Where the keeper listens.
pub(super) const SOCKET: &str = "socket";
/// The segments of the log.
pub(super) const LOG: &str = "log";
/// What the name of a directory starts with until it is complete.
pub(super) const UNFINISHED: &str = ".new-";
/// A record or status larger than this is not ours.
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

/// One keeper's directory.
#[derive(Debug, Clone)]
pub(super) struct KeeperDir {
    pub(super) path: PathBuf,
}

impl KeeperDir {
    /// The directory of a process; nothing for what cannot be the name of one.
    pub(super) fn of(keepers: &Path, id: &ProcessId) -> Option<KeeperDir> {
        is_name(&id.0).then(|| KeeperDir { path: keepers.join(&id.0) })
    }

    pub(super) fn record(&self) -> io::Result<ProcessRecord> {
        read_json(&self.path.join(RECORD))
    }

    /// How it ended; nothing if it did not, or was killed together with its keeper.
    pub(super) fn status(&self) -> Option<EndRecord> {
        read_json(&self.path.join(STATUS)).ok()
    }

    /// Whether its keeper lives.
    pub(super) fn is_alive(&self) -> bool {
        is_locked(&self.path.join(LIFE))
    }

    /// Where the log ends, as far as its keeper has come.
    pub(super) fn end(&self) -> u64 {
        let mut bytes = [0; 8];
        let read = File::open(self.path.join(LIFE)).and_then(|file| file.read_exact_at(&mut bytes, 0));
        read.map_or(0, |()| u64::from_le_bytes(bytes))
    }

    /// Where the log begins; nothing if no output is on disk.
    pub(super) fn first(&self) -> Option<u64> {
        segments::list(&self.path.join(LOG)).first().map(|segment| segment.first)
    }

    /// The directory itself, so that its socket can be named in few bytes.
    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.path, flags, Mode::empty())?)
    }

    /// When something was written here last.
    pub(super) fn last_change(&self) -> Option<SystemTime> {
        let files = [self.path.join(STATUS), self.path.join(LIFE), self.path.clone()];
        files.iter().filter_map(|file| std::fs::metadata(file).ok()?.modified().ok()).max()
    }

    /// Whether the machine was started anew since.
    pub(super) fn is_of_another_boot(&self, record: &ProcessRecord) -> bool {
        let now = boot_id();
        !now.is_empty() && !record.boot_id.is_empty() && record.boot_id != now
    }

    /// Removes it with all that is in it.
    pub(super) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// Whether this is a name that we give: nothing else is ever looked for on disk.
pub(super) fn is_name(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.strip_prefix("p_").is_some_and(|rest| rest.len() == 12 && rest.bytes().all(is_digit))
}

/// Whether somebody holds the lock on this file.
pub(super) fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let lock = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
    // Released with the file. Anything but "taken" means that nobody is there.
    lock == Err(rustix::io::Errno::WOULDBLOCK)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    if std::fs::metadata(path)?.len() > LARGEST_FILE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    serde_json::from_slice(&std::fs::read(path)?).map_err(io::Error::from)
}
