//! `rex cp` when the connection breaks, `rex` is killed, or the source changes during the copy.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

#[allow(unreachable_pub, reason = "shared with other tests")]
mod support;
#[path = "support/trees.rs"]
#[allow(dead_code, reason = "each test uses some of it")]
mod trees;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Output, Stdio};
use std::time::Instant;

use serde_json::Value;
use support::rex;
use testkit::daemon::PATIENCE;
use testkit::programs::program;
use testkit::proxy::{CutKind, Direction, Proxy};
use testkit::sandbox::Sandbox;
use testkit::serve::ServedDaemon;
use testkit::tries::Tries;
use trees::noise;

const SIZE: usize = 24 << 20;
/// Slow enough that there is time to act in the middle: all of it takes ten seconds.
const SLOW: usize = 8 * 1024;

/// A daemon behind a bad link, with a large file outside its root and one inside.
struct World {
    _served: ServedDaemon,
    proxy: Proxy,
    sandbox: Sandbox,
}

/// Both directions: source, target, where the target and its part lie, and which way the content goes.
const WAYS: [(&str, &str, &str, &str, Direction); 2] = [
    ("../large", ":copy", "root/copy", "root/.copy.rex-part", Direction::Daemon),
    (":large", "../copy", "copy", ".copy.rex-part", Direction::Client),
];

impl World {
    fn new() -> World {
        let sandbox = Sandbox::new();
        sandbox.write("large", noise(SIZE));
        sandbox.write("root/large", noise(SIZE));
        let served = ServedDaemon::start(&program("rexd"), &sandbox);
        let proxy = Proxy::start(&served.addresses, &sandbox.path("."));
        World { _served: served, proxy, sandbox }
    }

    fn start(&self, source: &str, target: &str) -> Child {
        let unix = format!("unix:{}", self.proxy.addresses.unix.display());
        let root = |path: &str| match path.strip_prefix(':') {
            Some(name) => format!(":{}", self.sandbox.root().join(name).display()),
            None => path.to_owned(),
        };
        let mut command = rex(&self.sandbox, &["-t", &unix, "cp", "--json", &root(source), &root(target)]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs to the end; what was copied must be what was to be.
    fn copies(&self, source: &str, target: &str) -> Value {
        let output = self.start(source, target).wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Begins slowly, and kills `rex` once something has arrived.
    fn kills(&self, source: &str, target: &str, part: &str) {
        self.proxy.throttle(Some(SLOW));
        let mut child = self.start(source, target);
        self.sandbox.grows(part, 2 << 20, Instant::now() + PATIENCE);
        child.kill().unwrap();
        child.wait().unwrap();
        self.proxy.throttle(None);
    }

    fn is_whole(&self, name: &str) -> bool {
        fs::read(self.sandbox.path(name)).unwrap() == noise(SIZE)
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_link_that_is_cut_in_the_middle_costs_nothing_but_what_was_on_its_way() {
    for how in [CutKind::Reset, CutKind::Closed] {
        let world = World::new();
        for (source, target, name, part, toward) in WAYS {
            let before = world.proxy.passed(toward);
            world.proxy.cut_after(toward, 12 << 20, how);
            let summary = world.copies(source, target);
            assert_eq!((&summary["files"], &summary["failed"]), (&1.into(), &0.into()));
            assert!(world.is_whole(name), "{target} after {how:?}");
            assert!(!world.sandbox.path(part).exists());
            // Once over the line and a window of pieces twice, in base64.
            let passed = world.proxy.passed(toward) - before;
            assert!(passed < (SIZE as u64 + (16 << 20)) * 4 / 3, "{passed} bytes passed");
        }
        assert_eq!(world.proxy.cuts(), 2);
    }
}

#[test]
fn a_link_that_is_cut_again_and_again_copies_all() {
    let world = World::new();
    // Slow enough that it lasts longer than the cuts.
    world.proxy.throttle(Some(4 * SLOW));
    for (source, target, name, _, toward) in WAYS {
        let child = world.start(source, target);
        let before = world.proxy.cuts();
        for cut in 1..=6 {
            world.proxy.cut_after(
                toward,
                3 << 20,
                if cut % 2 == 0 { CutKind::Reset } else { CutKind::Closed },
            );
            let mut tries = Tries::within(PATIENCE, "the connection is cut");
            while world.proxy.cuts() < before + cut {
                tries.again();
            }
        }
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(world.is_whole(name), "{target}");
    }
}

/// ARCHITECTURE.md, invariant 53.
#[test]
fn after_rex_was_killed_the_old_file_stands_and_the_next_run_goes_on() {
    let world = World::new();
    for (source, target, name, part, toward) in WAYS {
        world.sandbox.write(name, "old");
        world.kills(source, target, part);
        assert_eq!(world.sandbox.read(name), "old", "the target is never seen half written");
        let kept = fs::metadata(world.sandbox.path(part)).unwrap().len();
        let before = world.proxy.passed(toward);
        world.copies(source, target);
        assert!(world.is_whole(name));
        let passed = world.proxy.passed(toward) - before;
        assert!(passed < (SIZE as u64 - kept + (2 << 20)) * 4 / 3, "{passed} of {SIZE} with {kept} kept");
        assert!(!world.sandbox.path(part).exists());
    }
}

#[test]
fn a_part_that_is_not_how_the_source_begins_is_not_continued() {
    let world = World::new();
    for (source, target, name, part, _) in WAYS {
        world.kills(source, target, part);
        let file = OpenOptions::new().write(true).open(world.sandbox.path(part)).unwrap();
        file.write_all_at(b"another one!!", 1 << 20).unwrap();
        world.copies(source, target);
        assert!(world.is_whole(name));
        world.sandbox.write(part, noise(SIZE + 1));
        fs::remove_file(world.sandbox.path(name)).unwrap();
        world.copies(source, target);
        assert!(world.is_whole(name), "a part that is longer than the source");
    }
}

/// ARCHITECTURE.md, invariant 53.
#[test]
fn a_source_that_changes_meanwhile_is_told_and_nothing_takes_the_targets_place() {
    let world = World::new();
    for (source, target, name, part, _) in WAYS {
        world.sandbox.write(name, "old");
        world.proxy.throttle(Some(SLOW));
        let child = world.start(source, target);
        world.sandbox.grows(part, 1 << 20, Instant::now() + PATIENCE);
        let origin = if source.starts_with(':') { "root/large" } else { "large" };
        let file = OpenOptions::new().write(true).open(world.sandbox.path(origin)).unwrap();
        file.write_all_at(b"changed", 100).unwrap();
        world.proxy.throttle(None);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(255));
        assert!(said(&output).contains("it changed during the copy"), "{}", said(&output));
        assert_eq!(world.sandbox.read(name), "old");
    }
}

#[test]
fn a_partial_file_that_another_program_changed_is_sent_again() {
    let world = World::new();
    let [(source, target, name, part, _), _] = WAYS;
    world.proxy.throttle(Some(SLOW));
    let child = world.start(source, target);
    world.sandbox.grows(part, 2 << 20, Instant::now() + PATIENCE);
    let file = OpenOptions::new().write(true).open(world.sandbox.path(part)).unwrap();
    file.write_all_at(b"changed", 100).unwrap();
    world.proxy.throttle(None);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(world.is_whole(name));
}

#[test]
fn a_tree_whose_copy_was_killed_goes_on_in_the_same_place() {
    let world = World::new();
    for number in 0..40 {
        world.sandbox.write(&format!("tree/{number:02}"), noise(300_000 + number));
    }
    world.proxy.throttle(Some(SLOW));
    let mut child = world.start("../tree", ":copied");
    world.sandbox.appears("root/copied", Instant::now() + PATIENCE);
    world.sandbox.appears("root/copied/05", Instant::now() + PATIENCE);
    child.kill().unwrap();
    child.wait().unwrap();
    world.proxy.throttle(None);
    let summary = world.copies("../tree", ":copied");
    assert!(summary["skipped"].as_u64().unwrap() >= 1, "{summary}");
    assert_eq!(trees::tree(&world.sandbox.path("tree")), trees::tree(&world.sandbox.path("root/copied")));
    let again = world.copies("../tree", ":copied");
    assert_eq!((&again["files"], &again["skipped"]), (&0.into(), &40.into()), "{again}");
    assert!(!world.sandbox.path("root/copied/tree").exists(), "a second run updates the same directory");
}

#[test]
fn an_interrupted_copy_says_how_to_go_on() {
    let world = World::new();
    world.proxy.throttle(Some(SLOW));
    let child = world.start("../large", ":copy");
    world.sandbox.appears("root/.copy.rex-part", Instant::now() + PATIENCE);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(said(&output).contains("run the same command again"), "{}", said(&output));
    assert!(!world.sandbox.path("root/copy").exists());
}
