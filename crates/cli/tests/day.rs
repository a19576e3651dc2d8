//! A day's work with `rex` on a machine behind a real sshd, in a terminal of tmux.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;
#[path = "support/tmux.rs"]
mod tmux;
#[path = "support/trees.rs"]
#[allow(dead_code, reason = "each test uses some of it")]
mod trees;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::REX;
use testkit::daemon::PATIENCE;
use testkit::proc::children;
use testkit::programs::program;
use testkit::sandbox::Sandbox;
use testkit::sshd::Sshd;
use testkit::tries::Tries;
use tmux::Tmux;

/// A machine behind ssh, as the target `far`, which the commands use by default.
struct Day {
    sandbox: Sandbox,
    sshd: Sshd,
}

impl Day {
    fn begin() -> Day {
        let sandbox = Sandbox::new();
        let sshd = Sshd::start(&sandbox);
        let config = sshd.client_config(&sandbox);
        // Otherwise the daemons of all tests would list each other's processes.
        let state = format!("XDG_STATE_HOME={}", sandbox.path("far-state").display());
        let registry = serde_json::json!({ "version": 1, "targets": { "far": {
            "transport": "ssh",
            "host": "far",
            "sshOptions": ["-F", config],
            "command": { "program": "/usr/bin/env", "args": [state, program("rexd"), "--stdio", "--config", sandbox.config()] },
            "defaultCwd": sandbox.root(),
        } } });
        sandbox.write("home/config/rexd/targets.json", registry.to_string());
        Day { sandbox, sshd }
    }

    fn rex(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command(REX);
        command.env("REX_TARGET", "far").env("REX_REXD", program("rexd")).env("REX_COMPLETE_MS", "60000");
        command.env("XDG_DATA_HOME", self.sandbox.path("home/data")).stdin(Stdio::null());
        command.current_dir(self.sandbox.root()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.rex(arguments).output().unwrap()
    }

    /// The output of a command that must succeed.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "rex {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a command that must fail prints on stderr.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(255), "rex {arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// A terminal in which `rex` is the program under test.
    fn terminal(&self) -> Tmux {
        Tmux::start(&self.sandbox, &self.rex(&[]), Path::new(REX).parent().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.sandbox.path(name)
    }
}

#[test]
fn commands_run_are_named_and_found_again() {
    let day = Day::begin();
    assert_eq!(day.text(&["exec", "--", "echo", "hello"]), "hello\n");
    assert_eq!(day.text(&["exec", "-c", "printf 'a\\nb\\n' | wc -l"]).trim(), "2");
    assert_eq!(day.run(&["exec", "-c", "exit 7"]).status.code(), Some(7));
    assert!(day.refused(&["exec", "-it", "--", "sh"]).contains("--tty"));
    assert!(day.refused(&["attach"]).contains("no process is running"));

    let line = "echo ready; until test -e go; do sleep 0.02; done; echo built; exit 3";
    let id = day.text(&["exec", "--detach", "--name", "build", "--", "sh", "-c", line]);
    let mut tries = Tries::within(PATIENCE, "the first line");
    while day.text(&["logs", "build"]) != "ready\n" {
        tries.again();
    }
    assert!(day.text(&["ps"]).contains("build"));
    assert!(day.refused(&["exec", "--name", "build", "--", "true"]).contains("build"));
    let mut attached = day.rex(&["attach"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    attached.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    fs::write(day.path("root/go"), "").unwrap();
    let output = attached.wait_with_output().unwrap();
    assert_eq!(
        (output.stdout.as_slice(), output.status.code()),
        (&b"built\n"[..], Some(3)),
        "the only process"
    );
    assert_eq!(day.run(&["wait", "build"]).status.code(), Some(3));
    assert_eq!(day.text(&["logs", "--tail", "1", "build"]), "built\n");
    assert_eq!(day.text(&["logs", "--since", "1h", id.trim()]), "ready\nbuilt\n");
    day.text(&["exec", "--detach", "--name", "server", "--", "sleep", "1000"]);
    day.text(&["kill", "server"]);
    assert!(matches!(day.run(&["wait", "server"]).status.code(), Some(143 | 137)));
    day.text(&["prune"]);
    let gone = day.refused(&["logs", "build"]);
    assert!(gone.contains("no process build") && gone.contains("hint:"), "{gone}");
}

#[test]
fn a_terminal_is_left_and_found_as_it_was() {
    let day = Day::begin();
    let terminal = day.terminal();
    // A prompt in colours, and an editor that asks the terminal what it is.
    terminal.enters("rex shell -- env PS1='\\[\\e[1;35m\\]far\\[\\e[0m\\]> ' bash --norc --noprofile -i");
    terminal.waits_at("far>");
    terminal.enters("echo before the editor");
    terminal.shows("before the editor\nfar>");
    terminal.enters("vim -u NONE -c 'set noswapfile number mouse=a' page");
    terminal.shows("\"page\"");
    terminal.types("ifirst line");
    terminal.presses("Enter");
    terminal.types("second line");
    terminal.presses("Escape");
    let drawn = terminal.shows("  2 second line");
    // The terminal is left with Enter ~ . and the shell here is as it was.
    terminal.presses("Enter");
    terminal.types("~.");
    terminal.shows("detached from p_");
    terminal.waits_at("here>");
    terminal.clears();
    terminal.enters("rex attach");
    let again = terminal.shows("  2 second line");
    assert_eq!(again.lines().take(2).collect::<Vec<_>>(), drawn.lines().take(2).collect::<Vec<_>>());
    assert!(again.lines().nth(2).is_some_and(|line| line == "~"), "{again}");
    // Nothing was typed into the editor.
    terminal.types(":wq");
    terminal.presses("Enter");
    let seen = terminal.waits_at("far>");
    assert!(seen.contains("before the editor"), "the screen below the editor returns: {seen}");
    assert_eq!(day.sandbox.read("root/page"), "first line\nsecond line\n");
    assert!(terminal.coloured().contains("\u{1b}[1m\u{1b}[35mfar"), "{:?}", terminal.coloured());

    // At a prompt, nothing is typed either.
    terminal.presses("Enter");
    terminal.types("~.");
    terminal.waits_at("here>");
    terminal.clears();
    terminal.enters("rex attach");
    let seen = terminal.waits_at("far>");
    assert!(seen.contains("before the editor"), "{seen}");
    terminal.enters("echo typed; exit 4");
    terminal.waits_at("here>");
    terminal.enters("echo status $?");
    terminal.shows("status 4");
}

#[test]
fn a_job_without_a_terminal_is_left_too() {
    let day = Day::begin();
    day.text(&["exec", "--detach", "--name", "job", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
    day.text(&["exec", "--detach", "--name", "other", "--", "sleep", "1000"]);
    assert!(day.refused(&["attach"]).contains("2 processes are running"));
    let terminal = day.terminal();
    terminal.enters("rex attach");
    terminal.shows("attach to [1-2]:");
    terminal.enters("job");
    terminal.until("show the output", |screen| screen.lines().any(|line| line.trim_end() == "ready"));
    terminal.enters("~.");
    terminal.shows("detached from p_");
    terminal.waits_at("here>");
    assert!(day.text(&["ps"]).contains("job"));
    day.text(&["kill", "job"]);
    day.text(&["kill", "other"]);
}

#[test]
fn trees_are_mirrored_with_their_links_and_modes() {
    let day = Day::begin();
    for (name, content) in
        [("src/main.rs", "fn main() {}\n"), ("src/deep/lib.rs", "// lib\n"), ("src/a.o", "x")]
    {
        day.sandbox.write(name, content);
    }
    symlink("main.rs", day.path("src/link")).unwrap();
    fs::set_permissions(day.path("src/deep"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::set_permissions(day.path("src/main.rs"), fs::Permissions::from_mode(0o700)).unwrap();
    day.text(&["cp", "-r", "--exclude", "*.o", "../src", "far:copy"]);
    let mode = |name: &str| fs::metadata(day.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("root/copy/deep"), mode("root/copy/main.rs")), (0o750, 0o700));
    assert_eq!(fs::read_link(day.path("root/copy/link")).unwrap(), Path::new("main.rs"));
    assert!(!day.path("root/copy/a.o").exists());
    fs::remove_file(day.path("src/deep/lib.rs")).unwrap();
    day.text(&["cp", "-r", "--delete", "--exclude", "*.o", "../src", "far:copy"]);
    assert!(!day.path("root/copy/deep/lib.rs").exists());

    assert!(day.text(&["ls", "-la", "copy"]).contains("-rwx------"));
    assert_eq!(day.text(&["grep", "main", "copy"]).lines().next(), Some("copy/main.rs:1:fn main() {}"));
    assert_eq!(day.text(&["glob", "copy/**/*.rs"]), "copy/main.rs\n");
    day.text(&["mkdir", "-p", "made/below"]);
    day.text(&["mv", "copy/main.rs", "made/below/moved.rs"]);
    assert_eq!(day.text(&["read", "made/below/moved.rs"]), "fn main() {}\n");
    day.text(&["rm", "-r", "made"]);
    assert!(!day.path("root/made").exists());
    let doctor = day.text(&["doctor"]);
    assert!(doctor.contains("far"), "{doctor}");
}

#[test]
fn other_programs_use_the_connection() {
    let day = Day::begin();
    day.sandbox.write("src/file", "through rsync\n");
    let rsh = format!("{REX} rsh");
    let with_rex = |mut command: Command| {
        for (name, value) in day.rex(&[]).get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
    };
    let mut rsync = Command::new("rsync");
    rsync
        .args(["-a", "-e", &rsh])
        .arg(day.path("src/"))
        .arg(format!("far:{}", day.path("root/synced").display()));
    with_rex(rsync);
    assert_eq!(day.sandbox.read("root/synced/file"), "through rsync\n");
    let line =
        "git init -q repo && cd repo && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one";
    day.text(&["exec", "-c", line]);
    // git finds out by itself that the program takes the options of ssh.
    let repository = day.path("root/repo").display().to_string();
    let port = day.sshd.port();
    for (url, clone) in [
        (format!("far:{repository}"), "clone"),
        (format!("ssh://far{repository}"), "by-url"),
        (format!("ssh://far:{port}{repository}"), "by-port"),
    ] {
        let mut git = Command::new("git");
        git.args(["clone", "-q", &url]).arg(day.path(clone)).env("GIT_SSH_COMMAND", &rsh);
        with_rex(git);
        assert!(day.path(clone).join(".git").exists(), "{url}");
    }
}

#[test]
fn the_shell_completes_what_is_on_the_machine() {
    let day = Day::begin();
    day.sandbox.write("root/source/main.rs", "");
    day.sandbox.write("completions", day.text(&["completions", "bash"]));
    let terminal = day.terminal();
    terminal.enters("source ../completions");
    terminal.clears();
    for (typed, whole) in [("rex -t fa", "rex -t far"), ("rex read so", "rex read source/")] {
        terminal.types(typed);
        terminal.presses("Tab");
        terminal.waits_at(&format!("here> {whole}"));
        terminal.presses("C-u");
        terminal.waits_at("here>");
    }
}

#[test]
fn a_connection_that_is_cut_costs_neither_a_copy_nor_a_message() {
    let day = Day::begin();
    let size = 96 << 20;
    day.sandbox.write("large", trees::noise(size));
    let mut copy = day.rex(&["cp", "--json", "../large", "far:copied"]);
    let copy = copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    day.sandbox.grows("root/.copied.rex-part", 1 << 20, Instant::now() + PATIENCE);
    kill_process(ssh_below(copy.id()), Signal::KILL).unwrap();
    let output = copy.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("connection to far lost"), "{said}");
    assert!(fs::read(day.path("root/copied")).unwrap() == trees::noise(size), "the copy differs");
}

/// The ssh that a `rex` has started.
fn ssh_below(rex: u32) -> Pid {
    let mut tries = Tries::within(Duration::from_secs(60), "an ssh");
    loop {
        let is_ssh = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "ssh")
        };
        let found = children(i32::try_from(rex).unwrap()).into_iter().find(is_ssh);
        if let Some(pid) = found.and_then(Pid::from_raw) {
            return pid;
        }
        tries.again();
    }
}
