//! An inotify instance with its thread: which directories are watched for whom, and the delivery of changes.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant as Time};
use std::{fmt, io};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::{WatchedObject, lock, through, tree};
use crate::files::watch_batch::{EventBuffer, FileEventBatch, RawChange};

/// How long changes are collected after the first of a batch.
const WINDOW: Duration = Duration::from_millis(50);
/// Bytes of events that are read from the kernel at once.
const READ_BYTES: usize = 64 * 1024;
/// The same for every watch: two watches of one object share a watch of the kernel.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// The number of a watch within its instance.
pub(super) type WatchId = u64;
/// The number that the kernel gives to a watched object.
type WatchNumber = i32;

/// Receives the batches of one watch.
pub(super) struct Delivery(Mutex<Option<Sink>>);

type Sink = Box<dyn FnMut(FileEventBatch) + Send>;

impl Delivery {
    pub(super) fn new(sink: Sink) -> Arc<Delivery> {
        Arc::new(Delivery(Mutex::new(Some(sink))))
    }

    /// Waits for a call that runs, and removes the sink.
    pub(super) fn end(&self) {
        *lock(&self.0) = None;
    }

    fn deliver(&self, batch: FileEventBatch) {
        let mut sink = lock(&self.0);
        let Some(call) = sink.as_mut() else { return };
        // A panic must not end the other watches of the group.
        if catch_unwind(AssertUnwindSafe(|| call(batch))).is_err() {
            tracing::error!("the sink of a watch panicked");
            *sink = None;
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").finish_non_exhaustive()
    }
}

/// A running instance. Dropping it ends its thread, without waiting: a sink may wait for the dropping thread.
#[derive(Debug)]
pub(super) struct Instance {
    shared: Arc<SharedInstance>,
    thread: ThreadId,
}

#[derive(Debug)]
pub(super) struct SharedInstance {
    inotify: OwnedFd,
    /// Wakes the thread when the instance ends.
    wake: OwnedFd,
    is_over: AtomicBool,
    state: Mutex<WatchTable>,
}

/// The watches of an instance.
#[derive(Debug, Default)]
struct WatchTable {
    last: WatchId,
    watches: HashMap<WatchId, WatchEntry>,
    /// The watches of each watched object, with its path below the watched directory.
    users: HashMap<WatchNumber, Vec<(WatchId, PathBuf)>>,
}

#[derive(Debug)]
struct WatchEntry {
    watched: Arc<WatchedObject>,
    is_recursive: bool,
    numbers: HashSet<WatchNumber>,
    buffer: EventBuffer,
    /// When its batch is delivered.
    due: Option<Time>,
    delivery: Arc<Delivery>,
}

/// A directory that appeared below a recursive watch.
struct NewDirectory {
    id: WatchId,
    below: PathBuf,
    entries: NewEntries,
}

/// What is reported about the entries of a directory that appeared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NewEntries {
    /// Nothing: they may be known.
    Known,
    /// They are new: they may be older than the watch of the directory.
    Created,
    /// They were renamed with the directory, which had this path below the watched one.
    Renamed(PathBuf),
}

impl Instance {
    pub(super) fn start() -> io::Result<Instance> {
        let shared = Arc::new(SharedInstance {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            wake: eventfd(0, EventfdFlags::CLOEXEC)?,
            is_over: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let running = shared.clone();
        let thread = std::thread::Builder::new().name("files-watch".into()).spawn(move || running.run())?;
        Ok(Instance { shared, thread: thread.thread().id() })
    }

    pub(super) fn is_current_thread(&self) -> bool {
        std::thread::current().id() == self.thread
    }

    pub(super) fn register(
        &self,
        watched: Arc<WatchedObject>,
        is_recursive: bool,
        delivery: Arc<Delivery>,
    ) -> WatchId {
        let mut table = lock(&self.shared.state);
        table.last += 1;
        let id = table.last;
        let (numbers, buffer, due) = (HashSet::new(), EventBuffer::default(), None);
        let is_recursive = is_recursive && watched.is_directory;
        table.watches.insert(id, WatchEntry { watched, is_recursive, numbers, buffer, due, delivery });
        id
    }

    /// Adds the watched object and, for a recursive watch, all directories below it.
    pub(super) fn add_all(&self, id: WatchId) -> Result<(), Errno> {
        let Some((watched, is_recursive)) = self.shared.watched(id) else { return Ok(()) };
        match is_recursive {
            true => {
                let (below, entries) = (PathBuf::new(), NewEntries::Known);
                self.shared.add_tree(&NewDirectory { id, below, entries })
            }
            false => self.shared.add(id, &watched.object, Path::new("")),
        }
    }

    pub(super) fn remove(&self, id: WatchId) {
        let mut table = lock(&self.shared.state);
        table.forget_below(&self.shared.inotify, id, Path::new(""));
        let removed = table.watches.remove(&id);
        // The sink is dropped without the lock.
        drop(table);
        drop(removed);
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        // Cannot fail: the counter is far from its maximum.
        let _written = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
    }
}

impl SharedInstance {
    fn watched(&self, id: WatchId) -> Option<(Arc<WatchedObject>, bool)> {
        let table = lock(&self.state);
        table.watches.get(&id).map(|entry| (entry.watched.clone(), entry.is_recursive))
    }

    /// Watches an open object for `id`; does nothing if that watch was removed.
    fn add(&self, id: WatchId, object: &OwnedFd, below: &Path) -> Result<(), Errno> {
        let mut table = lock(&self.state);
        let WatchTable { watches, users, .. } = &mut *table;
        let Some(entry) = watches.get_mut(&id) else { return Ok(()) };
        // With the lock held, so that no event of it is read before it is known.
        let number = inotify::add_watch(&self.inotify, through(object), CHANGES)?;
        entry.numbers.insert(number);
        let users = users.entry(number).or_default();
        if !users.iter().any(|(user, path)| *user == id && path == below) {
            users.push((id, below.to_owned()));
        }
        Ok(())
    }

    /// Watches a directory and all directories below it, and reports their entries if they are new there.
    fn add_tree(&self, new: &NewDirectory) -> Result<(), Errno> {
        let Some((watched, _)) = self.watched(new.id) else { return Ok(()) };
        let add = |directory: &OwnedFd, below: &Path| self.add(new.id, directory, below);
        let found = |below: &Path| match &new.entries {
            NewEntries::Known => {}
            NewEntries::Created => lock(&self.state).note(new.id, below, RawChange::Created),
            NewEntries::Renamed(from) => {
                let from = from.join(below.strip_prefix(&new.below).unwrap_or(below));
                lock(&self.state).note_renamed(new.id, &from, below);
            }
        };
        let is_complete = tree::walk(&watched.object, &new.below, add, found)?;
        if !is_complete {
            lock(&self.state).lose(new.id);
        }
        Ok(())
    }

    fn run(&self) {
        let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut events = Reader::new(&self.inotify, &mut buffer);
        while !self.is_over.load(Ordering::Acquire) {
            // The kernel no longer knows of events that were read and not handled.
            if events.is_buffer_empty() {
                self.wait();
            }
            self.read(&mut events);
            self.deliver();
        }
    }

    /// Waits for events, for the next batch that is due, or for the end.
    fn wait(&self) {
        let due = lock(&self.state).watches.values().filter_map(|entry| entry.due).min();
        let timeout = due.map(|due| {
            let left = due.saturating_duration_since(Time::now());
            Timespec { tv_sec: 0, tv_nsec: left.min(WINDOW).subsec_nanos().into() }
        });
        let mut ready = [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
        // After an interruption the loop waits again.
        let _ready = poll(&mut ready, timeout.as_ref());
    }

    /// Handles events until there are none, or for the length of one batch.
    fn read(&self, events: &mut Reader<'_, &OwnedFd>) {
        let end = Time::now() + WINDOW;
        while Time::now() < end {
            let Ok(event) = events.next() else { return };
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
            let event = (event.wd(), event.events(), event.cookie());
            let appeared = lock(&self.state).handle(&self.inotify, event, name);
            for directory in appeared {
                // Changes below it will be missed.
                if self.add_tree(&directory).is_err() {
                    lock(&self.state).lose(directory.id);
                }
            }
        }
    }

    /// Calls the sinks of the batches that are due, without the lock.
    fn deliver(&self) {
        let now = Time::now();
        let due: Vec<_> = {
            let mut table = lock(&self.state);
            let due = table.watches.values_mut().filter(|entry| entry.due.is_some_and(|due| due <= now));
            due.map(|entry| {
                entry.due = None;
                (entry.delivery.clone(), entry.buffer.take())
            })
            .collect()
        };
        for (delivery, batch) in due {
            if !batch.is_empty() {
                delivery.deliver(batch);
            }
        }
    }
}

impl WatchTable {
    /// Handles an event of the kernel and returns the directories that have to be watched now.
    fn handle(
        &mut self,
        inotify: &OwnedFd,
        (number, flags, cookie): (WatchNumber, ReadFlags, u32),
        name: Option<&OsStr>,
    ) -> Vec<NewDirectory> {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.overflowed();
        }
        if flags.contains(ReadFlags::IGNORED) {
            for (id, _) in self.users.remove(&number).unwrap_or_default() {
                self.watches.get_mut(&id).map(|entry| entry.numbers.remove(&number));
            }
            return Vec::new();
        }
        let mut appeared = Vec::new();
        for (id, below) in self.users.get(&number).cloned().unwrap_or_default() {
            let path = name.map_or_else(|| below.clone(), |name| below.join(name));
            let Some(change) = change(flags, cookie, below.as_os_str().is_empty()) else { continue };
            let renamed_from = self.renamed_from(id, change);
            self.note(id, &path, change);
            let is_recursive = self.watches.get(&id).is_some_and(|entry| entry.is_recursive);
            if !is_recursive || name.is_none() || !flags.contains(ReadFlags::ISDIR) {
                continue;
            }
            match change {
                RawChange::Created | RawChange::MovedTo(_) => {
                    let entries = renamed_from.map_or(NewEntries::Created, NewEntries::Renamed);
                    appeared.push(NewDirectory { id, below: path, entries });
                }
                // It may be outside now; if it is not, it appears under its new name.
                RawChange::MovedFrom(_) => self.forget_below(inotify, id, &path),
                RawChange::Modified | RawChange::Removed => {}
            }
        }
        appeared
    }

    /// Events were lost, perhaps those of new directories: all trees are added again.
    fn overflowed(&mut self) -> Vec<NewDirectory> {
        let ids: Vec<WatchId> = self.watches.keys().copied().collect();
        ids.iter().for_each(|id| self.lose(*id));
        let recursive = ids.into_iter().filter(|id| self.watches[id].is_recursive);
        let (below, entries) = (PathBuf::new(), NewEntries::Known);
        recursive.map(|id| NewDirectory { id, below: below.clone(), entries: entries.clone() }).collect()
    }

    /// The old path of the object whose new name is reported, below the watched directory.
    fn renamed_from(&self, id: WatchId, change: RawChange) -> Option<PathBuf> {
        let (RawChange::MovedTo(cookie), Some(entry)) = (change, self.watches.get(&id)) else { return None };
        let from = entry.buffer.leaving(cookie)?;
        from.strip_prefix(&entry.watched.spelled).ok().map(Path::to_owned)
    }

    /// Notes an object that has another path because a directory above it was renamed.
    fn note_renamed(&mut self, id: WatchId, from: &Path, to: &Path) {
        let Some(entry) = self.watches.get_mut(&id) else { return };
        let Some(to) = entry.watched.spell(to) else { return };
        match entry.watched.spell(from) {
            Some(from) => entry.buffer.renamed(from, to),
            None => entry.buffer.add(to, RawChange::Created),
        }
        entry.due.get_or_insert_with(|| Time::now() + WINDOW);
    }

    fn note(&mut self, id: WatchId, below: &Path, change: RawChange) {
        let Some(entry) = self.watches.get_mut(&id) else { return };
        if let Some(path) = entry.watched.spell(below) {
            entry.buffer.add(path, change);
            entry.due.get_or_insert_with(|| Time::now() + WINDOW);
        }
    }

    fn lose(&mut self, id: WatchId) {
        if let Some(entry) = self.watches.get_mut(&id) {
            entry.buffer.lose();
            entry.due.get_or_insert_with(|| Time::now() + WINDOW);
        }
    }

    /// Removes what a watch has at a path and below it.
    fn forget_below(&mut self, inotify: &OwnedFd, id: WatchId, path: &Path) {
        let WatchTable { watches, users, .. } = self;
        let Some(entry) = watches.get_mut(&id) else { return };
        entry.numbers.retain(|number| {
            let Some(known) = users.get_mut(number) else { return false };
            known.retain(|(user, below)| *user != id || !below.starts_with(path));
            let (is_kept, is_unused) = (known.iter().any(|(user, _)| *user == id), known.is_empty());
            if is_unused {
                users.remove(number);
                // It may be gone already.
                let _removed = inotify::remove_watch(inotify, *number);
            }
            is_kept
        });
    }
}

/// The change that an event reports; events of an object itself count only at the top of a watch.
fn change(flags: ReadFlags, cookie: u32, is_top: bool) -> Option<RawChange> {
    let has = |flag: ReadFlags| flags.intersects(flag);
    Some(if has(ReadFlags::CREATE) {
        RawChange::Created
    } else if has(ReadFlags::DELETE) {
        RawChange::Removed
    } else if has(ReadFlags::MODIFY | ReadFlags::ATTRIB) {
        RawChange::Modified
    } else if has(ReadFlags::MOVED_FROM) {
        RawChange::MovedFrom(cookie)
    } else if has(ReadFlags::MOVED_TO) {
        RawChange::MovedTo(cookie)
    } else if is_top && has(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF) {
        RawChange::Removed
    } else {
        return None;
    })
}
