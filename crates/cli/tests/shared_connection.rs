//! Commands on an ssh target share one connection, over a real sshd.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use support::{run, text};
use testkit::proc::{survivors, watch};
use testkit::programs::program;
use testkit::sandbox::Sandbox;
use testkit::sshd::Sshd;

/// A machine behind ssh, as the target `far` and, without sharing, as `alone`. Each session adds the address of its
/// connection and the process that serves it to a file, and the pid of its daemon to another.
struct Machine {
    sandbox: Sandbox,
    _sshd: Sshd,
}

impl Machine {
    fn start(ssh_config: &str) -> Machine {
        let sandbox = Sandbox::new();
        let sshd = Sshd::start(&sandbox);
        let config = sshd.client_config(&sandbox);
        let more = sandbox.read("ssh/config") + &sandbox.expand(ssh_config);
        sandbox.write("ssh/config", more);
        let command = sandbox.expand(&format!(
            "echo \"$SSH_CONNECTION $PPID\" >> $DIR/connections; echo $$ >> $DIR/daemons; \
             exec {} --stdio --config $DIR/config.toml",
            program("rexd")
        ));
        let target =
            json!({ "transport": "ssh", "host": "far", "sshOptions": ["-F", config], "command": command });
        let mut alone = target.clone();
        alone["share"] = json!(false);
        let registry = json!({ "version": 1, "targets": { "far": target, "alone": alone } });
        sandbox.write("home/config/rexd/targets.json", registry.to_string());
        Machine { sandbox, _sshd: sshd }
    }

    /// Runs a command on the target and returns the connection that carried it, and the pid of its server.
    fn connection(&self, target: &str) -> (String, i32) {
        assert_eq!(text(&self.sandbox, &["-t", target, "exec", "-n", "--", "echo", "hi"]), "hi\n");
        let all = self.sandbox.read("connections");
        let (address, server) = all.lines().next_back().unwrap().rsplit_once(' ').unwrap();
        (address.to_owned(), server.parse().unwrap())
    }

    /// The sockets of connections, and marks with this suffix.
    fn entries(&self, suffix: Option<&str>) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.sandbox.path("home/state/rexd/ssh"));
        let entries = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
        entries
            .filter(|path| path.extension().is_none_or(|found| Some(found) == suffix.map(AsRef::as_ref)))
            .collect()
    }

    fn sockets(&self) -> Vec<PathBuf> {
        self.entries(None)
    }
}

/// Sends a request to the ssh that holds a connection, and returns what it printed.
fn control(socket: &Path, request: &str) -> (bool, String) {
    let output = Command::new("ssh")
        .args(["-F", "/dev/null", "-O", request, "-S"])
        .arg(socket)
        .arg("x")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn commands_share_a_connection_until_it_is_closed() {
    let machine = Machine::start("");
    // The output ends although the ssh that holds the connection runs on.
    let (first, _) = machine.connection("far");
    let [socket] = &machine.sockets()[..] else { panic!("{:?}", machine.sockets()) };
    assert!(control(socket, "check").0, "the connection is kept");
    assert_eq!(machine.connection("far").0, first);
    assert_ne!(machine.connection("alone").0, first, "a target with `share: false` has its own connection");
    assert_ne!(machine.connection("alone").0, machine.connection("alone").0);

    assert_eq!(text(&machine.sandbox, &["target", "close", "far"]), "closed the connection to ssh:far\n");
    assert_eq!(machine.sockets(), Vec::<PathBuf>::new());
    assert_eq!(text(&machine.sandbox, &["target", "close", "far"]), "no open connection to ssh:far\n");
    assert_ne!(machine.connection("far").0, first);
    assert_eq!(text(&machine.sandbox, &["target", "close", "--all", "--json"]), "{\"closed\":1}\n");
    let refused = run(&machine.sandbox, &["target", "close", "local"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(255) && said.contains("only ssh targets"), "{said}");
}

#[test]
fn a_command_on_an_open_connection_starts_no_ssh() {
    let machine = Machine::start("");
    let (first, _) = machine.connection("far");
    let second = support::rex(&machine.sandbox, &["-t", "far", "exec", "-n", "--", "echo", "hi"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&second.stdout), "hi\n", "{second:?}");
    assert!(machine.sandbox.read("connections").lines().all(|line| line.starts_with(&first)));

    // The status and the message of a daemon that does not start are reported as with ssh.
    machine.sandbox.write("config.toml", "limits = 1\n");
    let failed = run(&machine.sandbox, &["-t", "far", "exec", "-n", "--", "true"]);
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(failed.status.code() == Some(255) && said.contains("config.toml:1"), "{said}");
}

#[test]
fn no_daemon_is_left_after_the_commands_on_a_connection() {
    let machine = Machine::start("");
    for _ in 0..10 {
        machine.connection("far");
    }
    let daemons: Vec<i32> = machine.sandbox.read("daemons").lines().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(daemons.len(), 10);
    let config = machine.sandbox.config().display().to_string();
    // Another process may have the pid by now.
    let is_daemon = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(&config))
    };
    let watched: Vec<_> = daemons.into_iter().map(watch).collect();
    let left: Vec<_> = watched.into_iter().filter(|daemon| is_daemon(&daemon.pid)).collect();
    // Without its client, a daemon waits for ten minutes.
    assert_eq!(survivors(&left, Duration::from_secs(60)), Vec::<i32>::new());
}

#[test]
fn a_connection_without_a_free_session_is_supplemented() {
    let machine = Machine::start("");
    machine.connection("far");
    // sshd permits ten sessions on a connection.
    let mut all: Vec<_> = (0..12)
        .map(|_| {
            support::rex(&machine.sandbox, &["-t", "far", "exec", "--", "sh", "-c", "echo up; exec cat"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for command in &mut all {
        let mut line = [0; 3];
        command.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        assert_eq!(&line, b"up\n");
    }
    for command in all {
        let output = command.wait_with_output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
fn a_stale_socket_is_replaced() {
    let machine = Machine::start("");
    let (first, _) = machine.connection("far");
    let [socket] = &machine.sockets()[..] else { panic!("{:?}", machine.sockets()) };
    let (_, said) = control(socket, "check");
    let pid = said.split_once("pid=").and_then(|(_, rest)| rest.split(')').next()).unwrap();
    let pid: i32 = pid.parse().unwrap();
    let holder = watch(pid);
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    assert!(holder.ends_before(Instant::now() + Duration::from_secs(60)), "it ignores KILL");
    let (second, _) = machine.connection("far");
    assert_ne!(second, first);
    assert_eq!(machine.connection("far").0, second);
}

#[test]
fn a_connection_that_does_not_answer_is_not_used_again() {
    let machine = Machine::start("");
    let (first, server) = machine.connection("far");
    let server = Pid::from_raw(server).unwrap();
    kill_process(server, Signal::STOP).unwrap();
    let silent = run(&machine.sandbox, &["-t", "far", "exec", "-n", "--", "true"]);
    let said = String::from_utf8(silent.stderr).unwrap();
    assert!(silent.status.code() == Some(255) && said.contains("no answer within"), "{said}");
    let (second, _) = machine.connection("far");
    kill_process(server, Signal::KILL).unwrap();
    assert_ne!(second, first);
}

#[test]
fn a_connection_that_ssh_is_configured_to_share_is_left_to_ssh() {
    let machine = Machine::start("ControlMaster auto\nControlPath $DIR/own\nControlPersist 600\n");
    let (first, _) = machine.connection("far");
    assert_eq!(machine.connection("far").0, first);
    let own = machine.sandbox.path("own");
    assert!(control(&own, "exit").0, "ssh shares it itself");
    let [marker] = &machine.entries(Some("own"))[..] else { panic!("{:?}", machine.sockets()) };
    assert_eq!(marker.extension().unwrap(), "own");
}
