//! A path that a guard denies is denied by every operation, whatever path leads to it.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::Error;
use engine::files::patch::patch;
use engine::files::{
    self, Access, CopyOptions, Durability, Edit, FileHasher, GlobOptions, GrepOptions, HashKind, ListOptions,
    PathGuard, ReadRange, ResolveStrategy, RootedPath, Roots, ScanBudget, WatchGroup, WriteMode,
    WriteOptions,
};
use engine::sandbox::{Confinement, Profile, ProtectedPaths};

const BOTH: [ResolveStrategy; 2] = [ResolveStrategy::Kernel, ResolveStrategy::Walk];

/// A root with `open`, `secret` (hidden) and `keep` (read-only), each with a `file`, and links to them.
struct World {
    _directory: tempfile::TempDir,
    top: PathBuf,
    bare: Roots,
    roots: Roots,
}

/// A confinement as the guard of a session's files.
fn fence(name: &str, write: &[PathBuf], protect: &[PathBuf], hide: &[PathBuf]) -> Confinement {
    let mut profile = Profile::workspace_write(write, None, &ProtectedPaths::default());
    profile.name = name.to_owned();
    profile.protect = protect.to_vec();
    profile.hide = hide.to_vec();
    Confinement::new([Arc::new(profile)])
}

fn world(strategy: ResolveStrategy) -> World {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap().join("root");
    for name in ["open", "secret", "keep"] {
        fs::create_dir_all(top.join(name).join("sub")).unwrap();
        fs::write(top.join(name).join("file"), format!("{name} text\n")).unwrap();
        symlink(name, top.join(format!("to-{name}"))).unwrap();
        symlink(top.join(name).join("file"), top.join(format!("to-{name}-file"))).unwrap();
    }
    symlink("..", top.join("open/up")).unwrap();
    let fence = fence("fence", std::slice::from_ref(&top), &[top.join("keep")], &[top.join("secret")]);
    let bare = Roots::with_strategy(vec![top.clone()], strategy);
    let roots = bare.guarded(Arc::new(fence));
    World { _directory: directory, top, bare, roots }
}

impl World {
    fn admit(&self, path: &str) -> RootedPath {
        self.roots.admit(&self.top, Path::new(path)).unwrap()
    }

    /// Everything below the root, by name.
    fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let options = ListOptions { recursive: true, ..ListOptions::default() };
        let all = self.bare.admit(&self.top, Path::new(".")).unwrap();
        let entries = files::list(&all, options, &ScanBudget::unbounded()).unwrap().entries;
        let said = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        entries.into_iter().map(|entry| (entry.path.clone(), said(&entry.path))).collect()
    }
}

type Act = fn(&World, &RootedPath) -> Result<(), Error>;

/// An operation on a file: what it needs, and whether it acts on what a link leads to or on the link.
struct Operation(&'static str, Access, Follows, Act);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Follows {
    Link,
    Nothing,
}

use Access::{Read, Write};
use Follows::{Link, Nothing};

fn write_as(path: &RootedPath, mode: WriteMode, atomic: bool) -> Result<(), Error> {
    let options = WriteOptions { mode, atomic, ..WriteOptions::default() };
    files::write(path, b"changed", &options).map(drop)
}

fn patched(world: &World, text: &str) -> Result<(), Error> {
    let text = format!("*** Begin Patch\n{text}*** End Patch\n");
    patch(&world.roots, &world.top, &text, Durability::Relaxed).map(drop)
}

fn old_line(path: &RootedPath) -> String {
    fs::read_to_string(path.as_path()).unwrap_or_default()
}

const ON_FILES: &[Operation] = &[
    Operation("read", Read, Link, |_, path| files::read(path, ReadRange::whole(100)).map(drop)),
    Operation("open", Read, Link, |_, path| path.open_file().map(drop)),
    Operation("hash", Read, Link, |_, path| {
        FileHasher::open(path)
            .and_then(|file| file.run(HashKind::Sha256, None, &ScanBudget::unbounded()))
            .map(drop)
    }),
    Operation("stat", Read, Nothing, |_, path| files::stat(path).map(drop)),
    Operation("grep", Read, Link, |_, path| {
        files::grep_sorted(path, &GrepOptions::new("text"), &ScanBudget::unbounded()).map(drop)
    }),
    Operation("watch", Read, Link, |_, path| WatchGroup::default().watch(path, false, |_| {}).map(drop)),
    Operation("copy from", Read, Nothing, |world, path| {
        files::copy(path, &world.admit("open/copied"), CopyOptions::default(), &ScanBudget::unbounded())
    }),
    Operation("glob by name", Read, Nothing, |world, path| {
        let pattern = path.as_path().to_str().unwrap();
        files::glob(&world.roots, &world.top, pattern, GlobOptions::default(), &ScanBudget::unbounded())
            .map(drop)
    }),
    Operation("replace", Write, Link, |_, path| write_as(path, WriteMode::Replace, true)),
    Operation("replace in place", Write, Link, |_, path| write_as(path, WriteMode::Replace, false)),
    Operation("append", Write, Link, |_, path| write_as(path, WriteMode::Append, true)),
    Operation("edit", Write, Link, |_, path| {
        let edit = Edit { old: "text".into(), new: "changed".into(), ..Edit::default() };
        files::edit(path, &edit).map(drop)
    }),
    Operation("patch", Write, Link, |world, path| {
        let (spelled, old) = (path.as_path().display(), old_line(path));
        patched(world, &format!("*** Update File: {spelled}\n@@\n-{old}+changed\n"))
    }),
    Operation("patch that deletes", Write, Link, |world, path| {
        patched(
            world,
            &format!("*** Add File: open/new\n+x\n*** Delete File: {}\n", path.as_path().display()),
        )
    }),
    Operation("patch that moves", Write, Link, |world, path| {
        let (spelled, old) = (path.as_path().display(), old_line(path));
        patched(world, &format!("*** Update File: {spelled}\n*** Move to: open/moved\n@@\n-{old}+changed\n"))
    }),
    Operation("remove", Write, Nothing, |_, path| files::remove(path, false, &ScanBudget::unbounded())),
    Operation("rename from", Write, Nothing, |world, path| {
        files::rename(path, &world.admit("open/renamed"), true)
    }),
    Operation("rename over", Write, Nothing, |world, path| {
        files::rename(&world.admit("open/file"), path, true)
    }),
    Operation("copy over", Write, Nothing, |world, path| {
        let options = CopyOptions { overwrite: true, ..CopyOptions::default() };
        files::copy(&world.admit("open/file"), path, options, &ScanBudget::unbounded())
    }),
];

/// Operations on a name that is free, in a directory that is refused.
const ON_NEW: &[Operation] = &[
    Operation("create", Write, Nothing, |_, path| write_as(path, WriteMode::Create, true)),
    Operation("create in place", Write, Nothing, |_, path| write_as(path, WriteMode::Create, false)),
    Operation("replace nothing", Write, Nothing, |_, path| write_as(path, WriteMode::Replace, true)),
    Operation("append to nothing", Write, Nothing, |_, path| write_as(path, WriteMode::Append, true)),
    Operation("make with parents", Write, Nothing, |_, path| {
        let options = WriteOptions { mkdir_parents: true, ..WriteOptions::default() };
        files::write(&path.join(Path::new("deep/er")).unwrap(), b"x", &options).map(drop)
    }),
    Operation("edit into being", Write, Nothing, |_, path| {
        files::edit(path, &Edit { new: "x".into(), ..Edit::default() }).map(drop)
    }),
    Operation("patch into being", Write, Nothing, |world, path| {
        patched(world, &format!("*** Add File: {}\n+x\n", path.as_path().display()))
    }),
    Operation("mkdir", Write, Nothing, |_, path| files::make_directory(path, false, None)),
    Operation("mkdir -p", Write, Nothing, |_, path| {
        files::make_directory(&path.join(Path::new("deep/er")).unwrap(), true, None)
    }),
    Operation("rename to", Write, Nothing, |world, path| {
        files::rename(&world.admit("open/file"), path, false)
    }),
    Operation("rename a tree to", Write, Nothing, |world, path| {
        files::rename(&world.admit("open/sub"), path, false)
    }),
    Operation("copy to", Write, Nothing, |world, path| {
        files::copy(&world.admit("open/file"), path, CopyOptions::default(), &ScanBudget::unbounded())
    }),
    Operation("copy a tree to", Write, Nothing, |world, path| {
        let options = CopyOptions { recursive: true, ..CopyOptions::default() };
        files::copy(&world.admit("open/sub"), path, options, &ScanBudget::unbounded())
    }),
];

/// Operations on a directory.
const ON_DIRECTORIES: &[Operation] = &[
    Operation("list", Read, Link, |_, path| {
        files::list(path, ListOptions::default(), &ScanBudget::unbounded()).map(drop)
    }),
    Operation("start in", Read, Link, |_, path| path.open_directory().map(drop)),
    Operation("grep below", Read, Link, |_, path| {
        files::grep_sorted(path, &GrepOptions::new("text"), &ScanBudget::unbounded()).map(drop)
    }),
    Operation("watch below", Read, Link, |_, path| WatchGroup::default().watch(path, true, |_| {}).map(drop)),
    Operation("glob below", Read, Link, |world, path| {
        let pattern = format!("{}/*", path.as_path().display());
        files::glob(&world.roots, &world.top, &pattern, GlobOptions::default(), &ScanBudget::unbounded())
            .map(drop)
    }),
    Operation("copy tree from", Read, Nothing, |world, path| {
        let options = CopyOptions { recursive: true, ..CopyOptions::default() };
        files::copy(path, &world.admit("open/copied"), options, &ScanBudget::unbounded())
    }),
    Operation("remove tree", Write, Nothing, |_, path| files::remove(path, true, &ScanBudget::unbounded())),
    Operation("rename tree", Write, Nothing, |world, path| {
        files::rename(path, &world.admit("open/renamed"), false)
    }),
];

/// The ways to `name` in the directory `place`; the last way is a link itself, if there is one.
fn spellings(place: &str, name: &str) -> Vec<String> {
    vec![
        format!("{place}/{name}"),
        format!("open/../{place}//./{name}"),
        format!("to-{place}/{name}"),
        format!("open/up/{place}/{name}"),
        format!("open/up/open/up/to-{place}/{name}"),
    ]
}

/// Runs an operation where it must be refused, and sees that it was and that nothing changed.
fn refused(operation: &Operation, place: &str, spelling: &str, strategy: ResolveStrategy) {
    let Operation(name, access, _, act) = operation;
    let world = world(strategy);
    let before = world.snapshot();
    let case = format!("{name} {spelling} by {strategy:?}");
    match act(&world, &world.admit(spelling)) {
        Err(Error::Guarded { path, access: told, rule, .. }) => {
            assert!(path.starts_with(world.top.join(place)), "{case}: {path:?}");
            assert!(told == *access || told == Write, "{case}: {told:?}");
            assert_eq!(rule, "sandbox:fence");
        }
        other => panic!("{case}: {other:?}"),
    }
    assert_eq!(world.snapshot(), before, "{case}");
}

fn all_refused(operation: &Operation, ways: impl Fn(&str) -> Vec<String>) {
    for strategy in BOTH {
        for place in ["secret", "keep"] {
            if place == "keep" && operation.1 == Read {
                continue;
            }
            for spelling in ways(place) {
                refused(operation, place, &spelling, strategy);
            }
        }
    }
}

#[test]
fn no_file_operation_reaches_a_refused_place_by_any_way() {
    for operation in ON_FILES {
        all_refused(operation, |place| {
            let mut ways = spellings(place, "file");
            if operation.2 == Link {
                ways.push(format!("to-{place}-file"));
            }
            ways
        });
    }
    for operation in ON_NEW {
        all_refused(operation, |place| spellings(place, "new"));
    }
    for operation in ON_DIRECTORIES {
        all_refused(operation, |place| {
            let mut ways = vec![place.to_owned(), format!("open/up/{place}"), format!("{place}/sub")];
            if operation.2 == Link {
                ways.push(format!("to-{place}"));
            }
            ways
        });
    }
}

#[test]
fn allowed_operations_work_as_without_a_guard() {
    for strategy in BOTH {
        for operation in ON_FILES.iter().chain(ON_NEW).chain(ON_DIRECTORIES) {
            let Operation(name, access, _, act) = operation;
            let world = world(strategy);
            fs::create_dir_all(world.top.join("free/tree")).unwrap();
            fs::write(world.top.join("free/file"), "free text\n").unwrap();
            let on = |list: &[Operation]| list.iter().any(|listed| listed.0 == *name);
            let target = if on(ON_FILES) {
                "free/file"
            } else if on(ON_NEW) {
                "free/new"
            } else {
                "free/tree"
            };
            act(&world, &world.admit(target)).unwrap_or_else(|error| panic!("{name}: {error}"));
            if *access == Read && on(ON_FILES) {
                drop(fs::remove_file(world.top.join("open/copied")));
                act(&world, &world.admit("keep/file")).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }
}

#[test]
fn the_fast_ways_are_not_taken_past_a_guard() {
    let world = world(ResolveStrategy::Kernel);
    let path = world.admit("open/file");
    files::read(&path, ReadRange::whole(100)).unwrap();
    assert!(files::read_cached(&path, ReadRange::whole(100)).is_none());
    assert!(files::stat_cached(&path).is_none());
}

#[test]
fn errors_do_not_reveal_whether_a_denied_path_exists() {
    for strategy in BOTH {
        let world = world(strategy);
        for path in ["secret/missing", "secret/missing/deeper", "to-secret/missing", "secret/file/below"] {
            let path = world.admit(path);
            assert!(matches!(files::stat(&path), Err(Error::Guarded { .. })), "{path:?}");
            assert!(
                matches!(files::read(&path, ReadRange::whole(10)), Err(Error::Guarded { .. })),
                "{path:?}"
            );
            let written = files::write(&path, b"x", &WriteOptions::default());
            assert!(matches!(written, Err(Error::Guarded { .. })), "{path:?}");
        }
    }
}

#[test]
fn scans_exclude_denied_paths() {
    for strategy in BOTH {
        let world = world(strategy);
        let top = world.admit(".");
        let options = ListOptions { recursive: true, ..ListOptions::default() };
        let listed = files::list(&top, options, &ScanBudget::unbounded()).unwrap().entries;
        let listed: Vec<PathBuf> = listed.into_iter().map(|entry| entry.path).collect();
        let matches = |pattern: &str| {
            files::glob(&world.roots, &world.top, pattern, GlobOptions::default(), &ScanBudget::unbounded())
                .unwrap()
                .paths
        };
        for found in [&listed, &matches("**"), &matches("*/*"), &matches("to-*/file")] {
            assert!(found.contains(&world.top.join("keep/file")) || found.len() == 2, "{found:?}");
            for path in found {
                let real = path.canonicalize().unwrap();
                let is_link = path.is_symlink();
                assert!(is_link || !real.starts_with(world.top.join("secret")), "{path:?} by {strategy:?}");
            }
        }
        let found =
            files::grep_sorted(&top, &GrepOptions::new("text"), &ScanBudget::unbounded()).unwrap().matches;
        let found: Vec<&Path> = found.iter().map(|found| found.path.as_path()).collect();
        assert_eq!(found, [world.top.join("keep/file"), world.top.join("open/file")]);
    }
}

#[test]
fn a_watch_does_not_report_denied_paths() {
    let world = world(ResolveStrategy::Kernel);
    let (told, changes) = std::sync::mpsc::channel();
    let watch =
        WatchGroup::default().watch(&world.admit("."), true, move |batch| drop(told.send(batch))).unwrap();
    fs::write(world.top.join("secret/file"), "more").unwrap();
    fs::rename(world.top.join("secret/file"), world.top.join("secret/other")).unwrap();
    fs::write(world.top.join("secret/sub/new"), "more").unwrap();
    fs::write(world.top.join("open/last"), "last").unwrap();
    let mut seen = Vec::new();
    while !seen.contains(&world.top.join("open/last")) {
        let batch = changes.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
        seen.extend(batch.changes.into_iter().map(|change| change.path));
    }
    assert!(seen.iter().all(|path| !path.starts_with(world.top.join("secret"))), "{seen:?}");
    watch.stop();
}

#[test]
fn a_tree_with_something_refused_inside_is_taken_whole_or_not_at_all() {
    for strategy in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("repo/.git/hooks")).unwrap();
        fs::create_dir_all(top.join("repo/src")).unwrap();
        fs::create_dir_all(top.join("evil/hooks")).unwrap();
        fs::write(top.join("repo/src/main"), "x").unwrap();
        let hooks = [top.join("repo/.git/hooks"), top.join("new/.git/hooks")];
        let fence = fence("hooks", std::slice::from_ref(&top), &hooks, &[]);
        let roots = Roots::with_strategy(vec![top.clone()], strategy).guarded(Arc::new(fence));
        let at = |path: &str| roots.admit(&top, Path::new(path)).unwrap();
        let scan = ScanBudget::unbounded();
        let whole = CopyOptions { recursive: true, overwrite: true, ..CopyOptions::default() };
        let attempts = [
            files::remove(&at("repo"), true, &scan),
            files::remove(&at("repo/.git"), true, &scan),
            files::rename(&at("repo/.git"), &at("repo/moved"), false),
            files::rename(&at("repo"), &at("moved"), false),
            files::copy(&at("evil"), &at("repo/.git"), whole, &scan),
            // What is not there yet cannot be brought in with its parent either.
            files::rename(&at("evil"), &at("new"), false),
            files::copy(&at("evil"), &at("new"), whole, &scan),
        ];
        for attempt in attempts {
            assert!(matches!(attempt, Err(Error::Guarded { access: Write, .. })), "{attempt:?}");
        }
        assert_eq!(fs::read(top.join("repo/src/main")).unwrap(), b"x", "nothing was removed first");
        // Reading is not refused here, so it may be copied out.
        files::copy(&at("repo"), &at("copied"), whole, &scan).unwrap();
        files::remove(&at("copied"), true, &scan).unwrap();
    }
}

/// Refuses every file whose name ends in `.key`.
struct NoKeys;

impl PathGuard for NoKeys {
    fn check(&self, real: &Path, access: Access) -> Result<(), Error> {
        if real.extension().is_none_or(|extension| extension != "key") {
            return Ok(());
        }
        let (rule, reason) = ("keys".to_owned(), "keys are private".to_owned());
        Err(Error::Guarded { path: real.to_owned(), access, rule, reason })
    }

    fn refused_beneath(&self, _real: &Path, _access: Access) -> Option<PathBuf> {
        None
    }
}

#[test]
fn a_guard_by_names_has_every_entry_of_a_tree_checked_first() {
    for strategy in BOTH {
        let world = world(strategy);
        fs::write(world.top.join("open/sub/my.key"), "key").unwrap();
        fs::create_dir(world.top.join("plain")).unwrap();
        fs::write(world.top.join("plain/file"), "x").unwrap();
        let roots = world.roots.guarded(Arc::new(NoKeys));
        let at = |path: &str| roots.admit(&world.top, Path::new(path)).unwrap();
        let scan = ScanBudget::unbounded();
        let whole = CopyOptions { recursive: true, ..CopyOptions::default() };
        let before = world.snapshot();
        for attempt in [
            files::remove(&at("open"), true, &scan),
            files::rename(&at("open"), &at("moved"), false),
            files::copy(&at("open"), &at("copied"), whole, &scan),
            files::copy(&at("plain"), &at("plain.key"), whole, &scan),
            files::rename(&at("plain/file"), &at("plain/file.key"), false),
        ] {
            assert!(matches!(attempt, Err(Error::Guarded { ref rule, .. }) if rule == "keys"), "{attempt:?}");
        }
        // Both guards hold.
        assert!(
            matches!(files::stat(&at("secret/file")), Err(Error::Guarded { rule, .. }) if rule == "sandbox:fence")
        );
        assert_eq!(world.snapshot(), before);
        files::copy(&at("plain"), &at("copied"), whole, &scan).unwrap();
        files::rename(&at("plain"), &at("renamed"), false).unwrap();
        files::remove(&at("renamed"), true, &scan).unwrap();
    }
}

#[test]
fn narrowed_roots_keep_their_guard_and_writable_places_are_all_that_is_written() {
    for strategy in BOTH {
        let world = world(strategy);
        let narrow = world.roots.narrowed(vec![world.top.join("secret"), world.top.join("open")]).unwrap();
        let file = narrow.admit(&world.top, Path::new("secret/file")).unwrap();
        assert!(matches!(files::read(&file, ReadRange::whole(10)), Err(Error::Guarded { .. })));
        let fence = fence("small", &[world.top.join("open/sub")], &[], &[]);
        let roots = narrow.guarded(Arc::new(fence));
        let at = |path: &str| roots.admit(&world.top, Path::new(path)).unwrap();
        files::write(&at("open/sub/new"), b"x", &WriteOptions::default()).unwrap();
        let refused = files::write(&at("open/new"), b"x", &WriteOptions::default());
        assert!(matches!(refused, Err(Error::Guarded { rule, .. }) if rule == "sandbox:small"));
        assert!(files::read(&at("open/file"), ReadRange::whole(10)).is_ok());
    }
}

#[test]
fn real_returns_the_resolved_path() {
    for strategy in BOTH {
        let world = world(strategy);
        let cases = [
            ("to-secret/file", "secret/file"),
            ("to-keep-file", "keep/file"),
            ("open/up/to-keep/new", "keep/new"),
            ("to-keep/new/deeper/still", "keep/new/deeper/still"),
            ("to-keep", "keep"),
            ("open/up", ""),
        ];
        for (path, real) in cases {
            assert_eq!(world.admit(path).real().unwrap(), world.top.join(real), "{path} by {strategy:?}");
        }
        let missing = Roots::with_strategy(vec![world.top.join("to-open/not/yet")], strategy);
        let path = missing.admit(Path::new("/"), &world.top.join("to-open/not/yet/file")).unwrap();
        assert_eq!(path.real().unwrap(), world.top.join("open/not/yet/file"));
    }
}

#[test]
fn a_directory_swapped_for_a_link_a_thousand_times_never_gets_past_the_guard() {
    for strategy in BOTH {
        let world = world(strategy);
        let (swapped, aside, link) =
            (world.top.join("open/sub"), world.top.join("aside"), world.top.join("to-secret"));
        fs::write(swapped.join("file"), "inside").unwrap();
        let done = AtomicBool::new(false);
        let path = world.admit("open/sub/file");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..1000 {
                    fs::rename(&swapped, &aside).unwrap();
                    symlink("../secret", &swapped).unwrap();
                    fs::remove_file(&swapped).unwrap();
                    fs::rename(&aside, &swapped).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            let options = WriteOptions { durability: Durability::Relaxed, ..WriteOptions::default() };
            while !done.load(Ordering::Relaxed) {
                if let Ok(content) = files::read(&path, ReadRange::whole(100)) {
                    assert_eq!(content.bytes, b"inside");
                }
                drop(files::write(&path, b"inside", &options));
                let fresh = world.admit("open/sub/fresh");
                drop(files::write(&fresh, b"fresh", &options));
                drop(files::remove(&fresh, false, &ScanBudget::unbounded()));
            }
        });
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(world.top.join("secret/file")).unwrap(), "secret text\n");
        assert_eq!(fs::read_dir(world.top.join("secret")).unwrap().count(), 2);
    }
}

#[test]
fn a_hard_link_made_beforehand_is_another_place() {
    let world = world(ResolveStrategy::Kernel);
    fs::hard_link(world.top.join("secret/file"), world.top.join("open/second")).unwrap();
    let content = files::read(&world.admit("open/second"), ReadRange::whole(100)).unwrap();
    assert_eq!(content.bytes, b"secret text\n", "as documented: a guard goes by paths");
}

#[test]
fn directories_of_processes_are_never_served() {
    for strategy in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        symlink("/proc/self/environ", top.join("environ")).unwrap();
        symlink("/proc/self", top.join("process")).unwrap();
        let roots = Roots::with_strategy(vec![PathBuf::from("/")], strategy);
        let admit = |path: &str| roots.admit(&top, Path::new(path)).unwrap();
        let pid = format!("/proc/{}/environ", std::process::id());
        for path in [
            "/proc/self/environ",
            "/proc/self/mem",
            "/proc/thread-self/environ",
            "/proc/1/cmdline",
            "environ",
            "process/environ",
            &pid,
        ] {
            let refused =
                |error: Error| matches!(error, Error::Guarded { .. }) || panic!("{path}: {error:?}");
            assert!(refused(files::read(&admit(path), ReadRange::whole(1)).unwrap_err()));
            let write = WriteOptions { mode: WriteMode::Append, atomic: false, ..WriteOptions::default() };
            assert!(refused(files::write(&admit(path), b"x", &write).unwrap_err()));
            assert!(files::read_cached(&admit(path), ReadRange::whole(1)).is_none_or(|read| read.is_err()));
        }
        assert!(files::list(&admit("/proc/self"), ListOptions::default(), &ScanBudget::unbounded()).is_err());
        let search = GrepOptions::new("PATH=");
        let found = files::grep_sorted(&admit("/proc/self"), &search, &ScanBudget::unbounded());
        assert!(found.is_err(), "{found:?}");
        let copy = files::copy(
            &admit("/proc/self/environ"),
            &admit("copied"),
            CopyOptions::default(),
            &ScanBudget::unbounded(),
        );
        assert!(copy.is_err() && !top.join("copied").exists());
        // The rest of procfs is served like any other file.
        assert!(files::read(&admit("/proc/uptime"), ReadRange::whole(100)).is_ok());
    }
}

#[test]
fn shared_memory_of_the_machine_is_not_that_of_a_sandbox() {
    let name = format!("/dev/shm/rexd-test-{}", std::process::id());
    let read_only = Confinement::new([Arc::new(Profile::read_only(&ProtectedPaths::default()))]);
    let roots = Roots::new(vec![PathBuf::from("/")]).guarded(Arc::new(read_only));
    let path = roots.admit(Path::new("/"), Path::new(&name)).unwrap();
    let written = files::write(&path, b"x", &WriteOptions::default());
    assert!(matches!(written, Err(Error::Guarded { .. })), "{written:?}");
    assert!(!Path::new(&name).exists());
}
