//! The sandbox through the protocol: what each profile permits and denies on pipes, on terminals and for detached processes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::daemon::Rexd;
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon};
use testkit::tries::Tries;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");

/// How a command runs.
const HOW: [&str; 3] = ["pipe", "pty", "detached"];

/// What is tried, and whether it may work under `workspace-write` and under `read-only`. Each line says `done` if it
/// had an effect that it should not have had, or worked as it should.
const MATRIX: &[(&str, &str, bool, bool)] = &[
    ("write in the workspace", "echo x > $ROOT/made-$HOW", true, false),
    ("write in TMPDIR", "echo x > $TMPDIR/made", true, false),
    ("write outside", "echo x > $OUTSIDE/made", false, false),
    ("write in /tmp", "echo x > /tmp/rexd-escape-$$ && rm /tmp/rexd-escape-$$", false, false),
    ("append to a secret", "echo x >> $OUTSIDE/secret.txt", false, false),
    ("through a symlink", "echo x > $ROOT/door/made", false, false),
    ("through a hard link", "ln $OUTSIDE/secret.txt $ROOT/hard-$HOW", false, false),
    ("through /proc/self/fd", "exec 3< $OUTSIDE/secret.txt; echo x > /proc/self/fd/3", false, false),
    ("by a grandchild", "sh -c \"sh -c 'echo x > $OUTSIDE/made'\"", false, false),
    ("rename out", "echo x > $ROOT/moving; mv $ROOT/moving $OUTSIDE/made", false, false),
    ("remove outside", "rm -f $OUTSIDE/secret.txt && ! test -e $OUTSIDE/secret.txt", false, false),
    ("truncate outside", "truncate -s 0 $OUTSIDE/secret.txt", false, false),
    ("chmod outside", "chmod 777 $OUTSIDE/secret.txt", false, false),
    ("mkdir outside", "mkdir $OUTSIDE/directory", false, false),
    ("read outside", "cat $OUTSIDE/secret.txt > /dev/null", true, true),
    ("read the state directory", "cat $DIR/home/state/rexd/note", false, false),
    ("change the hooks", "echo x > $ROOT/.git/hooks/pre-commit", false, false),
    ("move .git away", "mv $ROOT/.git $ROOT/gone", false, false),
    ("change the config", "echo x >> $DIR/config.toml", false, false),
    (
        "trace a process",
        "python3 -c \"import ctypes,os,sys; l=ctypes.CDLL(None); sys.exit(l.ptrace(16, $DAEMON, 0, 0) != 0)\"",
        false,
        false,
    ),
    ("signal the daemon", "kill -CONT $DAEMON", false, false),
    ("mount", "mount -t tmpfs x $ROOT/mnt && umount $ROOT/mnt", false, false),
    ("user namespace", "unshare -Ur true", false, false),
    ("mount namespace", "unshare -m true", false, false),
    (
        "load a module",
        "python3 -c \"import ctypes,os,sys; l=ctypes.CDLL(None, use_errno=True); l.syscall(313, 0, b'', 0); sys.exit(ctypes.get_errno() == 1)\"",
        false,
        false,
    ),
    (
        "TCP out",
        "python3 -c \"import socket; socket.create_connection(('127.0.0.1', $PORT), 5)\"",
        false,
        false,
    ),
    (
        "UDP out",
        "python3 -c \"import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', $PORT))\"",
        false,
        false,
    ),
    ("pipes and jobs", "(echo a; sleep 0 & wait) | grep -q a", true, true),
];

struct Stage {
    sandbox: Sandbox,
    daemon: Rexd,
    listener: TcpListener,
}

impl Stage {
    fn new(config: &str) -> Stage {
        let sandbox = Sandbox::with_config(config);
        std::fs::create_dir_all(sandbox.root().join(".git/hooks")).unwrap();
        std::fs::create_dir_all(sandbox.root().join("mnt")).unwrap();
        sandbox.write("home/state/rexd/note", "private\n");
        sandbox.link("root/door", sandbox.outside());
        let daemon = Rexd::start(REXD, &sandbox);
        Stage { sandbox, daemon, listener: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    /// Runs a line under a profile; whether it succeeded, and its last event.
    fn run(&mut self, session: &str, how: &str, line: &str, profile: Option<&str>) -> (bool, Value) {
        let port = self.listener.local_addr().unwrap().port().to_string();
        let line = self.sandbox.expand(line).replace("$PORT", &port).replace("$HOW", how);
        let line = line.replace("$DAEMON", &self.daemon.pid().to_string());
        let mut params = json!({ "session_id": session, "argv": ["sh", "-c", line] });
        if let Some(profile) = profile {
            params["sandbox"] = json!(profile);
        }
        let method = if how == "pty" { "pty.open" } else { "exec.start" };
        params["detach"] = json!(how == "detached");
        let started = self.daemon.call(method, params);
        let process = started["process_id"].as_str().unwrap();
        let finished = self.daemon.finish(process);
        let mut exit = finished.exit.clone();
        exit["output"] = json!(format!("{}{}", finished.text(), String::from_utf8_lossy(&finished.stderr)));
        (exit["exit_code"] == 0, exit)
    }
}

/// ARCHITECTURE.md, invariant 39.
#[test]
fn profiles_hold_on_pipes_terminals_and_detached_processes() {
    let mut wrong = Vec::new();
    println!("{:<24}{:>18}{:>18}", "", "workspace-write", "read-only");
    let mut stage = Stage::new("");
    let session = stage.daemon.open();
    for (what, line, in_workspace, in_read_only) in MATRIX {
        let mut cells = Vec::new();
        for (profile, may) in [("workspace-write", in_workspace), ("read-only", in_read_only)] {
            let mut words = Vec::new();
            for how in HOW {
                let before = fingerprint(&stage.sandbox.outside());
                let (worked, exit) = stage.run(&session, how, line, Some(profile));
                words.push(if worked { "yes" } else { "no" });
                let touched = before != fingerprint(&stage.sandbox.outside());
                if worked != *may || touched {
                    wrong.push(format!(
                        "{what}, {profile}, {how}: worked {worked}, touched {touched}: {exit}"
                    ));
                }
            }
            cells.push(words.join(" "));
        }
        println!("{what:<24}{:>18}{:>18}", cells[0], cells[1]);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// ARCHITECTURE.md, invariant 39.
#[test]
fn without_a_profile_the_same_lines_work() {
    for (what, line, ..) in MATRIX {
        // To attach to the daemon would stop it.
        if *what == "trace a process" {
            continue;
        }
        let mut stage = Stage::new("");
        let session = stage.daemon.open();
        let line = format!("export TMPDIR=${{TMPDIR:-$ROOT}}; {line}");
        let (worked, exit) = stage.run(&session, "pipe", &line, None);
        assert!(worked, "{what}: {exit}");
    }
}

/// What is in a directory: names, contents, modes and times of change.
fn fingerprint(directory: &Path) -> Vec<(String, Vec<u8>, u32)> {
    let mut found: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let mode = std::fs::symlink_metadata(&path).unwrap().mode();
            (path.display().to_string(), std::fs::read(&path).unwrap_or_default(), mode)
        })
        .collect();
    found.sort();
    found
}

/// ARCHITECTURE.md, invariant 40.
#[test]
fn the_strictest_of_operator_session_and_request_holds() {
    let line = "echo x > $ROOT/made";
    for (operator, of_session, of_request, may_write) in [
        ("off", "off", "off", true),
        ("off", "off", "workspace-write", true),
        ("off", "off", "read-only", false),
        ("off", "read-only", "workspace-write", false),
        ("off", "workspace-write", "read-only", false),
        ("read-only", "off", "off", false),
        ("read-only", "workspace-write", "workspace-write", false),
        ("workspace-write", "off", "read-only", false),
        ("workspace-write", "off", "off", true),
    ] {
        let mut stage = Stage::new(&format!("[sandbox]\nprofile = \"{operator}\"\n"));
        let opened = stage.daemon.open_with(json!({ "sandbox": of_session }));
        let session = opened["session_id"].as_str().unwrap().to_owned();
        let (worked, exit) = stage.run(&session, "pipe", line, Some(of_request));
        assert_eq!(worked, may_write, "{operator} {of_session} {of_request}: {exit}");
        // What the operator or the session wants holds for the file methods too.
        let write = json!({ "session_id": session, "path": "written", "content": "x" });
        let answer = stage.daemon.ask("fs.write", write).unwrap();
        let is_read_only = operator == "read-only" || of_session == "read-only";
        assert_eq!(answer.get("error").is_some(), is_read_only, "{operator} {of_session}: {answer}");
        if is_read_only {
            assert_eq!(answer["error"]["code"], -32001);
            assert!(answer["error"]["data"]["rule"].as_str().unwrap().starts_with("sandbox:"), "{answer}");
        }
    }
}

/// ARCHITECTURE.md, invariant 40.
#[test]
fn file_methods_cannot_touch_what_commands_cannot() {
    let mut stage = Stage::new("[sandbox]\nprofile = \"workspace-write\"\n");
    let session = stage.daemon.open();
    stage.sandbox.link("root/hooks", stage.sandbox.root().join(".git/hooks"));
    for path in [".git/hooks/pre-commit", "hooks/pre-commit"] {
        let refused = stage
            .daemon
            .refused("fs.write", json!({ "session_id": session, "path": path, "content": "#!/bin/sh\n" }));
        assert_eq!(refused["code"], -32001, "{refused}");
    }
    let refused = stage
        .daemon
        .refused("fs.remove", json!({ "session_id": session, "path": ".git", "recursive": true }));
    assert_eq!(refused["code"], -32001, "{refused}");
    assert!(stage.sandbox.root().join(".git/hooks").is_dir());
    stage.daemon.call("fs.write", json!({ "session_id": session, "path": "free", "content": "x" }));
}

#[test]
fn a_denial_of_the_sandbox_differs_from_other_failures() {
    let mut stage = Stage::new("");
    let session = stage.daemon.open();
    let outside = stage.sandbox.outside().join("made");
    for how in HOW {
        let (_, exit) = stage.run(&session, how, "echo x > $OUTSIDE/made", Some("workspace-write"));
        assert_eq!(exit["sandbox_denied"], json!({ "access": "write", "path": outside }), "{how}: {exit}");
    }
    let (_, exit) = stage.run(&session, "pipe", "cat /nowhere", Some("workspace-write"));
    assert!(exit.get("sandbox_denied").is_none(), "an ordinary failure is one: {exit}");
    let (_, exit) =
        stage.run(&session, "pipe", "echo Permission denied >&2; exit 1", Some("workspace-write"));
    assert!(exit.get("sandbox_denied").is_none(), "words are not a denial: {exit}");
}

/// ARCHITECTURE.md, invariant 39.
#[test]
fn a_profile_that_the_kernel_cannot_enforce_starts_nothing_unless_reduced() {
    for features in ["landlock=0", "seccomp=off", "namespaces=off"] {
        for on_gap in ["refuse", "reduce"] {
            let sandbox = Sandbox::with_config(&format!("[sandbox]\non_gap = \"{on_gap}\"\n"));
            std::fs::create_dir_all(sandbox.root().join(".git/hooks")).unwrap();
            let mut command = sandbox.command(REXD);
            command.args(["--stdio", "--config"]).arg(sandbox.config());
            command.env("REXD_SANDBOX_FEATURES", features);
            let mut daemon = Rexd::spawn(command);
            let session = daemon.open();
            for detach in [false, true] {
                let params = json!({
                    "session_id": session, "argv": ["true"], "sandbox": "workspace-write", "detach": detach,
                });
                let answer = daemon.ask("exec.start", params).unwrap();
                if on_gap == "refuse" {
                    assert_eq!(answer["error"]["code"], -32007, "{features} {detach}: {answer}");
                    assert_eq!(answer["error"]["data"]["capability"], "sandbox");
                } else {
                    assert!(answer.get("result").is_some(), "{features} {detach}: {answer}");
                }
            }
            // What nobody confines runs all the same.
            daemon.call("exec.start", json!({ "session_id": session, "argv": ["true"] }));
        }
    }
}

#[test]
fn an_unknown_profile_is_rejected_with_the_available_ones() {
    let config = "[[sandbox.profiles]]\nname = \"build\"\nwrite_roots = true\nnetwork = \"on\"\n";
    let mut stage = Stage::new(config);
    let session = stage.daemon.open();
    let params = json!({ "session_id": session, "argv": ["true"], "sandbox": "nonsense" });
    let refused = stage.daemon.refused("exec.start", params);
    assert_eq!(refused["code"], -32602);
    let message = refused["message"].as_str().unwrap();
    assert!(["off", "read-only", "workspace-write", "build"].iter().all(|name| message.contains(name)));
    let connects = "python3 -c \"import socket; socket.create_connection(('127.0.0.1', $PORT), 5)\"";
    assert!(stage.run(&session, "pipe", connects, Some("build")).0);
    assert!(!stage.run(&session, "pipe", "echo x > $OUTSIDE/made", Some("build")).0);
}

#[test]
fn the_temporary_directory_goes_with_the_session() {
    let mut stage = Stage::new("");
    let session = stage.daemon.open();
    let (_, exit) = stage.run(&session, "pipe", "echo x > $TMPDIR/y; echo $TMPDIR", Some("workspace-write"));
    let directory = exit["output"].as_str().unwrap().trim().to_owned();
    assert!(Path::new(&directory).join("y").exists(), "{directory}");
    stage.daemon.call("session.close", json!({ "session_id": session }));
    assert!(!Path::new(&directory).exists());
}

#[test]
fn a_root_that_was_swapped_for_a_link_leads_nowhere_and_no_command_can_swap_it() {
    let root = |path: &str| format!("[[security.allowed_roots]]\npath = \"{path}\"\n");
    let roots = root("$ROOT/inner") + &root("$ROOT");
    let mut stage = Stage::new(&format!("{roots}[sandbox]\nprofile = \"workspace-write\"\n"));
    std::fs::create_dir(stage.sandbox.root().join("inner")).unwrap();
    let session = stage.daemon.open();
    let swap = "mv $ROOT/inner $ROOT/moved && ln -s $OUTSIDE $ROOT/inner";
    let (worked, exit) = stage.run(&session, "pipe", swap, None);
    assert!(!worked, "with its root a command could move what is protected there: {exit}");
    let root = stage.sandbox.root();
    std::fs::rename(root.join("inner"), root.join("moved")).unwrap();
    std::os::unix::fs::symlink(stage.sandbox.outside(), root.join("inner")).unwrap();
    for session in [session, stage.daemon.open()] {
        for how in HOW {
            let (worked, exit) = stage.run(&session, how, "echo x > $OUTSIDE/made", None);
            assert!(!worked, "{how}: {exit}");
            assert!(stage.run(&session, how, "echo x > $ROOT/made", None).0, "{how}");
        }
    }
}

#[test]
fn no_profile_reaches_the_daemons_own_socket() {
    let config =
        "[server]\nunix = \"$DIR/own.sock\"\n[[sandbox.profiles]]\nname = \"open\"\nnetwork = \"on\"\n";
    let mut stage = Stage::new(config);
    let _own = UnixListener::bind(stage.sandbox.path("own.sock")).unwrap();
    let _other = UnixListener::bind(stage.sandbox.path("other.sock")).unwrap();
    let session = stage.daemon.open();
    for (name, may) in [("other", true), ("own", false)] {
        let line = format!("python3 -c \"import socket; socket.socket(1).connect('$DIR/{name}.sock')\"");
        let (worked, exit) = stage.run(&session, "pipe", &line, Some("open"));
        assert_eq!(worked, may, "{name}: {exit}");
    }
}

#[test]
fn a_detached_process_that_never_ran_leaves_no_temporary_directory() {
    let sandbox = Sandbox::new();
    let temp = sandbox.path("temp");
    std::fs::create_dir(&temp).unwrap();
    let mut command = sandbox.command(REXD);
    command.args(["--stdio", "--config"]).arg(sandbox.config()).env("TMPDIR", &temp);
    let mut daemon = Rexd::spawn(command);
    let session = daemon.open();
    let params = json!({
        "session_id": session, "argv": ["/nonexistent"], "sandbox": "workspace-write", "detach": true,
    });
    daemon.refused("exec.start", params);
    // The directory is removed soon after the response; the daemon must live until then.
    let left = |directory: &Path| std::fs::read_dir(directory).map_or(0, Iterator::count);
    let made = std::fs::read_dir(&temp).unwrap().next().unwrap().unwrap().path();
    let mut tries =
        testkit::tries::Tries::within(testkit::daemon::PATIENCE, "removes the temporary directory");
    while left(&made) > 0 {
        tries.again();
    }
    drop(daemon);
}

#[test]
fn a_limit_that_cannot_be_enforced_starts_nothing_unless_reduced() {
    if !rustix::process::geteuid().is_root() {
        // Others are held by a limit that does not bind root.
        return;
    }
    for (on_gap, may) in [("refuse", false), ("reduce", true)] {
        let config = "[sandbox]\nprofile = \"workspace-write\"\n[sandbox.limits]\nprocesses = 50\n";
        let config = config.replace("[sandbox]\n", &format!("[sandbox]\non_gap = \"{on_gap}\"\n"));
        let sandbox = Sandbox::with_config(&config);
        let mut command = sandbox.command("unshare");
        command.args(["-m", "sh", "-c", "umount -R -l /sys/fs/cgroup; exec \"$@\"", "sh", REXD, "--stdio"]);
        command.arg("--config").arg(sandbox.config());
        let mut daemon = Rexd::spawn(command);
        let session = daemon.open();
        for detach in [false, true] {
            let params = json!({ "session_id": session, "argv": ["true"], "detach": detach });
            let answer = daemon.ask("exec.start", params).unwrap();
            assert_eq!(answer.get("result").is_some(), may, "{on_gap} {detach}: {answer}");
        }
    }
}

#[test]
fn a_session_whose_profile_is_gone_can_touch_nothing() {
    let profile = "[[sandbox.profiles]]\nname = \"build\"\nwrite_roots = true\n";
    let sandbox = Sandbox::with_config(profile);
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut client = served.client(CarrierKind::Unix);
    let session = client.open_with(json!({ "sandbox": "build" }))["session_id"].clone();
    let write = json!({ "session_id": session, "path": "x", "content": "x" });
    client.call("fs.write", write.clone());
    sandbox.configure("");
    served.signal(rustix::process::Signal::HUP);
    let mut tries = Tries::within(Duration::from_secs(60), "the profile is gone");
    while client.ask("fs.write", write.clone()).unwrap()["error"]["data"]["rule"] != "sandbox:build" {
        tries.again();
    }
    let refused = client.refused("exec.start", json!({ "session_id": session, "argv": ["true"] }));
    assert_eq!(refused["code"], -32602, "{refused}");
}
