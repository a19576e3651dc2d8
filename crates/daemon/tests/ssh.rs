//! Through a real sshd: a whole session, and the cleanup after the client's ssh was killed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::time::Duration;

use serde_json::json;
use testkit::daemon::Rexd;
use testkit::proc;
use testkit::sandbox::Sandbox;
use testkit::sshd::Sshd;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");

/// Connects as agents do: the remote command replaces the login shell.
fn connect(sandbox: &Sandbox, sshd: &Sshd) -> Rexd {
    let state = sandbox.path("home/state");
    let remote = format!(
        "exec env XDG_STATE_HOME='{}' '{REXD}' '--stdio' '--config' '{}'",
        state.display(),
        sandbox.config().display()
    );
    Rexd::spawn(sshd.client(sandbox, &remote))
}

#[test]
fn a_session_over_ssh_is_a_session() {
    let sandbox = Sandbox::new();
    let sshd = Sshd::start(&sandbox);
    let mut rexd = connect(&sandbox, &sshd);
    let opened = rexd.open_with(json!({ "client_name": "ssh", "workspace_roots": [sandbox.root()] }));
    assert_eq!(opened["protocol"], "rexd/1");
    let session = opened["session_id"].as_str().unwrap().to_owned();

    let write = json!({ "session_id": session, "path": "note.txt", "content": "over the wire\n" });
    assert_eq!(rexd.call("fs.write", write)["created"], true);
    let read = rexd.call("fs.read", json!({ "session_id": session, "path": "note.txt" }));
    assert_eq!(read["content"], "over the wire\n");

    let ran = rexd.run(json!({ "session_id": session, "argv": ["tr", "a-z", "A-Z"], "stdin": "shout\n" }));
    assert_eq!((ran.text(), &ran.exit["exit_code"]), ("SHOUT\n", &json!(0)));
    let flood = rexd.run(json!({ "session_id": session, "shell": true, "command": "seq 1 100000; exit 3" }));
    assert_eq!((flood.stdout.len(), &flood.exit["exit_code"]), (588_895, &json!(3)));

    let terminal =
        rexd.call("pty.open", json!({ "session_id": session, "argv": ["sh"], "cols": 90, "rows": 30 }));
    let process = terminal["process_id"].as_str().unwrap().to_owned();
    let typed = json!({ "session_id": session, "pty_id": terminal["pty_id"], "data": "stty size; exit 5\r" });
    rexd.call("pty.input", typed);
    let ended = rexd.finish(&process);
    assert!(ended.text().contains("30 90"), "{:?}", ended.text());
    assert_eq!(ended.exit["exit_code"], 5);

    assert_eq!(rexd.call("session.close", json!({ "session_id": session }))["ok"], true);
    let (status, rest) = rexd.end();
    assert_eq!((status.code(), rest), (Some(0), vec![]), "ssh ends with the daemon's status");
}

#[test]
fn when_the_local_ssh_is_killed_the_remote_tree_is_gone_within_a_second() {
    let sandbox = Sandbox::new();
    let sshd = Sshd::start(&sandbox);
    let mut rexd = connect(&sandbox, &sshd);
    let session = rexd.open();
    let mark = format!("REXD_SSH_TEST={}", sandbox.root().display());
    let (name, value) = mark.split_once('=').unwrap();
    // A leader, a child, one that left its session, and a terminal; none of them ends by itself.
    let line = "trap '' TERM HUP; sleep 1000 & one=$!; setsid sleep 1000 & echo $PPID $$ $one $!; wait";
    let process =
        rexd.begin(json!({ "session_id": session, "shell": true, "command": line, "env": { name: value } }));
    let mut said = rexd.until(&process, "\n");
    let line = "sleep 1000 & echo $$ $!; wait";
    let open = json!({ "session_id": session, "argv": ["sh", "-c", line], "env": { name: value } });
    let terminal = rexd.call("pty.open", open)["process_id"].as_str().unwrap().to_owned();
    said += &rexd.until(&terminal, "\n");

    let pids: Vec<i32> = said.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let watched: Vec<proc::ProcessWatch> = pids.iter().copied().map(proc::watch).collect();
    assert_eq!(watched.len(), 6, "the daemon, three and two");
    let daemon = pids[0];
    assert_ne!(daemon, rexd.pid(), "the daemon is behind sshd, the client's child is ssh");
    rexd.signal(rustix::process::Signal::KILL);
    let alive = proc::survivors(&watched, Duration::from_secs(30));
    assert!(alive.is_empty(), "{alive:?} outlived the connection; the daemon was {daemon}");
    assert_eq!(proc::marked(&mark), Vec::<i32>::new(), "nobody was started meanwhile");
}
