//! Names of temporary files, and removal of those whose writer has ended.
//!
//! A name contains the origin of the file: boot and pid namespace, pid, and start time of the process. Files of ended
//! processes of this boot are removed at once. Files of another origin (another machine on a shared disk, an earlier
//! boot) are removed when they have not changed for an hour.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Mode, Stat};

use super::resolve::LISTING;
use super::walk::DirReader;
use crate::process::{is_reaped, own_start_time};

const PREFIX: &str = ".rexd-";
const SUFFIX: &str = ".tmp";
/// How long a temporary file of unknown origin is kept.
const FOREIGN_REST: Duration = Duration::from_secs(3600);
/// Directories remembered as cleaned; beyond it all are forgotten and cleaned again at the next write.
const MOST_REMEMBERED: usize = 1024;

/// A new unique name.
pub(super) fn temporary_name() -> OsString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let Maker { resolved, pid, started } = myself();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    OsString::from(format!("{PREFIX}{resolved:x}-{pid}-{started}-{number}{SUFFIX}"))
}

/// Whether a name is that of a temporary file. Watches do not report them.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    name.to_str().and_then(Maker::from_name).is_some()
}

/// The directories that were cleaned, and their state after our last write. Listing a directory before every write
/// would take longer than the write.
#[derive(Debug, Default)]
pub(super) struct CleanupCache(Mutex<HashMap<(u64, u64), (i64, u64)>>);

impl CleanupCache {
    /// Removes stale temporary files from a directory, unless it is unchanged since the last write.
    pub(super) fn sweep(&self, dir: impl AsFd) {
        let Ok(stat) = rustix::fs::fstat(dir.as_fd()) else { return };
        let known = self.lock().get(&identity(&stat)).copied();
        if known == Some(changed(&stat)) {
            return;
        }
        remove_strays(dir.as_fd());
    }

    /// Remembers the state of a directory after our own write.
    pub(super) fn remember(&self, dir: impl AsFd) {
        let Ok(stat) = rustix::fs::fstat(dir.as_fd()) else { return };
        let mut known = self.lock();
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        known.insert(identity(&stat), changed(&stat));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(u64, u64), (i64, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn changed(stat: &Stat) -> (i64, u64) {
    (stat.st_ctime, stat.st_ctime_nsec)
}

fn remove_strays(dir: std::os::fd::BorrowedFd<'_>) {
    // A directory that cannot be listed keeps its stale files.
    let Ok(listing) = rustix::fs::openat(dir, ".", LISTING, Mode::empty()) else { return };
    let Ok(names) = DirReader::new().names(&listing) else { return };
    for (name, _) in names.iter().filter(|(name, _)| name.starts_with(PREFIX.as_bytes())) {
        let Some(maker) = std::str::from_utf8(name).ok().and_then(Maker::from_name) else { continue };
        let Ok(stat) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if maker.left_behind(&stat)
            && let Err(errno) = rustix::fs::unlinkat(dir, name, AtFlags::empty())
        {
            tracing::debug!(%errno, "a stray temporary file stays");
        }
    }
}

/// The origin of temporary files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Maker {
    /// Identifies this boot of this machine and this pid namespace.
    resolved: u64,
    pid: u32,
    /// The start time of the process, in ticks.
    started: u64,
}

impl Maker {
    fn from_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split('-');
        let resolved = u64::from_str_radix(parts.next()?, 16).ok()?;
        let pid = parts.next()?.parse().ok()?;
        let started = parts.next()?.parse().ok()?;
        let _number: u64 = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { resolved, pid, started })
    }

    fn left_behind(&self, stat: &Stat) -> bool {
        if self.resolved != myself().resolved || self.resolved == 0 {
            let since = u64::try_from(stat.st_ctime).map(Duration::from_secs).unwrap_or_default();
            let age = SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default()
                .saturating_sub(since);
            return age > FOREIGN_REST;
        }
        is_reaped(self.pid, self.started)
    }
}

fn myself() -> Maker {
    static PLACE: OnceLock<u64> = OnceLock::new();
    let resolved = *PLACE.get_or_init(|| place_of_processes().unwrap_or(0));
    Maker { resolved, pid: std::process::id(), started: own_start_time() }
}

fn place_of_processes() -> Option<u64> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let boot = u64::from_str_radix(boot.get(..8)?, 16).ok()?;
    let namespace = rustix::fs::stat("/proc/self/ns/pid").ok()?.st_ino;
    Some((boot << 32) ^ namespace)
}
