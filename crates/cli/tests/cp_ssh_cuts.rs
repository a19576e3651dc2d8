//! `rex cp` over a real ssh whose connection is cut once, in each step of the copy.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;
#[path = "support/trees.rs"]
mod trees;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, SystemTime};

use support::{run, text};
use testkit::programs::program;
use testkit::proxy::{CutKind, Direction, Proxy};
use testkit::sandbox::Sandbox;
use testkit::serve::Addresses;
use testkit::sshd::Sshd;
use trees::{noise, tree};

/// Runs the daemon and forwards its streams. When the text of the plan has occurred in the requests so many times, it kills
/// the sshd of the connection: before the daemon receives the request, or instead of its response. A plan is used once.
const FILTER: &str = r#"
import os, signal, subprocess, sys, threading
plan, daemon = sys.argv[1], sys.argv[2:]
if not os.path.exists(plan):
    os.execv(daemon[0], daemon)
lost, left, mark = open(plan, "rb").read().split(b" ", 2)

def cut():
    os.unlink(plan)
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(0)

if mark == b"start":
    cut()
child = subprocess.Popen(daemon, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
found = threading.Event()

def respond():
    while data := os.read(child.stdout.fileno(), 65536):
        if found.is_set():
            cut()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    os._exit(child.wait())

threading.Thread(target=respond).start()
left, tail = int(left), b""
while data := os.read(0, 65536):
    seen = tail + data
    left -= seen.count(mark)
    tail = seen[len(seen) - len(mark) + 1:]
    if left <= 0 and lost == b"request":
        cut()
    if left <= 0:
        found.set()
    child.stdin.write(data)
    child.stdin.flush()
child.stdin.close()
"#;

/// The request that opens the session. After its response, a cut does not end the copy.
const OPEN: &str = "\"session.open\"";

/// A cut: what is lost, the text in the requests, and its occurrence.
type Cut = (&'static str, usize, &'static str);

/// A machine behind ssh and a proxy, as the target `far`. Both ends of a copy are in the sandbox.
struct World {
    sandbox: Sandbox,
    _sshd: Sshd,
    proxy: Proxy,
}

/// Mode and type, modification time of a file, and contents or the text of a link.
type Entry = (u32, Option<SystemTime>, Vec<u8>);

fn entries(top: &Path) -> BTreeMap<PathBuf, Entry> {
    let about = |path: &Path| {
        let found = path.symlink_metadata().unwrap();
        match found.file_type() {
            kind if kind.is_dir() => (found.mode(), None, Vec::new()),
            kind if kind.is_symlink() => {
                (found.mode(), None, fs::read_link(path).unwrap().into_os_string().into_vec())
            }
            _ => (found.mode(), Some(found.modified().unwrap()), fs::read(path).unwrap()),
        }
    };
    tree(top).into_keys().map(|path| (path.clone(), about(&top.join(&path)))).collect()
}

impl World {
    fn start() -> World {
        // The daemon of a client that does not come back ends soon.
        let sandbox = Sandbox::with_config("[server]\nresume_ms = 120000\n");
        let sshd = Sshd::start(&sandbox);
        let unix = sandbox.path("none.sock");
        let before = Addresses { unix, http: ([127, 0, 0, 1], sshd.port()).into(), token: None };
        let proxy = Proxy::start(&before, &sandbox.path("."));
        let config = sshd.client_config(&sandbox);
        let [own, proxied] =
            [sshd.port(), proxy.addresses.http.port()].map(|port| format!("\nPort {port}\n"));
        sandbox.write("ssh/config", sandbox.read("ssh/config").replace(&own, &proxied));
        sandbox.write("filter.py", FILTER);
        let command = sandbox.expand(&format!(
            "exec python3 $DIR/filter.py $DIR/plan {} --stdio --config $DIR/config.toml",
            program("rexd")
        ));
        let far = serde_json::json!({ "transport": "ssh", "host": "far", "sshOptions": ["-F", config],
            "command": command, "defaultCwd": sandbox.root() });
        let registry = serde_json::json!({ "version": 1, "targets": { "far": far } });
        sandbox.write("home/config/rexd/targets.json", registry.to_string());
        World { sandbox, _sshd: sshd, proxy }
    }

    /// Writes the tree to copy.
    fn source(&self, top: &str) {
        for name in ["a", "b", "deep/c", "same"] {
            self.sandbox.write(&format!("{top}/{name}"), format!("new {name}"));
        }
        self.sandbox.write(&format!("{top}/large"), noise((5 << 20) / 2));
        symlink("a", self.sandbox.path(format!("{top}/link"))).unwrap();
        let mode = fs::Permissions::from_mode(0o750);
        fs::set_permissions(self.sandbox.path(format!("{top}/deep")), mode).unwrap();
        for (path, entry) in entries(&self.sandbox.path(top)) {
            if entry.1.is_some() {
                let file = File::options().write(true).open(self.sandbox.path(top).join(path)).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(1_234_567_890_123)).unwrap();
            }
        }
    }

    /// Writes an earlier copy: some files are old, one is identical but for its time, and one is to be deleted.
    fn earlier_copy(&self, top: &str) {
        for (name, content) in [("a", "old"), ("large", "old"), ("same", "new same"), ("extra/file", "old")] {
            self.sandbox.write(&format!("{top}/{name}"), content);
        }
        fs::create_dir(self.sandbox.path(format!("{top}/deep"))).unwrap();
    }

    fn copy(&self, from: &str, to: &str) -> Output {
        run(&self.sandbox, &["cp", "--delete", from, to])
    }

    /// Copies with one cut. The copy is complete; before there is a session it may fail, with nothing half written, and the
    /// next run completes it.
    fn copies_with_a_cut(&self, (from, source): (&str, &str), (to, copy): (&str, &str), cut: Cut) {
        self.earlier_copy(copy);
        let [source, copy] = [source, copy].map(|name| self.sandbox.path(name));
        let (old, new) = (entries(&copy), entries(&source));
        let (lost, count, mark) = cut;
        let plan = self.sandbox.write("plan", format!("{lost} {count} {mark}"));
        let output = self.copy(from, to);
        assert!(!plan.exists(), "{cut:?}: no cut: {output:?}");
        self.is_whole_or_unchanged(&output, (&old, &new), &copy, &format!("{cut:?}"));
        if !output.status.success() {
            assert!(matches!(mark, "start" | OPEN), "{cut:?}: {output:?}");
            let again = self.copy(from, to);
            assert!(again.status.success(), "{cut:?}: {again:?}");
        }
        assert!(entries(&copy) == new, "{cut:?}: {:?}", tree(&copy));
        fs::remove_dir_all(copy).unwrap();
    }

    /// After a failure, every file has its old or its new contents, and the error has a hint.
    fn is_whole_or_unchanged(
        &self,
        output: &Output,
        (old, new): (&BTreeMap<PathBuf, Entry>, &BTreeMap<PathBuf, Entry>),
        copy: &Path,
        case: &str,
    ) {
        let found = entries(copy);
        if output.status.success() {
            assert!(found == *new, "{case}: {output:?}");
            return;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(1 | 255)) && said.contains("hint:"),
            "{case}: {output:?}"
        );
        for (path, (_, _, content)) in &found {
            let is =
                |entries: &BTreeMap<PathBuf, Entry>| entries.get(path).is_some_and(|one| one.2 == *content);
            let is_part = path.extension().is_some_and(|suffix| suffix == "rex-part");
            assert!(is(old) || is(new) || is_part, "{case}: {} is half written", path.display());
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Otherwise ssh keeps the connection.
        run(&self.sandbox, &["target", "close", "--all"]);
    }
}

/// Makes a copy to the target for each cut.
fn uploads(cuts: &[Cut]) {
    let world = World::start();
    world.source("src");
    for cut in cuts {
        world.copies_with_a_cut(("../src", "src"), ("far:copy", "root/copy"), *cut);
    }
}

#[test]
fn a_cut_before_a_file_is_complete_on_the_target_leaves_nothing_half_written() {
    uploads(&[
        ("request", 1, "start"),
        ("request", 1, OPEN),
        ("response", 1, OPEN),
        ("request", 1, "\"fs.stat\""),
        ("response", 1, "\"fs.list\""),
        // The first byte, then between files.
        ("request", 1, "\"fs.write\""),
        ("response", 2, "\"fs.write\""),
        // In a large file: its second chunk. The first two requests are a stat and the first chunk.
        ("request", 3, "/.large.rex-part\""),
    ]);
}

#[test]
fn a_cut_while_a_copy_to_the_target_is_completed_leaves_nothing_half_written() {
    uploads(&[
        ("response", 3, "/.large.rex-part\""),
        // The large file is verified, then renamed.
        ("response", 1, "/.large.rex-part\",\"hash\":\"xxh128\""),
        ("response", 1, "\"fs.rename\""),
        // The identical file is hashed, then its time is set.
        ("response", 2, "/same\""),
        ("response", 1, "\"fs.symlink\""),
        ("response", 1, "\"fs.remove\""),
        ("request", 1, "/deep\",\"parents\""),
        ("request", 1, "\"session.close\""),
    ]);
}

#[test]
fn a_cut_in_any_step_of_a_copy_from_the_target_leaves_nothing_half_written() {
    let world = World::start();
    world.source("root/src");
    let cuts = [
        ("response", 1, "\"fs.stat\""),
        ("request", 1, "\"fs.list\""),
        ("response", 1, "\"fs.read\""),
        ("response", 2, "\"fs.read\""),
        ("response", 3, "/large\""),
        ("request", 1, "/large\",\"hash\":\"xxh128\""),
        ("response", 1, "/same\",\"hash\":\"sha256\""),
    ];
    for cut in cuts {
        world.copies_with_a_cut(("far:src", "root/src"), ("../copy", "copy"), cut);
    }
}

#[test]
fn a_cut_while_ssh_connects_changes_nothing() {
    let world = World::start();
    world.source("src");
    world.earlier_copy("root/copy");
    let copy = world.sandbox.path("root/copy");
    let (old, new) = (entries(&copy), entries(&world.sandbox.path("src")));
    // In the first line of sshd, and in the exchange of keys.
    for (toward, bytes) in [(Direction::Client, 10), (Direction::Daemon, 600), (Direction::Client, 1_500)] {
        world.proxy.cut_after(toward, bytes, CutKind::Closed);
        let output = world.copy("../src", "far:copy");
        assert_eq!(output.status.code(), Some(255), "{output:?}");
        world.is_whole_or_unchanged(&output, (&old, &old), &copy, "connecting");
    }
    assert_eq!(world.proxy.cuts(), 3);
    text(&world.sandbox, &["cp", "--delete", "../src", "far:copy"]);
    assert!(entries(&copy) == new, "{:?}", tree(&copy));
}
