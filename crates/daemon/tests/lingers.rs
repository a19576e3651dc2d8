//! `rexd --stdio` whose link was cut: it waits, and the next one brings the client back to it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod traveller;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::daemon::{CommandOutcome, PATIENCE, Rexd};
use testkit::proc;
use testkit::sandbox::Sandbox;
use testkit::sshd::Sshd;
use traveller::{REXD, Traveller, landing, local};

/// The last number that is counted to, and the bytes of all of them: more than any pipe holds.
const COUNT: usize = 300_000;

/// A sandbox in which large things may be said.
fn roomy() -> Sandbox {
    Sandbox::with_config("[limits]\nmax_output_bytes = 67108864\nmax_file_read_bytes = 67108864\n")
}

fn counted() -> Vec<u8> {
    (1..=COUNT).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

fn waits_for(path: &std::path::Path) {
    let mut tries = testkit::tries::Tries::within(PATIENCE, "a landing appears");
    while !path.exists() {
        tries.again();
    }
}

/// Counts, cut at these bytes of what the client has read. At each the client is gone the way `cut` says.
fn counting_survives(
    start: impl Fn() -> Command,
    cut: impl Fn(&mut Traveller<'_>),
) -> Vec<proc::ProcessWatch> {
    let expected = counted();
    let mut traveller = Traveller::open(start, json!({}));
    let script = format!("echo $PPID; seq 1 {COUNT}; exit 7");
    let process_id =
        traveller.call("exec.start", json!({ "argv": ["sh", "-c", script] }))["process_id"].clone();
    let mut finished =
        CommandOutcome { process_id: process_id.as_str().unwrap().to_owned(), ..CommandOutcome::default() };
    traveller.read_up_to(&mut finished, 1);
    let said = String::from_utf8_lossy(&finished.stdout).into_owned();
    let daemon = proc::watch(said.lines().next().unwrap().parse().unwrap());
    let skipped = said.find('\n').unwrap() + 1;
    for bytes in [0, 1, 100_000, 700_000, 1_400_000, expected.len() - 1] {
        let has_ended = traveller.read_up_to(&mut finished, skipped + bytes);
        assert!(!has_ended, "it ended after {} bytes", finished.stdout.len());
        cut(&mut traveller);
        traveller.come_back();
    }
    assert!(traveller.read_up_to(&mut finished, usize::MAX));
    assert!(finished.stdout[skipped..] == expected, "{} bytes", finished.stdout.len());
    assert_eq!(finished.exit["exit_code"], 7);
    // What was told may not have arrived: who comes back can ask for it again.
    cut(&mut traveller);
    traveller.connect();
    let mut params = traveller.resume();
    let last = params["last_event_id"].as_u64().unwrap();
    params["last_event_id"] = json!(last + 1);
    assert_eq!(traveller.client.refused("session.resume", params)["code"], -32602, "no such event yet");
    traveller.come_back();
    assert_eq!(traveller.call("exec.wait", json!({ "process_id": process_id }))["exit_code"], 7);
    traveller.close();
    vec![daemon]
}

#[test]
fn every_byte_comes_once_over_pipes_that_are_cut() {
    let sandbox = roomy();
    let daemons = counting_survives(|| local(&sandbox), |traveller| traveller.vanish());
    assert_eq!(proc::survivors(&daemons, PATIENCE), [0; 0]);
    let left: Vec<_> = std::fs::read_dir(sandbox.path("home/state/rexd/sessions")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let audit = sandbox.read("audit.log");
    let resumed = audit.lines().filter(|line| line.contains("\"session.resume\"")).collect::<Vec<_>>();
    assert_eq!(resumed.len(), 8, "seven times, and once in vain");
    for line in resumed {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&record["client_name"], &record["caller"]), (&json!("traveller"), &json!("stdio")));
        assert_eq!(record["session_id"], record["params"]["session_id"], "{record}");
    }
}

/// ARCHITECTURE.md, invariant 32.
#[test]
fn every_byte_comes_once_over_ssh_that_is_killed() {
    let sandbox = roomy();
    let sshd = Sshd::start(&sandbox);
    let remote = format!(
        "exec env XDG_STATE_HOME='{}' '{REXD}' --stdio --config '{}'",
        sandbox.path("home/state").display(),
        sandbox.config().display()
    );
    let daemons = counting_survives(|| sshd.client(&sandbox, &remote), |traveller| traveller.kill_link());
    assert_eq!(proc::survivors(&daemons, PATIENCE), [0; 0]);
}

#[test]
fn a_link_that_only_seems_to_live_is_taken_over_and_dropped() {
    let sandbox = roomy();
    let mut traveller = Traveller::open(|| local(&sandbox), json!({}));
    assert!(traveller.opened["capabilities"].as_array().unwrap().contains(&json!("resume")));
    let refused = traveller.resume();
    let refused = traveller.client.refused("session.resume", refused);
    assert_eq!((&refused["code"], &refused["data"]["retry"]), (&json!(-32006), &json!(true)), "its own link");
    // A flood that nobody reads: the old link is stuck in the middle of it.
    let process = traveller.call("exec.start", json!({ "argv": ["seq", "1", "2000000"] }));
    let process = process["process_id"].as_str().unwrap().to_owned();
    let mut first = Rexd::spawn(local(&sandbox));
    let mut params = traveller.resume();
    params["resume_token"] = json!("0".repeat(32));
    assert_eq!(first.refused("session.resume", params)["code"], -32001, "not without the token");
    assert_eq!(first.open().len(), 14, "who is not let in is served where it is");
    let resumed = first.refused("session.resume", traveller.resume());
    assert_eq!(resumed["code"], -32001, "only the first request is carried to another daemon");
    let mut second = Rexd::spawn(local(&sandbox));
    second.invariants.reconnected();
    assert_eq!(second.call("session.resume", traveller.resume())["lost"], 0);
    let finished = second.finish(&process);
    assert_eq!((finished.stdout.len(), &finished.exit["exit_code"]), (14_888_896, &json!(0)));
    // The old link ends, in the middle of a line perhaps.
    while traveller.client.try_take("the end of the old link", |_every| false).is_ok() {}
    assert!(!proc::watch(traveller.first()).has_ended(), "the daemon is the same");
    second.call("session.close", json!({ "session_id": traveller.session() }));
    let again = second.open();
    second.call("session.close", json!({ "session_id": again }));
    assert_eq!(second.end().0.code(), Some(0));
    assert!(proc::watch(traveller.first()).ends_before(Instant::now() + PATIENCE), "nobody is left");
}

/// ARCHITECTURE.md, invariant 32.
#[test]
fn a_session_that_nobody_comes_back_to_leaves_nobody() {
    let sandbox = Sandbox::with_config("[server]\nresume_ms = 300\n");
    let mut traveller = Traveller::open(|| local(&sandbox), json!({}));
    let line = "trap '' TERM HUP; sleep 1000 & setsid sleep 1000 & echo $PPID $$ $!; wait";
    let process = traveller.call("exec.start", json!({ "argv": ["sh", "-c", line] }));
    let said = traveller.client.until(process["process_id"].as_str().unwrap(), "\n");
    let watched: Vec<_> = said.split_whitespace().map(|pid| proc::watch(pid.parse().unwrap())).collect();
    let path = landing(&sandbox, &traveller.session());
    waits_for(&path);
    traveller.vanish();
    assert_eq!(proc::survivors(&watched, PATIENCE), [0; 0]);
    assert!(!path.exists());
    traveller.connect();
    let params = traveller.resume();
    assert_eq!(traveller.client.refused("session.resume", params)["code"], -32001);
}

#[test]
fn a_daemon_that_waits_holds_no_stream_and_ends_when_it_is_told_to() {
    let sandbox = Sandbox::new();
    let mut traveller = Traveller::open(|| local(&sandbox), json!({}));
    let process = traveller.call("exec.start", json!({ "argv": ["sh", "-c", "echo $$; exec sleep 1000"] }));
    let said = traveller.client.until(process["process_id"].as_str().unwrap(), "\n");
    let child = proc::watch(said.trim().parse().unwrap());
    // Only the input ends: whoever reads the output sees its end all the same.
    traveller.client.carrier.close_output();
    assert_eq!(traveller.client.rest(), Vec::<Value>::new());
    let daemon = traveller.first();
    let mut tries = testkit::tries::Tries::within(PATIENCE, "the streams are let go of");
    let name = |fd: i32| std::fs::read_link(format!("/proc/{daemon}/fd/{fd}")).unwrap();
    while (0..3).any(|fd| name(fd) != std::path::Path::new("/dev/null")) {
        tries.again();
    }
    assert!(!child.has_ended(), "its session waits");
    let path = landing(&sandbox, &traveller.session());
    waits_for(&path);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(daemon).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert_eq!(proc::survivors(&[child, proc::watch(daemon)], PATIENCE), [0; 0]);
    assert_eq!(traveller.last().wait().unwrap().code(), Some(0));
    assert!(!path.exists());
}

/// ARCHITECTURE.md, invariant 32.
#[test]
fn nobody_waits_for_a_session_in_which_nothing_has_happened() {
    let sandbox = Sandbox::new();
    sandbox.write("root/a.txt", "a\n");
    let mut traveller = Traveller::open(|| local(&sandbox), json!({}));
    // In flight when the input ends: it is answered, and then nothing is left.
    let params = traveller.with(json!({ "path": "a.txt" }));
    let read = traveller.client.request("fs.read", params);
    traveller.client.carrier.close_output();
    assert_eq!(traveller.client.response(read)["result"]["content"], "a\n");
    assert!(traveller.client.rest().is_empty());
    assert!(proc::watch(traveller.first()).ends_before(Instant::now() + PATIENCE));
    assert_eq!(traveller.last().wait().unwrap().code(), Some(0));
}

#[test]
fn a_daemon_that_was_killed_leaves_a_landing_that_leads_nowhere() {
    let sandbox = Sandbox::new();
    let mut traveller = Traveller::open(|| local(&sandbox), json!({}));
    let path = landing(&sandbox, &traveller.session());
    waits_for(&path);
    traveller.kill_link();
    traveller.last().wait().unwrap();
    assert!(path.exists());
    traveller.connect();
    let params = traveller.resume();
    assert_eq!(traveller.client.refused("session.resume", params)["code"], -32001);
    assert_eq!(traveller.client.open().len(), 14);
}

#[test]
fn large_messages_go_both_ways_and_the_sandbox_stays() {
    let sandbox = roomy();
    let mut traveller = Traveller::open(|| local(&sandbox), json!({ "sandbox": "workspace-write" }));
    let process = traveller.call("exec.start", json!({ "argv": ["cat"] }));
    traveller.vanish();
    let resumed = traveller.come_back();
    assert_eq!(resumed["sandbox"], traveller.opened["sandbox"]);
    let content = "0123456789abcde\n".repeat(256 * 1024);
    let written = traveller.call("fs.write", json!({ "path": "large", "content": content }));
    assert_eq!(written["bytes_written"], content.len());
    assert!(traveller.call("fs.read", json!({ "path": "large" }))["content"] == *content);
    let params = json!({ "process_id": process["process_id"], "data": content, "eof": true });
    traveller.call("exec.input", params);
    let echoed = traveller.client.finish(process["process_id"].as_str().unwrap());
    assert!(echoed.text() == content, "{} bytes", echoed.stdout.len());
    let outside = sandbox.outside().join("made");
    let params = traveller.with(json!({ "argv": ["touch", outside] }));
    let confined = traveller.client.run(params);
    assert_ne!(confined.exit["exit_code"], 0, "{confined:?}");
    assert!(!outside.exists());
    traveller.close();
}

#[test]
fn what_is_no_name_of_a_session_is_never_looked_for() {
    let sandbox = Sandbox::new();
    // So that there is a folder, and something beside it that hostile names lead to.
    drop(Traveller::open(|| local(&sandbox), json!({})));
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
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody came");
}

#[test]
fn whoever_finds_a_landing_gets_nothing_without_the_token() {
    let sandbox = Sandbox::new();
    let mut traveller = Traveller::open(|| local(&sandbox), json!({}));
    let path = landing(&sandbox, &traveller.session());
    waits_for(&path);
    let wrong = json!({ "session_id": traveller.session(), "resume_token": "0", "last_event_id": 0 });
    let other = json!({ "session_id": "s_000000000000", "resume_token": "0" });
    for (method, params) in [
        ("session.open", json!({})),
        ("exec.start", traveller.with(json!({ "argv": ["true"] }))),
        ("session.resume", wrong),
        ("session.resume", other),
        ("server.ping", json!({})),
    ] {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let open = json!({ "jsonrpc": "2.0", "id": 2, "method": "session.open", "params": {} });
        // It may be closed before all of this is written; what it said before that is read below.
        stream.write_all(format!("{line}\n{open}\n").as_bytes()).ok();
        let mut said = String::new();
        // Closed with what came later unread, it may end with a reset.
        stream.read_to_string(&mut said).ok();
        let answer: Value = serde_json::from_str(said.trim_end()).unwrap_or_else(|_| panic!("{said:?}"));
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(1), &json!(-32001)),
            "{method}: {said}"
        );
    }
    traveller.call("exec.list", json!({}));
    traveller.close();
}

#[test]
fn another_user_neither_serves_a_landing_nor_is_served_there() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let traveller = Traveller::open(|| local(&sandbox), json!({}));
    let path = landing(&sandbox, &traveller.session());
    waits_for(&path);
    let forged = landing(&sandbox, "s_0123456789ab");
    open_to_all(&path);
    let place = forged.clone();
    let stranger = move || {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let mut connection = UnixStream::connect(path).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server.ping\"}\n").ok();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).ok();
        (answer, std::os::unix::net::UnixListener::bind(place).unwrap())
    };
    let (answer, listener) = std::thread::spawn(stranger).join().unwrap();
    assert_eq!(answer, b"", "closed without a word");
    sandbox.gains("audit.log", "resume", Instant::now() + PATIENCE);
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(forged.parent().unwrap(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut rexd = Rexd::spawn(local(&sandbox));
    let params = json!({ "session_id": "s_0123456789ab", "resume_token": "secret", "last_event_id": 0 });
    assert_eq!(rexd.refused("session.resume", params)["code"], -32001);
    let mut heard = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"", "no token is shown to a stranger");
    traveller.close();
}

/// Lets everybody reach a socket, as if somebody had been careless with the folders.
fn open_to_all(socket: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mut path = socket.to_owned();
    while path.starts_with(std::env::temp_dir()) && path != std::env::temp_dir() {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        path.pop();
    }
}

#[test]
fn without_a_place_to_wait_sessions_end_with_their_streams() {
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
