//! No path escapes the roots or blocks, with either way of resolution.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use engine::Error;
use engine::files::{self, ReadRange, ResolveStrategy, RootedPath, Roots, WriteOptions};
use rustix::fs::{CWD, FileType, Mode};

const BOTH: [ResolveStrategy; 2] = [ResolveStrategy::Kernel, ResolveStrategy::Walk];

/// Two roots `a` and `b`, and `outside` beside them.
struct World {
    _directory: tempfile::TempDir,
    top: PathBuf,
    roots: Roots,
}

fn world(strategy: ResolveStrategy) -> World {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    for directory in ["a/deep/er", "b", "outside"] {
        fs::create_dir_all(top.join(directory)).unwrap();
    }
    fs::write(top.join("a/file"), "in a").unwrap();
    fs::write(top.join("a/deep/er/file"), "deep in a").unwrap();
    fs::write(top.join("b/file"), "in b").unwrap();
    fs::write(top.join("outside/file"), "secret").unwrap();
    let roots = Roots::with_strategy(vec![top.join("a"), top.join("b")], strategy);
    World { _directory: directory, top, roots }
}

impl World {
    fn admit(&self, path: &str) -> Result<RootedPath, Error> {
        self.roots.admit(&self.top.join("a"), Path::new(path))
    }

    fn read(&self, path: &str) -> Result<String, Error> {
        let content = files::read(&self.admit(path)?, ReadRange::whole(1024))?;
        Ok(String::from_utf8(content.bytes).unwrap())
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.top.join(name)).unwrap();
    }
}

fn errno(error: &Error) -> Option<i32> {
    match error {
        Error::File { source, .. } => source.raw_os_error(),
        _ => None,
    }
}

#[test]
fn links_that_stay_inside_any_root_work() {
    for strategy in BOTH {
        let world = world(strategy);
        let top = world.top.clone();
        world.link("file", "a/relative");
        world.link(top.join("a/file"), "a/absolute");
        world.link(top.join("b/file"), "a/other");
        world.link("../b/file", "a/climbing");
        world.link("../../../b/../a/file", "a/deep/er/winding");
        world.link("deep", "a/directory");
        world.link(top.join("b"), "a/other-directory");
        world.link("absolute", "a/chain");
        world.link("..", "a/deep/parent");
        let cases = [
            ("file", "in a"),
            ("relative", "in a"),
            ("absolute", "in a"),
            ("other", "in b"),
            ("climbing", "in b"),
            ("deep/er/winding", "in a"),
            ("directory/er/file", "deep in a"),
            ("other-directory/file", "in b"),
            ("chain", "in a"),
            ("deep/parent/deep/parent/file", "in a"),
            ("./deep/../deep//er/./file", "deep in a"),
            ("../b/file", "in b"),
        ];
        for (path, expected) in cases {
            assert_eq!(world.read(path).unwrap(), expected, "{path} by {strategy:?}");
        }
    }
}

/// ARCHITECTURE.md, invariant 16.
#[test]
fn what_leads_outside_is_refused_with_where_it_leads() {
    for strategy in BOTH {
        let world = world(strategy);
        let secret = world.top.join("outside/file");
        world.link(&secret, "a/absolute");
        world.link("../outside/file", "a/climbing");
        world.link(world.top.join("outside"), "a/directory");
        world.link("../../..", "a/deep/up");
        world.link("absolute", "a/chain");
        for path in ["absolute", "climbing", "directory/file", "chain"] {
            match world.read(path).unwrap_err() {
                Error::OutsideRoots { resolved, path: asked, roots } => {
                    assert_eq!(resolved.as_ref(), Some(&secret), "{path} by {strategy:?}");
                    assert_eq!(asked, world.top.join("a").join(path));
                    assert_eq!(roots.len(), 2);
                }
                other => panic!("{path} by {strategy:?}: {other}"),
            }
        }
        assert!(matches!(
            world.read("deep/up/outside/file"),
            Err(Error::OutsideRoots { resolved: Some(_), .. })
        ));
        for path in ["../outside/file", "/etc/passwd", "..", "deep/../../outside/file", "/"] {
            let refused = world.admit(path).unwrap_err();
            assert!(matches!(refused, Error::OutsideRoots { resolved: None, .. }), "{path}");
        }
        // Writing and working directories go the same way.
        let written = files::write(&world.admit("absolute").unwrap(), b"x", &WriteOptions::default());
        assert!(matches!(written, Err(Error::OutsideRoots { .. })));
        assert!(matches!(
            world.admit("directory").unwrap().open_directory(),
            Err(Error::OutsideRoots { .. })
        ));
        assert_eq!(fs::read_to_string(secret).unwrap(), "secret");
    }
}

#[test]
fn loops_end_and_odd_names_are_refused() {
    for strategy in BOTH {
        let world = world(strategy);
        world.link("self", "a/self");
        world.link("two", "a/one");
        world.link("one", "a/two");
        world.link("nowhere", "a/dangling");
        for path in ["self", "one", "self/file"] {
            assert_eq!(errno(&world.read(path).unwrap_err()), Some(libc::ELOOP), "{path} by {strategy:?}");
        }
        for path in ["dangling", "missing", "missing/file"] {
            assert_eq!(errno(&world.read(path).unwrap_err()), Some(libc::ENOENT), "{path} by {strategy:?}");
        }
        assert_eq!(errno(&world.read("file/below").unwrap_err()), Some(libc::ENOTDIR));
        assert_eq!(errno(&world.read("deep").unwrap_err()), Some(libc::EISDIR));
        assert_eq!(errno(&world.admit("file").unwrap().open_directory().unwrap_err()), Some(libc::ENOTDIR));
        assert!(matches!(world.admit("fi\0le"), Err(Error::BadPath { .. })));
        assert!(world.read("missing").unwrap_err().to_string().contains("no such file"));
    }
}

/// ARCHITECTURE.md, invariant 18.
#[test]
fn fifos_sockets_and_devices_are_refused_without_waiting() {
    for strategy in BOTH {
        let world = world(strategy);
        rustix::fs::mknodat(CWD, world.top.join("a/fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(world.top.join("a/socket")).unwrap();
        let mut odd = vec!["fifo", "socket"];
        let zero = rustix::fs::makedev(1, 5);
        if rustix::fs::mknodat(CWD, world.top.join("a/zero"), FileType::CharacterDevice, Mode::RWXU, zero)
            .is_ok()
        {
            odd.push("zero");
        }
        for name in odd {
            let path = world.admit(name).unwrap();
            assert!(matches!(world.read(name), Err(Error::NotRegular { .. })), "{name} by {strategy:?}");
            for mode in [files::WriteMode::Replace, files::WriteMode::Append] {
                for atomic in [true, false] {
                    let options = WriteOptions { mode, atomic, ..WriteOptions::default() };
                    assert!(matches!(files::write(&path, b"x", &options), Err(Error::NotRegular { .. })));
                }
            }
            if let Some(answer) = files::read_cached(&path, ReadRange::whole(10)) {
                assert!(matches!(answer, Err(Error::NotRegular { .. })), "{name}");
            }
        }
    }
}

/// ARCHITECTURE.md, invariant 17.
#[test]
fn magic_links_in_proc_are_not_followed() {
    for strategy in BOTH {
        let roots = Roots::with_strategy(vec!["/proc".into()], strategy);
        for path in
            ["/proc/self/root/etc/passwd", "/proc/self/cwd/Cargo.toml", "/proc/self/fd/0", "/proc/self/exe"]
        {
            let path = roots.admit(Path::new("/"), Path::new(path)).unwrap();
            assert!(files::read(&path, ReadRange::whole(10)).is_err(), "{path:?} by {strategy:?}");
        }
        // Files outside of the directories of processes give content though they have no size.
        let memory = roots.admit(Path::new("/"), Path::new("/proc/meminfo")).unwrap();
        let content = files::read(&memory, ReadRange::whole(1 << 20)).unwrap();
        assert!(!content.bytes.is_empty() && !content.more);
        let some = files::read(&memory, ReadRange::whole(7)).unwrap();
        assert_eq!((some.bytes.len(), some.more), (7, true));
    }
}

#[test]
fn a_root_of_slash_permits_everything() {
    for strategy in BOTH {
        let world = world(strategy);
        let roots = Roots::with_strategy(vec!["/".into()], strategy);
        world.link(world.top.join("outside/file"), "a/absolute");
        for path in ["a/absolute", "outside/file", "a/../outside/file"] {
            let path = roots.admit(&world.top, Path::new(path)).unwrap();
            assert_eq!(files::read(&path, ReadRange::whole(10)).unwrap().bytes, b"secret");
        }
    }
}

#[test]
fn a_root_may_be_a_link_and_be_spelled_either_way() {
    for strategy in BOTH {
        let world = world(strategy);
        world.link("a", "alias");
        world.link("../a/file", "a/through-real");
        let roots = Roots::with_strategy(vec![world.top.join("alias")], strategy);
        for path in ["alias/file", "a/file", "alias/through-real"] {
            let path = roots.admit(&world.top, Path::new(path)).unwrap();
            assert_eq!(
                files::read(&path, ReadRange::whole(10)).unwrap().bytes,
                b"in a",
                "{path:?} by {strategy:?}"
            );
        }
        assert_eq!(roots.admit(&world.top, Path::new("a/file")).unwrap().as_path(), world.top.join("a/file"));
        assert!(roots.admit(&world.top, Path::new("b/file")).is_err());
    }
}

#[test]
fn a_missing_root_is_usable_once_it_is_made() {
    for strategy in BOTH {
        let world = world(strategy);
        let root = world.top.join("not/yet/here");
        let roots = Roots::with_strategy(vec![root.clone()], strategy);
        let path = roots.admit(&root, Path::new("sub/file")).unwrap();
        assert!(files::stat(&path).unwrap().is_none());
        assert_eq!(
            errno(&files::write(&path, b"x", &WriteOptions::default()).unwrap_err()),
            Some(libc::ENOENT)
        );
        let options = WriteOptions { mkdir_parents: true, ..WriteOptions::default() };
        assert!(files::write(&path, b"x", &options).unwrap().created);
        assert_eq!(fs::read(root.join("sub/file")).unwrap(), b"x");
        // A root that was replaced is the new one.
        fs::rename(&root, world.top.join("moved")).unwrap();
        assert!(files::stat(&path).unwrap().is_none());
    }
}

/// ARCHITECTURE.md, invariant 17.
#[test]
fn narrowed_roots_cannot_be_moved_elsewhere_by_a_link() {
    for strategy in BOTH {
        let world = world(strategy);
        let narrow = world.roots.narrowed(vec![world.top.join("a/deep")]).unwrap();
        let path = narrow.admit(&world.top, Path::new("a/deep/file")).unwrap();
        assert!(narrow.admit(&world.top, Path::new("a/file")).is_err());
        fs::rename(world.top.join("a/deep"), world.top.join("a/was-deep")).unwrap();
        world.link(world.top.join("outside"), "a/deep");
        assert!(matches!(files::read(&path, ReadRange::whole(10)), Err(Error::OutsideRoots { .. })));
        assert!(world.roots.narrowed(vec![world.top.join("outside")]).is_err());
    }
}

/// ARCHITECTURE.md, invariant 17.
#[test]
fn a_directory_swapped_for_a_symlink_a_thousand_times_never_reveals_files_outside() {
    for strategy in BOTH {
        let world = world(strategy);
        let (swapped, aside, link) =
            (world.top.join("a/deep"), world.top.join("aside"), world.top.join("link"));
        fs::write(world.top.join("a/deep/file"), "inside").unwrap();
        symlink(world.top.join("outside"), &link).unwrap();
        let done = AtomicBool::new(false);
        let path = world.admit("deep/file").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..1000 {
                    fs::rename(&swapped, &aside).unwrap();
                    fs::rename(&link, &swapped).unwrap();
                    fs::rename(&swapped, &link).unwrap();
                    fs::rename(&aside, &swapped).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                if let Ok(content) = files::read(&path, ReadRange::whole(100)) {
                    assert_eq!(content.bytes, b"inside");
                }
                if let Some(Ok(content)) = files::read_cached(&path, ReadRange::whole(100)) {
                    assert_eq!(content.bytes, b"inside");
                }
                let options =
                    WriteOptions { durability: files::Durability::Relaxed, ..WriteOptions::default() };
                drop(files::write(&path, b"inside", &options));
            }
        });
        assert_eq!(fs::read_to_string(world.top.join("outside/file")).unwrap(), "secret");
        assert_eq!(fs::read_dir(world.top.join("outside")).unwrap().count(), 1);
    }
}

#[test]
fn a_tilde_is_home_unless_it_is_a_name() {
    let world = world(ResolveStrategy::Kernel);
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    let roots = Roots::new(vec!["/".into()]);
    assert_eq!(roots.admit(&world.top, Path::new("~/x")).unwrap().as_path(), home.join("x"));
    fs::create_dir(world.top.join("~")).unwrap();
    fs::write(world.top.join("~/x"), "").unwrap();
    assert_eq!(roots.admit(&world.top, Path::new("~/x")).unwrap().as_path(), world.top.join("~/x"));
}

#[test]
fn reads_return_the_range_and_whether_more_follows() {
    let world = world(ResolveStrategy::Kernel);
    fs::write(world.top.join("a/ten"), "0123456789").unwrap();
    let path = world.admit("ten").unwrap();
    let cases: [(u64, Option<u64>, u64, &str, bool); 6] = [
        (0, None, 100, "0123456789", false),
        (0, None, 4, "0123", true),
        (3, Some(2), 100, "34", true),
        (8, Some(50), 100, "89", false),
        (20, None, 100, "", false),
        (0, Some(10), 10, "0123456789", false),
    ];
    for (offset, length, max, text, more) in cases {
        let range = ReadRange { offset, length, max };
        let content = files::read(&path, range).unwrap();
        assert_eq!(
            (content.bytes.as_slice(), content.more, content.size),
            (text.as_bytes(), more, 10),
            "{range:?}"
        );
        if let Some(cached) = files::read_cached(&path, range) {
            assert_eq!(cached.unwrap(), content);
        }
    }
    assert!(files::read_cached(&path, ReadRange::whole(100)).is_some(), "a file just read is in memory");
}
