//! One engine under two faces: what came through exec-server is seen, read and killed by `rex` through REXD.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use support::REX;
use testkit::programs::program;
use testkit::sandbox::Sandbox;

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn rex(sandbox: &Sandbox, target: &str, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(REX);
    command.args(["-t", target]).args(arguments).current_dir(sandbox.root());
    command
}

#[test]
fn what_codex_started_is_seen_read_and_killed_by_rex() {
    let sandbox = Sandbox::new();
    let socket = sandbox.path("rexd.sock");
    let mut serving = sandbox.command(program("rexd"));
    serving.arg("serve").arg("--root").arg(sandbox.root()).arg("--unix").arg(&socket);
    serving.args(["--exec-server", "ws://127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut served = Running(serving.spawn().unwrap());
    let lines = BufReader::new(served.0.stdout.take().unwrap()).lines();
    let url = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening exec-server ").map(str::to_owned));
    let codex = format!("codex:{}", url.expect("a URL"));
    let unix = format!("unix:{}", socket.display());

    let root = sandbox.root().to_str().unwrap().to_owned();
    let line = "echo from codex; exec sleep 1000";
    let mut there = rex(&sandbox, &codex, &["exec", "--no-stdin", "--cwd", &root, "--", "sh", "-c", line]);
    let mut there = Running(there.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut first = [0; 11];
    there.0.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"from codex\n");

    let listed = rex(&sandbox, &unix, &["ps", "--json"]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let found = listed["processes"].as_array().unwrap().iter().find(|found| found["face"] == "exec-server");
    let id = found.expect("it is listed")["process_id"].as_str().unwrap().to_owned();
    let logs = rex(&sandbox, &unix, &["logs", &id]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&logs.stdout), "from codex\n");
    let killed = rex(&sandbox, &unix, &["kill", &id]).output().unwrap();
    assert!(killed.status.success() && killed.stdout.starts_with(b"killed "), "{killed:?}");
    // A program that gets no processor time after TERM is killed.
    assert!(matches!(there.0.wait().unwrap().code(), Some(143 | 137)));
}
