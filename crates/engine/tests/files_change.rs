//! Names: stat, mkdir, remove, rename, copy; and watching them change.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use engine::Error;
use engine::files::{
    self, CopyOptions, FileEvent, FileEventBatch, FileEventKind, FileKind, FileWatcher, ResolveStrategy,
    RootedPath, Roots, ScanBudget,
};
use rustix::fs::{CWD, FileType, Mode};

struct Folder {
    _folder: tempfile::TempDir,
    top: PathBuf,
    roots: Roots,
}

fn folder() -> Folder {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap().join("root");
    fs::create_dir(&top).unwrap();
    let roots = Roots::new(vec![top.clone()]);
    Folder { _folder: folder, top, roots }
}

impl Folder {
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
        let folder = folder();
        let roots = Roots::with_strategy(vec![folder.top.clone()], strategy);
        folder.make("file", "12345");
        fs::set_permissions(folder.top.join("file"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::create_dir(folder.top.join("dir")).unwrap();
        fs::set_permissions(folder.top.join("dir"), fs::Permissions::from_mode(0o1777)).unwrap();
        symlink("/etc/passwd", folder.top.join("link")).unwrap();
        rustix::fs::mknodat(CWD, folder.top.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let cases = [
            ("file", FileKind::File, 0o100_644),
            ("dir", FileKind::Dir, 0o041_777),
            ("link", FileKind::Symlink, 0o120_777),
            ("fifo", FileKind::Other, 0o010_400),
        ];
        for (name, kind, mode) in cases {
            let path = roots.admit(&folder.top, Path::new(name)).unwrap();
            let found = files::stat(&path).unwrap().unwrap();
            assert_eq!((found.kind, found.mode), (kind, mode), "{name}");
            if let Some(cached) = files::stat_cached(&path) {
                assert_eq!(cached.unwrap().unwrap(), found, "{name}");
            }
        }
        let link = files::stat(&folder.path("link")).unwrap().unwrap();
        assert_eq!(link.link_target.as_deref(), Some(Path::new("/etc/passwd")));
        assert_eq!(files::stat(&folder.path("file")).unwrap().unwrap().size, 5);
        assert_eq!(files::stat(&folder.path("")).unwrap().unwrap().kind, FileKind::Dir);
        assert!(files::stat(&folder.path("missing")).unwrap().is_none());
        assert!(files::stat(&folder.path("missing/below")).unwrap().is_none());
        assert!(files::stat(&folder.path("link/below")).is_err());
    }
}

#[test]
fn directories_are_made_and_only_once_unless_told() {
    let folder = folder();
    files::make_directory(&folder.path("one"), false).unwrap();
    assert!(matches!(files::make_directory(&folder.path("one"), false), Err(Error::Exists { .. })));
    files::make_directory(&folder.path("one"), true).unwrap();
    files::make_directory(&folder.path("a/b/c"), true).unwrap();
    assert!(folder.top.join("a/b/c").is_dir());
    assert!(files::make_directory(&folder.path("x/y"), false).is_err());
    folder.make("file", "");
    assert!(files::make_directory(&folder.path("file"), true).is_err());
    assert!(files::make_directory(&folder.path("file/below"), true).is_err());
    symlink("..", folder.top.join("up")).unwrap();
    assert!(matches!(files::make_directory(&folder.path("up/new"), true), Err(Error::OutsideRoots { .. })));
}

#[test]
fn removing_never_follows_a_link() {
    let folder = folder();
    let beside = folder.top.parent().unwrap().join("beside");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("kept"), "").unwrap();
    folder.make("tree/a/b/c", "");
    folder.make("tree/a/d", "");
    folder.make("tree/.e", "");
    symlink(&beside, folder.top.join("tree/a/out")).unwrap();
    symlink(&beside, folder.top.join("out")).unwrap();
    let scan = ScanBudget::unbounded();
    assert!(files::remove(&folder.path("tree"), false, &scan).is_err());
    files::remove(&folder.path("out"), true, &scan).unwrap();
    files::remove(&folder.path("tree"), true, &scan).unwrap();
    assert!(beside.join("kept").exists());
    assert_eq!(fs::read_dir(&folder.top).unwrap().count(), 0);
    let missing = files::remove(&folder.path("tree"), true, &scan).unwrap_err();
    assert!(missing.to_string().contains("no such file"));
    assert!(matches!(files::remove(&folder.path(""), true, &scan), Err(Error::BadPath { .. })));
}

#[test]
fn renaming_replaces_only_when_told() {
    let folder = folder();
    folder.make("one", "1");
    folder.make("two", "2");
    assert!(matches!(
        files::rename(&folder.path("one"), &folder.path("two"), false),
        Err(Error::Exists { .. })
    ));
    files::rename(&folder.path("one"), &folder.path("two"), true).unwrap();
    assert_eq!(fs::read_to_string(folder.top.join("two")).unwrap(), "1");
    fs::create_dir(folder.top.join("dir")).unwrap();
    files::rename(&folder.path("two"), &folder.path("dir/three"), false).unwrap();
    symlink("dir/three", folder.top.join("link")).unwrap();
    files::rename(&folder.path("link"), &folder.path("moved"), false).unwrap();
    assert!(fs::symlink_metadata(folder.top.join("moved")).unwrap().is_symlink());
    assert!(matches!(files::rename(&folder.path(""), &folder.path("x"), true), Err(Error::BadPath { .. })));
}

#[test]
fn a_copy_keeps_modes_and_links() {
    let folder = folder();
    folder.make("tree/script", "#!");
    folder.make("tree/sub/data", &"x".repeat(300_000));
    fs::set_permissions(folder.top.join("tree/script"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::set_permissions(folder.top.join("tree/sub"), fs::Permissions::from_mode(0o710)).unwrap();
    symlink("/etc/passwd", folder.top.join("tree/link")).unwrap();
    let scan = ScanBudget::unbounded();
    let (plain, deep) = (CopyOptions::default(), CopyOptions { recursive: true, ..CopyOptions::default() });
    let over = CopyOptions { overwrite: true, ..deep };
    assert!(files::copy(&folder.path("tree"), &folder.path("twin"), plain, &scan).is_err());
    files::copy(&folder.path("tree"), &folder.path("twin"), deep, &scan).unwrap();
    let mode = |name: &str| fs::metadata(folder.top.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("twin/script"), mode("twin/sub")), (0o751, 0o710));
    assert_eq!(fs::read_to_string(folder.top.join("twin/sub/data")).unwrap().len(), 300_000);
    assert_eq!(fs::read_link(folder.top.join("twin/link")).unwrap(), Path::new("/etc/passwd"));
    assert!(matches!(
        files::copy(&folder.path("tree"), &folder.path("twin"), deep, &scan),
        Err(Error::Exists { .. })
    ));
    folder.make("tree/script", "#!new");
    files::copy(&folder.path("tree"), &folder.path("twin"), over, &scan).unwrap();
    assert_eq!(fs::read_to_string(folder.top.join("twin/script")).unwrap(), "#!new");
    assert!(files::copy(&folder.path("tree"), &folder.path("tree/sub/x"), deep, &scan).is_err());
    assert!(matches!(
        files::copy(&folder.path("tree/script"), &folder.path("twin/script"), plain, &scan),
        Err(Error::Exists { .. })
    ));
    let names = fs::read_dir(folder.top.join("twin")).unwrap().count();
    assert_eq!(names, 3);
}

#[test]
fn a_copy_goes_through_a_link_where_that_is_asked_for_and_never_out_of_the_roots() {
    let folder = folder();
    let at = |name: &str| folder.top.join(name);
    folder.make("new", "new");
    folder.make("tree/inner", "inner");
    folder.make("real/old", "old");
    for (leads, name) in [("real/old", "link"), ("later", "dangling"), ("real", "way"), ("/etc", "out")] {
        symlink(leads, at(name)).unwrap();
    }
    let scan = ScanBudget::unbounded();
    let through = CopyOptions { recursive: true, overwrite: true, follows: true, ..CopyOptions::default() };
    let copy = |from: &str, to: &str, how| files::copy(&folder.path(from), &folder.path(to), how, &scan);
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
    let watch = FileWatcher::start(path, true, move |changes| drop(send.send(changes))).unwrap();
    (watch, receive)
}

/// Gathers batches until one brings what is waited for.
fn until(receive: &Receiver<FileEventBatch>, wanted: &FileEvent) -> Vec<FileEvent> {
    let mut seen = Vec::new();
    loop {
        let batch = receive
            .recv_timeout(Duration::from_secs(20))
            .unwrap_or_else(|_| panic!("{wanted:?} not in {seen:?}"));
        assert!(!batch.overflow);
        seen.extend(batch.changes);
        if seen.contains(wanted) {
            return seen;
        }
    }
}

#[test]
fn a_watch_tells_what_is_made_changed_renamed_and_removed() {
    let folder = folder();
    folder.make("sub/old", "x");
    symlink("root", folder.top.parent().unwrap().join("alias")).unwrap();
    let alias = folder.top.parent().unwrap().join("alias");
    // The paths told are spelled as the watched one was.
    let roots = Roots::new(vec![alias.clone()]);
    let (watch, receive) = watched(&roots.admit(&alias, Path::new("")).unwrap());
    let change = |name: &str, kind| FileEvent { path: alias.join(name), kind, to: None };
    folder.make("new", "x");
    until(&receive, &change("new", FileEventKind::Created));
    fs::write(folder.top.join("sub/old"), "y").unwrap();
    until(&receive, &change("sub/old", FileEventKind::Modified));
    fs::rename(folder.top.join("sub/old"), folder.top.join("sub/other")).unwrap();
    let renamed = FileEvent {
        path: alias.join("sub/old"),
        kind: FileEventKind::Renamed,
        to: Some(alias.join("sub/other")),
    };
    let seen = until(&receive, &renamed);
    assert_eq!(seen, [renamed]);
    fs::remove_file(folder.top.join("sub/other")).unwrap();
    until(&receive, &change("sub/other", FileEventKind::Removed));
    fs::create_dir(folder.top.join("fresh")).unwrap();
    until(&receive, &change("fresh", FileEventKind::Created));
    drop(watch);
    assert!(receive.recv_timeout(Duration::from_secs(20)).is_err(), "the sink is gone with its watch");
}

#[test]
fn a_watch_does_not_follow_links_out() {
    let folder = folder();
    let beside = folder.top.parent().unwrap().join("beside");
    fs::create_dir(&beside).unwrap();
    symlink(&beside, folder.top.join("out")).unwrap();
    let (_watch, receive) = watched(&folder.path(""));
    fs::write(beside.join("secret"), "").unwrap();
    folder.make("marker", "");
    let seen = until(
        &receive,
        &FileEvent { path: folder.top.join("marker"), kind: FileEventKind::Created, to: None },
    );
    assert_eq!(seen.len(), 1);
    assert!(matches!(FileWatcher::start(&folder.path("out"), true, |_| {}), Err(Error::OutsideRoots { .. })));
    assert!(FileWatcher::start(&folder.path("missing"), true, |_| {}).is_err());
}

#[test]
fn an_atomic_write_is_told_as_a_change_of_the_file() {
    let folder = folder();
    folder.make("file", "old");
    let (_watch, receive) = watched(&folder.path(""));
    files::write(&folder.path("file"), b"new", &files::WriteOptions::default()).unwrap();
    let batch = receive.recv_timeout(Duration::from_secs(20)).unwrap();
    let changed = FileEvent { path: folder.top.join("file"), kind: FileEventKind::Modified, to: None };
    assert_eq!(batch.changes, [changed]);
}

#[test]
fn a_watch_whose_sink_waits_can_be_dropped_by_whoever_it_waits_for() {
    let folder = folder();
    let (entered, has_entered) = channel();
    let (release, released) = channel::<()>();
    let sink = move |_| {
        entered.send(()).ok();
        released.recv().ok();
    };
    let watch = FileWatcher::start(&folder.path(""), true, sink).unwrap();
    folder.make("new", "x");
    has_entered.recv_timeout(Duration::from_secs(20)).unwrap();
    let (dropped, is_dropped) = channel();
    let dropping = std::thread::spawn(move || {
        drop(watch);
        dropped.send(()).ok();
    });
    let was_dropped = is_dropped.recv_timeout(Duration::from_secs(20));
    drop(release);
    dropping.join().unwrap();
    assert!(was_dropped.is_ok(), "dropping a watch does not wait for its sink");
}
