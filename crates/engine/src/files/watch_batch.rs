//! Batches of changes: the changes within a short time, one per path.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::cleanup::is_temporary;

/// Events in one batch; beyond it the rest is dropped and the batch is marked as incomplete.
const MOST_CHANGES: usize = 4096;

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileEventKind {
    /// Created.
    Created,
    /// Content or attributes changed.
    Modified,
    /// Removed.
    Removed,
    /// Renamed.
    Renamed,
}

/// One change of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvent {
    /// The path, as a continuation of the watched path.
    pub path: PathBuf,
    /// The kind of the change.
    pub kind: FileEventKind,
    /// The new path, if it was renamed.
    pub to: Option<PathBuf>,
}

/// The changes of one batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileEventBatch {
    /// The changes, in the order of the first event of each path.
    pub changes: Vec<FileEvent>,
    /// Whether events were dropped: scan the watched directory again.
    pub overflow: bool,
}

impl FileEventBatch {
    /// Whether the batch has no events and is complete.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.overflow
    }
}

/// A change as the kernel reports it. The two halves of a rename have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawChange {
    Created,
    Modified,
    Removed,
    MovedFrom(u32),
    MovedTo(u32),
}

/// Collects events into a batch.
#[derive(Debug, Default)]
pub(super) struct EventBuffer {
    changes: Vec<Option<FileEvent>>,
    latest: HashMap<PathBuf, usize>,
    /// Renamed paths whose new name has not been reported.
    leaving: HashMap<u32, PathBuf>,
    overflow: bool,
}

impl EventBuffer {
    /// Adds one change; `path` is spelled for the caller.
    pub(super) fn add(&mut self, path: PathBuf, change: RawChange) {
        match change {
            RawChange::Created => self.put(path, FileEventKind::Created),
            RawChange::Modified => self.put(path, FileEventKind::Modified),
            RawChange::Removed => self.put(path, FileEventKind::Removed),
            RawChange::MovedFrom(_) if self.leaving.len() >= MOST_CHANGES => self.overflow = true,
            RawChange::MovedFrom(cookie) => drop(self.leaving.insert(cookie, path)),
            RawChange::MovedTo(cookie) => match self.leaving.remove(&cookie) {
                Some(from) => self.moved(from, path),
                None => self.put(path, FileEventKind::Created),
            },
        }
    }

    /// The old path of a rename whose new name has not been added.
    pub(super) fn leaving(&self, cookie: u32) -> Option<&Path> {
        self.leaving.get(&cookie).map(PathBuf::as_path)
    }

    /// Adds a rename of which both paths are known.
    pub(super) fn renamed(&mut self, from: PathBuf, to: PathBuf) {
        self.moved(from, to);
    }

    /// Marks the batch as incomplete.
    pub(super) fn lose(&mut self) {
        self.overflow = true;
    }

    /// Takes the batch and starts an empty one.
    pub(super) fn take(&mut self) -> FileEventBatch {
        let mut leaving: Vec<PathBuf> = self.leaving.drain().map(|(_, path)| path).collect();
        leaving.sort_unstable();
        for path in leaving {
            self.put(path, FileEventKind::Removed);
        }
        self.latest.clear();
        let changes = self.changes.drain(..).flatten().collect();
        FileEventBatch { changes, overflow: std::mem::take(&mut self.overflow) }
    }

    /// A rename. A file created and renamed within one batch is reported as created under its new name.
    fn moved(&mut self, from: PathBuf, to: PathBuf) {
        let earlier = self.latest.remove(&from);
        let made = earlier
            .and_then(|index| self.changes[index].take_if(|change| change.kind == FileEventKind::Created));
        if made.is_some() {
            return self.put(to, FileEventKind::Created);
        }
        // The way our own writes replace a file.
        if is_unseen(&from) {
            return self.put(to, FileEventKind::Modified);
        }
        self.push(FileEvent { path: from, kind: FileEventKind::Renamed, to: Some(to) });
    }

    fn put(&mut self, path: PathBuf, kind: FileEventKind) {
        if is_unseen(&path) {
            return;
        }
        let Some(index) = self.latest.get(&path).copied() else {
            return self.push(FileEvent { path, kind, to: None });
        };
        let Some(change) = self.changes[index].as_mut() else {
            return self.push(FileEvent { path, kind, to: None });
        };
        match (change.kind, kind) {
            (FileEventKind::Created, FileEventKind::Removed) => {
                self.changes[index] = None;
                self.latest.remove(&path);
            }
            (FileEventKind::Removed, FileEventKind::Created) => change.kind = FileEventKind::Modified,
            (FileEventKind::Created, _) | (_, FileEventKind::Created)
                if change.kind != FileEventKind::Renamed => {}
            (FileEventKind::Modified, FileEventKind::Removed) => change.kind = FileEventKind::Removed,
            (FileEventKind::Modified, FileEventKind::Modified) => {}
            _ => self.push(FileEvent { path, kind, to: None }),
        }
    }

    fn push(&mut self, change: FileEvent) {
        if self.changes.len() >= MOST_CHANGES {
            self.overflow = true;
            return;
        }
        self.latest.insert(change.path.clone(), self.changes.len());
        self.changes.push(Some(change));
    }
}

/// Whether a path is one of our temporary files, named or unnamed: the kernel reports changes of an unnamed file as `#`
/// and its inode number.
fn is_unseen(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let number = name.to_str().and_then(|name| name.strip_prefix('#'));
    let unnamed = number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    is_temporary(name) || (unnamed && matches!(rustix::fs::lstat(path), Err(Errno::NOENT)))
}
