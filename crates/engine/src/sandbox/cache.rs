//! Cache of prepared sandboxes; an entry is dropped when its paths or the mounts of the machine have changed.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use tokio::io::Interest;
use tokio::task::JoinSet;

use super::confinement::Confinement;
use super::features::Features;
use super::prepared::PreparedSandbox;
use super::profile::{ReadAccess, ResourceLimits};
use super::standin::{self, StandIns};
use super::{OnGap, SandboxSettings};
use crate::Error;

/// Limit on cached sandboxes; beyond it the least recently used one is dropped.
const MAX_CACHED: usize = 32;

/// Prepares sandboxes for an engine and caches them.
#[derive(Debug)]
pub(crate) struct SandboxCache {
    settings: SandboxSettings,
    state: Mutex<CacheState>,
    /// Drops entries when the mounts of the machine change, from the first entry on.
    watcher: Mutex<JoinSet<()>>,
}

#[derive(Debug, Default)]
struct CacheState {
    /// Ordered by use, the most recent last.
    entries: Vec<CacheEntry>,
    /// The mount table of the machine, which can be polled for changes.
    mounts: Option<OwnedFd>,
}

#[derive(Debug, Clone)]
struct CacheEntry {
    confinement: Arc<Confinement>,
    identities: Vec<PathIdentity>,
    prepared: Arc<PreparedSandbox>,
}

/// Device and inode of a path when a sandbox was prepared, with the modification time for `/`.
type PathIdentity = Option<[i64; 4]>;

impl SandboxCache {
    pub(crate) fn new(settings: SandboxSettings) -> SandboxCache {
        SandboxCache { settings, state: Mutex::default(), watcher: Mutex::default() }
    }

    /// The sandbox of a child with this confinement, and stand-ins for protected paths that do not exist. Keep both until all
    /// processes of the child have ended.
    pub(crate) async fn prepare(
        self: &Arc<Self>,
        confinement: &Arc<Confinement>,
    ) -> Result<(Arc<PreparedSandbox>, StandIns), Error> {
        if Features::known().is_none() {
            // A runtime that shuts down does not run it; then the features are probed below.
            let _probed = tokio::task::spawn_blocking(Features::probe).await;
        }
        self.refuse_gaps(confinement)?;
        let stand_in_paths = match self.settings.features().namespaces {
            true => standin::needed_paths(confinement),
            false => BTreeMap::new(),
        };
        if stand_in_paths.is_empty() {
            return Ok((self.find_or_create(confinement).await?, StandIns::default()));
        }
        let refused = |reason| Error::Sandbox { profile: confinement.name(), reason };
        let made = tokio::task::spawn_blocking(move || StandIns::create(stand_in_paths)).await;
        let stand_ins = made.map_err(|_stopping| Error::Gone)?.map_err(refused)?;
        let prepared = self.find_or_create(confinement).await?;
        let inside = prepared.clone();
        let cover = move || inside.cover(&stand_ins).map(|()| stand_ins);
        let covered = tokio::task::spawn_blocking(cover).await.map_err(|_stopping| Error::Gone)?;
        Ok((prepared, covered.map_err(refused)?))
    }

    async fn find_or_create(
        self: &Arc<Self>,
        confinement: &Arc<Confinement>,
    ) -> Result<Arc<PreparedSandbox>, Error> {
        let identities = identify_paths(confinement);
        if let Some(prepared) = self.state().find(confinement, &identities) {
            return Ok(prepared);
        }
        self.watch();
        let (cache, confinement) = (self.clone(), confinement.clone());
        let made = tokio::task::spawn_blocking(move || cache.create(confinement)).await;
        made.unwrap_or(Err(Error::Gone))
    }

    /// Drops entries as soon as the mount table changes: each keeps every file system in use that was mounted when it was
    /// prepared, and an unmounted disk could not be removed until the next confined command starts.
    fn watch(self: &Arc<Self>) {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = || crate::process::sys::watch(mount_table().ok()?, Interest::PRIORITY).ok();
        let Some(mounts) = watcher.is_empty().then(watched).flatten() else { return };
        let cache = Arc::downgrade(self);
        watcher.spawn(async move {
            while let Ok(mut changed) = mounts.ready(Interest::PRIORITY).await {
                changed.clear_ready();
                let Some(cache) = cache.upgrade() else { return };
                cache.state().watch_mounts();
            }
        });
    }

    fn create(&self, confinement: Arc<Confinement>) -> Result<Arc<PreparedSandbox>, Error> {
        // Read before the sandbox is prepared: a change in between is found at the next start.
        let identities = identify_paths(&confinement);
        self.state().watch_mounts();
        let prepared = PreparedSandbox::new(&confinement, &self.settings.features())
            .map_err(|reason| Error::Sandbox { profile: confinement.name(), reason })?;
        let prepared = Arc::new(prepared);
        self.state().put(CacheEntry { confinement, identities, prepared: prepared.clone() });
        Ok(prepared)
    }

    fn refuse_gaps(&self, confinement: &Confinement) -> Result<(), Error> {
        if self.settings.on_gap == OnGap::Reduce {
            return Ok(());
        }
        let features = self.settings.features();
        // Resource limits are enforced separately and may have their own gaps.
        if features.have_no_gaps() && confinement.limits() == ResourceLimits::default() {
            return Ok(());
        }
        let gaps = confinement.gaps(&features);
        let essential: Vec<String> =
            gaps.iter().filter(|gap| gap.is_essential()).map(ToString::to_string).collect();
        match essential.is_empty() {
            true => Ok(()),
            false => Err(Error::Sandbox { profile: confinement.name(), reason: essential.join("; ") }),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn find(
        &mut self,
        confinement: &Arc<Confinement>,
        identities: &[PathIdentity],
    ) -> Option<Arc<PreparedSandbox>> {
        self.watch_mounts();
        let is_same = |entry: &CacheEntry| {
            Arc::ptr_eq(&entry.confinement, confinement) || entry.confinement == *confinement
        };
        let index = self.entries.iter().position(is_same)?;
        let entry = self.entries.remove(index);
        let prepared = (entry.identities == identities).then(|| entry.prepared.clone())?;
        self.entries.push(entry);
        Some(prepared)
    }

    fn put(&mut self, entry: CacheEntry) {
        self.entries.retain(|kept| kept.confinement != entry.confinement);
        if self.entries.len() >= MAX_CACHED {
            self.entries.remove(0);
        }
        self.entries.push(entry);
    }

    /// Drops all entries if the mount table has changed since the last call: a new mount would be writable.
    fn watch_mounts(&mut self) {
        if self.mounts.is_none() {
            self.mounts = mount_table().ok();
        }
        let has_changed = self.mounts.as_ref().is_none_or(|mounts| {
            let mut polled = [PollFd::new(mounts, PollFlags::PRI)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let result = rustix::event::poll(&mut polled, Some(&at_once));
            result.is_err() || polled.iter().any(|fd| fd.revents().contains(PollFlags::PRI))
        });
        if has_changed {
            self.entries.clear();
        }
    }
}

/// Opens the mount table of the machine, which is ready with priority after a change.
fn mount_table() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open("/proc/self/mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Current identities of all paths of a confinement.
fn identify_paths(confinement: &Confinement) -> Vec<PathIdentity> {
    let mut identities = Vec::new();
    for layer in confinement.layers() {
        let (only, root): (&[_], _) = match &layer.read {
            ReadAccess::Only(paths) => (paths, None),
            // The directories in `/` are allowed one by one, so new ones change the rules.
            ReadAccess::Everything => (&[], Some(Path::new("/"))),
        };
        let identity = |path: &Path| stat(path).map(|stat| [stat.0, stat.1, 0, 0]);
        let named = [&layer.write[..], &layer.hide, &layer.expose, only];
        identities.extend(named.into_iter().flatten().map(|path| identity(path)));
        // For a missing path its nearest existing parent counts.
        identities.extend(layer.protect.iter().map(|path| path.ancestors().find_map(identity)));
        identities.extend(root.map(|root| stat(root).map(|stat| [stat.0, stat.1, stat.2, stat.3])));
    }
    identities
}

fn stat(path: &Path) -> Option<(i64, i64, i64, i64)> {
    // A stand-in counts as missing.
    let stat = rustix::fs::stat(path).ok().filter(|stat| !standin::is_stand_in(stat))?;
    Some((stat.st_dev as i64, stat.st_ino as i64, stat.st_mtime, stat.st_mtime_nsec as i64))
}
