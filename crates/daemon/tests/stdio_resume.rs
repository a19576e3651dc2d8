//! `rexd --stdio` after an interrupted connection: the daemon keeps the session, and the next process connects the client to it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod resuming_client;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use resuming_client::{REXD, ResumingClient, local, resume_socket};
use serde_json::{Value, json};
use testkit::daemon::{CommandOutcome, PATIENCE, Rexd};
use testkit::proc;
use testkit::sandbox::Sandbox;
use testkit::sshd::Sshd;

/// The last number of the output, which is larger than a pipe.
const COUNT: usize = 300_000;

/// A sandbox with high limits on output and reads.
fn with_high_limits() -> Sandbox {
    Sandbox::with_config("[limits]\nmax_output_bytes = 67108864\nmax_file_read_bytes = 67108864\n")
}

fn counted() -> Vec<u8> {
    (1..=COUNT).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

fn waits_for(path: &std::path::Path) {
    let mut tries = testkit::tries::Tries::within(PATIENCE, "a resume socket appears");
    while !path.exists() {
        tries.again();
    }
}

/// Runs a command that counts, interrupts the connection with `cut` at several positions of its output, and compares the
/// output.
fn check_interrupted_output(
    start: impl Fn() -> Command,
    cut: impl Fn(&mut ResumingClient<'_>),
) -> Vec<proc::ProcessWatch> {
    let expected = counted();
    let mut resuming = ResumingClient::open(start, json!({}));
    let script = format!("echo $PPID; seq 1 {COUNT}; exit 7");
    let process_id =
        resuming.call("exec.start", json!({ "argv": ["sh", "-c", script] }))["process_id"].clone();
    let mut finished =
        CommandOutcome { process_id: process_id.as_str().unwrap().to_owned(), ..CommandOutcome::default() };
    resuming.read_up_to(&mut finished, 1);
    let output = String::from_utf8_lossy(&finished.stdout).into_owned();
    let daemon = proc::watch(output.lines().next().unwrap().parse().unwrap());
    let skipped = output.find('\n').unwrap() + 1;
    for bytes in [0, 1, 100_000, 700_000, 1_400_000, expected.len() - 1] {
        let has_ended = resuming.read_up_to(&mut finished, skipped + bytes);
        assert!(!has_ended, "it ended after {} bytes", finished.stdout.len());
        cut(&mut resuming);
        resuming.reconnect();
    }
    assert!(resuming.read_up_to(&mut finished, usize::MAX));
    assert!(finished.stdout[skipped..] == expected, "{} bytes", finished.stdout.len());
    assert_eq!(finished.exit["exit_code"], 7);
    // Events that were sent may not have arrived: a client can request them again.
    cut(&mut resuming);
    resuming.connect();
    let mut params = resuming.resume();
    let last = params["last_event_id"].as_u64().unwrap();
    params["last_event_id"] = json!(last + 1);
    assert_eq!(resuming.client.refused("session.resume", params)["code"], -32602, "no such event yet");
    resuming.reconnect();
    assert_eq!(resuming.call("exec.wait", json!({ "process_id": process_id }))["exit_code"], 7);
    resuming.close();
    vec![daemon]
}

#[test]
fn every_byte_arrives_once_over_closed_pipes() {
    let sandbox = with_high_limits();
    let daemons = check_interrupted_output(|| local(&sandbox), |resuming| resuming.disconnect());
    assert_eq!(proc::survivors(&daemons, PATIENCE), [0; 0]);
    let left: Vec<_> = std::fs::read_dir(sandbox.path("home/state/rexd/sessions")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let audit = sandbox.read("audit.log");
    let resumed = audit.lines().filter(|line| line.contains("\"session.resume\"")).collect::<Vec<_>>();
    assert_eq!(resumed.len(), 8, "seven times, and once with an error");
    for line in resumed {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&record["client_name"], &record["caller"]), (&json!("resuming"), &json!("stdio")));
        assert_eq!(record["session_id"], record["params"]["session_id"], "{record}");
    }
}

/// ARCHITECTURE.md, invariant 32.
#[test]
fn every_byte_arrives_once_over_a_killed_ssh() {
    let sandbox = with_high_limits();
    let sshd = Sshd::start(&sandbox);
    let remote = remote_command(&sandbox, &sandbox.config());
    let daemons =
        check_interrupted_output(|| sshd.client(&sandbox, &remote), |resuming| resuming.kill_connection());
    assert_eq!(proc::survivors(&daemons, PATIENCE), [0; 0]);
}

fn remote_command(sandbox: &Sandbox, config: &std::path::Path) -> String {
    let state = sandbox.path("home/state");
    format!("exec env XDG_STATE_HOME='{}' '{REXD}' --stdio --config '{}'", state.display(), config.display())
}

/// Starts a command, kills ssh, and returns the daemon and the command.
fn start_and_kill_ssh(resuming: &mut ResumingClient<'_>) -> Vec<proc::ProcessWatch> {
    let line = "echo $PPID $$ .; exec sleep 1000";
    let process = resuming.call("exec.start", json!({ "argv": ["sh", "-c", line] }));
    let output = resuming.client.until(process["process_id"].as_str().unwrap(), ".");
    let watched = output.split_whitespace().filter_map(|pid| pid.parse().ok()).map(proc::watch).collect();
    resuming.kill_connection();
    watched
}

/// Of two sessions whose ssh was killed, the one with a short `resume_ms` ends, and the one with a long one, which has waited
/// longer, is still there.
///
/// ARCHITECTURE.md, invariant 32.
#[test]
fn a_session_over_ssh_waits_as_long_as_configured() {
    let sandbox = Sandbox::with_config("[server]\nresume_ms = 3600000\n");
    let long = sandbox.write("long.toml", std::fs::read_to_string(sandbox.config()).unwrap());
    let text = std::fs::read_to_string(&long).unwrap().replace("3600000", "300");
    let short = sandbox.write("short.toml", text);
    let sshd = Sshd::start(&sandbox);
    let (long, short) = (remote_command(&sandbox, &long), remote_command(&sandbox, &short));
    let mut kept = ResumingClient::open(|| sshd.client(&sandbox, &long), json!({}));
    let mut over = ResumingClient::open(|| sshd.client(&sandbox, &short), json!({}));
    let waiting = start_and_kill_ssh(&mut kept);
    let ending = start_and_kill_ssh(&mut over);
    assert_eq!(proc::survivors(&ending, PATIENCE), [0; 0]);
    over.connect();
    let params = over.resume();
    assert_eq!(over.client.refused("session.resume", params)["code"], -32001);
    assert!(waiting.iter().all(|process| !process.has_ended()), "the daemon and its command wait");
    kept.reconnect();
    let listed = kept.call("exec.list", json!({}))["processes"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    kept.call("exec.kill", json!({ "process_id": listed[0]["process_id"] }));
    kept.client.take("the exit", |message| message["method"] == "exec.exit");
    kept.close();
    assert_eq!(proc::survivors(&waiting, PATIENCE), [0; 0]);
}

#[test]
fn a_hanging_connection_loses_its_session_to_a_new_one() {
    let sandbox = with_high_limits();
    let mut resuming = ResumingClient::open(|| local(&sandbox), json!({}));
    assert!(resuming.opened["capabilities"].as_array().unwrap().contains(&json!("resume")));
    let refused = resuming.resume();
    let refused = resuming.client.refused("session.resume", refused);
    assert_eq!(
        (&refused["code"], &refused["data"]["retry"]),
        (&json!(-32006), &json!(true)),
        "its own connection"
    );
    // Output that the client does not read: the old connection is blocked by it.
    let process = resuming.call("exec.start", json!({ "argv": ["seq", "1", "2000000"] }));
    let process = process["process_id"].as_str().unwrap().to_owned();
    let mut first = Rexd::spawn(local(&sandbox));
    let mut params = resuming.resume();
    params["resume_token"] = json!("0".repeat(32));
    assert_eq!(first.refused("session.resume", params)["code"], -32001, "not without the token");
    assert_eq!(first.open().len(), 14, "a rejected client is served by its own daemon");
    let resumed = first.refused("session.resume", resuming.resume());
    assert_eq!(resumed["code"], -32001, "only the first request is forwarded to another daemon");
    let mut second = Rexd::spawn(local(&sandbox));
    second.invariants.reconnected();
    assert_eq!(second.call("session.resume", resuming.resume())["lost"], 0);
    let finished = second.finish(&process);
    assert_eq!((finished.stdout.len(), &finished.exit["exit_code"]), (14_888_896, &json!(0)));
    // The old connection ends, perhaps in the middle of a line.
    while resuming.client.try_take("the end of the old connection", |_every| false).is_ok() {}
    assert!(!proc::watch(resuming.first()).has_ended(), "the daemon is the same");
    second.call("session.close", json!({ "session_id": resuming.session() }));
    let again = second.open();
    second.call("session.close", json!({ "session_id": again }));
    assert_eq!(second.end().0.code(), Some(0));
    assert!(proc::watch(resuming.first()).ends_before(Instant::now() + PATIENCE), "no process is left");
}

/// ARCHITECTURE.md, invariant 32.
#[test]
fn a_session_that_is_not_resumed_leaves_no_process() {
    let sandbox = Sandbox::with_config("[server]\nresume_ms = 300\n");
    let mut resuming = ResumingClient::open(|| local(&sandbox), json!({}));
    let line = "trap '' TERM HUP; sleep 1000 & setsid sleep 1000 & echo $PPID $$ $!; wait";
    let process = resuming.call("exec.start", json!({ "argv": ["sh", "-c", line] }));
    let output = resuming.client.until(process["process_id"].as_str().unwrap(), "\n");
    let watched: Vec<_> = output.split_whitespace().map(|pid| proc::watch(pid.parse().unwrap())).collect();
    let path = resume_socket(&sandbox, &resuming.session());
    waits_for(&path);
    resuming.disconnect();
    assert_eq!(proc::survivors(&watched, PATIENCE), [0; 0]);
    assert!(!path.exists());
    resuming.connect();
    let params = resuming.resume();
    assert_eq!(resuming.client.refused("session.resume", params)["code"], -32001);
}

#[test]
fn a_waiting_daemon_has_closed_its_streams_and_ends_on_a_signal() {
    let sandbox = Sandbox::new();
    let mut resuming = ResumingClient::open(|| local(&sandbox), json!({}));
    let process = resuming.call("exec.start", json!({ "argv": ["sh", "-c", "echo $$; exec sleep 1000"] }));
    let output = resuming.client.until(process["process_id"].as_str().unwrap(), "\n");
    let child = proc::watch(output.trim().parse().unwrap());
    // Only the input ends: the output ends as well.
    resuming.client.carrier.close_output();
    assert_eq!(resuming.client.rest(), Vec::<Value>::new());
    let daemon = resuming.first();
    let mut tries = testkit::tries::Tries::within(PATIENCE, "the streams are closed");
    let name = |fd: i32| std::fs::read_link(format!("/proc/{daemon}/fd/{fd}")).unwrap();
    while (0..3).any(|fd| name(fd) != std::path::Path::new("/dev/null")) {
        tries.again();
    }
    assert!(!child.has_ended(), "its session is kept");
    let path = resume_socket(&sandbox, &resuming.session());
    waits_for(&path);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(daemon).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert_eq!(proc::survivors(&[child, proc::watch(daemon)], PATIENCE), [0; 0]);
    assert_eq!(resuming.last().wait().unwrap().code(), Some(0));
    assert!(!path.exists());
}

/// ARCHITECTURE.md, invariant 32.
#[test]
fn an_unused_session_is_not_kept() {
    let sandbox = Sandbox::new();
    sandbox.write("root/a.txt", "a\n");
    let mut resuming = ResumingClient::open(|| local(&sandbox), json!({}));
    // In flight when the input ends: it is answered, and then the session ends.
    let params = resuming.with(json!({ "path": "a.txt" }));
    let read = resuming.client.request("fs.read", params);
    resuming.client.carrier.close_output();
    assert_eq!(resuming.client.response(read)["result"]["content"], "a\n");
    assert!(resuming.client.rest().is_empty());
    assert!(proc::watch(resuming.first()).ends_before(Instant::now() + PATIENCE));
    assert_eq!(resuming.last().wait().unwrap().code(), Some(0));
}

#[test]
fn the_resume_socket_of_a_killed_daemon_is_ignored() {
    let sandbox = Sandbox::new();
    let mut resuming = ResumingClient::open(|| local(&sandbox), json!({}));
    let path = resume_socket(&sandbox, &resuming.session());
    waits_for(&path);
    resuming.kill_connection();
    resuming.last().wait().unwrap();
    assert!(path.exists());
    resuming.connect();
    let params = resuming.resume();
    assert_eq!(resuming.client.refused("session.resume", params)["code"], -32001);
    assert_eq!(resuming.client.open().len(), 14);
}

#[test]
fn large_messages_pass_both_ways_and_the_sandbox_is_preserved() {
    let sandbox = with_high_limits();
    let mut resuming = ResumingClient::open(|| local(&sandbox), json!({ "sandbox": "workspace-write" }));
    let process = resuming.call("exec.start", json!({ "argv": ["cat"] }));
    resuming.disconnect();
    let resumed = resuming.reconnect();
    assert_eq!(resumed["sandbox"], resuming.opened["sandbox"]);
    let content = "0123456789abcde\n".repeat(256 * 1024);
    let written = resuming.call("fs.write", json!({ "path": "large", "content": content }));
    assert_eq!(written["bytes_written"], content.len());
    assert!(resuming.call("fs.read", json!({ "path": "large" }))["content"] == *content);
    let params = json!({ "process_id": process["process_id"], "data": content, "eof": true });
    resuming.call("exec.input", params);
    let echoed = resuming.client.finish(process["process_id"].as_str().unwrap());
    assert!(echoed.text() == content, "{} bytes", echoed.stdout.len());
    let outside = sandbox.outside().join("made");
    let params = resuming.with(json!({ "argv": ["touch", outside] }));
    let confined = resuming.client.run(params);
    assert_ne!(confined.exit["exit_code"], 0, "{confined:?}");
    assert!(!outside.exists());
    resuming.close();
}

#[test]
fn an_invalid_session_id_is_not_used_as_a_path() {
    let sandbox = Sandbox::new();
    // Creates the directory of resume sockets; hostile ids lead to another socket beside it.
    drop(ResumingClient::open(|| local(&sandbox), json!({})));
    let beside = sandbox.path("home/state/rexd/evil.sock");
    let listener = std::os::unix::net::UnixListener::bind(&beside).unwrap();
    listener.set_nonblocking(true).unwrap();
    let long = format!("s_{}", "0".repeat(4_000));
    for hostile in
        ["../evil", "../../x", "s_../../evil", "s_0123456789a\0", "s_0123456789AB", "evil", "", "/", &long]
    {
        let mut rexd = Rexd::spawn(local(&sandbox));
        let params = json!({ "session_id": hostile, "resume_token": "x", "last_event_id": 0 });
        assert_eq!(rexd.refused("session.resume", params)["code"], -32001, "{hostile:?}");
        assert_eq!(rexd.end().0.code(), Some(0));
    }
    assert_eq!(
        listener.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "no connection was made"
    );
}

#[test]
fn a_resume_socket_serves_nothing_without_the_token() {
    let sandbox = Sandbox::new();
    let mut resuming = ResumingClient::open(|| local(&sandbox), json!({}));
    let path = resume_socket(&sandbox, &resuming.session());
    waits_for(&path);
    let wrong = json!({ "session_id": resuming.session(), "resume_token": "0", "last_event_id": 0 });
    let other = json!({ "session_id": "s_000000000000", "resume_token": "0" });
    for (method, params) in [
        ("session.open", json!({})),
        ("exec.start", resuming.with(json!({ "argv": ["true"] }))),
        ("session.resume", wrong),
        ("session.resume", other),
        ("server.ping", json!({})),
    ] {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let open = json!({ "jsonrpc": "2.0", "id": 2, "method": "session.open", "params": {} });
        // It may be closed before everything is written; the response is read below.
        stream.write_all(format!("{line}\n{open}\n").as_bytes()).ok();
        let mut response = String::new();
        // It may end with a reset, because the second line is not read.
        stream.read_to_string(&mut response).ok();
        let answer: Value =
            serde_json::from_str(response.trim_end()).unwrap_or_else(|_| panic!("{response:?}"));
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(1), &json!(-32001)),
            "{method}: {response}"
        );
    }
    resuming.call("exec.list", json!({}));
    resuming.close();
}

#[test]
fn another_user_can_neither_use_nor_provide_a_resume_socket() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let resuming = ResumingClient::open(|| local(&sandbox), json!({}));
    let path = resume_socket(&sandbox, &resuming.session());
    waits_for(&path);
    let forged = resume_socket(&sandbox, "s_0123456789ab");
    open_to_all(&path);
    let forged_path = forged.clone();
    let other_user = move || {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let mut connection = UnixStream::connect(path).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server.ping\"}\n").ok();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).ok();
        (answer, std::os::unix::net::UnixListener::bind(forged_path).unwrap())
    };
    let (answer, listener) = std::thread::spawn(other_user).join().unwrap();
    assert_eq!(answer, b"", "closed without a response");
    sandbox.gains("audit.log", "resume", Instant::now() + PATIENCE);
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(forged.parent().unwrap(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut rexd = Rexd::spawn(local(&sandbox));
    let params = json!({ "session_id": "s_0123456789ab", "resume_token": "secret", "last_event_id": 0 });
    assert_eq!(rexd.refused("session.resume", params)["code"], -32001);
    let mut received = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
    assert_eq!(received, b"", "no token is sent to another user");
    resuming.close();
}

/// Makes a socket accessible to all users.
fn open_to_all(socket: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mut path = socket.to_owned();
    while path.starts_with(std::env::temp_dir()) && path != std::env::temp_dir() {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        path.pop();
    }
}

#[test]
fn without_a_state_directory_sessions_end_with_their_streams() {
    let sandbox = Sandbox::new();
    sandbox.write("file", "");
    let mut command = local(&sandbox);
    command.env("XDG_STATE_HOME", sandbox.path("file"));
    let mut rexd = Rexd::spawn(command);
    let opened = rexd.open_with(json!({ "resume": true }));
    assert!(opened.get("resume_token").is_none(), "{opened}");
    assert!(!opened["capabilities"].as_array().unwrap().contains(&json!("resume")));
    let process = rexd.begin(json!({ "session_id": opened["session_id"], "argv": ["sleep", "1000"] }));
    rexd.close_input();
    assert_eq!(rexd.finish(&process).exit["signal"], "TERM");
    assert!(proc::watch(rexd.pid()).ends_before(Instant::now() + Duration::from_secs(20)));
}
