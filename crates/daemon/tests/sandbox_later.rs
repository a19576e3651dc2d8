//! What confined commands reach after something has changed: sockets that are recreated, secrets that are replaced, later
//! mounts, and a temporary directory whose name another user has taken.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};
use testkit::carrier::Carrier;
use testkit::client::Client;
use testkit::daemon::Rexd;
use testkit::lines::Lines;
use testkit::log::Log;
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon};
use testkit::tries::Tries;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
/// The bound of every wait; not reached unless a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// A profile that can use every socket.
const OPEN: &str = "[[sandbox.profiles]]\nname = \"open\"\nnetwork = \"on\"\nwrite_roots = true\n";

/// `rexd --stdio` with these variables.
fn stdio(sandbox: &Sandbox, variables: &[(&str, &Path)]) -> Rexd {
    let mut command = sandbox.command(REXD);
    command.args(["--stdio", "--config"]).arg(sandbox.config()).envs(variables.iter().copied());
    Rexd::spawn(command)
}

/// Runs a line under a profile; whether it succeeded, and its output.
fn run<C: Carrier>(client: &mut Client<C>, session: &Value, profile: &str, line: &str) -> (bool, String) {
    let params = json!({ "session_id": session, "argv": ["sh", "-c", line], "sandbox": profile });
    let started = client.call("exec.start", params);
    let finished = client.finish(started["process_id"].as_str().unwrap());
    let output = format!("{}{}", finished.text(), String::from_utf8_lossy(&finished.stderr));
    (finished.exit["exit_code"] == 0, output)
}

/// Starts a detached command under the profile `open`, which runs a line when it is released. It is confined when this
/// returns.
fn start_waiting<C: Carrier>(sandbox: &Sandbox, client: &mut Client<C>, session: &Value, line: &str) {
    rustix::fs::mkfifoat(rustix::fs::CWD, sandbox.path("root/go"), Mode::from_raw_mode(0o600)).unwrap();
    let line = format!("read go < $ROOT/go; {{ {line}\n}} > $ROOT/draft 2>&1; mv $ROOT/draft $ROOT/answer");
    let argv = ["sh", "-c", &sandbox.expand(&line)];
    let params = json!({ "session_id": session, "argv": argv, "sandbox": "open", "detach": true });
    client.call("exec.start", params);
}

/// Releases the command of [`start_waiting`] and returns the output of its line.
fn release(sandbox: &Sandbox) -> String {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = || rustix::fs::open(sandbox.path("root/go"), flags, Mode::empty());
    let mut tries = Tries::within(PATIENCE, "reads from the FIFO");
    let fifo = loop {
        match open() {
            Ok(fifo) => break fifo,
            Err(_no_reader) => tries.again(),
        }
    };
    rustix::io::write(&fifo, b"go\n").unwrap();
    sandbox.appears("root/answer", Instant::now() + PATIENCE);
    sandbox.read("root/answer")
}

/// Connects to a socket, sends a request and prints the response; `closed` without one, `hidden` without a connection.
fn asks(socket: &str) -> String {
    let lines = [
        "import socket",
        "s = socket.socket(socket.AF_UNIX)",
        "s.settimeout(10)",
        "try:",
        &format!("    s.connect(\"{socket}\")"),
        "except OSError:",
        "    raise SystemExit(print(\"hidden\"))",
        "try:",
        "    s.sendall(b\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":1,\\\"method\\\":\\\"server.ping\\\",\\\"params\\\":{}}\\n\")",
        "    print(s.recv(4096).decode() or \"closed\")",
        "except OSError:",
        "    print(\"closed\")",
    ];
    format!("python3 - <<'PYTHON'\n{}\nPYTHON\n", lines.join("\n"))
}

#[test]
fn a_socket_of_the_service_manager_is_hidden() {
    let sandbox = Sandbox::with_config(OPEN);
    let (path, other) = (sandbox.path("passed"), sandbox.path("other"));
    let _other = UnixListener::bind(&other).unwrap();
    let log = Log::new();
    let mut command = sandbox.command("/usr/bin/systemd-socket-activate");
    command.arg("--listen").arg(&path);
    for name in ["HOME", "PATH", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TMPDIR"] {
        command.arg(format!("--setenv={name}"));
    }
    command.args([REXD, "serve", "--config"]).arg(sandbox.config());
    let mut child = command.stdout(Stdio::null()).stderr(log.stdio()).spawn().unwrap();
    let mut tries = Tries::within(PATIENCE, "listens");
    let carrier = loop {
        match Lines::connect(&path) {
            Ok(carrier) => break carrier,
            Err(_not_yet) => tries.again(),
        }
    };
    let mut client = Client::new(carrier, log);
    let session = json!(client.open());
    for (name, may) in [("other", true), ("passed", false)] {
        let line = sandbox.expand(&format!("test -S $DIR/{name}"));
        let (worked, output) = run(&mut client, &session, "open", &line);
        assert_eq!(worked, may, "{name}: {output}");
    }
    let (_, output) = run(&mut client, &session, "open", &asks(path.to_str().unwrap()));
    assert_eq!(output, "hidden\n");
    drop(client);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_socket_of_a_flag_is_hidden() {
    let sandbox = Sandbox::with_config(OPEN);
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut client = served.client(CarrierKind::Http);
    let session = json!(client.open());
    let socket = served.addresses.unix.to_str().unwrap();
    assert_eq!(run(&mut client, &session, "open", &asks(socket)).1, "hidden\n");
}

#[test]
fn a_recreated_socket_answers_no_confined_command() {
    let sandbox = Sandbox::with_config(OPEN);
    let mut served = ServedDaemon::start(REXD, &sandbox);
    let mut client = served.client(CarrierKind::Unix);
    let session = json!(client.open());
    let socket = served.addresses.unix.to_str().unwrap().to_owned();
    start_waiting(&sandbox, &mut client, &session, &asks(&socket));
    drop(client);
    served.stop();
    let served = ServedDaemon::start(REXD, &sandbox);
    // The new socket is in a directory that other programs use, so that it is visible; the daemon rejects the caller.
    assert_eq!(release(&sandbox), "closed\n");
    sandbox.gains("audit.log", "is confined by a sandbox", Instant::now() + PATIENCE);
    let mut client = served.client(CarrierKind::Unix);
    assert!(client.call("server.ping", json!({}))["time"].is_string());
}

#[test]
fn a_directory_of_rexd_stays_hidden_whatever_is_created_in_it() {
    let sandbox = Sandbox::with_config(OPEN);
    let (runtime, token) = (sandbox.path("run/rexd"), sandbox.path("home/config/rexd/token"));
    std::fs::create_dir_all(&runtime).unwrap();
    sandbox.write("home/config/rexd/token", "first");
    sandbox.write("home/state/rexd/note", "first");
    let mut daemon =
        stdio(&sandbox, &[("XDG_RUNTIME_DIR", &sandbox.path("run")), ("REXD_TOKEN_FILE", &token)]);
    let session = json!(daemon.open());
    let line = "cat $DIR/home/config/rexd/token $DIR/home/state/rexd/note; ls $DIR/run/rexd; echo end";
    start_waiting(&sandbox, &mut daemon, &session, &format!("{line}; {}", asks("$DIR/run/rexd/rexd.sock")));
    let _later = UnixListener::bind(runtime.join("rexd.sock")).unwrap();
    for name in ["home/config/rexd/token", "home/state/rexd/note"] {
        let draft = sandbox.write(&format!("{name}.new"), "replaced");
        std::fs::rename(draft, sandbox.path(name)).unwrap();
    }
    let answer = release(&sandbox);
    assert!(answer.ends_with("end\nhidden\n"), "{answer}");
    assert!(!["first", "replaced", "rexd.sock\n"].iter().any(|text| answer.contains(text)), "{answer}");
}

#[test]
fn the_directory_of_the_configuration_stays_read_only_whatever_is_created_in_it() {
    let sandbox = Sandbox::new();
    let root = |path: &str| format!("[[security.allowed_roots]]\npath = \"{path}\"\n");
    let config = sandbox.expand(&(OPEN.to_owned() + &root("$ROOT") + &root("$DIR/home")));
    sandbox.write("home/config/rexd/config.toml", &config);
    let mut command = sandbox.command(REXD);
    command.arg("--stdio");
    let mut daemon = Rexd::spawn(command);
    let session = json!(daemon.open());
    let line =
        "cd $DIR/home/config/rexd; echo x >> config.toml; echo x > made; rm config.toml; ls; touch ../free";
    start_waiting(&sandbox, &mut daemon, &session, line);
    let draft = sandbox.write("home/config/rexd/draft", &config);
    std::fs::rename(draft, sandbox.path("home/config/rexd/config.toml")).unwrap();
    let answer = release(&sandbox);
    assert!(answer.ends_with("config.toml\n"), "{answer}");
    assert_eq!(sandbox.read("home/config/rexd/config.toml"), config);
    assert!(!sandbox.path("home/config/rexd/made").exists() && sandbox.path("home/config/free").exists());
}

#[test]
fn files_that_replace_those_of_the_daemon_are_protected_at_the_next_start() {
    let sandbox = Sandbox::new();
    for name in ["one", "two"] {
        sandbox.write(&format!("root/conf/{name}.toml"), sandbox.read("config.toml"));
        sandbox.write(name, name);
    }
    sandbox.link("root/conf/link.toml", "one.toml");
    sandbox.link("token", "one");
    let mut command = sandbox.command(REXD);
    command.args(["--stdio", "--config"]).arg(sandbox.path("root/conf/link.toml"));
    command.env("REXD_TOKEN_FILE", sandbox.path("token"));
    let mut daemon = Rexd::spawn(command);
    let session = json!(daemon.open());
    let mut may = |line: &str| run(&mut daemon, &session, "workspace-write", &sandbox.expand(line)).0;
    let replace = "cp $ROOT/conf/two.toml $ROOT/draft && mv -f $ROOT/draft $ROOT/conf/link.toml";
    assert!(may("cat $DIR/two"));
    for line in ["cat $DIR/one", "cat $DIR/token", "echo x >> $ROOT/conf/one.toml", replace] {
        assert!(!may(line), "{line}");
    }
    for (link, target) in [("root/conf/link.toml", "two.toml"), ("token", "two")] {
        symlink(target, sandbox.path("draft")).unwrap();
        std::fs::rename(sandbox.path("draft"), sandbox.path(link)).unwrap();
    }
    for line in ["cat $DIR/two", "cat $DIR/token", "echo x >> $ROOT/conf/two.toml", replace] {
        assert!(!may(line), "{line}");
    }
    assert!(may("cat $DIR/one && echo x > $ROOT/free"));
    // The file methods of a session under the profile are restricted in the same way.
    let opened = daemon.open_with(json!({ "sandbox": "workspace-write" }));
    let path = "conf/two.toml";
    let write = json!({ "session_id": opened["session_id"], "path": path, "content": "x" });
    assert_eq!(daemon.refused("fs.write", write)["code"], -32001);
}

#[test]
fn a_root_in_the_state_directory_shows_nothing_beside_it() {
    let root = "[[security.allowed_roots]]\npath = \"$DIR/home/state/rexd/home\"\n";
    let sandbox = Sandbox::with_config(root);
    std::fs::create_dir_all(sandbox.path("home/state/rexd/home")).unwrap();
    sandbox.write("home/state/rexd/token", "secret");
    let mut daemon = stdio(&sandbox, &[]);
    let session = json!(daemon.open());
    for profile in ["read-only", "workspace-write"] {
        let mut may = |line: &str| run(&mut daemon, &session, profile, &sandbox.expand(line)).0;
        assert!(!may("cat $DIR/home/state/rexd/token"), "{profile}");
        assert!(!may("cat ../token"), "{profile}");
        assert!(may("test $(ls -A ..) = home"), "{profile}");
        assert_eq!(may("echo x > made"), profile == "workspace-write");
        // The keepers of detached processes are beside it too.
        let params = json!({
            "session_id": session, "argv": ["sh", "-c", "pwd; ls ../keepers"], "sandbox": profile, "detach": true,
        });
        let started = daemon.call("exec.start", params);
        let finished = daemon.finish(started["process_id"].as_str().unwrap());
        assert_eq!(finished.text().trim(), sandbox.path("home/state/rexd/home").to_str().unwrap());
        assert_ne!(finished.exit["exit_code"], 0);
    }
}

#[test]
fn a_temporary_directory_is_private_although_its_name_is_taken() {
    let is_root = rustix::process::geteuid().is_root();
    let name = format!("rexd-{}", rustix::process::geteuid().as_raw());
    for kind in ["directory", "link", "file"] {
        let sandbox = Sandbox::new();
        let temp = sandbox.path("temp");
        let taken = temp.join(&name);
        std::fs::create_dir(&temp).unwrap();
        std::fs::set_permissions(&temp, PermissionsExt::from_mode(0o1777)).unwrap();
        match kind {
            "directory" => std::fs::create_dir(&taken).unwrap(),
            "link" => symlink(sandbox.outside(), &taken).unwrap(),
            _ => std::fs::write(&taken, "").unwrap(),
        }
        if is_root {
            std::os::unix::fs::lchown(&taken, Some(65534), Some(65534)).unwrap();
        }
        let used = |how: bool| {
            let mut daemon = stdio(&sandbox, &[("TMPDIR", &temp)]);
            let session = json!(daemon.open());
            let line = "echo x > $TMPDIR/made && echo $TMPDIR";
            let params = json!({
                "session_id": session, "argv": ["sh", "-c", line], "sandbox": "workspace-write", "detach": how,
            });
            let started = daemon.call("exec.start", params);
            let finished = daemon.finish(started["process_id"].as_str().unwrap());
            assert_eq!(finished.exit["exit_code"], 0, "{kind}: {finished:?}");
            let path = finished.text().trim().to_owned();
            daemon.call("session.close", json!({ "session_id": session }));
            let mut tries = Tries::within(PATIENCE, "removes the temporary directory");
            while Path::new(&path).exists() {
                tries.again();
            }
            Path::new(&path).parent().unwrap().to_owned()
        };
        let first = used(false);
        assert_ne!(first, taken, "{kind}");
        assert_eq!(first.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!([used(false), used(true)], [first.clone(), first], "{kind}: it is found again");
        assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 2, "{kind}");
        assert_eq!(std::fs::read_dir(sandbox.outside()).unwrap().count(), 1, "{kind}");
    }
}

#[test]
fn later_mounts_reach_no_running_command_and_prepared_sandboxes_hold_no_file_system() {
    if !rustix::process::geteuid().is_root() {
        // Only root can mount.
        return;
    }
    let sandbox = Sandbox::with_config(OPEN);
    let directory = sandbox.path("outside/mounted");
    std::fs::create_dir(&directory).unwrap();
    // Mounts of this namespace are shared, as those of a machine are.
    let mut command = sandbox.command("unshare");
    command.args(["-m", "--propagation", "shared", REXD, "--stdio", "--config"]).arg(sandbox.config());
    let mut daemon = Rexd::spawn(command);
    let session = json!(daemon.open());
    let beside = |daemon: &Rexd, words: &[&str]| {
        let pid = daemon.pid().to_string();
        let status = Command::new("nsenter").args(["-t", &pid, "-m", "--"]).args(words).status().unwrap();
        assert!(status.success(), "{words:?}");
    };
    let path = directory.to_str().unwrap();
    start_waiting(
        &sandbox,
        &mut daemon,
        &session,
        "chmod 700 $OUTSIDE/mounted; ls $OUTSIDE/mounted; echo end",
    );
    beside(&daemon, &["mount", "-t", "tmpfs", "-o", "mode=755", "none", path]);
    beside(&daemon, &["touch", &format!("{path}/later")]);
    let answer = release(&sandbox);
    assert!(answer.ends_with("end\n") && !answer.contains("later\n"), "{answer}");
    beside(&daemon, &["sh", "-c", &format!("test $(stat -c %a {path}) = 755")]);
    // A command that starts now sees the mount, but cannot change it.
    let line = sandbox.expand("ls $OUTSIDE/mounted && ! chmod 700 $OUTSIDE/mounted");
    let (worked, output) = run(&mut daemon, &session, "open", &line);
    assert!(worked && output.contains("later"), "{output}");
    // Its namespaces are kept for the next command, until the mounts change.
    let kept = |daemon: &Rexd| {
        let entries = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap();
        let links = entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("mnt:[")).count()
    };
    assert!(kept(&daemon) > 0);
    beside(&daemon, &["umount", path]);
    let mut tries = Tries::within(PATIENCE, "drops the namespaces");
    while kept(&daemon) > 0 {
        tries.again();
    }
}
