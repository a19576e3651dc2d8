//! Watches a directory: changes are delivered in short batches until the watcher is dropped.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use notify::{Config, RecommendedWatcher, RecursiveMode, Watcher};

use super::guard::EntryFilter;
use super::path::{RootedPath, Roots};
use super::watch_batch::{EventBuffer, FileEventBatch};
use crate::Error;

/// How long changes are collected after the first of a batch.
const WINDOW: Duration = Duration::from_millis(50);
/// Events queued for the next batch; beyond it they are dropped and the batch is marked as incomplete.
const MOST_WAITING: usize = 16 * 1024;

/// A running watch. Dropping it stops it without waiting for its thread, whose sink may wait for the dropping thread;
/// [`FileWatcher::stop`] waits.
#[derive(Debug)]
pub struct FileWatcher {
    watcher: Option<RecommendedWatcher>,
    gatherer: Option<JoinHandle<()>>,
}

impl FileWatcher {
    /// Watches a directory or one file, and calls `sink` from a separate thread with each batch. Symlinks inside are
    /// not followed.
    pub fn start(
        path: &RootedPath,
        recursive: bool,
        sink: impl FnMut(FileEventBatch) + Send + 'static,
    ) -> Result<Self, Error> {
        let pinned = Pinned::open(path)?;
        let (events, waiting) = sync_channel(MOST_WAITING);
        let lost = Arc::new(AtomicBool::new(false));
        let handler = queue(events, Arc::clone(&lost));
        let config = Config::default().with_follow_symlinks(false);
        let mut watcher = RecommendedWatcher::new(handler, config).map_err(|error| failed(path, error))?;
        let mode = if recursive { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        watcher.watch(&pinned.through, mode).map_err(|error| failed(path, error))?;
        let gatherer = std::thread::Builder::new()
            .name("files-watch".into())
            .spawn(move || gather(&waiting, &lost, &pinned, sink))
            .map_err(|source| Error::File { action: "watch", path: path.as_path().to_owned(), source })?;
        Ok(Self { watcher: Some(watcher), gatherer: Some(gatherer) })
    }
}

impl FileWatcher {
    /// Stops the watch and waits for its thread: the sink is not called afterwards. Blocks while the sink blocks.
    pub fn stop(mut self) {
        // Without its watcher the queue ends, and so does the thread.
        self.watcher = None;
        if let Some(gatherer) = self.gatherer.take()
            && gatherer.thread().id() != std::thread::current().id()
            && gatherer.join().is_err()
        {
            tracing::error!("the sink of a watch panicked");
        }
    }
}

/// The watched object, kept open: the watch is set on the checked object, not on a later one with its name.
struct Pinned {
    object: OwnedFd,
    through: PathBuf,
    spelled: PathBuf,
    roots: Roots,
}

impl Pinned {
    fn open(path: &RootedPath) -> Result<Self, Error> {
        let spelled = path.as_path().to_owned();
        let (object, suffix) = match path.open_directory() {
            Ok(directory) => (directory, "/."),
            Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotADirectory => {
                (path.open_file()?.into(), "")
            }
            Err(error) => return Err(error),
        };
        let through = PathBuf::from(format!("/proc/self/fd/{}{suffix}", object.as_raw_fd()));
        Ok(Self { object, through, spelled, roots: path.roots().clone() })
    }

    /// The path for the caller; `None` for one that a guard denies.
    fn spell(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.through).ok()?;
        if !EntryFilter::new(&self.roots, &self.object).allows(below) {
            return None;
        }
        Some(if below.as_os_str().is_empty() { self.spelled.clone() } else { self.spelled.join(below) })
    }
}

/// Receives events without blocking the watcher.
fn queue(
    events: SyncSender<notify::Event>,
    lost: Arc<AtomicBool>,
) -> impl FnMut(notify::Result<notify::Event>) + Send + 'static {
    move |event| match event.map(|event| events.try_send(event)) {
        Ok(Ok(()) | Err(TrySendError::Disconnected(_))) => {}
        // The queue is full, or a directory could not be watched: changes will be missed.
        Ok(Err(TrySendError::Full(_))) | Err(_) => lost.store(true, Ordering::Relaxed),
    }
}

/// Collects events into batches until the watcher is dropped.
fn gather(
    waiting: &Receiver<notify::Event>,
    lost: &AtomicBool,
    pinned: &Pinned,
    mut sink: impl FnMut(FileEventBatch),
) {
    let mut batch = EventBuffer::default();
    while let Ok(first) = waiting.recv() {
        batch.add(&first, |path| pinned.spell(path));
        let end = Instant::now() + WINDOW;
        let ended = loop {
            match waiting.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(event) => batch.add(&event, |path| pinned.spell(path)),
                Err(RecvTimeoutError::Timeout) => break false,
                Err(RecvTimeoutError::Disconnected) => break true,
            }
        };
        if lost.swap(false, Ordering::Relaxed) {
            batch.lose();
        }
        let changes = batch.take();
        if ended {
            return;
        }
        if !changes.is_empty() {
            sink(changes);
        }
    }
}

fn failed(path: &RootedPath, error: notify::Error) -> Error {
    let source = match error.kind {
        notify::ErrorKind::Io(source) => source,
        notify::ErrorKind::MaxFilesWatch => rustix::io::Errno::NOSPC.into(),
        _ => std::io::Error::other(error.to_string()),
    };
    Error::File { action: "watch", path: path.as_path().to_owned(), source }
}
