//! Programs that speak a protocol over `rex rsh` in the place of ssh: rsync, sftp, scp, git and Ansible. Every answer arrives
//! before the next request, whatever its last byte is, and every byte is copied.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;
#[path = "support/trees.rs"]
mod trees;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use support::{REX, rex};
use testkit::exec_server::ExecServer;
use testkit::log::Log;
use testkit::proc::watch;
use testkit::sandbox::Sandbox;
use trees::{Thing, noise, tree};

/// The environment variable with the number of transfers with each program; `make soak` makes 100.
const TRANSFERS: &str = "SOAK_TRANSFERS";
/// The number without it.
const FEW_TRANSFERS: usize = 10;
/// The deadline of one program, which makes all transfers of Ansible.
const PROGRAM: Duration = Duration::from_secs(1800);

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

/// A sandbox with files to transfer, and the program in the place of ssh.
struct Transfers {
    sandbox: Sandbox,
    ssh: PathBuf,
    files: PathBuf,
}

impl Transfers {
    fn new() -> Transfers {
        let sandbox = Sandbox::new();
        sandbox.link("rex-rsh", REX);
        // The names that the programs below have for this machine.
        let here = serde_json::json!({ "transport": "local", "workspaceRoots": [sandbox.root().parent()] });
        let registry =
            serde_json::json!({ "version": 1, "targets": { "host": here, "sftp": here, "piped": here } });
        sandbox.write("home/config/rexd/targets.json", registry.to_string());
        // Their bytes end and begin characters anywhere.
        for (number, length) in [0, 1, 3, 1000, 32_768, 65_537, 700_001].into_iter().enumerate() {
            sandbox.write(&format!("files/{number}"), noise(length));
        }
        sandbox.write("files/below/text", "grün ✓ 😀\n".repeat(5000));
        let [files, ssh] = ["files", "rex-rsh"].map(|name| sandbox.path(name));
        Transfers { sandbox, ssh, files }
    }

    /// How often each program is to transfer the files.
    fn count() -> usize {
        std::env::var(TRANSFERS).map_or(FEW_TRANSFERS, |count| count.parse().expect(TRANSFERS))
    }

    /// A program that finds what it needs to reach the target.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.sandbox.command(program);
        command.env("REX_REXD", testkit::programs::program("rexd"));
        command.current_dir(self.sandbox.root());
        command
    }

    /// Runs a program, which must succeed.
    fn run(&self, command: &mut Command, transfer: usize) {
        let output = ended(command);
        assert!(output.status.success(), "transfer {transfer}: {command:?}: {output:?}");
    }

    /// Transfers the files to the target and back.
    fn both_directions(&self, transfer: usize, program: impl Fn(&Path, &Path, bool) -> Command) {
        let [copied, back] = ["copied", "back"].map(|name| self.sandbox.path(format!("{name}-{transfer}")));
        self.run(&mut program(&self.files, &copied, true), transfer);
        self.run(&mut program(&copied, &back, false), transfer);
        for copy in [copied, back] {
            assert!(
                tree(&self.files) == tree(&copy),
                "transfer {transfer}: {:?}\n{:?}",
                tree(&self.files),
                tree(&copy)
            );
            fs::remove_dir_all(copy).unwrap();
        }
    }
}

/// Runs the command, which must end, and returns its output.
fn ended(command: &mut Command) -> Output {
    let [stdout, stderr] = [(); 2].map(|()| Log::new());
    let mut child = command.stdout(stdout.stdio()).stderr(stderr.stdio()).spawn().unwrap();
    let watched = watch(i32::try_from(child.id()).unwrap());
    let texts = || [&stdout, &stderr].map(Log::text);
    assert!(watched.ends_before(Instant::now() + PROGRAM), "{command:?} does not end: {:?}", texts());
    let status = child.wait().unwrap();
    let [stdout, stderr] = texts().map(String::into_bytes);
    Output { status, stdout, stderr }
}

/// A path on the target.
fn remote(path: &Path) -> String {
    format!("host:{}", path.display())
}

#[test]
fn rsync_copies_every_byte_in_both_directions() {
    let transfers = Transfers::new();
    for transfer in 0..Transfers::count() {
        transfers.both_directions(transfer, |from, to, is_upload| {
            let [from, to] = [from, to].map(|path| path.join(""));
            let mut rsync = transfers.command("rsync");
            rsync.arg("-a").arg("-e").arg(format!("{REX} rsh"));
            match is_upload {
                true => rsync.arg(from).arg(remote(&to)),
                false => rsync.arg(remote(&from)).arg(to),
            };
            rsync
        });
    }
}

#[test]
fn sftp_copies_every_byte_in_both_directions() {
    let transfers = Transfers::new();
    for transfer in 0..Transfers::count() {
        transfers.both_directions(transfer, |from, to, is_upload| {
            let verb = if is_upload { "put" } else { "get" };
            let line = format!("{verb} -rp {} {}\n", from.display(), to.display());
            let batch = transfers.sandbox.write("batch", line);
            let mut sftp = transfers.command("sftp");
            sftp.arg("-b").arg(batch).arg("-S").arg(&transfers.ssh).arg("host");
            sftp
        });
    }
}

/// With the protocol of sftp and with its own one.
#[test]
fn scp_copies_every_byte_in_both_directions() {
    let transfers = Transfers::new();
    for transfer in 0..Transfers::count() {
        transfers.both_directions(transfer, |from, to, is_upload| {
            let mut scp = transfers.command("scp");
            scp.args((transfer % 2 == 1).then_some("-O")).arg("-rpqS").arg(&transfers.ssh);
            match is_upload {
                true => scp.arg(from).arg(remote(to)),
                false => scp.arg(remote(from)).arg(to),
            };
            scp
        });
    }
}

#[test]
fn git_pushes_fetches_and_clones_every_byte() {
    let transfers = Transfers::new();
    let [bare, ours, theirs] = ["bare.git", "ours", "theirs"].map(|name| transfers.sandbox.path(name));
    let git = |directory: &Path, transfer: usize, arguments: &[&str]| {
        let mut git = transfers.command("git");
        git.env("GIT_SSH_COMMAND", format!("{REX} rsh"));
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "test").env(format!("GIT_{who}_EMAIL"), "test@example.org");
        }
        transfers
            .run(git.args(["-c", "init.defaultBranch=main", "-C"]).arg(directory).args(arguments), transfer);
    };
    let top = transfers.sandbox.root();
    git(&top, 0, &["init", "-q", "--bare", bare.to_str().unwrap()]);
    for clone in [&ours, &theirs] {
        git(&top, 0, &["clone", "-q", &remote(&bare), clone.to_str().unwrap()]);
    }
    for transfer in 0..Transfers::count() {
        for (number, length) in [1, 1000, 40_001].into_iter().enumerate() {
            // Another content each time, which does not compress.
            let content = noise(length + transfer).split_off(transfer);
            fs::write(ours.join(format!("{transfer}-{number}")), content).unwrap();
        }
        git(&ours, transfer, &["add", "."]);
        git(&ours, transfer, &["commit", "-qm", "more"]);
        git(&ours, transfer, &["push", "-q", "origin", "HEAD:main"]);
        git(&theirs, transfer, &["fetch", "-q", "origin", "main"]);
        git(&theirs, transfer, &["reset", "-q", "--hard", "FETCH_HEAD"]);
        let clone = transfers.sandbox.path("clone");
        git(&top, transfer, &["clone", "-q", &remote(&bare), clone.to_str().unwrap()]);
        for copy in [&theirs, &clone] {
            let [mut expected, mut found] = [tree(&ours), tree(copy)];
            for files in [&mut expected, &mut found] {
                files.retain(|path, _| !path.starts_with(".git"));
            }
            assert!(expected == found, "transfer {transfer}: {expected:?}\n{found:?}");
        }
        git(&clone, transfer, &["fsck", "--strict"]);
        fs::remove_dir_all(clone).unwrap();
    }
}

/// One playbook with all transfers, half of them by the protocol of sftp and half through `dd`.
#[test]
fn ansible_copies_and_fetches_every_byte() {
    let transfers = Transfers::new();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
    let venv = target.join("ansible/venv/bin");
    assert!(
        target.join("ansible/done").exists(),
        "no Ansible: run `make setup` (it calls crates/cli/tests/ansible/setup.sh)"
    );
    let sandbox = &transfers.sandbox;
    let names: Vec<String> = (0..Transfers::count()).map(|number| format!("file-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        sandbox.write(&format!("sent/{name}"), noise(number * 7_919));
    }
    let mut inventory = String::new();
    for (method, files) in ["sftp", "piped"].into_iter().zip(names.chunks(names.len().div_ceil(2))) {
        let there = sandbox.path(format!("there-{method}"));
        fs::create_dir(&there).unwrap();
        inventory += &format!("{method} ansible_ssh_transfer_method={method} there={} ", there.display());
        inventory += &format!("files='{}'\n", serde_json::json!(files));
    }
    let inventory = sandbox.write("inventory", inventory);
    let mut ansible = transfers.command(venv.join("ansible-playbook"));
    let playbook = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ansible/playbook.yml");
    let variables = serde_json::json!({
        "here": sandbox.path("."),
        "ansible_ssh_executable": transfers.ssh,
        "ansible_sftp_extra_args": format!("-S {}", transfers.ssh.display()),
        "ansible_python_interpreter": venv.join("python3"),
        "ansible_pipelining": true,
    });
    ansible.arg("-i").arg(inventory).arg(playbook).arg("-e").arg(variables.to_string());
    transfers.run(&mut ansible, 0);
    let expected = tree(&sandbox.path("sent"));
    assert_eq!(expected.len(), names.len());
    let mut copied = tree(&sandbox.path("there-sftp"));
    copied.extend(tree(&sandbox.path("there-piped")));
    for found in [copied, tree(&sandbox.path("fetched"))] {
        assert!(contents(&expected) == contents(&found), "{expected:?}\n{found:?}");
    }
}

/// The names and contents; a fetched file has another mode.
fn contents(files: &BTreeMap<PathBuf, Thing>) -> Vec<(&PathBuf, Option<&[u8]>)> {
    files.iter().map(|(path, thing)| (path, content(thing))).collect()
}

fn content(thing: &Thing) -> Option<&[u8]> {
    match thing {
        Thing::File { content, .. } => Some(content),
        Thing::Dir | Thing::Other => None,
    }
}
