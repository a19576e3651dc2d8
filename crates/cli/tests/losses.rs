//! What disappears or fills up meanwhile: a target during `attach` and `logs -f`, a disk in the middle of `cp`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;
#[path = "support/trees.rs"]
#[allow(dead_code, reason = "each test uses some of it")]
mod trees;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{rex, run, text};
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

/// A small file system in the root, as `disk`; `None` where mounting is not permitted.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: PathBuf) -> Option<SmallDisk> {
        fs::create_dir_all(&path).unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=8m,mode=700", "none"];
        let mounted = Command::new("mount").args(mount).arg(&path).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(path))
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
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_is_full_in_the_middle_of_a_copy_keeps_the_old_file_and_the_partial_one_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("large", noise(24 << 20));
    sandbox.write("root/large", noise(24 << 20));
    for (from, to, disk) in [("../large", ":disk/copy", "root/disk"), (":large", "../other/copy", "other")] {
        let Some(disk) = SmallDisk::mount(sandbox.path(disk)) else { return };
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
    let Some(disk) = SmallDisk::mount(sandbox.path("root/disk")) else { return };
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
