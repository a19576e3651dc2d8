//! `rex up`: the demonstration runs through a real hub, its link signs a browser in, and nothing is left behind.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::rex;
use testkit::http::Http;
use testkit::proc::{survivors, wait_readable, watch_marked};
use testkit::sandbox::Sandbox;
use testkit::screen::Screen;

/// How long what was started may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(60);
/// How long the demonstration may take.
const SHOWN_WITHIN: Duration = Duration::from_secs(300);

/// `rex up` with its temporary files in a directory of the test.
fn up(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let temporary = temporary(sandbox);
    fs::create_dir_all(&temporary).unwrap();
    let mut command = rex(sandbox, &["up"]);
    command.args(arguments).env("TMPDIR", temporary).env("REX_UP_TEST", sandbox.path(""));
    command
}

fn temporary(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("temporary")
}

/// Checks that neither files nor processes are left.
fn nothing_is_left(sandbox: &Sandbox) {
    let left: Vec<_> = fs::read_dir(temporary(sandbox)).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let mark = format!("REX_UP_TEST={}", sandbox.path("").display());
    let left = survivors(&watch_marked(&mark), GONE_WITHIN);
    assert!(left.is_empty(), "still running: {left:?}");
}

#[test]
fn the_tour_runs_through_a_hub_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let output = up(&sandbox, &["--once"]).output().unwrap();
    let (text, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{text}\n{errors}");
    for line in [
        "exit status 3",
        "notes/todo.txt:2:eat pears",
        "killed ",
        "waiting: run: bash -lc 'sh deploy.sh'",
        "deployed to production",
        "the daemon was killed with -9 and restarted",
        "line 5",
        "with this machine as its host",
    ] {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }
    assert_eq!(text.matches("line 3\n").count(), 1, "{text}");
    for dead in ["://127.0.0.1", "/login#"] {
        assert!(!text.contains(dead), "the address is dead when it is read: {text}");
    }
    nothing_is_left(&sandbox);
}

/// Signs in by the link in the output and sees the host.
fn the_link_works(text: &str) {
    let link = text.lines().find(|line| line.contains("/login#")).unwrap().trim();
    let (url, code) = link.split_once("/login#").unwrap();
    let address = url.strip_prefix("http://").unwrap().parse().unwrap();
    let body = format!(r#"{{"code":"{code}","cookie":true}}"#);
    let answer = Http::connect(address).unwrap().ask("/auth/link", &[], Some(body.as_bytes())).unwrap();
    assert_eq!(answer.head.status, 200, "{}", answer.body);
    let cookie = answer.head.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let hosts = Http::connect(address).unwrap().ask("/hosts", &[format!("Cookie: {cookie}")], None).unwrap();
    assert!(hosts.body.contains(r#""online":true"#), "{}", hosts.body);
}

/// Reads until the text appears.
fn read_until(stdout: &mut ChildStdout, last: &str) -> String {
    let (mut seen, deadline) = (Vec::new(), Instant::now() + SHOWN_WITHIN);
    loop {
        let text = String::from_utf8_lossy(&seen).into_owned();
        if text.contains(last) {
            return text;
        }
        assert!(wait_readable(stdout, deadline), "{last:?} is missing in\n{text}");
        let mut chunk = [0; 4096];
        let read = stdout.read(&mut chunk).unwrap();
        assert_ne!(read, 0, "it ended without {last:?}:\n{text}");
        seen.extend_from_slice(&chunk[..read]);
    }
}

#[test]
fn without_a_terminal_the_link_is_printed_and_a_signal_ends_everything() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let sandbox = Sandbox::new();
        let mut child = up(&sandbox, &[]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let text = read_until(&mut stdout, "Serving until a signal ends it");
        assert!(text.contains(" at http://127.0.0.1:") && !text.contains("[Enter]"), "{text}");
        the_link_works(&text);
        the_sample_has_a_diff(&sandbox);
        assert!(child.try_wait().unwrap().is_none(), "it stays");
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal:?}");
        nothing_is_left(&sandbox);
    }
}

/// The sample is a repository with one commit and one change.
fn the_sample_has_a_diff(sandbox: &Sandbox) {
    let own = fs::read_dir(temporary(sandbox)).unwrap().next().unwrap().unwrap().path();
    let diff = Command::new("git").args(["diff"]).current_dir(own.join("workspace")).output().unwrap();
    let diff = String::from_utf8(diff.stdout).unwrap();
    assert!(diff.contains("a/fruit/list.txt") && diff.contains("+plums"), "{diff}");
}

#[test]
fn the_link_signs_a_browser_in_and_ctrl_c_ends_everything() {
    let sandbox = Sandbox::new();
    let mut screen = Screen::start(&up(&sandbox, &[]), 200, 200);
    screen.shows("[Enter] open a shell");
    the_link_works(&screen.text());
    screen.type_in("\r");
    screen.until("show the prompt of the shell", |seen| seen.trim_end().ends_with(['#', '$']));
    screen.type_in("echo in-$((40+2)); exit 3\r");
    screen.shows("in-42");
    screen.shows("the shell exited with status 3");
    // While the shell has the terminal, Ctrl-C is input of the shell.
    screen.until("show the prompt again", |seen| seen.matches("[Enter] open a shell").count() == 2);
    screen.type_in("\u{3}");
    let (status, seen) = screen.end();
    assert_eq!(status.code(), Some(130), "{seen}");
    nothing_is_left(&sandbox);
}

#[test]
fn the_network_is_served_over_tls() {
    let sandbox = Sandbox::new();
    let mut screen = Screen::start(&up(&sandbox, &["--lan"]), 200, 200);
    let refusal = "this machine has no address in a network";
    screen.until("serve the network or refuse", |seen| {
        seen.contains("[Enter] open a shell") || seen.contains(refusal)
    });
    let text = screen.text();
    if text.contains(refusal) {
        let (_, seen) = screen.end();
        assert!(seen.contains("hint: "), "{seen}");
    } else {
        // The host has verified the certificate, or it would not be connected.
        assert!(text.contains("at https://") && text.contains("deployed to production"), "{text}");
        assert!(text.contains("/ca.crt") && text.contains("fingerprint is ") && text.contains('█'), "{text}");
        screen.type_in("\u{3}");
        let (status, seen) = screen.end();
        assert_eq!(status.code(), Some(130), "{seen}");
    }
    nothing_is_left(&sandbox);
}

#[test]
fn a_missing_program_is_named() {
    let sandbox = Sandbox::new();
    let alone = sandbox.path("rex");
    // Another program copies: a child of another test would inherit the open file, which cannot be executed then.
    assert!(Command::new("cp").arg(support::REX).arg(&alone).status().unwrap().success());
    let output = sandbox.command(&alone).args(["up", "--once"]).env("PATH", "/nonexistent").output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(255));
    assert!(errors.contains("cannot find rexhub") && errors.contains("hint: "), "{errors}");
}
