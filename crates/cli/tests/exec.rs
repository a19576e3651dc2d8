//! `rex exec`: a command there is to its caller what it would be here.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use support::{feed, rex, run, text};
use testkit::daemon::PATIENCE;
use testkit::proc::watch;
use testkit::sandbox::Sandbox;

/// The same command here.
fn here(sandbox: &Sandbox, argv: &[&str], input: impl Into<Stdio>) -> Output {
    let mut command = sandbox.command(argv[0]);
    command.args(&argv[1..]).current_dir(sandbox.root()).stdin(input).output().expect("a command here")
}

/// The status as a shell reports it.
fn status(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or_default())
}

/// ARCHITECTURE.md, invariant 49.
#[test]
fn output_errors_and_status_are_those_of_the_command_here() {
    let sandbox = Sandbox::new();
    for argv in [
        &["seq", "1", "10000"][..],
        &["head", "-c", "3000000", "/dev/urandom-not"],
        &["sh", "-c", "head -c 3000000 /proc/self/exe; cat /proc/self/exe >&2"],
        &["printf", "no newline"],
        &["printf", r"\000\377\376 \303"],
        &["sh", "-c", "echo out; echo err >&2; exit 3"],
        &["sh", "-c", "kill -TERM $$"],
        &["sh", "-c", "kill -SEGV $$"],
        &["sh", "-c", "exit 255"],
        &["true"],
        &["pwd"],
        &["printf", "%s|", "a b", "", "*", "$HOME", "'", "\""],
    ] {
        let mut asked = vec!["exec", "--"];
        asked.extend(argv);
        let (there, here) = (run(&sandbox, &asked), here(&sandbox, argv, Stdio::null()));
        assert!(
            there.stdout == here.stdout,
            "{argv:?}: {} and {} bytes",
            there.stdout.len(),
            here.stdout.len()
        );
        assert!(there.stderr == here.stderr, "{argv:?}: {}", String::from_utf8_lossy(&there.stderr));
        assert_eq!(status(&there), status(&here), "{argv:?}");
    }
}

#[test]
fn stdin_arrives_to_its_last_byte_and_its_end_is_seen() {
    let sandbox = Sandbox::new();
    let big = sandbox.path("outside/big");
    let mut random = File::open("/dev/urandom").unwrap().take(100_000_000);
    std::io::copy(&mut random, &mut File::create(&big).unwrap()).unwrap();
    for argv in [&["sha256sum"][..], &["sh", "-c", "wc -c; echo done"], &["head", "-c", "10"], &["true"]] {
        let mut asked = vec!["exec", "--"];
        asked.extend(argv);
        let there = feed(&sandbox, &asked, File::open(&big).unwrap());
        let here = here(&sandbox, argv, File::open(&big).unwrap());
        assert_eq!((&there.stdout, status(&there)), (&here.stdout, status(&here)), "{argv:?}: {there:?}");
    }
    assert_eq!(feed(&sandbox, &["exec", "--", "cat"], Stdio::null()).stdout, b"");
    assert_eq!(feed(&sandbox, &["exec", "-n", "--", "cat"], File::open(&big).unwrap()).stdout, b"");
}

/// Copies 100 MB in both directions at once: code that waits for one direction before the other would deadlock.
#[test]
fn what_goes_in_comes_out_in_its_order() {
    let sandbox = Sandbox::new();
    let mut command = rex(&sandbox, &["exec", "--", "cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || {
        for number in 0..1_600_000_u64 {
            let line = format!("{number:063}\n");
            input.write_all(line.as_bytes()).unwrap();
        }
    });
    let mut output = child.stdout.take().unwrap();
    let (mut line, mut count) = ([0; 64], 0_u64);
    while output.read_exact(&mut line).is_ok() {
        assert_eq!(std::str::from_utf8(&line).unwrap().trim_end().parse(), Ok(count));
        count += 1;
    }
    feeding.join().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(count, 1_600_000);
}

/// ARCHITECTURE.md, invariant 49.
#[test]
fn a_program_that_is_not_there_is_127_and_one_that_cannot_run_126() {
    let sandbox = Sandbox::new();
    let missing = run(&sandbox, &["exec", "--", "no-such-program"]);
    assert_eq!(status(&missing), 127);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no-such-program"), "{missing:?}");
    sandbox.write("root/plain", "text");
    assert_eq!(status(&run(&sandbox, &["exec", "--", "./plain"])), 126);
}

/// ARCHITECTURE.md, invariant 49.
#[test]
fn a_command_whose_time_is_up_is_124_and_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    let line = "sleep 1000 & echo $! $$; wait";
    let output = run(&sandbox, &["exec", "--timeout", "300ms", "--", "sh", "-c", line]);
    assert_eq!(status(&output), 124, "{output:?}");
    for pid in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        // A killed process that gets no processor time ends later.
        assert!(watch(pid.parse().unwrap()).ends_before(Instant::now() + PATIENCE), "{pid} lives on");
    }
}

#[test]
fn whoever_hits_a_limit_hears_which_it_was() {
    let sandbox = Sandbox::new();
    let configure = |limit: &str| {
        let root = "[[security.allowed_roots]]\npath = \"$ROOT\"\n";
        let config = sandbox.expand(&format!("[limits]\n{limit}\n{root}"));
        sandbox.write("home/config/rexd/config.toml", config);
    };
    configure("hard_timeout_ms = 300");
    for (asked, limit) in [
        (&[][..], "hard_timeout_ms = 300"),
        (&["--timeout", "100ms"], "--timeout 100ms"),
        (&["--timeout", "1h"], "hard_timeout_ms = 300"),
    ] {
        let arguments = [&["exec"], asked, &["--", "sleep", "1000"]].concat();
        let output = run(&sandbox, &arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(status(&output), 124, "{asked:?}: {said}");
        assert!(said.ends_with(&format!("{limit}\n")), "{asked:?}: {said}");
    }
    configure("hard_output_bytes = 10000");
    let said = run(&sandbox, &["exec", "--", "head", "-c", "20000", "/dev/zero"]).stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("limit hard_output_bytes = 10000"), "{said}");
}

/// ARCHITECTURE.md, invariant 49.
#[test]
fn signals_are_handed_on_and_the_status_tells() {
    let sandbox = Sandbox::new();
    for (signal, line, expected) in [
        (Signal::INT, "echo ready; exec sleep 1000", 130),
        (Signal::TERM, "echo ready; exec sleep 1000", 143),
        (Signal::INT, "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.01; done", 7),
        (Signal::HUP, "trap 'exit 9' HUP; echo ready; while :; do sleep 0.01; done", 9),
    ] {
        let mut child =
            rex(&sandbox, &["exec", "--", "sh", "-c", line]).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let mut ready = [0; 6];
        output.read_exact(&mut ready).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{signal:?}: {line}: {rest}");
    }
}

/// ARCHITECTURE.md, invariant 50.
#[test]
fn a_client_that_is_killed_leaves_nothing_running() {
    let sandbox = Sandbox::new();
    let mut command = rex(&sandbox, &["exec", "--", "sh", "-c", "echo $$; sleep 1000 & wait"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut pid = String::new();
    let mut output = child.stdout.take().unwrap();
    let mut byte = [0];
    while output.read_exact(&mut byte).is_ok() && byte != *b"\n" {
        pid.push(char::from(byte[0]));
    }
    let watched = watch(pid.parse().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(watched.ends_before(Instant::now() + PATIENCE), "the command lives on");
}

#[test]
fn a_detached_command_prints_its_id_and_is_found_again() {
    let sandbox = Sandbox::new();
    let id = text(&sandbox, &["exec", "--detach", "--", "sh", "-c", "echo one; echo two >&2; exit 5"]);
    let id = id.strip_suffix('\n').expect("one line");
    assert!(id.starts_with("p_") && !id.contains('\n'), "{id:?}");
    let waited = run(&sandbox, &["wait", id]);
    assert_eq!(status(&waited), 5);
    let logs = run(&sandbox, &["logs", id]);
    assert_eq!((&logs.stdout[..], &logs.stderr[..]), (&b"one\n"[..], &b"two\n"[..]));
    let listed: serde_json::Value = serde_json::from_str(&text(&sandbox, &["ps", "--json"])).unwrap();
    let found = listed["processes"].as_array().unwrap().iter().find(|one| one["process_id"] == id).unwrap();
    assert_eq!((&found["status"], &found["exit_code"]), (&"exited".into(), &5.into()));
}

#[test]
fn a_detached_command_is_killed_with_all_its_children() {
    let sandbox = Sandbox::new();
    let id = text(&sandbox, &["exec", "-d", "--", "sh", "-c", "sleep 1000 & echo $! $$; wait"]);
    let id = id.trim();
    let mut pids = String::new();
    while pids.lines().count() < 1 {
        pids = text(&sandbox, &["logs", id]);
    }
    let watched: Vec<_> = pids.split_whitespace().map(|pid| watch(pid.parse().unwrap())).collect();
    assert_eq!(text(&sandbox, &["kill", &id[..8]]).lines().count(), 2, "it says who died");
    assert!(watched.iter().all(|process| process.has_ended()));
    // A program that gets no processor time after TERM is killed.
    assert!(matches!(status(&run(&sandbox, &["wait", id])), 143 | 137));
}

#[test]
fn json_is_the_events_as_they_came_and_the_last_line_is_the_exit() {
    let sandbox = Sandbox::new();
    let output = text(&sandbox, &["--json", "exec", "--", "sh", "-c", "echo out; echo err >&2"]);
    let events: Vec<serde_json::Value> =
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let data = |method: &str| {
        let found = events.iter().find(|event| event["method"] == method).unwrap();
        found["params"]["data"].as_str().unwrap().to_owned()
    };
    assert_eq!((data("exec.stdout"), data("exec.stderr")), ("out\n".to_owned(), "err\n".to_owned()));
    let last = events.last().unwrap();
    assert_eq!((&last["method"], &last["params"]["exit_code"]), (&"exec.exit".into(), &0.into()));
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let sandbox = Sandbox::new();
    let mut child =
        rex(&sandbox, &["exec", "--", "yes"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 1_000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((status(&output), output.stderr.len()), (141, 0), "{output:?}");
}

/// The environment, the directory and a terminal are as asked.
#[test]
fn directory_variables_and_terminal_are_as_asked() {
    let sandbox = Sandbox::new();
    sandbox.write("root/below/x", "");
    let asked = [
        "exec",
        "-C",
        "below",
        "-e",
        "A=1 2",
        "--env",
        "B=",
        "--",
        "sh",
        "-c",
        "echo \"$PWD|$A|${B-unset}\"",
    ];
    let expected = format!("{}|1 2|\n", sandbox.root().join("below").display());
    assert_eq!(text(&sandbox, &asked), expected);
    assert_eq!(
        text(&sandbox, &["exec", "--tty", "--", "sh", "-c", "test -t 0 && test -t 1 && echo yes"]),
        "yes\r\n"
    );
}

/// Every command of a sandbox's user is gone when the test is; this looks that the tests above left none.
/// ARCHITECTURE.md, invariant 50.
#[test]
fn a_command_leaves_no_daemon_behind() {
    let sandbox = Sandbox::new();
    let mut command: Command = rex(&sandbox, &["exec", "--", "sh", "-c", "echo $PPID"]);
    let output = command.output().unwrap();
    let daemon: i32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!(watch(daemon).ends_before(Instant::now() + PATIENCE), "rexd {daemon} lives on");
}

#[test]
fn a_reader_that_leaves_ends_the_command_there_too() {
    let sandbox = Sandbox::new();
    let served = testkit::serve::ServedDaemon::start(&testkit::programs::program("rexd"), &sandbox);
    let target = format!("unix:{}", served.addresses.unix.display());
    let asked = ["-t", &target, "exec", "--", "sh", "-c", "echo $$; exec yes"];
    let mut child = rex(&sandbox, &asked).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (mut pid, mut byte) = (String::new(), [0]);
    while stdout.read_exact(&mut byte).is_ok() && byte != *b"\n" {
        pid.push(char::from(byte[0]));
    }
    let watched = watch(pid.parse().unwrap());
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(141));
    assert!(watched.ends_before(Instant::now() + PATIENCE), "it runs on there");
}

#[test]
fn the_command_may_stand_without_dashes_and_keeps_its_own() {
    let sandbox = Sandbox::new();
    assert_eq!(text(&sandbox, &["exec", "printf", "%s|", "-t", "--", "--json"]), "-t|--|--json|");
    assert_eq!(text(&sandbox, &["exec", "--", "printf", "%s|", "--", "-n"]), "--|-n|");
    assert_eq!(status(&run(&sandbox, &["exec", "--", "--no-such-program"])), 127);
}

#[test]
fn a_mistake_on_the_command_line_is_our_own_failure() {
    let sandbox = Sandbox::new();
    for arguments in [
        &["bogus"][..],
        &["exec", "--timeout", "abc", "--", "true"],
        &["exec", "--timeuot", "5s", "--", "true"],
        &["shell", "--cwdd", "/", "--", "true"],
        &["read"],
    ] {
        assert_eq!(status(&run(&sandbox, arguments)), 255, "{arguments:?}");
    }
    let output = run(&sandbox, &["--json", "bogus"]);
    let said: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert!(said["error"]["message"].as_str().unwrap().contains("bogus"), "{said}");
}

#[test]
fn large_files_are_read_whole() {
    let sandbox = Sandbox::new();
    let line = "seq 1 9000000 > large; sha256sum < large";
    let expected = text(&sandbox, &["exec", "--", "sh", "-c", line]);
    let read = rex(&sandbox, &["read", "large"]).stdout(Stdio::piped()).spawn().unwrap().stdout.unwrap();
    let hashed = Command::new("sha256sum").stdin(read).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&hashed.stdout), expected);
    assert_eq!(status(&run(&sandbox, &["read", "--json", "large"])), 0);
}

#[test]
fn a_path_outside_the_roots_is_named() {
    let sandbox = Sandbox::new();
    let output = run(&sandbox, &["read", "/etc/hostname"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("outside allowed roots: /etc/hostname\n"), "{said}");
}

#[test]
fn nothing_is_replaced_by_accident() {
    let sandbox = Sandbox::new();
    sandbox.write("root/kept", "one\ntwo\none\n");
    for (old, word) in [("", "is empty"), ("one", "--all"), ("three", "exactly once")] {
        let output = run(&sandbox, &["edit", "kept", old, "new"]);
        assert_eq!(status(&output), 255);
        assert!(String::from_utf8_lossy(&output.stderr).contains(word), "{output:?}");
    }
    assert_eq!(sandbox.read("root/kept"), "one\ntwo\none\n");
}
