//! Writes and edits: preserved properties, errors, and no temporary files left.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use engine::Error;
use engine::error::EditError;
use engine::files::{self, Durability, Edit, ResolveStrategy, RootedPath, Roots, WriteMode, WriteOptions};

struct TestDirectory {
    _directory: tempfile::TempDir,
    top: PathBuf,
    roots: Roots,
}

fn directory() -> TestDirectory {
    directory_by(ResolveStrategy::Kernel)
}

fn directory_by(strategy: ResolveStrategy) -> TestDirectory {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    let roots = Roots::with_strategy(vec![top.clone()], strategy);
    TestDirectory { _directory: directory, top, roots }
}

impl TestDirectory {
    fn path(&self, name: &str) -> RootedPath {
        self.roots.admit(&self.top, Path::new(name)).unwrap()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.top.join(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.top)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn options(mode: WriteMode) -> WriteOptions {
    WriteOptions { mode, ..WriteOptions::default() }
}

#[test]
fn a_new_file_has_the_usual_mode_and_a_replaced_one_keeps_its_own() {
    let directory = directory();
    let written = files::write(&directory.path("new"), b"one", &WriteOptions::default()).unwrap();
    assert!(written.created && written.bytes == 3 && written.mtime_ms > 0);
    // The umask belongs to the process, so an ordinary file is made to compare with.
    fs::write(directory.top.join("plain"), "").unwrap();
    let mode = |name: &str| fs::metadata(directory.top.join(name)).unwrap().permissions().mode();
    assert_eq!(mode("new"), mode("plain"));
    for (name, bits) in [("script", 0o751), ("secret", 0o600), ("setgid", 0o2755)] {
        fs::write(directory.top.join(name), "old").unwrap();
        fs::set_permissions(directory.top.join(name), fs::Permissions::from_mode(bits)).unwrap();
        let written = files::write(&directory.path(name), b"new", &WriteOptions::default()).unwrap();
        assert!(!written.created);
        assert_eq!(mode(name) & 0o7777, bits, "{name}");
        assert_eq!(directory.text(name), "new");
    }
}

#[test]
fn owner_and_attributes_of_a_replaced_file_are_kept() {
    let directory = directory();
    fs::write(directory.top.join("file"), "old").unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(directory.top.join("file"), Some(12345), Some(54321)).unwrap();
    }
    let flags = rustix::fs::XattrFlags::empty();
    let marked = rustix::fs::setxattr(directory.top.join("file"), "user.note", b"kept", flags).is_ok();
    files::write(&directory.path("file"), b"new", &WriteOptions::default()).unwrap();
    let metadata = fs::metadata(directory.top.join("file")).unwrap();
    if is_root {
        assert_eq!((metadata.uid(), metadata.gid()), (12345, 54321));
    }
    if marked {
        let mut value = [0; 4];
        assert_eq!(rustix::fs::getxattr(directory.top.join("file"), "user.note", &mut value[..]).unwrap(), 4);
        assert_eq!(&value, b"kept");
    }
}

#[test]
fn a_link_is_written_through_and_stays() {
    let directory = directory();
    fs::create_dir(directory.top.join("sub")).unwrap();
    fs::write(directory.top.join("sub/real"), "old").unwrap();
    symlink("sub/real", directory.top.join("relative")).unwrap();
    symlink(directory.top.join("sub/real"), directory.top.join("absolute")).unwrap();
    symlink("sub/fresh", directory.top.join("dangling")).unwrap();
    for atomic in [true, false] {
        for name in ["relative", "absolute"] {
            let content = format!("{name} {atomic}");
            let options = WriteOptions { atomic, ..WriteOptions::default() };
            files::write(&directory.path(name), content.as_bytes(), &options).unwrap();
            assert_eq!(directory.text("sub/real"), content);
            assert!(fs::symlink_metadata(directory.top.join(name)).unwrap().is_symlink());
        }
    }
    assert!(files::write(&directory.path("dangling"), b"made", &WriteOptions::default()).unwrap().created);
    assert_eq!(directory.text("sub/fresh"), "made");
    assert!(matches!(
        files::write(&directory.path("relative"), b"", &options(WriteMode::Create)),
        Err(Error::Exists { .. })
    ));
}

#[test]
fn of_many_that_create_one_succeeds() {
    let ways =
        [(true, ResolveStrategy::Kernel), (true, ResolveStrategy::Walk), (false, ResolveStrategy::Kernel)];
    for (atomic, strategy) in ways {
        let directory = directory_by(strategy);
        let options = WriteOptions { mode: WriteMode::Create, atomic, ..WriteOptions::default() };
        let wins = std::thread::scope(|scope| {
            let create = |index: u8| {
                let path = directory.path("contested");
                scope.spawn(move || match files::write(&path, &[index; 1000], &options) {
                    Ok(written) => usize::from(written.created),
                    Err(Error::Exists { .. }) => 0,
                    Err(other) => panic!("{other}"),
                })
            };
            let threads: Vec<_> = (0..8).map(create).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(wins, 1);
        assert_eq!(directory.names(), ["contested"]);
        assert_eq!(directory.text("contested").len(), 1000);
    }
}

/// ARCHITECTURE.md, invariant 19.
#[test]
fn many_that_replace_all_succeed_and_readers_see_whole_files() {
    replace_at_once(&directory_by(ResolveStrategy::Kernel));
    replace_at_once(&directory_by(ResolveStrategy::Walk));
}

fn replace_at_once(directory: &TestDirectory) {
    let quick = WriteOptions { durability: Durability::Relaxed, ..WriteOptions::default() };
    files::write(&directory.path("file"), &[b'0'; 5000], &quick).unwrap();
    std::thread::scope(|scope| {
        for letter in b'a'..b'e' {
            let path = directory.path("file");
            scope.spawn(move || {
                for round in 1..100 {
                    files::write(&path, &vec![letter; round * 50], &quick).unwrap();
                }
            });
        }
        for _ in 0..500 {
            let content =
                files::read(&directory.path("file"), files::ReadRange::whole(1 << 20)).unwrap().bytes;
            assert!(!content.is_empty() && content.iter().all(|byte| *byte == content[0]));
        }
    });
    assert_eq!(directory.names(), ["file"]);
}

#[test]
fn appending_adds_and_creates() {
    let directory = directory();
    assert!(files::write(&directory.path("log"), b"one\n", &options(WriteMode::Append)).unwrap().created);
    let inode = fs::metadata(directory.top.join("log")).unwrap().ino();
    assert!(!files::write(&directory.path("log"), b"two\n", &options(WriteMode::Append)).unwrap().created);
    assert_eq!(directory.text("log"), "one\ntwo\n");
    assert_eq!(fs::metadata(directory.top.join("log")).unwrap().ino(), inode);
}

#[test]
fn content_longer_than_one_write_is_complete() {
    let directory = directory();
    let content: Vec<u8> = (0..200_003_u32).flat_map(u32::to_le_bytes).collect();
    for (mode, atomic) in [WriteMode::Create, WriteMode::Replace, WriteMode::Append]
        .into_iter()
        .flat_map(|mode| [(mode, true), (mode, false)])
    {
        let name = format!("{mode:?}-{atomic}");
        let options = WriteOptions { atomic, ..options(mode) };
        let written = files::write(&directory.path(&name), &content, &options).unwrap();
        assert_eq!(written.bytes, content.len() as u64);
        assert!(fs::read(directory.top.join(&name)).unwrap() == content, "{name}");
    }
}

#[test]
fn an_atomic_append_is_not_mixed_with_another() {
    const BYTES: usize = 300_000;
    let directory = directory();
    let append = WriteOptions { durability: Durability::Relaxed, ..options(WriteMode::Append) };
    // Both begin each round together, so that the appends overlap.
    let barrier = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for letter in [b'a', b'b'] {
            let (path, barrier) = (directory.path("log"), &barrier);
            scope.spawn(move || {
                let content = vec![letter; BYTES];
                let appends = (0..40).map(|_round| {
                    barrier.wait();
                    files::write(&path, &content, &append)
                });
                // Checked after the last round: a thread that panics before would leave the other waiting.
                let written: Vec<_> = appends.collect();
                assert!(written.iter().all(Result::is_ok), "{written:?}");
            });
        }
    });
    let content = fs::read(directory.top.join("log")).unwrap();
    assert_eq!(content.len(), 80 * BYTES);
    assert!(content.chunks(BYTES).all(|one| one.iter().all(|byte| *byte == one[0])));
}

#[test]
fn a_file_changed_or_missing_since_it_was_seen_is_a_conflict() {
    let directory = directory();
    let seen = files::write(&directory.path("file"), b"one", &WriteOptions::default()).unwrap().mtime_ms;
    for mode in [WriteMode::Replace, WriteMode::Append] {
        let stale = WriteOptions { expected_mtime_ms: Some(seen - 1), mode, ..WriteOptions::default() };
        match files::write(&directory.path("file"), b"two", &stale).unwrap_err() {
            Error::Conflict { expected_ms, found_ms, .. } => {
                assert_eq!((expected_ms, found_ms), (seen - 1, Some(seen)))
            }
            other => panic!("{other}"),
        }
        let missing = files::write(&directory.path("missing"), b"two", &stale).unwrap_err();
        assert!(matches!(missing, Error::Conflict { found_ms: None, .. }));
    }
    let fresh = WriteOptions { expected_mtime_ms: Some(seen), ..WriteOptions::default() };
    files::write(&directory.path("file"), b"two", &fresh).unwrap();
    let none = WriteOptions { expected_mtime_ms: Some(0), ..WriteOptions::default() };
    files::write(&directory.path("other"), b"x", &none).unwrap();
    assert_eq!(directory.names(), ["file", "other"]);
}

#[test]
fn a_write_that_fails_leaves_nothing() {
    let directory = directory();
    fs::create_dir(directory.top.join("directory")).unwrap();
    assert!(files::write(&directory.path("directory"), b"x", &WriteOptions::default()).is_err());
    assert!(files::write(&directory.path("no/such/parent"), b"x", &WriteOptions::default()).is_err());
    assert!(files::write(&directory.path("."), b"x", &WriteOptions::default()).is_err());
    assert_eq!(directory.names(), ["directory"]);
}

#[test]
fn an_edit_replaces_the_text_and_returns_both_versions() {
    let directory = directory();
    fs::write(directory.top.join("file"), "let a = 1;\r\nlet b = 2;\r\nend").unwrap();
    let change = Edit { old: "1;\nlet b".into(), new: "3;\nlet c".into(), ..Edit::default() };
    let edited = files::edit(&directory.path("file"), &change).unwrap();
    assert_eq!(directory.text("file"), "let a = 3;\r\nlet c = 2;\r\nend");
    assert_eq!(edited.replacements, 1);
    assert_eq!(edited.before.as_deref(), Some("let a = 1;\r\nlet b = 2;\r\nend"));
    assert_eq!(&*edited.after, directory.text("file"));
    let all = Edit { old: "let".into(), new: "var".into(), replace_all: true, ..Edit::default() };
    assert_eq!(files::edit(&directory.path("file"), &all).unwrap().replacements, 2);
    let cases = [
        ("file", "var", "x", EditError::Ambiguous { count: 2, lines: vec![1, 2] }),
        ("file", "nothing", "x", EditError::NotFound),
        ("file", "var", "var", EditError::Identical),
        ("missing", "a", "b", EditError::NoFile),
    ];
    for (name, old, new, expected) in cases {
        let change = Edit { old: old.into(), new: new.into(), ..Edit::default() };
        match files::edit(&directory.path(name), &change).unwrap_err() {
            Error::Edit(error) => assert_eq!(error, expected),
            other => panic!("{other}"),
        }
    }
    let whole = Edit { new: "fresh".into(), ..Edit::default() };
    assert!(files::edit(&directory.path("made/for/it"), &whole).unwrap().written.created);
    assert_eq!(directory.text("made/for/it"), "fresh");
}

#[test]
fn an_edit_is_not_made_to_a_file_that_changed_since_it_was_planned() {
    let directory = directory();
    fs::write(directory.top.join("file"), "one two").unwrap();
    let change = Edit { old: "one".into(), new: "three".into(), ..Edit::default() };
    let planned = files::plan_edit(&directory.path("file"), &change).unwrap();
    assert_eq!(&*planned.after, "three two");
    fs::write(directory.top.join("file"), "one two!").unwrap();
    assert!(matches!(planned.apply(), Err(Error::Conflict { .. })));
    assert_eq!(directory.text("file"), "one two!");
    let whole = Edit { new: "mine".into(), ..Edit::default() };
    let planned = files::plan_edit(&directory.path("new"), &whole).unwrap();
    fs::write(directory.top.join("new"), "theirs").unwrap();
    assert!(matches!(planned.apply(), Err(Error::Conflict { .. })));
    assert_eq!(directory.text("new"), "theirs");
    assert_eq!(directory.names(), ["file", "new"]);
}

#[test]
fn requested_permissions_apply_to_new_and_existing_files() {
    let directory = directory();
    let mode_of = |name: &str| fs::metadata(directory.top.join(name)).unwrap().permissions().mode() & 0o7777;
    for (mode, atomic) in [(WriteMode::Replace, true), (WriteMode::Replace, false), (WriteMode::Append, true)]
    {
        let name = format!("{mode:?}-{atomic}");
        for permissions in [0o640, 0o755, 0o600] {
            let options =
                WriteOptions { mode, atomic, permissions: Some(permissions), ..WriteOptions::default() };
            files::write(&directory.path(&name), b"x", &options).unwrap();
            assert_eq!(mode_of(&name), permissions, "{name}");
        }
        let kept = WriteOptions { mode, atomic, ..WriteOptions::default() };
        files::write(&directory.path(&name), b"x", &kept).unwrap();
        assert_eq!(mode_of(&name), 0o600, "{name} without a wish");
    }
    let special = WriteOptions { permissions: Some(0o4755), ..WriteOptions::default() };
    files::write(&directory.path("special"), b"x", &special).unwrap();
    assert_eq!(mode_of("special"), 0o755, "nothing but what owner, group and others may do");
}

/// A small file system; `None` where mounting is not allowed.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let directory = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=256k", "none"]).arg(directory.path());
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(directory))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _unmounted = std::process::Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn an_append_that_does_not_fit_on_the_disk_leaves_the_file_as_it_was() {
    let Some(disk) = SmallDisk::mount() else { return };
    let top = disk.0.path().canonicalize().unwrap();
    let path = Roots::new(vec![top.clone()]).admit(&top, Path::new("log")).unwrap();
    files::write(&path, b"first\n", &options(WriteMode::Append)).unwrap();
    for atomic in [true, false] {
        let append = WriteOptions { atomic, ..options(WriteMode::Append) };
        let error = files::write(&path, &vec![b'x'; 1 << 20], &append).unwrap_err();
        let Error::File { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.kind(), std::io::ErrorKind::StorageFull, "{error}");
        assert_eq!(fs::read(top.join("log")).unwrap(), b"first\n");
    }
    files::write(&path, b"second\n", &options(WriteMode::Append)).unwrap();
    assert_eq!(fs::read(top.join("log")).unwrap(), b"first\nsecond\n");
}
