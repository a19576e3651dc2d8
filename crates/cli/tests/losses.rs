//! What disappears or fills up meanwhile: a target during `attach` and `logs -f`, a disk in the middle of `cp`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;
#[path = "support/trees.rs"]
#[allow(dead_code, reason = "each test uses some of it")]
mod trees;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use support::{rex, run, text};
use testkit::daemon::PATIENCE;
use testkit::programs::program;
use testkit::proxy::{CutKind, Proxy};
use testkit::sandbox::Sandbox;
use testkit::serve::{Addresses, ServedDaemon};
use trees::noise;

#[test]
fn a_target_that_disappears_ends_attach_and_logs_with_an_error() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&program("rexd"), &sandbox);
    let proxy = Proxy::start(&served.addresses, &sandbox.path("."));
    let target = format!("unix:{}", proxy.addresses.unix.display());
    let direct = format!("unix:{}", served.addresses.unix.display());
    let line =
        ["-t", &direct, "exec", "--detach", "--name", "job", "--", "sh", "-c", "echo ready; exec sleep 1000"];
    text(&sandbox, &line);
    let readers: Vec<_> = [&["attach", "job"][..], &["logs", "-f", "job"]]
        .into_iter()
        .map(|words| {
            let mut command = rex(&sandbox, &[&["-t", &target], words].concat());
            let streams = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut reader = streams.spawn().unwrap();
            let mut ready = [0; 6];
            reader.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
            (words, reader)
        })
        .collect();
    let nowhere = Addresses { unix: sandbox.path("nothing.sock"), ..served.addresses.clone() };
    proxy.redirect(&nowhere);
    proxy.cut(CutKind::Closed);
    for (words, mut reader) in readers {
        let mut stderr = BufReader::new(reader.stderr.take().unwrap());
        let mut said = String::new();
        stderr.read_line(&mut said).unwrap();
        assert!(said.contains("lost, retrying for 55 s"), "{words:?}: {said}");
        stderr.read_to_string(&mut said).unwrap();
        assert_eq!(reader.wait().unwrap().code(), Some(255), "{words:?}: {said}");
        assert!(said.contains("hint:"), "{words:?}: {said}");
    }
    assert!(text(&sandbox, &["-t", &direct, "ps"]).contains("job"), "the process goes on");
    text(&sandbox, &["-t", &direct, "kill", "job"]);
}

/// A small file system; `None`, and a line on stderr, where mounting is not permitted.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: PathBuf, size: &str) -> Option<SmallDisk> {
        fs::create_dir_all(&path).unwrap();
        let options = format!("size={size},mode=700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(&path).status();
        let disk = mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(path));
        if disk.is_none() {
            // The harness captures `eprintln!` of a test that passes.
            let name = std::thread::current().name().unwrap_or("a test").to_owned();
            let line = format!("skipped: {name}: mounting is not permitted\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
        }
        disk
    }

    /// Removes it while programs use it; its directory is empty then.
    fn unmount(&self) {
        assert!(Command::new("umount").arg("-l").arg(&self.0).status().unwrap().success());
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It may be gone already.
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).stderr(Stdio::null()).status();
    }
}

#[test]
fn a_disk_that_is_full_in_the_middle_of_a_copy_keeps_the_old_file_and_the_partial_one_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("large", noise(24 << 20));
    sandbox.write("root/large", noise(24 << 20));
    for (from, to, disk) in [("../large", ":disk/copy", "root/disk"), (":large", "../other/copy", "other")] {
        let Some(disk) = SmallDisk::mount(sandbox.path(disk), "8m") else { return };
        fs::write(disk.0.join("copy"), "old").unwrap();
        let output = run(&sandbox, &["cp", from, to]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(matches!(output.status.code(), Some(1 | 255)), "{said}");
        assert!(said.to_lowercase().contains("no space left on device"), "{said}");
        assert!(said.contains(".copy.rex-part") && said.contains("hint:"), "{said}");
        assert_eq!(fs::read_to_string(disk.0.join("copy")).unwrap(), "old");
        assert!(
            disk.names().iter().all(|name| name == "copy" || name == ".copy.rex-part"),
            "{:?}",
            disk.names()
        );
    }
}

#[test]
fn a_tree_whose_disk_is_full_names_what_is_missing() {
    let sandbox = Sandbox::new();
    let Some(disk) = SmallDisk::mount(sandbox.path("root/disk"), "8m") else { return };
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        sandbox.write(&format!("tree/{name}"), noise(2 << 20));
    }
    let output = run(&sandbox, &["cp", "../tree", ":disk/tree"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.to_lowercase().contains("no space left on device"), "{said}");
    for entry in fs::read_dir(disk.0.join("tree")).unwrap() {
        let path = entry.unwrap().path();
        let is_part = path
            .file_name()
            .is_some_and(|name| Path::new(name).extension().is_some_and(|end| end == "rex-part"));
        assert!(is_part || fs::read(&path).unwrap() == noise(2 << 20), "{} is half written", path.display());
    }
}

/// A slow copy of a large file to or from a served target.
struct SlowCopy {
    sandbox: Sandbox,
    _served: ServedDaemon,
    proxy: Proxy,
}

/// The source, the destination, and its directory.
const BOTH_WAYS: [(&str, &str, &str); 2] =
    [("../large", ":$ROOT/disk/copy", "root/disk"), (":$ROOT/large", "../disk/copy", "disk")];
const LARGE: usize = 16 << 20;

impl SlowCopy {
    fn new() -> SlowCopy {
        let sandbox = Sandbox::new();
        sandbox.write("large", noise(LARGE));
        sandbox.write("root/large", noise(LARGE));
        let served = ServedDaemon::start(&program("rexd"), &sandbox);
        let proxy = Proxy::start(&served.addresses, &sandbox.path("."));
        SlowCopy { sandbox, _served: served, proxy }
    }

    /// Copies over an old file, and loses the directory when a part of the new one is there.
    fn run(&self, options: &[&str], way: (&str, &str, &str), lose: impl FnOnce(&Path)) -> Output {
        let (from, to, directory) = way;
        let [from, to] = [from, to].map(|path| self.sandbox.expand(path));
        self.sandbox.write(&format!("{directory}/copy"), "old");
        self.proxy.throttle(Some(8 * 1024));
        let target = format!("unix:{}", self.proxy.addresses.unix.display());
        let words = [&["-t", &target, "cp"], options, &[&from, &to]].concat();
        let mut copy = rex(&self.sandbox, &words);
        let copy = copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        self.sandbox.grows(&format!("{directory}/.copy.rex-part"), 1 << 20, Instant::now() + PATIENCE);
        lose(&self.sandbox.path(directory));
        self.proxy.throttle(None);
        copy.wait_with_output().unwrap()
    }
}

/// The copy is complete in the directory that is there now, or it failed with a hint and nothing is there.
fn is_whole_or_absent(output: &Output, directory: &Path) {
    let said = String::from_utf8_lossy(&output.stderr);
    let copied = fs::read(directory.join("copy"));
    match output.status.code() {
        Some(0) => assert!(copied.unwrap() == noise(LARGE), "{said}"),
        status => {
            assert!(matches!(status, Some(1 | 255)) && said.contains("hint:"), "{status:?}: {said}");
            assert!(copied.is_err(), "{said}");
        }
    }
}

#[test]
fn a_disk_that_is_lost_in_the_middle_of_a_copy_leaves_nothing_half_written() {
    let slow = SlowCopy::new();
    for options in [&[][..], &["--no-verify"]] {
        for way in BOTH_WAYS {
            let Some(disk) = SmallDisk::mount(slow.sandbox.path(way.2), "48m") else { return };
            let output = slow.run(options, way, |_| disk.unmount());
            is_whole_or_absent(&output, &disk.0);
            fs::remove_dir_all(&disk.0).unwrap();
        }
    }
}

#[test]
fn a_directory_that_is_lost_in_the_middle_of_a_copy_is_reported() {
    let slow = SlowCopy::new();
    for way in BOTH_WAYS {
        let gone = slow.sandbox.path("gone");
        let output = slow.run(&[], way, |directory| {
            fs::rename(directory, &gone).unwrap();
            fs::write(directory, "a file in its place").unwrap();
        });
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(255), "{said}");
        assert!(said.contains("disk/") && said.contains("hint:"), "{said}");
        assert_eq!(slow.sandbox.read(way.2), "a file in its place");
        assert_eq!(slow.sandbox.read("gone/copy"), "old");
        fs::remove_dir_all(gone).unwrap();
        fs::remove_file(slow.sandbox.path(way.2)).unwrap();
    }
}
