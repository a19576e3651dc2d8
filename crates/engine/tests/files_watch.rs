//! Watches of one group: they share an inotify instance, follow directories that appear and move, and never leave the roots.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use engine::Roots;
use engine::files::{FileEvent, FileEventBatch, FileEventKind, FileWatcher, WatchGroup};
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// The bound of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    _directory: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
    roots: Roots,
}

fn world() -> World {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    let (root, outside) = (top.join("root"), top.join("outside"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&outside).unwrap();
    World { _directory: directory, roots: Roots::new(vec![root.clone()]), root, outside }
}

impl World {
    fn watch(&self, group: &WatchGroup, path: &str) -> (FileWatcher, Receiver<FileEventBatch>) {
        let (send, receive) = channel();
        let path = self.roots.admit(&self.root, Path::new(path)).unwrap();
        let watch = group.watch(&path, true, move |batch| drop(send.send(batch))).unwrap();
        (watch, receive)
    }

    fn created(&self, path: &str) -> FileEvent {
        FileEvent { path: self.root.join(path), kind: FileEventKind::Created, to: None }
    }
}

/// All changes up to the one that is waited for.
fn until(receive: &Receiver<FileEventBatch>, wanted: &FileEvent) -> Vec<FileEvent> {
    let mut seen = Vec::new();
    while !seen.contains(wanted) {
        let batch = receive
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| panic!("no {wanted:?} after {} changes", seen.len()));
        assert!(!batch.overflow);
        seen.extend(batch.changes);
    }
    seen
}

#[test]
fn watches_of_one_directory_are_independent() {
    let world = world();
    fs::create_dir(world.root.join("sub")).unwrap();
    let group = WatchGroup::default();
    let (all, in_all) = world.watch(&group, "");
    let (sub, in_sub) = world.watch(&group, "sub");
    let (_same, in_same) = world.watch(&group, "sub");
    fs::write(world.root.join("sub/one"), "").unwrap();
    for receive in [&in_all, &in_sub, &in_same] {
        assert!(until(receive, &world.created("sub/one")).len() <= 2);
    }
    sub.stop();
    drop(all);
    fs::write(world.root.join("sub/two"), "").unwrap();
    until(&in_same, &world.created("sub/two"));
    let late: Vec<_> = in_all.iter().chain(in_sub.iter()).flat_map(|batch| batch.changes).collect();
    assert!(late.iter().all(|change| !change.path.ends_with("two")), "{late:?}");
}

#[test]
fn files_in_a_directory_that_appears_are_reported_however_soon_they_come() {
    let world = world();
    let (_watch, receive) = world.watch(&WatchGroup::default(), "");
    for round in 0..20 {
        let (directory, file) = (format!("{round}/a/b"), format!("{round}/a/b/file"));
        fs::create_dir_all(world.root.join(directory)).unwrap();
        fs::write(world.root.join(&file), "x").unwrap();
        until(&receive, &world.created(&file));
    }
}

#[test]
fn a_moved_directory_is_watched_under_its_new_name_and_not_outside() {
    let world = world();
    fs::create_dir_all(world.root.join("a/deep")).unwrap();
    let (_watch, receive) = world.watch(&WatchGroup::default(), "");
    fs::rename(world.root.join("a"), world.root.join("b")).unwrap();
    until(
        &receive,
        &FileEvent {
            path: world.root.join("a"),
            kind: FileEventKind::Renamed,
            to: Some(world.root.join("b")),
        },
    );
    fs::write(world.root.join("b/deep/one"), "").unwrap();
    until(&receive, &world.created("b/deep/one"));
    fs::rename(world.root.join("b"), world.outside.join("b")).unwrap();
    let removed = FileEvent { path: world.root.join("b"), kind: FileEventKind::Removed, to: None };
    until(&receive, &removed);
    fs::write(world.outside.join("b/deep/secret"), "").unwrap();
    fs::write(world.root.join("marker"), "").unwrap();
    let seen = until(&receive, &world.created("marker"));
    assert!(seen.iter().all(|change| !change.path.ends_with("secret")), "{seen:?}");
}

#[test]
fn the_files_of_a_renamed_directory_are_reported_with_both_paths() {
    let world = world();
    fs::create_dir_all(world.root.join("a/deep")).unwrap();
    fs::write(world.root.join("a/deep/file"), "").unwrap();
    fs::create_dir_all(world.outside.join("new")).unwrap();
    fs::write(world.outside.join("new/file"), "").unwrap();
    let (_watch, receive) = world.watch(&WatchGroup::default(), "");
    fs::rename(world.root.join("a"), world.root.join("b")).unwrap();
    let renamed = |from: &str, to: &str| FileEvent {
        path: world.root.join(from),
        kind: FileEventKind::Renamed,
        to: Some(world.root.join(to)),
    };
    let seen = until(&receive, &renamed("a/deep/file", "b/deep/file"));
    for change in [renamed("a", "b"), renamed("a/deep", "b/deep")] {
        assert!(seen.contains(&change), "{seen:?}");
    }
    fs::rename(world.outside.join("new"), world.root.join("new")).unwrap();
    let seen = until(&receive, &world.created("new/file"));
    assert!(seen.contains(&world.created("new")), "{seen:?}");
}

/// Handling the events takes longer than one batch: those that were read and not handled must not wait for another event.
#[test]
fn events_that_outlast_a_batch_are_delivered_without_another_event() {
    let world = world();
    let group = WatchGroup::default();
    let watches: Vec<_> = (0..200).map(|_| world.watch(&group, "")).collect();
    for number in 0..1000 {
        fs::write(world.root.join(format!("f{number}")), "").unwrap();
    }
    for (_watch, receive) in &watches {
        until(receive, &world.created("f999"));
    }
}

/// ARCHITECTURE.md, invariant 17.
#[test]
fn a_directory_that_is_swapped_for_a_symlink_while_watches_start_is_not_watched_in_its_place() {
    let world = world();
    fs::create_dir_all(world.root.join("swapped/deep")).unwrap();
    fs::create_dir_all(world.outside.join("deep")).unwrap();
    symlink(&world.outside, world.root.join("link")).unwrap();
    let (is_starting, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let swapping = std::thread::spawn({
        let (is_starting, is_over) = (is_starting.clone(), is_over.clone());
        let (swapped, link) = (world.root.join("swapped"), world.root.join("link"));
        move || {
            while !is_over.load(Ordering::Relaxed) {
                match is_starting.load(Ordering::Relaxed) {
                    true => renameat_with(CWD, &swapped, CWD, &link, RenameFlags::EXCHANGE).unwrap(),
                    false => std::thread::yield_now(),
                }
            }
        }
    });
    let group = WatchGroup::default();
    for round in 0..100 {
        is_starting.store(true, Ordering::Relaxed);
        let watches = [world.watch(&group, ""), world.watch(&group, "")];
        is_starting.store(false, Ordering::Relaxed);
        fs::write(world.outside.join(format!("secret{round}")), "").unwrap();
        fs::write(world.outside.join(format!("deep/secret{round}")), "").unwrap();
        let marker = world.root.join(format!("marker{round}"));
        fs::write(&marker, "").unwrap();
        for (_watch, receive) in &watches {
            let mut has_marker = false;
            while !has_marker {
                let batch = receive.recv_timeout(PATIENCE).unwrap();
                let is_outside = |change: &FileEvent| change.path.to_string_lossy().contains("secret");
                assert!(!batch.changes.iter().any(is_outside), "{batch:?}");
                // After an overflow the marker may be among the lost events.
                has_marker = batch.overflow || batch.changes.iter().any(|change| change.path == marker);
            }
        }
    }
    is_over.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
}
