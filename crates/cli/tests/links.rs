//! Links that die under `rex exec`: over a real ssh, and with the daemon itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{REX, run};
use testkit::proc::{children, watch};
use testkit::programs::program;
use testkit::proxy::{CutKind, Direction, Proxy};
use testkit::sandbox::Sandbox;
use testkit::screen::Screen;
use testkit::serve::{Addresses, ServedDaemon};
use testkit::sshd::Sshd;
use testkit::tries::Tries;

const LINES: usize = 200_000;

/// A machine that ssh reaches, under the alias `far`, which serves the sandbox's root.
fn far(sandbox: &Sandbox) -> Sshd {
    let sshd = Sshd::start(sandbox);
    let config = sshd.client_config(sandbox);
    let registry = serde_json::json!({ "version": 1, "targets": { "far": {
        "transport": "ssh",
        "host": "far",
        "sshOptions": ["-F", config],
        "command": { "program": program("rexd"), "args": ["--stdio", "--config", sandbox.config()] },
        "defaultCwd": sandbox.root(),
    } } });
    sandbox.write("home/config/rexd/targets.json", registry.to_string());
    sshd
}

/// Lets each command on `far` have a connection of its own, and so an ssh.
fn unshared(sandbox: &Sandbox) {
    let registry = sandbox.read("home/config/rexd/targets.json");
    let mut registry: serde_json::Value = serde_json::from_str(&registry).unwrap();
    registry["targets"]["far"]["share"] = false.into();
    sandbox.write("home/config/rexd/targets.json", registry.to_string());
}

fn far_rex(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(REX);
    command.env("REX_TARGET", "far").args(arguments);
    command
}

/// The ssh that a `rex` has started.
fn ssh_of(rex: &Child) -> Pid {
    below(i32::try_from(rex.id()).unwrap(), "ssh")
}

/// The child of a process that runs a program of this name.
fn below(parent: i32, program: &str) -> Pid {
    let mut tries = Tries::within(Duration::from_secs(60), &format!("{program} below {parent}"));
    loop {
        let found = children(parent).into_iter().find(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == program)
        });
        if let Some(pid) = found.and_then(Pid::from_raw) {
            return pid;
        }
        tries.again();
    }
}

fn counted() -> String {
    (1..=LINES).map(|number| format!("{number}\n")).collect()
}

#[test]
fn a_command_over_ssh_is_to_its_caller_what_it_would_be_here() {
    let sandbox = Sandbox::with_config("[limits]\nhard_output_bytes = 0\nhard_timeout_ms = 0\n");
    let _sshd = far(&sandbox);
    let output =
        far_rex(&sandbox, &["exec", "--", "sh", "-c", "pwd; echo err >&2; exit 3"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", sandbox.root().display()));
    assert_eq!((output.stderr.as_slice(), output.status.code()), (&b"err\n"[..], Some(3)));
}

#[test]
fn an_ssh_that_is_killed_again_and_again_costs_no_byte() {
    let sandbox = Sandbox::with_config("[limits]\nhard_output_bytes = 0\nhard_timeout_ms = 0\n");
    let _sshd = far(&sandbox);
    unshared(&sandbox);
    survives_kills(&sandbox, ssh_of);
}

#[test]
fn a_shared_connection_that_is_killed_again_and_again_costs_no_byte() {
    let sandbox = Sandbox::with_config("[limits]\nhard_output_bytes = 0\nhard_timeout_ms = 0\n");
    let _sshd = far(&sandbox);
    let sockets = sandbox.path("home/state/rexd/ssh").display().to_string();
    survives_kills(&sandbox, |_| holder_of(&sockets));
}

/// The ssh that holds a connection whose socket is in this directory.
fn holder_of(sockets: &str) -> Pid {
    let mut tries = Tries::within(Duration::from_secs(60), "an ssh that holds a connection");
    loop {
        let found = std::fs::read_dir("/proc").unwrap().find_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
            (line.starts_with("ssh: ") && line.contains(sockets)).then_some(pid)
        });
        if let Some(pid) = found.and_then(Pid::from_raw) {
            return pid;
        }
        tries.again();
    }
}

/// Kills what carries the connection of a command four times.
fn survives_kills(sandbox: &Sandbox, carrier: impl Fn(&Child) -> Pid) {
    let line =
        format!("i=0; while test $i -lt 8; do i=$((i+1)); echo $i >> pulse; seq 1 {}; done", LINES / 8);
    let mut rex =
        far_rex(sandbox, &["exec", "--", "sh", "-c", &line]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = rex.stdout.take().unwrap();
    let mut seen = Vec::new();
    let mut buffer = vec![0; 100_000];
    for _ in 0..4 {
        let read = stdout.read(&mut buffer).unwrap();
        seen.extend_from_slice(&buffer[..read]);
        // The one found may be that of the last round, which ends meanwhile.
        while kill_process(carrier(&rex), Signal::KILL).is_err() {}
    }
    stdout.read_to_end(&mut seen).unwrap();
    assert_eq!(rex.wait().unwrap().code(), Some(0));
    let expected: String = (0..8).flat_map(|_| 1..=LINES / 8).map(|number| format!("{number}\n")).collect();
    assert!(seen == expected.as_bytes(), "{} bytes of {}", seen.len(), expected.len());
    assert_eq!(sandbox.read("root/pulse").lines().count(), 8, "it ran once");
}

#[test]
fn ctrl_c_at_a_terminal_is_for_the_command_and_not_for_ssh() {
    let sandbox = Sandbox::new();
    let _sshd = far(&sandbox);
    let line = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.01; done";
    for _ in 0..3 {
        let mut screen = Screen::start(&far_rex(&sandbox, &["exec", "--", "sh", "-c", line]), 80, 24);
        screen.shows("ready");
        screen.type_in("\x03");
        let (status, seen) = screen.end();
        assert_eq!(status.code(), Some(9), "{seen}");
        assert!(seen.contains("caught"), "{seen}");
    }
    assert!(!sandbox.read("audit.log").contains("session.resume"), "the link lived on");
}

#[test]
fn ctrl_c_before_anything_answers_ends_rex_and_its_ssh() {
    let sandbox = Sandbox::new();
    let _sshd = far(&sandbox);
    let registry = sandbox.read("home/config/rexd/targets.json");
    let mut registry: serde_json::Value = serde_json::from_str(&registry).unwrap();
    registry["targets"]["far"]["command"] = format!("touch {}/up; exec cat", sandbox.root().display()).into();
    sandbox.write("home/config/rexd/targets.json", registry.to_string());
    let mut screen = Screen::start(&far_rex(&sandbox, &["exec", "--", "true"]), 80, 24);
    sandbox.appears("root/up", Instant::now() + Duration::from_secs(60));
    let ssh = watch(below(screen.pid(), "ssh").as_raw_pid());
    screen.type_in("\x03");
    let (status, seen) = screen.end();
    assert_eq!(status.code(), Some(130), "{seen}");
    assert!(ssh.ends_before(Instant::now() + Duration::from_secs(60)), "ssh lives on");
}

#[test]
fn a_signal_that_was_on_its_way_when_the_link_was_cut_arrives_all_the_same() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&program("rexd"), &sandbox);
    let proxy = Proxy::start(&served.addresses, &sandbox.path("."));
    let target = format!("unix:{}", proxy.addresses.unix.display());
    let line = "trap 'exit 9' INT; echo ready; while :; do sleep 0.01; done";
    let mut rex = support::rex(&sandbox, &["-t", &target, "exec", "--", "sh", "-c", line])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    rex.stdout.take().unwrap().read_exact(&mut ready).unwrap();
    // Nothing is typed: the next bytes toward the daemon are the signal's.
    proxy.cut_after(Direction::Daemon, 3, CutKind::Closed);
    kill_process(Pid::from_child(&rex), Signal::INT).unwrap();
    let watched = watch(i32::try_from(rex.id()).unwrap());
    assert!(watched.ends_before(Instant::now() + Duration::from_secs(60)), "the signal was lost");
    assert_eq!((rex.wait().unwrap().code(), proxy.cuts()), (Some(9), 1));
}

#[test]
fn a_signal_that_comes_before_the_start_is_answered_is_for_the_command() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&program("rexd"), &sandbox);
    let proxy = Proxy::start(&served.addresses, &sandbox.path("."));
    // The command runs before the answer to its start has passed.
    proxy.throttle(Some(4));
    let target = format!("unix:{}", proxy.addresses.unix.display());
    let line = "trap 'exit 9' INT; touch ready; while :; do sleep 0.01; done";
    let mut rex = support::rex(&sandbox, &["-t", &target, "exec", "--", "sh", "-c", line])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    sandbox.appears("root/ready", Instant::now() + Duration::from_secs(60));
    kill_process(Pid::from_child(&rex), Signal::INT).unwrap();
    proxy.throttle(None);
    assert_eq!(rex.wait().unwrap().code(), Some(9));
}

#[test]
fn stdin_over_an_ssh_that_is_killed_arrives_once() {
    let sandbox = Sandbox::with_config("[limits]\nhard_output_bytes = 0\nhard_timeout_ms = 0\n");
    let _sshd = far(&sandbox);
    let mut rex = far_rex(&sandbox, &["exec", "--", "sh", "-c", "echo ready; cat > copy; echo done"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (rex.stdin.take().unwrap(), rex.stdout.take().unwrap());
    let mut ready = [0; 6];
    stdout.read_exact(&mut ready).unwrap();
    let text = counted();
    let (first, rest) = text.split_at(text.len() / 3);
    std::io::Write::write_all(&mut stdin, first.as_bytes()).unwrap();
    kill_process(ssh_of(&rex), Signal::KILL).unwrap();
    std::io::Write::write_all(&mut stdin, rest.as_bytes()).unwrap();
    drop(stdin);
    let mut last = String::new();
    stdout.read_to_string(&mut last).unwrap();
    assert_eq!((last.as_str(), rex.wait().unwrap().code()), ("done\n", Some(0)));
    assert!(sandbox.read("root/copy") == text, "the copy differs");
}

#[test]
fn a_daemon_that_is_killed_ends_the_command_with_an_error_that_says_what_is_known() {
    let sandbox = Sandbox::new();
    let mut rex = support::rex(&sandbox, &["exec", "--", "sh", "-c", "echo $PPID; exec sleep 1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = rex.stdout.take().unwrap();
    let mut byte = [0];
    let mut daemon = String::new();
    while stdout.read_exact(&mut byte).is_ok() && byte != *b"\n" {
        daemon.push(char::from(byte[0]));
    }
    kill_process(Pid::from_raw(daemon.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    let output = rex.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(255), "{said}");
    assert!(said.contains("the session is lost"), "{said}");
    assert!(said.contains(&format!("{} bytes of output were received", daemon.len() + 1)), "{said}");
}

/// A command over a connection that is lost for good after its first line.
fn start_and_cut(sandbox: &Sandbox, options: &[&str], wait: impl FnOnce(Command) -> Cut) -> Cut {
    let served = ServedDaemon::start(&program("rexd"), sandbox);
    let proxy = Proxy::start(&served.addresses, &sandbox.path("."));
    let target = format!("unix:{}", proxy.addresses.unix.display());
    let words =
        [&["-t", &target, "exec"], options, &["--", "sh", "-c", "echo ready; exec sleep 1000"]].concat();
    let cut = wait(support::rex(sandbox, &words));
    let nowhere = Addresses { unix: sandbox.path("nothing.sock"), ..served.addresses.clone() };
    proxy.redirect(&nowhere);
    proxy.cut(CutKind::Closed);
    Cut { _machine: Some((served, proxy)), ..cut }
}

/// A `rex` whose connection is lost, and the proxy that keeps refusing another one.
#[derive(Default)]
struct Cut {
    child: Option<Child>,
    screen: Option<Screen>,
    _machine: Option<(ServedDaemon, Proxy)>,
}

#[test]
fn a_lost_connection_is_reported_at_once_and_ctrl_c_ends_the_wait() {
    let sandbox = Sandbox::new();
    let cut = start_and_cut(&sandbox, &["-n"], |mut command| {
        let mut rex = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        rex.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        Cut { child: Some(rex), ..Cut::default() }
    });
    let mut rex = cut.child.unwrap();
    let mut said = String::new();
    BufReader::new(rex.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(
        said.starts_with("rex: connection to unix:") && said.contains("lost, retrying for 55 s"),
        "{said}"
    );
    kill_process(Pid::from_child(&rex), Signal::INT).unwrap();
    assert_eq!(rex.wait().unwrap().code(), Some(130));
}

#[test]
fn ctrl_c_that_is_typed_ends_the_wait_for_a_connection_too() {
    let sandbox = Sandbox::new();
    let cut = start_and_cut(&sandbox, &["--tty"], |command| {
        let mut screen = Screen::start(&command, 120, 24);
        screen.shows("ready");
        Cut { screen: Some(screen), ..Cut::default() }
    });
    let mut screen = cut.screen.unwrap();
    screen.shows("lost, retrying for 55 s");
    screen.type_in("\x03");
    let (status, seen) = screen.end();
    assert_eq!(status.code(), Some(130), "{seen}");
    assert!(seen.contains("interrupted while the connection was lost"), "{seen}");
}

#[test]
fn a_detached_command_is_read_on_after_ssh_and_everything_else_was_restarted() {
    let sandbox = Sandbox::with_config("[limits]\nhard_output_bytes = 0\nhard_timeout_ms = 0\n");
    let sshd = far(&sandbox);
    let started =
        far_rex(&sandbox, &["exec", "-d", "--", "sh", "-c", "seq 1 1000; exec sleep 1000"]).output().unwrap();
    let id = String::from_utf8(started.stdout).unwrap().trim().to_owned();
    assert!(id.starts_with("p_"), "{:?}", String::from_utf8_lossy(&started.stderr));
    drop(sshd);
    let _sshd = far(&sandbox);
    let mut tries = Tries::within(Duration::from_secs(60), "the whole log");
    let expected: String = (1..=1000).map(|number| format!("{number}\n")).collect();
    while far_rex(&sandbox, &["logs", &id]).output().unwrap().stdout != expected.as_bytes() {
        tries.again();
    }
    let listed = far_rex(&sandbox, &["ps", "--json"]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let pid = listed["processes"][0]["pid"].as_i64().unwrap();
    let watched = watch(i32::try_from(pid).unwrap());
    assert!(far_rex(&sandbox, &["kill", &id]).status().unwrap().success());
    assert!(watched.ends_before(Instant::now() + Duration::from_secs(60)));
    assert_eq!(run(&sandbox, &["exec", "--", "true"]).status.code(), Some(0));
}
