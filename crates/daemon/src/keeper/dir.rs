//! The directory of one keeper, for readers.

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
use crate::core::state;

/// The requester, command and start time.
pub(super) const RECORD: &str = "record.json";
/// The record before the process runs.
pub(super) const RECORD_DRAFT: &str = "record.draft";
/// The end of the process.
pub(super) const STATUS: &str = "status.json";
/// Reserved space for the status, so that a full disk cannot prevent its write.
pub(super) const STATUS_DRAFT: &str = "status.draft";
/// Locked while the keeper runs; contains the end of the log.
pub(super) const LIFE: &str = "life";
/// The socket of the keeper.
pub(super) const SOCKET: &str = "socket";
/// The directory of log segments.
pub(super) const LOG: &str = "log";
/// Prefix of the name of a directory that is not complete yet.
pub(super) const UNFINISHED: &str = ".new-";
/// Larger records and statuses are ignored: keepers write none.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The directory of one keeper, which may be running or not.
#[derive(Debug, Clone)]
pub(super) struct KeeperDir {
    pub(super) path: PathBuf,
}

impl KeeperDir {
    /// The directory of a process; `None` if the id cannot be a keeper's.
    pub(super) fn of(keepers: &Path, id: &ProcessId) -> Option<KeeperDir> {
        is_name(&id.0).then(|| KeeperDir { path: keepers.join(&id.0) })
    }

    /// The directories of all keepers.
    pub(super) fn all(keepers: &Path) -> impl Iterator<Item = KeeperDir> {
        let entries = std::fs::read_dir(keepers).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_name));
        named.map(|entry| KeeperDir { path: entry.path() })
    }

    pub(super) fn record(&self) -> io::Result<ProcessRecord> {
        read_json(&self.path.join(RECORD))
    }

    /// The end of the process; `None` if it runs, or was killed together with its keeper.
    pub(super) fn status(&self) -> io::Result<Option<EndRecord>> {
        match read_json(&self.path.join(STATUS)) {
            Ok(status) => Ok(Some(status)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the keeper runs. An error, such as that of a process without free descriptors, proves neither.
    pub(super) fn is_alive(&self) -> io::Result<bool> {
        let file = match File::open(self.path.join(LIFE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        // The lock is released with the file.
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a process is about to start: its keeper runs and has written no record yet.
    pub(super) fn is_starting(&self) -> bool {
        self.is_alive().unwrap_or(true) && !self.path.join(RECORD).exists()
    }

    /// Whether the keeper has certainly ended.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.is_alive(), Ok(false))
    }

    /// Whether the leader of the process has exited. Its keeper may not have noticed yet.
    pub(super) fn has_leader_exited(&self) -> bool {
        let is_running = |record: ProcessRecord| {
            u32::try_from(record.pid).is_ok_and(|pid| state::is_running_child(pid, record.keeper_pid))
        };
        self.record().is_ok_and(|record| !is_running(record))
    }

    /// The end of the log on disk.
    pub(super) fn end(&self) -> u64 {
        let mut bytes = [0; 8];
        let read = File::open(self.path.join(LIFE)).and_then(|file| file.read_exact_at(&mut bytes, 0));
        read.map_or(0, |()| u64::from_le_bytes(bytes))
    }

    /// The start of the log on disk; `None` if it is empty.
    pub(super) fn first(&self) -> Option<u64> {
        segments::list(&self.path.join(LOG)).first().map(|segment| segment.first)
    }

    /// Opens the directory: the path of its socket may be too long for the kernel.
    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.path, flags, Mode::empty())?)
    }

    /// The time of the last write.
    pub(super) fn last_change(&self) -> Option<SystemTime> {
        let files = [self.path.join(STATUS), self.path.join(LIFE), self.path.clone()];
        files.iter().filter_map(|file| std::fs::metadata(file).ok()?.modified().ok()).max()
    }

    /// Whether the machine was rebooted since the start of the process.
    pub(super) fn is_of_another_boot(&self, record: &ProcessRecord) -> bool {
        let now = boot_id();
        !now.is_empty() && !record.boot_id.is_empty() && record.boot_id != now
    }

    /// Removes the directory and its contents.
    pub(super) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// Whether this can be the id of a keeper's process. Other names are never looked up on disk.
pub(super) fn is_name(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.strip_prefix("p_").is_some_and(|rest| rest.len() == 12 && rest.bytes().all(is_digit))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    if std::fs::metadata(path)?.len() > MAX_FILE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    serde_json::from_slice(&std::fs::read(path)?).map_err(io::Error::from)
}
