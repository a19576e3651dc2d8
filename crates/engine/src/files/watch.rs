//! Watches directories and files: changes are delivered in short batches until the watch is dropped.
//!
//! All watches of a group share one inotify instance, of which a user has few, and one thread. A watch is set through a
//! descriptor that was opened without following symlinks: a directory that is swapped for a symlink is never watched in
//! its place.

mod instance;
mod tree;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use self::instance::{Delivery, Instance, WatchId};
use super::guard::EntryFilter;
use super::path::{RootedPath, Roots};
use super::refused;
use super::watch_batch::FileEventBatch;
use crate::Error;

/// Watches that share an inotify instance, such as those of a session. The instance exists while one of them does.
#[derive(Debug, Clone, Default)]
pub struct WatchGroup(Arc<Mutex<Weak<Instance>>>);

impl WatchGroup {
    /// Watches a directory or one file, and calls `sink` from the thread of the group with each batch. A sink that waits
    /// delays the other watches of the group. Symlinks inside are not followed.
    pub fn watch(
        &self,
        path: &RootedPath,
        is_recursive: bool,
        sink: impl FnMut(FileEventBatch) + Send + 'static,
    ) -> Result<FileWatcher, Error> {
        let watched = Arc::new(WatchedObject::open(path)?);
        let instance = self.instance().map_err(|source| Error::File {
            action: "watch",
            path: path.as_path().to_owned(),
            source,
        })?;
        let delivery = Delivery::new(Box::new(sink));
        let id = instance.register(watched, is_recursive, delivery.clone());
        // Dropped on failure, which removes what was added.
        let watcher = FileWatcher { instance, id, delivery };
        watcher.instance.add_all(id).map_err(refused("watch", path.as_path()))?;
        Ok(watcher)
    }

    fn instance(&self) -> std::io::Result<Arc<Instance>> {
        let mut current = lock(&self.0);
        if let Some(instance) = current.upgrade() {
            return Ok(instance);
        }
        let instance = Arc::new(Instance::start()?);
        *current = Arc::downgrade(&instance);
        Ok(instance)
    }
}

/// A running watch. Dropping it stops it without waiting for its sink, which may wait for the dropping thread;
/// [`FileWatcher::stop`] waits.
#[derive(Debug)]
pub struct FileWatcher {
    instance: Arc<Instance>,
    id: WatchId,
    delivery: Arc<Delivery>,
}

impl FileWatcher {
    /// Stops the watch: the sink is not called afterwards. Blocks while the sink blocks.
    pub fn stop(self) {
        self.instance.remove(self.id);
        if !self.instance.is_current_thread() {
            self.delivery.end();
        }
    }
}

impl Drop for FileWatcher {
    fn drop(&mut self) {
        self.instance.remove(self.id);
    }
}

/// The watched object, kept open: the watch is set on the checked object, not on a later one with its name.
#[derive(Debug)]
struct WatchedObject {
    object: OwnedFd,
    is_directory: bool,
    spelled: PathBuf,
    roots: Roots,
}

impl WatchedObject {
    fn open(path: &RootedPath) -> Result<Self, Error> {
        let (object, is_directory) = match path.open_directory() {
            Ok(directory) => (directory, true),
            Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotADirectory => {
                (path.open_file()?.into(), false)
            }
            Err(error) => return Err(error),
        };
        Ok(Self { object, is_directory, spelled: path.as_path().to_owned(), roots: path.roots().clone() })
    }

    /// The path for the caller; `None` for one that a guard denies.
    fn spell(&self, below: &Path) -> Option<PathBuf> {
        if !EntryFilter::new(&self.roots, &self.object).allows(below) {
            return None;
        }
        Some(if below.as_os_str().is_empty() { self.spelled.clone() } else { self.spelled.join(below) })
    }
}

/// The path of an open descriptor: resolves to the object itself, whatever its name is now.
fn through(object: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", object.as_raw_fd())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
