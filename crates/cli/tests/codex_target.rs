//! A Codex executor as a target: commands, terminals, files and tools there, and what it cannot do said clearly.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use support::REX;
use testkit::daemon::PATIENCE;
use testkit::exec_server::ExecServer;
use testkit::programs::program;
use testkit::proxy::{CutKind, Direction, Proxy};
use testkit::sandbox::Sandbox;
use testkit::screen::Screen;
use testkit::serve::ServedDaemon;

struct World {
    sandbox: Sandbox,
    served: ExecServer,
}

impl World {
    fn new() -> World {
        let sandbox = Sandbox::new();
        let served = ExecServer::start(&sandbox);
        World { sandbox, served }
    }

    /// With the released 0.131.0, which reads only whole files and tells no sizes; `make setup` puts it there.
    fn released() -> World {
        let sandbox = Sandbox::new();
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let program = target.join("codex-clients/codex-0.131.0");
        assert!(program.exists(), "the released codex is missing: run `make setup`");
        let served = ExecServer::start_program(&program, &sandbox, &[]);
        World { sandbox, served }
    }

    fn rex(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command(REX);
        command.env("REX_TARGET", format!("codex:{}", self.served.url));
        command.current_dir(self.sandbox.outside()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.rex(arguments).output().unwrap()
    }

    /// What it printed; it must succeed.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "rex {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Why it failed.
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(255), "rex {arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn root(&self, name: &str) -> String {
        self.sandbox.root().join(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn a_command_there_is_as_one_here() {
    let world = World::new();
    let line = "printf 'out\\377'; echo err >&2; pwd; exit 7";
    let output = world.run(&["exec", "--", "sh", "-c", line]);
    assert_eq!(output.status.code(), Some(7));
    let here = format!("{}\n", world.sandbox.root().display());
    assert_eq!(output.stdout, [&b"out\xff"[..], here.as_bytes()].concat(), "it starts where the server does");
    assert_eq!(output.stderr, b"err\n");
    assert_eq!(
        world.text(&["exec", "--env", "A=b c", "--cwd", "/", "--", "sh", "-c", "echo $A; pwd"]),
        "b c\n/\n"
    );
    assert_eq!(world.text(&["exec", "--", "cat"]), "", "without input a command finds its end");
    for (arguments, code) in [
        (&["exec", "--", "no-such-program"][..], 127),
        (&["exec", "--", "sh", "-c", "kill -9 $$"], 137),
        (&["exec", "--timeout", "100ms", "--", "sleep", "60"], 124),
    ] {
        assert_eq!(world.run(arguments).status.code(), Some(code), "{arguments:?}");
    }
    let many = world.text(&["exec", "--", "seq", "1", "200000"]);
    assert_eq!(many.lines().count(), 200_000);
    assert!(many.ends_with("\n200000\n"));
}

#[test]
fn a_command_begins_in_the_first_root() {
    let sandbox = Sandbox::new();
    sandbox.write("root/deep/file", "");
    // The server itself stands above it.
    let root = sandbox.path("root/deep").to_str().unwrap().to_owned();
    let world = World { served: ExecServer::start_with(&sandbox, &["--root", &root]), sandbox };
    assert_eq!(world.text(&["exec", "--", "pwd"]), format!("{root}\n"));
}

#[test]
fn input_goes_there_and_its_end_cannot() {
    let world = World::new();
    let mut child = world
        .rex(&["exec", "--", "sh", "-c", "read -r line; echo \"heard $line\""])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(0), b"heard hello\n".to_vec()));
    // Who reads to the end is told why that does not come, and ended as here.
    let mut child = world
        .rex(&["exec", "--", "sh", "-c", "tee reading; echo not reached"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::from(std::fs::File::create(world.sandbox.path("stderr")).unwrap()))
        .spawn()
        .unwrap();
    drop(child.stdin.take());
    world.sandbox.gains("stderr", "closing the input is not available", Instant::now() + PATIENCE);
    // A shell that is interrupted before it has started `tee` waits for it all the same.
    world.sandbox.appears("root/reading", Instant::now() + PATIENCE);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(130), Vec::new()));
}

fn interrupt(child: &std::process::Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

#[test]
fn an_interrupt_reaches_the_command() {
    let world = World::new();
    let line = "trap 'echo stopped; exit 9' INT; touch ready; while :; do sleep 0.01; done";
    let child = world.rex(&["exec", "--", "sh", "-c", line]).stdout(Stdio::piped()).spawn().unwrap();
    world.sandbox.appears("root/ready", Instant::now() + PATIENCE);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(9), b"stopped\n".to_vec()));
}

#[test]
fn files_are_read_written_listed_edited_and_copied() {
    let world = World::new();
    let sandbox = &world.sandbox;
    let mut writing = world.rex(&["write", "notes.txt"]).stdin(Stdio::piped()).spawn().unwrap();
    writing.stdin.take().unwrap().write_all(b"one two\n").unwrap();
    assert!(writing.wait().unwrap().success());
    assert_eq!(sandbox.read("root/notes.txt"), "one two\n");
    assert_eq!(world.text(&["read", &world.root("notes.txt")]), "one two\n");
    world.text(&["edit", &world.root("notes.txt"), "two", "three"]);
    assert_eq!(sandbox.read("root/notes.txt"), "one three\n");
    assert_eq!(world.text(&["ls", &world.root("")]), "notes.txt\n");
    assert!(world.text(&["stat", &world.root("notes.txt")]).contains("size   10"));
    let missing = world.run(&["read", &world.root("none")]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no such file"), "{missing:?}");
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[number as usize % 4]).collect();
    sandbox.write("outside/tree/large", &large);
    sandbox.write("outside/tree/sub/run.sh", "#!/bin/sh\necho ran\n");
    let script = sandbox.path("outside/tree/sub/run.sh");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.text(&["cp", "tree", &format!(":{}", world.root("copy"))]);
    assert!(std::fs::read(sandbox.path("root/copy/large")).unwrap() == large);
    assert_eq!(world.text(&["exec", "--", &world.root("copy/sub/run.sh")]), "ran\n");
    world.text(&["cp", &format!(":{}", world.root("copy")), "back"]);
    assert!(std::fs::read(sandbox.path("outside/back/large")).unwrap() == large);
}

#[test]
fn a_copy_between_an_executor_and_a_daemon_is_checked_with_the_hash_of_both() {
    let world = World::new();
    // The executor has no XXH128, the daemon has.
    let served = ServedDaemon::start(&program("rexd"), &world.sandbox);
    let targets = serde_json::json!({
        "executor": { "transport": "codex", "url": world.served.url },
        "daemon": { "transport": "unix", "path": served.addresses.unix },
    });
    world
        .sandbox
        .write("home/config/rexd/targets.json", serde_json::json!({ "targets": targets }).to_string());
    let large: Vec<u8> = (0..2_u32 << 20).map(|number| number.to_le_bytes()[number as usize % 4]).collect();
    world.sandbox.write("root/large", &large);
    for (from, to) in [("executor:", "daemon:"), ("daemon:", "executor:")] {
        let [source, target] =
            [(from, "large"), (to, "copy")].map(|(at, name)| at.to_owned() + &world.root(name));
        let output = world.rex(&["cp", &source, &target]).env_remove("REX_TARGET").output().unwrap();
        assert!(output.status.success(), "{source} to {target}: {output:?}");
        assert!(std::fs::read(world.sandbox.path("root/copy")).unwrap() == large, "{source} to {target}");
        std::fs::remove_file(world.sandbox.path("root/copy")).unwrap();
    }
}

#[test]
fn a_server_that_tells_no_sizes_gives_whole_files_all_the_same() {
    let world = World::released();
    let sandbox = &world.sandbox;
    let large: Vec<u8> = (0..9_000_000_u32).map(|number| number.to_le_bytes()[number as usize % 4]).collect();
    sandbox.write("root/tree/large", &large);
    sandbox.write("root/tree/sub/small", "small\n");
    sandbox.write("root/tree/sub/empty", "");
    let file = world.root("tree/large");
    assert!(world.run(&["read", &file]).stdout == large, "read");
    let part = world.run(&["read", "--offset", "8999990", "--length", "100", &file]);
    assert!(part.stdout == large[8_999_990..], "a part of it");
    assert!(world.text(&["stat", &file]).contains("size   9000000"));
    world.text(&["cp", &format!(":{file}"), "copy"]);
    assert!(std::fs::read(sandbox.path("outside/copy")).unwrap() == large, "cp");
    world.text(&["cp", &format!(":{}", world.root("tree")), "tree"]);
    assert!(std::fs::read(sandbox.path("outside/tree/large")).unwrap() == large, "cp of a tree");
    assert_eq!(sandbox.read("outside/tree/sub/small"), "small\n");
    assert_eq!(sandbox.read("outside/tree/sub/empty"), "");
    world.text(&["edit", &world.root("tree/sub/small"), "small", "edited"]);
    assert_eq!(world.text(&["read", &world.root("tree/sub/small")]), "edited\n");
}

#[test]
fn a_terminal_has_our_size_and_ends_with_its_status() {
    let world = World::new();
    let command = world.rex(&["shell", "--", "env", "PS1=ready> ", "sh", "-i"]);
    let mut screen = Screen::start(&command, 100, 30);
    screen.shows("ready>");
    screen.type_in("stty size\r");
    screen.shows("30 100");
    // What it prints is not what was typed: it runs when that is seen.
    screen.type_in("sh -c 'echo on-$((1+1)); exec sleep 60'\r");
    screen.shows("on-2");
    screen.type_in("\x03");
    screen.until("be back", |seen| seen.trim_end().ends_with("ready>"));
    screen.type_in("exit 4\r");
    let (status, seen) = screen.end();
    assert_eq!(status.code(), Some(4), "{seen}");
    assert!(!seen.contains("connection"), "the user did not detach: {seen}");
}

#[test]
fn who_leaves_a_terminal_hears_that_it_ends() {
    let world = World::new();
    let mut screen = Screen::start(&world.rex(&["shell", "--", "env", "PS1=ready> ", "sh", "-i"]), 100, 30);
    screen.shows("ready>");
    screen.type_in("\r~.");
    let (status, seen) = screen.end();
    assert_eq!(status.code(), Some(0), "{seen}");
    assert!(seen.contains("a terminal ends with its connection"), "{seen}");
}

#[test]
fn tools_work_there() {
    let world = World::new();
    let said = world.text(&["call", "bash", r#"{"command":"echo $((6*7)); cat"}"#]);
    assert!(said.contains("42"), "{said}");
    world.text(&["call", "write", &format!(r#"{{"path":"{}","content":"x"}}"#, world.root("made"))]);
    assert_eq!(world.sandbox.read("root/made"), "x");
}

#[test]
fn what_an_executor_cannot_do_is_said() {
    let world = World::new();
    for (arguments, word) in [
        (&["exec", "--detach", "--", "true"][..], "end with its session"),
        (&["exec", "--sandbox", "read-only", "--", "true"], "sandbox"),
        (&["glob", "*"], "has no search"),
        (&["grep", "x"], "has no search"),
    ] {
        let said = world.refusal(arguments);
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
}

#[test]
fn it_can_be_remembered_and_tried() {
    let world = World::new();
    let target = format!("codex:{}", world.served.url);
    world.text(&["target", "add", "box", &target]);
    assert!(world.sandbox.read("home/config/rexd/targets.json").contains("\"codex\""));
    let said = world.text(&["target", "test", "box"]);
    assert!(said.contains("exec-server") && said.contains("written and removed"), "{said}");
    let mut command = world.rex(&["-t", "codex:ws://127.0.0.1:1", "exec", "--", "true"]);
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(said.contains("rexd exec-server --listen ws://127.0.0.1:1"), "{said}");
}

#[test]
fn a_server_that_wants_a_token_gets_it() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("token", "let me in\n");
    let flags = ["--ws-auth", "capability-token", "--ws-token-file", file.to_str().unwrap()];
    let world = World { served: ExecServer::start_with(&sandbox, &flags), sandbox };
    let said = world.refusal(&["exec", "--", "true"]);
    assert!(said.contains("REX_TOKEN"), "{said}");
    let output = world.rex(&["exec", "--", "echo", "in"]).env("REX_TOKEN", "let me in").output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(0), b"in\n".to_vec()));
}

#[test]
fn a_refusal_that_waiting_does_not_mend_ends_it_at_once() {
    let sandbox = Sandbox::new();
    let auth = |token: &str| {
        let file = sandbox.write(token, token).to_str().unwrap().to_owned();
        ["--ws-auth".to_owned(), "capability-token".to_owned(), "--ws-token-file".to_owned(), file]
    };
    let start = |flags: &[String]| {
        ExecServer::start_with(&sandbox, &flags.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let before = start(&auth("old"));
    let proxy = Proxy::start(&before.addresses, &sandbox.path("."));
    let mut command = sandbox.command(REX);
    command.args(["exec", "--", "sh", "-c", "touch ready; while :; do sleep 0.05; done"]);
    command.env("REX_TARGET", format!("codex:ws://{}", proxy.addresses.http));
    command.env("REX_TOKEN", "old").current_dir(sandbox.outside());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    sandbox.appears("root/ready", Instant::now() + PATIENCE);
    // The reconnecting client finds another server, which does not know the token.
    stop(&child, Signal::STOP);
    drop(before);
    let after = start(&auth("new"));
    proxy.redirect(&after.addresses);
    stop(&child, Signal::CONT);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(255), "{said}");
    assert!(said.contains("401") && said.contains("REX_TOKEN") && said.contains("--ws-token-file"), "{said}");
    assert!(!said.contains("within"), "it was tried for a while: {said}");
}

fn stop(child: &std::process::Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn output_that_was_given_up_is_counted_and_a_success_without_it_is_none() {
    const WRITTEN: usize = 20_000_000;
    let sandbox = Sandbox::with_config("[limits]\nlog_bytes = 65536\nspill_bytes = 1048576\n");
    let config = sandbox.config().to_str().unwrap().to_owned();
    let world = World { served: ExecServer::start_with(&sandbox, &["--config", &config]), sandbox };
    let proxy = Proxy::start(&world.served.addresses, &world.sandbox.path("."));
    let line = format!(
        "printf begin; touch ready; until [ -e go ]; do sleep 0.02; done; \
         head -c {WRITTEN} /dev/zero | tr '\\0' x; touch wrote; until [ -e on ]; do sleep 0.02; done; printf end"
    );
    let mut command = world.rex(&["exec", "--", "sh", "-c", &line]);
    command.env("REX_TARGET", format!("codex:ws://{}", proxy.addresses.http));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    world.sandbox.appears("root/ready", Instant::now() + PATIENCE);
    // The client does not reconnect while the command writes.
    stop(&child, Signal::STOP);
    proxy.cut(CutKind::Reset);
    world.sandbox.write("root/go", "");
    world.sandbox.appears("root/wrote", Instant::now() + PATIENCE);
    world.sandbox.write("root/on", "");
    stop(&child, Signal::CONT);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(255), "{said}");
    assert!(output.stdout.ends_with(b"end"));
    let lost: Vec<usize> = said
        .split_whitespace()
        .zip(said.split_whitespace().skip(1))
        .filter(|(_, next)| *next == "bytes")
        .filter_map(|(number, _)| number.parse().ok())
        .collect();
    assert!(lost.iter().sum::<usize>() > 0, "{said}");
    assert_eq!(output.stdout.len() + lost.iter().sum::<usize>(), WRITTEN + "beginend".len(), "{said}");
}

#[test]
fn a_cut_connection_is_not_noticed() {
    let world = World::new();
    let proxy = Proxy::start(&world.served.addresses, &world.sandbox.path("."));
    for at in [3_000, 20_000, 100_000, 400_000] {
        let mut command = world.rex(&["exec", "--", "seq", "1", "100000"]);
        command.env("REX_TARGET", format!("codex:ws://{}", proxy.addresses.http));
        proxy.cut_after(Direction::Client, at, CutKind::Reset);
        let output = command.output().unwrap();
        assert!(!proxy.call_off(), "the connection was not cut after {at}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.lines().map(str::parse).eq((1..=100_000).map(Ok)),
            "cut after {at}: {} bytes",
            said.len()
        );
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "cut after {at}");
    }
}
