//! `rex cp` as a mirror: several sources, patterns, removals, times, and standard streams.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;
#[path = "support/trees.rs"]
mod trees;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{feed, rex, run, text};
use testkit::programs::program;
use testkit::sandbox::Sandbox;
use testkit::tries::Tries;
use trees::{Thing, noise, tree};

/// Runs `rex cp` in the root and returns its last word.
fn cp(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let line = text(sandbox, &[&["cp", "--json"], arguments].concat());
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

/// Runs `rex cp`, which must fail as a whole, and returns what it printed on stderr.
fn refused(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = run(sandbox, &[&["cp"], arguments].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(255), "{arguments:?}: {said}");
    said
}

/// The names below a directory, sorted.
fn names(top: &Path) -> Vec<String> {
    tree(top).keys().map(|path| path.to_str().unwrap().to_owned()).collect()
}

#[test]
fn several_sources_go_into_the_destination_and_one_that_is_missing_does_not_stop_the_others() {
    let sandbox = Sandbox::new();
    sandbox.write("one", "1");
    sandbox.write("tree/leaf", "2");
    let done = cp(&sandbox, &["-r", "../one", "../tree", ":new/place"]);
    assert_eq!(done["files"], 2);
    assert_eq!(names(&sandbox.path("root/new/place")), ["one", "tree", "tree/leaf"]);
    let output = run(&sandbox, &["cp", ":new/place/one", ":nothing", ":new/place/tree", "../back"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("nothing: no such file"), "{said}");
    assert_eq!(names(&sandbox.path("back")), ["one", "tree", "tree/leaf"]);
    let summary = String::from_utf8(output.stdout).unwrap();
    assert!(
        summary.starts_with("copied 2 files (2 B) in ") && summary.ends_with(", 1 failed\n"),
        "{summary}"
    );
    sandbox.write("root/file", "x");
    for (arguments, says) in [
        (["../one", "../tree", ":file"], "not a directory"),
        (["../one", ":file", ":new"], "different machines"),
        (["-", "../one", ":new"], "one file"),
    ] {
        let output = run(&sandbox, &[&["cp"], &arguments[..]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            matches!(output.status.code(), Some(1 | 255)) && said.contains(says),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn what_is_excluded_is_neither_copied_nor_deleted() {
    let sandbox = Sandbox::new();
    for name in ["a.c", "a.o", "deep/b.o", "deep/b.c", "target/x", "deep/.gitignore", "deep/secret"] {
        sandbox.write(&format!("src/{name}"), name);
    }
    sandbox.write("src/.gitignore", "target/\n");
    sandbox.write("src/deep/.gitignore", "secret\n!b.o\n");
    cp(&sandbox, &["--exclude", "*.o", "--gitignore", "../src", ":copy"]);
    let kept = [".gitignore", "a.c", "deep", "deep/.gitignore", "deep/b.c"];
    assert_eq!(names(&sandbox.path("root/copy")), kept);

    for name in ["a.o", "old", "gone/file", "deep/gone", "target/keep"] {
        sandbox.write(&format!("root/copy/{name}"), name);
    }
    symlink(sandbox.outside(), sandbox.path("root/copy/outside")).unwrap();
    let mirrored = cp(&sandbox, &["--delete", "--exclude", "*.o", "--gitignore", "../src", ":copy"]);
    assert_eq!((&mirrored["deleted"], &mirrored["files"]), (&4.into(), &0.into()));
    let kept = [".gitignore", "a.c", "a.o", "deep", "deep/.gitignore", "deep/b.c", "target", "target/keep"];
    assert_eq!(names(&sandbox.path("root/copy")), kept);

    cp(&sandbox, &[":copy", "../back"]);
    sandbox.write("back/gone/deep/file", "x");
    symlink(sandbox.outside(), sandbox.path("back/gone/link")).unwrap();
    let mirrored = cp(&sandbox, &["--delete", ":copy", "../back"]);
    assert_eq!(mirrored["deleted"], 1);
    assert_eq!(names(&sandbox.path("back")), kept);
    assert_eq!(sandbox.read("outside/secret.txt"), "not yours\n", "nothing behind a link is deleted");
    let said = refused(&sandbox, &["--exclude", "a{", "../src", ":other"]);
    assert!(said.contains("invalid pattern"), "{said}");
}

#[test]
fn an_invalid_line_of_an_ignore_file_is_reported_and_the_others_have_their_effect() {
    let sandbox = Sandbox::new();
    sandbox.write("src/.gitignore", "a{\n*.o\n");
    sandbox.write("src/a.o", "x");
    sandbox.write("src/a.c", "x");
    let output = run(&sandbox, &["cp", "--gitignore", "../src", ":copy"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("skipped invalid pattern"), "{said}");
    assert_eq!(names(&sandbox.path("root/copy")), [".gitignore", "a.c"]);
}

#[test]
fn excluded_files_stay_in_a_directory_that_only_the_destination_has() {
    let sandbox = Sandbox::new();
    sandbox.write("src/file", "new");
    let old = ["old/prod.env", "old/file", "old/deep/er/dev.env", "old/deep/gone/x", "gone/deep/x", "out/x"];
    let kept =
        ["file", "old", "old/deep", "old/deep/er", "old/deep/er/dev.env", "old/prod.env", "out", "out/x"];
    sandbox.write("root/src/file", "new");
    for (from, to, top) in [("../src", ":copy", "root/copy"), (":src", "../back", "back")] {
        for name in old {
            sandbox.write(&format!("{top}/{name}"), name);
        }
        symlink("prod.env", sandbox.path(format!("{top}/old/link"))).unwrap();
        let mirrored = cp(&sandbox, &["--delete", "--exclude", "*.env", "--exclude", "/out", from, to]);
        assert_eq!(mirrored["deleted"], 4, "{to}: old/file, old/link, old/deep/gone, gone");
        assert_eq!(names(&sandbox.path(top)), kept, "{to}");
    }
}

#[test]
fn nothing_is_deleted_through_a_link_of_the_destination() {
    let sandbox = Sandbox::new();
    sandbox.write("src/sub/inner/file", "new");
    sandbox.write("root/elsewhere/inner/keep", "mine");
    sandbox.write("root/copy/old", "x");
    symlink("../elsewhere", sandbox.path("root/copy/sub")).unwrap();
    let mirrored = cp(&sandbox, &["--delete", "../src", ":copy"]);
    assert_eq!(mirrored["deleted"], 1);
    assert_eq!(names(&sandbox.path("root/copy")), ["sub"]);
    assert_eq!(sandbox.read("root/elsewhere/inner/keep"), "mine");
}

#[test]
fn several_sources_do_not_delete_the_copies_of_each_other() {
    let sandbox = Sandbox::new();
    for name in ["file", "a/one", "b/two", "c/a/three", "root/copy/old"] {
        sandbox.write(name, name);
    }
    for (sources, says) in [
        (["../a/.", "../b/."], "the contents of ../a/."),
        (["../file", "../a/."], "the contents of ../a/."),
        (["../a", "../c/a"], "several sources are named a"),
    ] {
        let said = refused(&sandbox, &[&["--delete"], &sources[..], &[":copy"]].concat());
        assert!(said.contains(says) && said.contains("hint:"), "{sources:?}: {said}");
        assert_eq!(names(&sandbox.path("root/copy")), ["old"]);
    }
    sandbox.write("root/copy/a/gone", "x");
    let mirrored = cp(&sandbox, &["--delete", "../file", "../a", "../b", ":copy"]);
    assert_eq!(mirrored["deleted"], 1);
    assert_eq!(names(&sandbox.path("root/copy")), ["a", "a/one", "b", "b/two", "file", "old"]);
}

#[test]
fn a_copy_that_contains_its_source_deletes_nothing() {
    let sandbox = Sandbox::new();
    for name in ["root/a/b/leaf", "root/a/other", "root/site/page"] {
        sandbox.write(name, name);
    }
    symlink("site", sandbox.path("root/link")).unwrap();
    let served = testkit::serve::ServedDaemon::start(&program("rexd"), &sandbox);
    text(&sandbox, &["target", "add", "far", &format!("unix:{}", served.addresses.unix.display())]);
    let far = |path: &str| format!("far:{}/{path}", sandbox.root().display());
    let before = names(&sandbox.root());
    for arguments in [
        [":a/b", ":a"],
        [":a", ":a/b/new"],
        ["./site/.", ":."],
        [":site/.", "."],
        ["./link/.", ":site"],
        [":.", "site/new"],
        [&far("a/b"), &far("a")],
        [&far("site/."), &far("link/new")],
    ] {
        let said = refused(&sandbox, &[&["--delete"], &arguments[..]].concat());
        assert!(said.contains("one contains the other"), "{arguments:?}: {said}");
        assert_eq!(names(&sandbox.root()), before, "{arguments:?}");
    }
    cp(&sandbox, &["--delete", ":site", ":a"]);
    assert_eq!(names(&sandbox.path("root/a")), ["page"]);
}

#[test]
fn a_copy_within_a_target_is_a_mirror_too() {
    let sandbox = Sandbox::new();
    for (name, size) in [("a.c", 3), ("a.o", 3), ("deep/large", (2 << 20) + 1)] {
        sandbox.write(&format!("root/src/{name}"), noise(size));
    }
    symlink("a.c", sandbox.path("root/src/link")).unwrap();
    for (name, mode) in [("deep", 0o750), ("deep/large", 0o400)] {
        let path = sandbox.path(format!("root/src/{name}"));
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    sandbox.write("root/copy/extra", "x");
    let line = text(&sandbox, &["cp", "--exclude", "*.o", "--delete", ":src", ":copy"]);
    assert!(
        line.starts_with("copied 2 files (2.0 MiB), 1 link in ") && line.ends_with(", 1 deleted\n"),
        "{line}"
    );
    assert_eq!(names(&sandbox.path("root/copy")), ["a.c", "deep", "deep/large", "link"]);
    assert_eq!(fs::read_link(sandbox.path("root/copy/link")).unwrap(), Path::new("a.c"));
    let about = |top: &str, name: &str| {
        let path = sandbox.path(format!("root/{top}/{name}"));
        (fs::metadata(&path).unwrap().permissions().mode(), fs::read(path).unwrap_or_default())
    };
    for name in ["deep", "deep/large"] {
        assert!(about("src", name) == about("copy", name), "{name}");
    }
}

#[test]
fn a_directory_that_cannot_be_copied_completely_deletes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("src/file", "new");
    sandbox.write("root/copy/file/in the way", "x");
    sandbox.write("root/copy/extra", "x");
    let output = run(&sandbox, &["cp", "--delete", "../src", ":copy"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("nothing was deleted"), "{said}");
    assert_eq!(names(&sandbox.path("root/copy")), ["extra", "file", "file/in the way"]);
}

#[test]
fn modification_times_are_kept_in_both_directions() {
    let sandbox = Sandbox::new();
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234_567_890_123);
    for (name, size) in [("src/small", 10), ("src/large", (2 << 20) + 1)] {
        let path = sandbox.write(name, noise(size));
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    cp(&sandbox, &["../src", ":there"]);
    cp(&sandbox, &[":there", "../back"]);
    cp(&sandbox, &[":there", ":within"]);
    let has_time = |name: &str| fs::metadata(sandbox.path(name)).unwrap().modified().unwrap() == time;
    for top in ["root/there", "back", "root/within"] {
        assert!(has_time(&format!("{top}/small")) && has_time(&format!("{top}/large")), "{top}");
    }
    let now = SystemTime::now();
    for name in ["root/there/small", "back/large"] {
        File::options().write(true).open(sandbox.path(name)).unwrap().set_modified(now).unwrap();
    }
    let again = cp(&sandbox, &["../src", ":there"]);
    assert_eq!((&again["files"], &again["skipped"]), (&0.into(), &2.into()));
    cp(&sandbox, &[":there", "../back"]);
    assert!(has_time("root/there/small") && has_time("back/large"), "an identical file gets its time too");
}

#[test]
fn standard_input_and_output_are_files_too() {
    let sandbox = Sandbox::new();
    for size in [0, 5, (3 << 20) + 1] {
        let input = sandbox.write("input", noise(size));
        let output = feed(&sandbox, &["cp", "-", ":copied"], File::open(&input).unwrap());
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        assert!(fs::read(sandbox.path("root/copied")).unwrap() == noise(size), "{size} bytes");
        let output = run(&sandbox, &["cp", ":copied", "-"]);
        assert!(output.status.success() && output.stdout == noise(size), "{size} bytes: {:?}", output.status);
    }
    fs::create_dir(sandbox.path("root/dir")).unwrap();
    for (arguments, says) in
        [(["cp", "-", ":dir"], "it is a directory"), (["cp", "-", "file"], "both paths are local")]
    {
        let output = run(&sandbox, &arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(255) && said.contains(says), "{said}");
    }
    assert_eq!(names(&sandbox.root()), ["copied", "dir"], "nothing half written is left");
}

#[test]
fn standard_input_keeps_the_mode_and_the_link_of_the_file_it_replaces() {
    let sandbox = Sandbox::new();
    let real = sandbox.write("root/real", "old");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real", sandbox.path("root/link")).unwrap();
    symlink("nothing", sandbox.path("root/dangling")).unwrap();
    for (name, size) in [("real", 0), ("link", 5), ("real", (1 << 20) + 1)] {
        let input = sandbox.write("input", noise(size));
        let output = feed(&sandbox, &["cp", "-", &format!(":{name}")], File::open(&input).unwrap());
        assert!(output.status.success(), "{output:?}");
        let content = Thing::File { mode: 0o640, content: noise(size) };
        assert_eq!(tree(&sandbox.root())[Path::new("real")], content, "{name}");
        assert!(sandbox.path("root/link").is_symlink());
    }
    let said = refused(&sandbox, &["-", ":dangling"]);
    assert!(said.contains("dangling symbolic link"), "{said}");
    assert_eq!(names(&sandbox.root()), ["dangling", "link", "real"]);
}

#[test]
fn an_interrupted_stream_was_private_and_does_not_offer_to_resume() {
    let sandbox = Sandbox::new();
    sandbox.write("root/file", "old");
    let mut command = rex(&sandbox, &["cp", "-", ":file"]);
    let mut copying = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = copying.stdin.take().unwrap();
    // Enough for a first piece; the pipe stays open.
    input.write_all(&noise((1 << 20) + 1)).unwrap();
    let mut tries = Tries::within(Duration::from_secs(60), "a partial file");
    let part = loop {
        let mut entries = fs::read_dir(sandbox.root()).unwrap().map(|entry| entry.unwrap().path());
        if let Some(part) = entries.find(|path| path.extension().is_some_and(|end| end == "rex-part")) {
            break part;
        }
        tries.again();
    };
    assert_eq!(fs::metadata(part).unwrap().permissions().mode() & 0o777, 0o600);
    kill_process(Pid::from_child(&copying), Signal::INT).unwrap();
    let output = copying.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(130) && said.contains("interrupted"), "{said}");
    assert!(!said.contains("resume"), "{said}");
    assert_eq!(sandbox.read("root/file"), "old");
    drop(input);
}

#[test]
fn modes_of_directories_are_kept_in_both_directions() {
    let sandbox = Sandbox::new();
    let chmod = |name: &str, mode: u32| {
        fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |name: &str| fs::metadata(sandbox.path(name)).unwrap().permissions().mode() & 0o777;
    let modes = |top: &str| {
        ["", "/private", "/shared", "/shared/fixed", "/empty"].map(|name| mode(&format!("{top}{name}")))
    };
    sandbox.write("src/private/file", "one");
    sandbox.write("src/shared/fixed/file", "two");
    fs::create_dir(sandbox.path("src/empty")).unwrap();
    let kept = [0o751, 0o700, 0o777, 0o555, 0o711];
    chmod("src/private", 0o700);
    chmod("src/shared/fixed", 0o555);
    chmod("src/shared", 0o777);
    chmod("src/empty", 0o711);
    chmod("src", 0o751);
    cp(&sandbox, &["../src", ":there"]);
    assert_eq!(modes("root/there"), kept);
    cp(&sandbox, &[":there", "../back"]);
    assert_eq!(modes("back"), kept);
    // A second run updates what is in the destination, and leaves its own mode as it is.
    chmod("src/empty", 0o755);
    chmod("src/shared/fixed", 0o755);
    sandbox.write("src/shared/fixed/more", "three");
    chmod("src/shared/fixed", 0o555);
    chmod("root/there", 0o755);
    cp(&sandbox, &["../src", ":there"]);
    assert_eq!(modes("root/there"), [0o755, 0o700, 0o777, 0o555, 0o755]);
    assert_eq!(sandbox.read("root/there/shared/fixed/more"), "three");
    for name in ["src/shared/fixed", "root/there/shared/fixed", "back/shared/fixed"] {
        chmod(name, 0o755);
    }
}
