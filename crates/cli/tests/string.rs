//! `rex string`: a command of a stringd daemon, its body from stdin, its status, and the daemon that is started for it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use support::{rex, run, text};
use testkit::daemon::PATIENCE;
use testkit::programs::program;
use testkit::sandbox::Sandbox;
use testkit::tries::Tries;

/// A daemon that is ended with the test.
struct Stringd {
    child: Child,
    port: String,
}

impl Stringd {
    fn start(sandbox: &Sandbox) -> Stringd {
        let mut command = sandbox.command(program("rexd"));
        command.args(["stringd", "0"]).env("STRINGD_DATA_DIR", sandbox.path("data"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let line = stdout.lines().map(Result::unwrap).find(|line| line.contains("http://")).unwrap();
        assert!(line.starts_with("stringd listening on http://127.0.0.1:"), "{line}");
        Stringd { child, port: line.rsplit(':').next().unwrap().to_owned() }
    }
}

impl Drop for Stringd {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_command_prints_its_content_and_exits_by_its_success() {
    let sandbox = Sandbox::new();
    let stringd = Stringd::start(&sandbox);
    let home = sandbox.root().display().to_string();
    let string = ["string", "--port", &stringd.port, "--home", &home];
    let with = |more: &[&'static str]| [&string[..], more].concat();
    text(&sandbox, &with(&["bash:dev", "cd /tmp; name=kept"]));
    let kept = text(&sandbox, &with(&["bash:dev", "echo $name in $PWD"]));
    assert_eq!(kept, "exit: 0 | cwd: /tmp\n---\nkept in /tmp\n");
    let mut write = rex(&sandbox, &with(&["file:main", "/write notes.md"]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    write.stdin.take().unwrap().write_all(b"# Notes\n\none line").unwrap();
    let written = String::from_utf8(write.wait_with_output().unwrap().stdout).unwrap();
    assert!(written.starts_with("Created: notes.md"), "{written}");
    assert_eq!(sandbox.read("root/notes.md"), "# Notes\n\none line");
    let mut edit = rex(&sandbox, &with(&["main", "/edit notes.md", "-"]))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    edit.stdin.take().unwrap().write_all(b"edited").unwrap();
    assert!(edit.wait().unwrap().success());
    assert_eq!(sandbox.read("root/notes.md"), "edited");

    // A pipe that stays open is not waited for.
    let mut open = rex(&sandbox, &with(&["bash:dev", "true"])).stdin(Stdio::piped()).spawn().unwrap();
    let pipe = open.stdin.take();
    let pid = i32::try_from(open.id()).unwrap();
    let has_ended = testkit::proc::watch(pid).ends_before(Instant::now() + PATIENCE);
    drop(pipe);
    assert!(open.wait().unwrap().success() && has_ended, "it reads no stdin");

    let failed = run(&sandbox, &with(&["--json", "main", "/open missing.md"]));
    assert_eq!(failed.status.code(), Some(1));
    let printed: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!((&printed["ok"], &printed["code"]), (&json!(false), &json!("NOT_FOUND")), "{printed}");
    assert_eq!(printed["topic"], "file:main");

    let refused = run(&sandbox, &with(&["nope:x", "/info"]));
    assert_eq!(refused.status.code(), Some(255));
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("Invalid topic: nope:x"), "{error}");
}

#[test]
fn commands_that_may_have_a_body_read_a_file_and_a_pipe_with_data() {
    let sandbox = Sandbox::new();
    let stringd = Stringd::start(&sandbox);
    let home = sandbox.root().display().to_string();
    let string = ["string", "--port", &stringd.port, "--home", &home];
    let with = |more: &[&'static str]| [&string[..], more].concat();
    let output = |command: &mut std::process::Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    sandbox.write("root/a.md", "one\n");
    let body = sandbox.write("body", "from a file");
    let edited =
        output(rex(&sandbox, &with(&["main", "/edit a.md"])).stdin(std::fs::File::open(body).unwrap()));
    assert!(edited.starts_with("Edited a.md"), "{edited}");
    assert_eq!(sandbox.read("root/a.md"), "from a file");
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"{x} = from a pipe").unwrap();
    drop(writer);
    let set = output(rex(&sandbox, &with(&["main", "/set"])).stdin(reader));
    assert_eq!(set, "{x} = \"from a pipe\"\n");
    // A pipe without data that stays open, an empty one, and no input at all.
    let (reader, writer) = std::io::pipe().unwrap();
    let shown = output(rex(&sandbox, &with(&["main", "/edit a.md"])).stdin(reader));
    assert!(shown.starts_with("[editing: a.md]"), "{shown}");
    drop(writer);
    let (reader, _) = std::io::pipe().unwrap();
    for stdin in [Stdio::from(reader), Stdio::null()] {
        let shown = output(rex(&sandbox, &with(&["main", "/edit a.md"])).stdin(stdin));
        assert!(shown.starts_with("[editing: a.md]"), "{shown}");
    }
}

#[test]
fn a_daemon_is_started_if_none_answers() {
    let sandbox = Sandbox::new();
    // Below the range of the kernel, which gives a port of that range to others before the daemon listens.
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = (first..32_000).find(is_free).unwrap().to_string();
    let arguments = ["string", "--port", &port, "bash:dev", "echo $((40 + 2))"];
    let mut tries = Tries::within(PATIENCE, "the started daemon answers");
    let answered = loop {
        let output = run(&sandbox, &arguments);
        if output.status.success() {
            break String::from_utf8(output.stdout).unwrap();
        }
        // A daemon that needs more than five seconds to start is found by the next command.
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("was started and does not answer"), "{said}");
        tries.again();
    };
    assert!(answered.ends_with("\n---\n42\n"), "{answered}");
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let mut http = testkit::http::Http::connect(address).unwrap();
    assert_eq!(http.ask("/shutdown", &[], Some(b"")).unwrap().head.status, 200);
}
