//! Listing, globbing and searching: results, order and limits.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::Error;
use engine::files::{
    self, Case, FileKind, GlobOptions, GrepOptions, ListOptions, ResolveStrategy, Roots, ScanBudget,
};
use rustix::fs::{CWD, FileType, Mode};

struct Tree {
    _directory: tempfile::TempDir,
    top: PathBuf,
    roots: Roots,
}

fn tree(strategy: ResolveStrategy) -> Tree {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    for (name, text) in [
        ("root/src/main.rs", "fn main() {\n    needle();\n}\n"),
        ("root/src/lib.rs", "// Needle\npub fn needle() {}\n"),
        ("root/src/deep/er/mod.rs", "needle\n"),
        ("root/src/note.txt", "one\ntwo\nneedle three\nfour\nneedle five\nsix\n"),
        ("root/.hidden/secret.rs", "needle hidden\n"),
        ("root/.env", "needle env\n"),
        ("root/ignored.rs", "needle ignored\n"),
        ("root/binary", "needle\0binary\n"),
        ("root/a.b", ""),
        ("root/a/b", ""),
        ("outside/secret.rs", "needle outside\n"),
    ] {
        fs::create_dir_all(top.join(name).parent().unwrap()).unwrap();
        fs::write(top.join(name), text).unwrap();
    }
    fs::write(top.join("root/.gitignore"), "ignored.rs\n").unwrap();
    fs::create_dir(top.join("root/.git")).unwrap();
    symlink("../outside", top.join("root/escape")).unwrap();
    symlink("src/deep", top.join("root/linked")).unwrap();
    let roots = Roots::with_strategy(vec![top.join("root")], strategy);
    Tree { _directory: directory, top, roots }
}

impl Tree {
    fn path(&self, name: &str) -> files::RootedPath {
        self.roots.admit(&self.top.join("root"), Path::new(name)).unwrap()
    }

    fn short(&self, path: &Path) -> String {
        path.strip_prefix(self.top.join("root")).unwrap().to_str().unwrap().to_owned()
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, Error> {
        let options = GlobOptions::default();
        let found =
            files::glob(&self.roots, &self.top.join("root"), pattern, options, &ScanBudget::unbounded())?;
        Ok(found.paths.iter().map(|path| self.short(path)).collect())
    }

    fn grep(&self, grep: &GrepOptions) -> Vec<String> {
        let found = files::grep_sorted(&self.path(""), grep, &ScanBudget::unbounded()).unwrap();
        found
            .matches
            .iter()
            .map(|found| format!("{}:{}:{}", self.short(&found.path), found.line, found.column))
            .collect()
    }
}

#[test]
fn a_listing_is_sorted_and_a_recursive_one_goes_depth_first() {
    let tree = tree(ResolveStrategy::Kernel);
    let list = |recursive, names_only| {
        let options = ListOptions { recursive, names_only, max_entries: None };
        files::list(&tree.path(""), options, &ScanBudget::unbounded()).unwrap()
    };
    let names = |listing: &files::Listing| {
        listing.entries.iter().map(|entry| tree.short(&entry.path)).collect::<Vec<_>>()
    };
    let flat = [
        ".env",
        ".git",
        ".gitignore",
        ".hidden",
        "a",
        "a.b",
        "binary",
        "escape",
        "ignored.rs",
        "linked",
        "src",
    ];
    assert_eq!(names(&list(false, false)), flat);
    let deep = list(true, false);
    assert_eq!(
        names(&deep),
        [
            ".env",
            ".git",
            ".gitignore",
            ".hidden",
            ".hidden/secret.rs",
            "a",
            "a/b",
            "a.b",
            "binary",
            "escape",
            "ignored.rs",
            "linked",
            "src",
            "src/deep",
            "src/deep/er",
            "src/deep/er/mod.rs",
            "src/lib.rs",
            "src/main.rs",
            "src/note.txt",
        ]
    );
    assert_eq!(names(&list(true, true)), names(&deep));
    let entry = |name: &str| deep.entries.iter().find(|entry| tree.short(&entry.path) == name).unwrap();
    assert_eq!((entry("src").kind, entry("src").size), (FileKind::Dir, None));
    assert_eq!((entry("src/lib.rs").kind, entry("src/lib.rs").size), (FileKind::File, Some(29)));
    assert_eq!((entry("escape").kind, entry("escape").name().to_str()), (FileKind::Symlink, Some("escape")));
    assert!(entry("src/lib.rs").mtime_ms.is_some_and(|ms| ms > 0));
}

#[test]
fn a_listing_stops_at_its_limit_and_reports_it() {
    let tree = tree(ResolveStrategy::Kernel);
    for (most, truncated) in [(3, true), (19, false), (18, true), (0, true)] {
        let options = ListOptions { recursive: true, names_only: true, max_entries: Some(most) };
        let listing = files::list(&tree.path(""), options, &ScanBudget::unbounded()).unwrap();
        assert_eq!((listing.entries.len(), listing.truncated), (most.min(19), truncated));
    }
    assert!(files::list(&tree.path("a.b"), ListOptions::default(), &ScanBudget::unbounded()).is_err());
    assert!(matches!(
        files::list(&tree.path("escape"), ListOptions::default(), &ScanBudget::unbounded()),
        Err(Error::OutsideRoots { .. })
    ));
}

#[test]
fn globs_find_matching_paths() {
    let tree = tree(ResolveStrategy::Kernel);
    let cases: &[(&str, &[&str])] = &[
        ("src/*.rs", &["src/lib.rs", "src/main.rs"]),
        ("**/*.rs", &["ignored.rs", "src/deep/er/mod.rs", "src/lib.rs", "src/main.rs"]),
        (
            "src/**",
            &["src/deep", "src/deep/er", "src/deep/er/mod.rs", "src/lib.rs", "src/main.rs", "src/note.txt"],
        ),
        ("src/**/mod.rs", &["src/deep/er/mod.rs"]),
        ("**/er", &["src/deep/er"]),
        (
            "*",
            &[
                ".env",
                ".git",
                ".gitignore",
                ".hidden",
                "a",
                "a.b",
                "binary",
                "escape",
                "ignored.rs",
                "linked",
                "src",
            ],
        ),
        (".*", &[".env", ".git", ".gitignore", ".hidden"]),
        ("**/.hidden/*", &[".hidden/secret.rs"]),
        (".hidden/**", &[".hidden/secret.rs"]),
        ("src/{main,lib}.rs", &["src/lib.rs", "src/main.rs"]),
        ("{src/*.txt,a/b,.env}", &[".env", "a/b", "src/note.txt"]),
        ("src/[lm]*.rs", &["src/lib.rs", "src/main.rs"]),
        ("src/[!l]*.rs", &["src/main.rs"]),
        ("src/????.rs", &["src/main.rs"]),
        ("src/main.rs", &["src/main.rs"]),
        ("./src/../src/m*", &["src/main.rs"]),
        ("linked/*/*.rs", &["linked/er/mod.rs"]),
        ("link*/*", &["linked/er"]),
        ("**/**/mod.rs", &["src/deep/er/mod.rs"]),
        ("**/deep/**/*.rs", &["src/deep/er/mod.rs"]),
        ("escape*/*", &[]),
        ("*/secret.rs", &[".hidden/secret.rs"]),
        ("nothing/**", &[]),
        ("a.b/*", &[]),
        ("nothing", &[]),
    ];
    for (pattern, expected) in cases {
        assert_eq!(tree.glob(pattern).unwrap(), *expected, "{pattern}");
    }
    let absolute = tree.top.join("root/src/*.txt");
    assert_eq!(tree.glob(absolute.to_str().unwrap()).unwrap(), ["src/note.txt"]);
}

#[test]
fn bad_globs_and_those_outside_are_refused() {
    let tree = tree(ResolveStrategy::Kernel);
    for pattern in ["src/[a", "src/{a", "*/../x", "[z-a]"] {
        assert!(matches!(tree.glob(pattern), Err(Error::Pattern { .. })), "{pattern}");
    }
    for pattern in ["../*", "/etc/*", "escape/*", "/**"] {
        assert!(matches!(tree.glob(pattern), Err(Error::OutsideRoots { .. })), "{pattern}");
    }
    let options = GlobOptions { max_matches: Some(2) };
    let found =
        files::glob(&tree.roots, &tree.top.join("root"), "**/*.rs", options, &ScanBudget::unbounded())
            .unwrap();
    assert_eq!((found.paths.len(), found.truncated), (2, true));
}

#[test]
fn a_search_may_match_across_lines_with_context_around_them() {
    let tree = tree(ResolveStrategy::Kernel);
    let grep = GrepOptions { multiline: true, before: 1, after: 1, ..GrepOptions::new(r"two\nneedle.*r\nn") };
    let found = files::grep_sorted(&tree.path("src/note.txt"), &grep, &ScanBudget::unbounded()).unwrap();
    let [found] = &found.matches[..] else { panic!("{found:?}") };
    assert_eq!((found.line, found.column), (2, 1));
    assert_eq!(found.text, "two\nneedle three\nfour\nneedle five");
    assert_eq!((&found.before[..], &found.after[..]), (&["one".to_owned()][..], &["six".to_owned()][..]));
    let one_line = GrepOptions::new(r"two\nneedle");
    assert!(files::grep_sorted(&tree.path(""), &one_line, &ScanBudget::unbounded()).is_err());
}

#[test]
fn a_search_finds_lines_as_ripgrep_would() {
    for strategy in [ResolveStrategy::Kernel, ResolveStrategy::Walk] {
        let tree = tree(strategy);
        let plain = [
            "src/deep/er/mod.rs:1:1",
            "src/lib.rs:1:4",
            "src/lib.rs:2:8",
            "src/main.rs:2:5",
            "src/note.txt:3:1",
            "src/note.txt:5:1",
        ];
        assert_eq!(tree.grep(&GrepOptions::new("needle")), plain);
        assert_eq!(
            tree.grep(&GrepOptions { case: Case::Sensitive, ..GrepOptions::new("Needle") }),
            ["src/lib.rs:1:4"]
        );
        assert_eq!(
            tree.grep(&GrepOptions { case: Case::Smart, ..GrepOptions::new("Needle") }),
            ["src/lib.rs:1:4"]
        );
        assert_eq!(tree.grep(&GrepOptions { case: Case::Insensitive, ..GrepOptions::new("NEEDLE") }), plain);
        assert_eq!(
            tree.grep(&GrepOptions { literal: true, ..GrepOptions::new("needle()") }),
            ["src/lib.rs:2:8", "src/main.rs:2:5"]
        );
        assert_eq!(
            tree.grep(&GrepOptions { include: vec!["*.txt".into()], ..GrepOptions::new("three") }),
            ["src/note.txt:3:8"]
        );
        let excluding =
            GrepOptions { exclude: vec!["deep".into(), "*.txt".into()], ..GrepOptions::new("needle") };
        assert_eq!(tree.grep(&excluding), plain[1..4]);
        let ignored = GrepOptions { include: vec!["*.rs".into()], ..GrepOptions::new("ignored") };
        assert!(tree.grep(&ignored).is_empty());
        assert_eq!(tree.grep(&GrepOptions { no_ignore: true, ..ignored }), ["ignored.rs:1:8"]);
        let hidden = tree.grep(&GrepOptions { hidden: true, ..GrepOptions::new("needle (env|hidden)") });
        assert_eq!(hidden, [".env:1:1", ".hidden/secret.rs:1:1"]);
        let everything = GrepOptions { hidden: true, no_ignore: true, ..GrepOptions::new("outside|binary") };
        assert!(tree.grep(&everything).is_empty());
        let bad = files::grep_sorted(&tree.path(""), &GrepOptions::new("("), &ScanBudget::unbounded());
        assert!(matches!(bad, Err(Error::Pattern { .. })));
    }
}

#[test]
fn each_match_has_all_the_lines_around_it() {
    let tree = tree(ResolveStrategy::Kernel);
    let grep = GrepOptions { before: 2, after: 2, ..GrepOptions::new("needle") };
    let found =
        files::grep_sorted(&tree.path("src/note.txt"), &grep, &ScanBudget::unbounded()).unwrap().matches;
    assert_eq!(found.len(), 2);
    assert_eq!(
        (found[0].text.as_str(), &found[0].before[..], &found[0].after[..]),
        (
            "needle three",
            &["one".to_owned(), "two".into()][..],
            &["four".to_owned(), "needle five".into()][..]
        )
    );
    assert_eq!(
        (found[1].text.as_str(), &found[1].before[..], &found[1].after[..]),
        ("needle five", &["needle three".to_owned(), "four".into()][..], &["six".to_owned()][..])
    );
    assert_eq!(tree.short(&found[0].path), "src/note.txt");
}

#[test]
fn a_search_stops_at_its_bound_and_streams_long_files() {
    let tree = tree(ResolveStrategy::Kernel);
    let lines: String = (0..10_000).map(|index| format!("needle {index}\n")).collect();
    fs::write(tree.top.join("root/many"), lines).unwrap();
    let calls = std::sync::Mutex::new(Vec::new());
    let grep = GrepOptions { after: 1, ..GrepOptions::new("needle") };
    let done = files::grep(&tree.path("many"), &grep, &ScanBudget::unbounded(), &|found| {
        calls.lock().unwrap().push(found)
    })
    .unwrap();
    let calls = calls.into_inner().unwrap();
    assert!(!done.truncated && calls.len() > 10);
    let numbers: Vec<u64> = calls.iter().flatten().map(|found| found.line).collect();
    assert_eq!(numbers, (1..=10_000).collect::<Vec<_>>());
    assert!(calls.iter().flatten().take(9_999).all(|found| found.after.len() == 1));
    let few = GrepOptions { max_matches: 7, ..GrepOptions::new("needle") };
    let found = files::grep_sorted(&tree.path(""), &few, &ScanBudget::unbounded()).unwrap();
    assert_eq!((found.matches.len(), found.truncated), (7, true));
    let exact = GrepOptions { max_matches: 2, ..GrepOptions::new("needle") };
    let found = files::grep_sorted(&tree.path("src/lib.rs"), &exact, &ScanBudget::unbounded()).unwrap();
    assert_eq!((found.matches.len(), found.truncated), (2, false));
}

/// ARCHITECTURE.md, invariant 18.
#[test]
fn fifos_do_not_hold_a_search() {
    let tree = tree(ResolveStrategy::Kernel);
    for name in ["root/fifo", "root/a/.gitignore", "root/a/.ignore"] {
        rustix::fs::mknodat(CWD, tree.top.join(name), FileType::Fifo, Mode::RWXU, 0).unwrap();
    }
    assert_eq!(tree.grep(&GrepOptions { hidden: true, ..GrepOptions::new("main") }), ["src/main.rs:1:4"]);
    fs::remove_file(tree.top.join("root/.gitignore")).unwrap();
    rustix::fs::mknodat(CWD, tree.top.join("root/.gitignore"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert_eq!(tree.grep(&GrepOptions::new("main")), ["src/main.rs:1:4"]);
}

#[test]
fn scans_end_when_cancelled_or_late() {
    let tree = tree(ResolveStrategy::Kernel);
    let base = tree.top.join("root");
    let flag = Arc::new(AtomicBool::new(true));
    let cancelled = ScanBudget::unbounded().cancelled_by(Arc::clone(&flag));
    let late = ScanBudget::within(Duration::ZERO);
    let all = |scan: &ScanBudget| {
        vec![
            files::list(&tree.path(""), ListOptions::default(), scan).map(|_| ()),
            files::glob(&tree.roots, &base, "**", GlobOptions::default(), scan).map(|_| ()),
            files::grep_sorted(&tree.path(""), &GrepOptions::new("x"), scan).map(|_| ()),
            files::remove(&tree.path("src"), true, scan),
            files::copy(
                &tree.path("src"),
                &tree.path("copy"),
                files::CopyOptions { recursive: true, ..files::CopyOptions::default() },
                scan,
            ),
        ]
    };
    assert!(all(&cancelled).iter().all(|done| matches!(done, Err(Error::Cancelled))));
    assert!(all(&late).iter().all(|done| matches!(done, Err(Error::Deadline { .. }))));
    flag.store(false, Ordering::Relaxed);
    assert!(files::list(&tree.path(""), ListOptions::default(), &cancelled).is_ok());
}

#[test]
fn ignore_files_are_bounded_and_read_only_inside_the_roots() {
    for strategy in [ResolveStrategy::Kernel, ResolveStrategy::Walk] {
        let tree = tree(strategy);
        let count = |options: &GrepOptions| tree.grep(options).len();
        let found = count(&GrepOptions::new("needle"));
        // Above the root, and through a link to the outside: both would leave out everything.
        fs::write(tree.top.join(".ignore"), "*\n").unwrap();
        fs::write(tree.top.join("outside/all"), "*\n").unwrap();
        symlink("../outside/all", tree.top.join("root/.ignore")).unwrap();
        assert_eq!(count(&GrepOptions::new("needle")), found);
        fs::remove_file(tree.top.join("root/.ignore")).unwrap();
        // Files that end never, or after gigabytes.
        symlink("/dev/zero", tree.top.join("root/src/.gitignore")).unwrap();
        let sparse = fs::File::create(tree.top.join("root/.ignore")).unwrap();
        sparse.set_len(3 << 30).unwrap();
        assert_eq!(count(&GrepOptions::new("needle")), found);
        fs::write(tree.top.join("root/.ignore"), "src\n!ignored.rs\n").unwrap();
        assert_eq!(tree.grep(&GrepOptions::new("needle")), ["ignored.rs:1:1"]);
    }
}

#[test]
fn a_search_stops_at_its_deadline_inside_of_a_file_and_skips_endless_lines() {
    let tree = tree(ResolveStrategy::Kernel);
    let long = fs::File::create(tree.top.join("root/src/long.txt")).unwrap();
    for _ in 0..100 {
        std::io::Write::write_all(&mut &long, &vec![b'a'; 1 << 20]).unwrap();
    }
    // A line above the limit ends the search of its file only.
    assert_eq!(tree.grep(&GrepOptions::new("aaa")), Vec::<String>::new());
    assert!(!tree.grep(&GrepOptions::new("needle")).is_empty());
    let lines = fs::File::create(tree.top.join("root/src/lines.txt")).unwrap();
    for _ in 0..64 {
        std::io::Write::write_all(&mut &lines, &b"a\n".repeat(1 << 19)).unwrap();
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    let scan = ScanBudget::unbounded().cancelled_by(Arc::clone(&cancelled));
    let stopping = GrepOptions { max_matches: usize::MAX, ..GrepOptions::new("a") };
    let result = files::grep(&tree.path("src/lines.txt"), &stopping, &scan, &|_| {
        cancelled.store(true, Ordering::Relaxed);
    });
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
}
