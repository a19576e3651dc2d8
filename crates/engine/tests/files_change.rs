//! stat, mkdir, remove, rename, copy, and watches.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use engine::Error;
use engine::files::{
    self, CopyOptions, FileEvent, FileEventBatch, FileEventKind, FileKind, FileWatcher, ResolveStrategy,
    RootedPath, Roots, ScanBudget, WatchGroup,
};
use rustix::fs::{CWD, FileType, Mode};

struct TestDirectory {
    _directory: tempfile::TempDir,
    top: PathBuf,
    roots: Roots,
}

fn directory() -> TestDirectory {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap().join("root");
    fs::create_dir(&top).unwrap();
    let roots = Roots::new(vec![top.clone()]);
    TestDirectory { _directory: directory, top, roots }
}

impl TestDirectory {
    fn path(&self, name: &str) -> RootedPath {
        self.roots.admit(&self.top, Path::new(name)).unwrap()
    }

    fn make(&self, name: &str, text: &str) {
        let path = self.top.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn stat_describes_the_name_itself() {
    for strategy in [ResolveStrategy::Kernel, ResolveStrategy::Walk] {
        let directory = directory();
        let roots = Roots::with_strategy(vec![directory.top.clone()], strategy);
        directory.make("file", "12345");
        fs::set_permissions(directory.top.join("file"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::create_dir(directory.top.join("dir")).unwrap();
        fs::set_permissions(directory.top.join("dir"), fs::Permissions::from_mode(0o1777)).unwrap();
        symlink("/etc/passwd", directory.top.join("link")).unwrap();
        rustix::fs::mknodat(CWD, directory.top.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let cases = [
            ("file", FileKind::File, 0o100_644),
            ("dir", FileKind::Dir, 0o041_777),
            ("link", FileKind::Symlink, 0o120_777),
            ("fifo", FileKind::Other, 0o010_400),
        ];
        for (name, kind, mode) in cases {
            let path = roots.admit(&directory.top, Path::new(name)).unwrap();
            let found = files::stat(&path).unwrap().unwrap();
            assert_eq!((found.kind, found.mode), (kind, mode), "{name}");
            if let Some(cached) = files::stat_cached(&path) {
                assert_eq!(cached.unwrap().unwrap(), found, "{name}");
            }
        }
        let link = files::stat(&directory.path("link")).unwrap().unwrap();
        assert_eq!(link.link_target.as_deref(), Some(Path::new("/etc/passwd")));
        assert_eq!(files::stat(&directory.path("file")).unwrap().unwrap().size, 5);
        assert_eq!(files::stat(&directory.path("")).unwrap().unwrap().kind, FileKind::Dir);
        assert!(files::stat(&directory.path("missing")).unwrap().is_none());
        assert!(files::stat(&directory.path("missing/below")).unwrap().is_none());
        assert!(files::stat(&directory.path("link/below")).is_err());
    }
}

#[test]
fn a_directory_is_created_once_unless_parents_is_set() {
    let directory = directory();
    files::make_directory(&directory.path("one"), false, None).unwrap();
    assert!(matches!(files::make_directory(&directory.path("one"), false, None), Err(Error::Exists { .. })));
    files::make_directory(&directory.path("one"), true, None).unwrap();
    files::make_directory(&directory.path("a/b/c"), true, None).unwrap();
    assert!(directory.top.join("a/b/c").is_dir());
    assert!(files::make_directory(&directory.path("x/y"), false, None).is_err());
    directory.make("file", "");
    assert!(files::make_directory(&directory.path("file"), true, None).is_err());
    assert!(files::make_directory(&directory.path("file/below"), true, None).is_err());
    symlink("..", directory.top.join("up")).unwrap();
    assert!(matches!(
        files::make_directory(&directory.path("up/new"), true, None),
        Err(Error::OutsideRoots { .. })
    ));
}

#[test]
fn removing_never_follows_a_link() {
    let directory = directory();
    let beside = directory.top.parent().unwrap().join("beside");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("kept"), "").unwrap();
    directory.make("tree/a/b/c", "");
    directory.make("tree/a/d", "");
    directory.make("tree/.e", "");
    symlink(&beside, directory.top.join("tree/a/out")).unwrap();
    symlink(&beside, directory.top.join("out")).unwrap();
    let scan = ScanBudget::unbounded();
    assert!(files::remove(&directory.path("tree"), false, &scan).is_err());
    files::remove(&directory.path("out"), true, &scan).unwrap();
    files::remove(&directory.path("tree"), true, &scan).unwrap();
    assert!(beside.join("kept").exists());
    assert_eq!(fs::read_dir(&directory.top).unwrap().count(), 0);
    let missing = files::remove(&directory.path("tree"), true, &scan).unwrap_err();
    assert!(missing.to_string().contains("no such file"));
    assert!(matches!(files::remove(&directory.path(""), true, &scan), Err(Error::BadPath { .. })));
}

#[test]
fn a_rename_replaces_only_with_overwrite() {
    let directory = directory();
    directory.make("one", "1");
    directory.make("two", "2");
    assert!(matches!(
        files::rename(&directory.path("one"), &directory.path("two"), false),
        Err(Error::Exists { .. })
    ));
    files::rename(&directory.path("one"), &directory.path("two"), true).unwrap();
    assert_eq!(fs::read_to_string(directory.top.join("two")).unwrap(), "1");
    fs::create_dir(directory.top.join("dir")).unwrap();
    files::rename(&directory.path("two"), &directory.path("dir/three"), false).unwrap();
    symlink("dir/three", directory.top.join("link")).unwrap();
    files::rename(&directory.path("link"), &directory.path("moved"), false).unwrap();
    assert!(fs::symlink_metadata(directory.top.join("moved")).unwrap().is_symlink());
    assert!(matches!(
        files::rename(&directory.path(""), &directory.path("x"), true),
        Err(Error::BadPath { .. })
    ));
}

#[test]
fn a_copy_keeps_modes_and_links() {
    let directory = directory();
    directory.make("tree/script", "#!");
    directory.make("tree/sub/data", &"x".repeat(300_000));
    fs::set_permissions(directory.top.join("tree/script"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::set_permissions(directory.top.join("tree/sub"), fs::Permissions::from_mode(0o710)).unwrap();
    symlink("/etc/passwd", directory.top.join("tree/link")).unwrap();
    let scan = ScanBudget::unbounded();
    let (plain, deep) = (CopyOptions::default(), CopyOptions { recursive: true, ..CopyOptions::default() });
    let over = CopyOptions { overwrite: true, ..deep };
    assert!(files::copy(&directory.path("tree"), &directory.path("twin"), plain, &scan).is_err());
    files::copy(&directory.path("tree"), &directory.path("twin"), deep, &scan).unwrap();
    let mode = |name: &str| fs::metadata(directory.top.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("twin/script"), mode("twin/sub")), (0o751, 0o710));
    assert_eq!(fs::read_to_string(directory.top.join("twin/sub/data")).unwrap().len(), 300_000);
    assert_eq!(fs::read_link(directory.top.join("twin/link")).unwrap(), Path::new("/etc/passwd"));
    assert!(matches!(
        files::copy(&directory.path("tree"), &directory.path("twin"), deep, &scan),
        Err(Error::Exists { .. })
    ));
    directory.make("tree/script", "#!new");
    files::copy(&directory.path("tree"), &directory.path("twin"), over, &scan).unwrap();
    assert_eq!(fs::read_to_string(directory.top.join("twin/script")).unwrap(), "#!new");
    assert!(files::copy(&directory.path("tree"), &directory.path("tree/sub/x"), deep, &scan).is_err());
    assert!(matches!(
        files::copy(&directory.path("tree/script"), &directory.path("twin/script"), plain, &scan),
        Err(Error::Exists { .. })
    ));
    let names = fs::read_dir(directory.top.join("twin")).unwrap().count();
    assert_eq!(names, 3);
}

#[test]
fn a_copy_follows_symlinks_if_requested_and_never_out_of_the_roots() {
    let directory = directory();
    let at = |name: &str| directory.top.join(name);
    directory.make("new", "new");
    directory.make("tree/inner", "inner");
    directory.make("real/old", "old");
    for (leads, name) in [("real/old", "link"), ("later", "dangling"), ("real", "way"), ("/etc", "out")] {
        symlink(leads, at(name)).unwrap();
    }
    let scan = ScanBudget::unbounded();
    let through = CopyOptions { recursive: true, overwrite: true, follows: true, ..CopyOptions::default() };
    let copy =
        |from: &str, to: &str, how| files::copy(&directory.path(from), &directory.path(to), how, &scan);
    copy("new", "link", through).unwrap();
    copy("new", "dangling", through).unwrap();
    copy("tree", "way", through).unwrap();
    let text = |name: &str| fs::read_to_string(at(name)).unwrap();
    assert_eq!(
        (text("real/old"), text("later"), text("real/inner")),
        ("new".into(), "new".into(), "inner".into())
    );
    for name in ["link", "dangling", "way"] {
        assert!(fs::read_link(at(name)).is_ok(), "{name} stays a link");
    }
    assert!(
        matches!(copy("link", "real/old", through), Err(Error::Exists { .. })),
        "a link only to a free name"
    );
    assert!(copy("tree", "out", through).is_err() && copy("new", "out", through).is_err());
    copy("new", "link", CopyOptions { overwrite: true, ..CopyOptions::default() }).unwrap();
    assert!(fs::read_link(at("link")).is_err(), "otherwise the name is what counts");
}

fn watched(path: &RootedPath) -> (FileWatcher, Receiver<FileEventBatch>) {
    let (send, receive) = channel();
    let watch = WatchGroup::default().watch(path, true, move |changes| drop(send.send(changes))).unwrap();
    (watch, receive)
}

/// Gathers batches until one brings what is waited for.
fn until(receive: &Receiver<FileEventBatch>, wanted: &FileEvent) -> Vec<FileEvent> {
    let mut seen = Vec::new();
    loop {
        let batch = receive
            .recv_timeout(Duration::from_secs(60))
            .unwrap_or_else(|_| panic!("{wanted:?} not in {seen:?}"));
        assert!(!batch.overflow);
        seen.extend(batch.changes);
        if seen.contains(wanted) {
            return seen;
        }
    }
}

#[test]
fn a_watch_reports_created_changed_renamed_and_removed_files() {
    let directory = directory();
    directory.make("sub/old", "x");
    symlink("root", directory.top.parent().unwrap().join("alias")).unwrap();
    let alias = directory.top.parent().unwrap().join("alias");
    // The paths told are spelled as the watched one was.
    let roots = Roots::new(vec![alias.clone()]);
    let (watch, receive) = watched(&roots.admit(&alias, Path::new("")).unwrap());
    let change = |name: &str, kind| FileEvent { path: alias.join(name), kind, to: None };
    directory.make("new", "x");
    until(&receive, &change("new", FileEventKind::Created));
    fs::write(directory.top.join("sub/old"), "y").unwrap();
    until(&receive, &change("sub/old", FileEventKind::Modified));
    fs::rename(directory.top.join("sub/old"), directory.top.join("sub/other")).unwrap();
    let renamed = FileEvent {
        path: alias.join("sub/old"),
        kind: FileEventKind::Renamed,
        to: Some(alias.join("sub/other")),
    };
    let mut seen = until(&receive, &renamed);
    // The write before it is two changes if the machine is busy between them.
    seen.retain(|change| change.kind != FileEventKind::Modified);
    assert_eq!(seen, [renamed]);
    fs::remove_file(directory.top.join("sub/other")).unwrap();
    until(&receive, &change("sub/other", FileEventKind::Removed));
    fs::create_dir(directory.top.join("fresh")).unwrap();
    until(&receive, &change("fresh", FileEventKind::Created));
    drop(watch);
    assert!(receive.recv_timeout(Duration::from_secs(60)).is_err(), "the sink is gone with its watch");
}

#[test]
fn a_watch_does_not_follow_links_out() {
    let directory = directory();
    let beside = directory.top.parent().unwrap().join("beside");
    fs::create_dir(&beside).unwrap();
    symlink(&beside, directory.top.join("out")).unwrap();
    let (_watch, receive) = watched(&directory.path(""));
    fs::write(beside.join("secret"), "").unwrap();
    directory.make("marker", "");
    let seen = until(
        &receive,
        &FileEvent { path: directory.top.join("marker"), kind: FileEventKind::Created, to: None },
    );
    assert_eq!(seen.len(), 1);
    assert!(matches!(
        WatchGroup::default().watch(&directory.path("out"), true, |_| {}),
        Err(Error::OutsideRoots { .. })
    ));
    assert!(WatchGroup::default().watch(&directory.path("missing"), true, |_| {}).is_err());
}

#[test]
fn an_atomic_write_is_reported_as_a_change_of_the_file() {
    let directory = directory();
    directory.make("file", "old");
    let (_watch, receive) = watched(&directory.path(""));
    files::write(&directory.path("file"), b"new", &files::WriteOptions::default()).unwrap();
    let batch = receive.recv_timeout(Duration::from_secs(60)).unwrap();
    let changed = FileEvent { path: directory.top.join("file"), kind: FileEventKind::Modified, to: None };
    assert_eq!(batch.changes, [changed]);
}

#[test]
fn a_watch_can_be_dropped_while_its_sink_waits() {
    let directory = directory();
    let (entered, has_entered) = channel();
    let (release, released) = channel::<()>();
    let sink = move |_| {
        entered.send(()).ok();
        released.recv().ok();
    };
    let watch = WatchGroup::default().watch(&directory.path(""), true, sink).unwrap();
    directory.make("new", "x");
    has_entered.recv_timeout(Duration::from_secs(60)).unwrap();
    let (dropped, is_dropped) = channel();
    let dropping = std::thread::spawn(move || {
        drop(watch);
        dropped.send(()).ok();
    });
    let was_dropped = is_dropped.recv_timeout(Duration::from_secs(60));
    drop(release);
    dropping.join().unwrap();
    assert!(was_dropped.is_ok(), "dropping a watch does not wait for its sink");
}
