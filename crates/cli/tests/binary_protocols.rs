//! Programs that speak a binary protocol over `rex exec`: every answer arrives before the next request, whatever its last byte is.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

#[path = "support/server.rs"]
mod server;
mod support;
#[path = "support/trees.rs"]
mod trees;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use server::ended;
use support::{REX, rex};
use testkit::exec_server::ExecServer;
use testkit::proc::watch;
use testkit::programs::program;
use testkit::sandbox::Sandbox;
use trees::{noise, tree};

/// Transfers with each program.
const TRANSFERS: usize = 20;

/// Reads requests, a length and so many bytes, and answers each with its bytes; a length of 0 ends it.
const ECHO: &str = "import sys
requests, answers = sys.stdin.buffer, sys.stdout.buffer
while length := requests.read(1)[0]:
    answers.write(requests.read(length))
    answers.flush()
";

/// Sends requests that end with every byte, each after the answer to the one before.
fn converse(mut command: Command) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (done, finished) = mpsc::channel();
    let talk = std::thread::spawn(move || {
        for last in 0..=255_u8 {
            for before in [&b""[..], b"abc", b"\xf0\x9f", b"\xff\x00\xe2"] {
                let request = [before, &[last]].concat();
                input.write_all(&[u8::try_from(request.len()).unwrap()]).unwrap();
                input.write_all(&request).unwrap();
                let mut answer = vec![0; request.len()];
                output.read_exact(&mut answer).unwrap();
                assert_eq!(answer, request);
                done.send(last).unwrap();
            }
        }
        input.write_all(&[0]).unwrap();
    });
    for count in 0..4 * 256 {
        let answered = finished.recv_timeout(Duration::from_secs(60));
        assert!(answered.is_ok(), "request {count} of {command:?} has no answer");
    }
    talk.join().unwrap();
    let watched = watch(i32::try_from(child.id()).unwrap());
    assert!(watched.ends_before(Instant::now() + Duration::from_secs(60)), "{command:?} does not end");
    assert!(child.wait().unwrap().success());
}

#[test]
fn each_answer_arrives_before_the_next_request() {
    let sandbox = Sandbox::new();
    converse(rex(&sandbox, &["exec", "--", "python3", "-c", ECHO]));
    let served = ExecServer::start(&sandbox);
    let mut through_exec_server = rex(&sandbox, &["exec", "--", "python3", "-c", ECHO]);
    through_exec_server.env("REX_TARGET", format!("codex:{}", served.url));
    converse(through_exec_server);
}

/// A program in the place of ssh that runs `command` on the target; `$@` are the words after the host.
fn in_place_of_ssh(sandbox: &Sandbox, command: &str) -> PathBuf {
    let script = format!("#!/bin/sh\nshift\nREX_REXD={} exec {REX} exec -- {command}\n", program("rexd"));
    let path = sandbox.write("ssh", script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Files whose bytes end and begin characters anywhere, and their directory.
fn some_files(sandbox: &Sandbox) -> PathBuf {
    for (number, length) in [0, 1, 3, 1000, 32_768, 65_537, 700_001].into_iter().enumerate() {
        sandbox.write(&format!("files/{number}"), noise(length));
    }
    sandbox.write("files/below/text", "grün ✓ 😀\n".repeat(5000));
    sandbox.path("files")
}

fn assert_equal(files: &Path, copied: &Path, transfer: usize) {
    assert!(tree(files) == tree(copied), "transfer {transfer}: {:?}\n{:?}", tree(files), tree(copied));
}

#[test]
fn rsync_copies_every_byte_in_both_directions() {
    let sandbox = Sandbox::new();
    let shell = in_place_of_ssh(&sandbox, "\"$@\"");
    let files = some_files(&sandbox);
    for transfer in 0..TRANSFERS {
        let copied = sandbox.path(format!("copied-{transfer}"));
        let (from, to) = (format!("{}/", files.display()), format!("host:{}/", copied.display()));
        let back = sandbox.path(format!("back-{transfer}"));
        for (from, to) in [(from, to), (format!("host:{}/", copied.display()), back.display().to_string())] {
            let mut rsync = sandbox.command("rsync");
            rsync.current_dir(sandbox.root()).arg("-a").arg("-e").arg(&shell).args([from, to]);
            let output = ended(&mut rsync);
            assert!(output.status.success(), "transfer {transfer}: {output:?}");
        }
        assert_equal(&files, &copied, transfer);
        assert_equal(&files, &back, transfer);
    }
}

#[test]
fn sftp_copies_every_byte_in_both_directions() {
    let sandbox = Sandbox::new();
    let servers =
        ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server"];
    let server = servers.into_iter().find(|path| Path::new(path).exists());
    let server = server.expect("no sftp-server: apt-get install openssh-sftp-server");
    let ssh = in_place_of_ssh(&sandbox, server);
    let files = some_files(&sandbox);
    for transfer in 0..TRANSFERS {
        let [copied, back] = ["copied", "back"].map(|name| sandbox.path(format!("{name}-{transfer}")));
        let batch = format!(
            "put -rp {} {copied}\nget -rp {copied} {}\n",
            files.display(),
            back.display(),
            copied = copied.display()
        );
        let batch = sandbox.write("batch", batch);
        let mut sftp = sandbox.command("sftp");
        sftp.current_dir(sandbox.root()).arg("-b").arg(batch).arg("-S").arg(&ssh).arg("host");
        let output = ended(&mut sftp);
        assert!(output.status.success(), "transfer {transfer}: {output:?}");
        assert_equal(&files, &copied, transfer);
        assert_equal(&files, &back, transfer);
    }
}
