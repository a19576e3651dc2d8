//! Abrupt ends of the daemon or its client: no started process is left.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use serde_json::json;
use testkit::daemon::Rexd;
use testkit::proc::{self, ProcessWatch};
use testkit::sandbox::Sandbox;
use testkit::tries::Tries;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
/// Ways to hold a tree together; the second is for machines without cgroups.
const CONTAINMENTS: [Option<&str>; 2] = [None, Some("marks")];

/// Starts processes that never end by themselves, terminals among them, and returns all that belong to them.
fn start_processes(rexd: &mut Rexd, session: &str, mark: &str) -> Vec<ProcessWatch> {
    let (name, value) = mark.split_once('=').unwrap();
    let line = "trap '' TERM HUP INT; (setsid sh -c 'echo away $$ .; exec sleep 1000' &); \
                echo leader $$ .; exec sleep 1000";
    let mut started = Vec::new();
    for number in 0..20 {
        let params = json!({ "session_id": session, "argv": ["sh", "-c", line], "env": { name: value } });
        let method = if number % 5 == 0 { "pty.open" } else { "exec.start" };
        started.push(rexd.call(method, params)["process_id"].as_str().unwrap().to_owned());
    }
    let mut crowd = Vec::new();
    for process in &started {
        let mut said = String::new();
        while said.matches(" .").count() < 2 {
            said += &rexd.until(process, ".");
        }
        crowd.extend(said.split_whitespace().filter_map(|word| word.parse().ok()).map(proc::watch));
    }
    assert_eq!(crowd.len(), 40, "two of each");
    crowd
}

/// Starts a crowd, ends the daemon in some way, and expects exit status 0 and nobody left.
fn an_ending(containment: Option<&str>, name: &str, end: impl FnOnce(&mut Rexd)) {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(REXD);
    command.arg("--stdio").arg("--root").arg(sandbox.root());
    command.envs(containment.map(|value| ("REXD_CONTAINMENT", value)));
    let mut rexd = Rexd::spawn(command);
    let session = rexd.open();
    let mark = format!("REXD_CROWD={}", sandbox.root().display());
    let crowd = start_processes(&mut rexd, &session, &mark);
    let guardian = proc::guardian(rexd.pid());
    end(&mut rexd);
    let status = rexd.wait();
    assert_eq!(status.code(), Some(0), "{name} ({containment:?}): {status}; {}", rexd.log());
    // A daemon that is too slow on a busy machine leaves the rest to its guardian.
    let alive = proc::survivors(&crowd, Duration::from_secs(60));
    assert!(alive.is_empty(), "{name} ({containment:?}): {alive:?} outlived the daemon");
    assert_eq!(proc::marked(&mark), Vec::<i32>::new(), "{name} ({containment:?})");
    // The daemon waits for it only for a moment.
    let has_ended = guardian.ends_before(Instant::now() + Duration::from_secs(60));
    assert!(has_ended, "{name} ({containment:?}): the guardian is left");
}

/// ARCHITECTURE.md, invariant 32.
#[test]
fn a_client_that_closes_its_end_takes_every_tree_along() {
    for containment in CONTAINMENTS {
        an_ending(containment, "end of input", Rexd::close_input);
    }
}

#[test]
fn a_client_that_stops_listening_takes_every_tree_along() {
    for containment in CONTAINMENTS {
        an_ending(containment, "closed output", |rexd| {
            rexd.close_output();
            // The daemon learns of it when it says something.
            rexd.send(r#"{"jsonrpc":"2.0","id":"last","method":"server.ping"}"#);
        });
    }
}

#[test]
fn a_client_that_closes_its_input_is_noticed_before_the_next_event() {
    an_ending(None, "closed output, in silence", Rexd::close_output);
}

#[test]
fn signals_end_the_daemon_well_and_take_every_tree_along() {
    for containment in CONTAINMENTS {
        for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
            an_ending(containment, &format!("{signal:?}"), |rexd| rexd.signal(signal));
        }
    }
}

/// A daemon with a crowd of double-forked processes, and its guardian.
fn crowd(containment: Option<&str>, sandbox: &Sandbox) -> (Rexd, Vec<ProcessWatch>, ProcessWatch) {
    let mut command = sandbox.command(REXD);
    command.arg("--stdio").arg("--root").arg(sandbox.root());
    command.envs(containment.map(|value| ("REXD_CONTAINMENT", value)));
    let mut rexd = Rexd::spawn(command);
    let session = rexd.open();
    let mark = format!("REXD_CROWD={}", sandbox.root().display());
    let crowd = start_processes(&mut rexd, &session, &mark);
    let guardian = proc::guardian(rexd.pid());
    (rexd, crowd, guardian)
}

/// Kills the daemon; no process of its commands is left, and neither is the guardian.
fn kill(mut rexd: Rexd, containment: Option<&str>, crowd: &[ProcessWatch], guardian: &ProcessWatch) {
    rexd.signal(Signal::KILL);
    rexd.wait();
    let alive = proc::survivors(crowd, Duration::from_secs(60));
    assert!(alive.is_empty(), "{alive:?} outlived a daemon that was killed ({containment:?})");
    assert!(guardian.ends_before(Instant::now() + Duration::from_secs(60)), "the guardian is left");
}

/// ARCHITECTURE.md, invariant 7.
#[test]
fn a_daemon_that_is_killed_takes_every_tree_along() {
    for containment in CONTAINMENTS {
        let sandbox = Sandbox::new();
        let (rexd, crowd, guardian) = crowd(containment, &sandbox);
        kill(rexd, containment, &crowd, &guardian);
        let mark = format!("REXD_CROWD={}", sandbox.root().display());
        assert_eq!(proc::marked(&mark), Vec::<i32>::new(), "{containment:?}");
    }
}

#[test]
fn a_guardian_holds_nothing_of_the_daemon_and_ignores_signals() {
    let sandbox = Sandbox::new();
    let (rexd, crowd, guardian) = crowd(Some("marks"), &sandbox);
    // Its descriptors are those of its program once the exec is complete: then it has the name.
    assert_eq!(proc::descriptors(guardian.pid), 3, "{:?}", proc::descriptor_names(guardian.pid));
    assert!(proc::held_bytes(guardian.pid) < 2 << 20, "{} bytes", proc::held_bytes(guardian.pid));
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        rustix::process::kill_process(Pid::from_raw(guardian.pid).unwrap(), signal).unwrap();
    }
    kill(rexd, Some("marks"), &crowd, &guardian);
}

#[test]
fn a_guardian_that_is_killed_is_replaced() {
    let sandbox = Sandbox::new();
    let (rexd, crowd, first) = crowd(Some("marks"), &sandbox);
    rustix::process::kill_process(Pid::from_raw(first.pid).unwrap(), Signal::KILL).unwrap();
    assert!(first.ends_before(Instant::now() + Duration::from_secs(60)));
    let second = proc::guardian(rexd.pid());
    kill(rexd, Some("marks"), &crowd, &second);
}

/// Lets a daemon open nothing more, and returns its limit before.
fn starve(rexd: &Rexd) -> Rlimit {
    let limit = Rlimit { current: Some(3), maximum: getrlimit(Resource::Nofile).maximum };
    prlimit(Pid::from_raw(rexd.pid()), Resource::Nofile, limit).unwrap()
}

fn restore(rexd: &Rexd, limit: Rlimit) {
    prlimit(Pid::from_raw(rexd.pid()), Resource::Nofile, limit).unwrap();
}

#[test]
fn a_guardian_is_started_once_descriptors_are_free_again() {
    let sandbox = Sandbox::new();
    let (rexd, crowd, first) = crowd(Some("marks"), &sandbox);
    let before = starve(&rexd);
    rustix::process::kill_process(Pid::from_raw(first.pid).unwrap(), Signal::KILL).unwrap();
    let mut tries = Tries::within(Duration::from_secs(60), "the daemon reports that it has no guardian");
    while !rexd.log().contains("no guardian") {
        tries.again();
    }
    restore(&rexd, before);
    let second = proc::guardian(rexd.pid());
    kill(rexd, Some("marks"), &crowd, &second);
}

#[test]
fn a_session_that_is_closed_without_free_descriptors_leaves_nothing() {
    for containment in CONTAINMENTS {
        let sandbox = Sandbox::new();
        let mut command = sandbox.command(REXD);
        command.arg("--stdio").arg("--root").arg(sandbox.root());
        command.envs(containment.map(|value| ("REXD_CONTAINMENT", value)));
        let mut rexd = Rexd::spawn(command);
        let session = rexd.open();
        let mark = format!("REXD_CROWD={}", sandbox.root().display());
        let crowd = start_processes(&mut rexd, &session, &mark);
        let before = starve(&rexd);
        let close = json!({ "jsonrpc": "2.0", "id": "c", "method": "session.close", "params": { "session_id": session } });
        rexd.send(&close.to_string());
        // The session is being closed when later requests are answered.
        rexd.call("server.ping", json!({}));
        rexd.call("server.ping", json!({}));
        restore(&rexd, before);
        let alive = proc::survivors(&crowd, Duration::from_secs(60));
        assert!(alive.is_empty(), "{alive:?} outlived their session ({containment:?})");
        assert_eq!(proc::marked(&mark), Vec::<i32>::new(), "{containment:?}");
    }
}

#[test]
fn a_client_that_never_reads_and_leaves_is_no_reason_to_hang() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    let flood = rexd.begin(json!({ "session_id": session, "shell": true, "command": "echo $$ > pid; touch pid.ready; exec yes" }));
    sandbox.appears("root/pid.ready", Instant::now() + Duration::from_secs(60));
    let leader = proc::watch(sandbox.read("root/pid").trim().parse().unwrap());
    rexd.close_input();
    rexd.close_output();
    assert_eq!(rexd.wait().code(), Some(0), "{flood}");
    assert!(leader.ends_before(Instant::now() + Duration::from_secs(60)));
}

#[test]
fn a_signal_ends_every_tree_even_if_the_client_does_not_read_and_the_output_can_still_be_read() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    let process = rexd.begin(json!({ "session_id": session, "shell": true, "command": "echo $$ > pid; touch pid.ready; exec yes" }));
    sandbox.appears("root/pid.ready", Instant::now() + Duration::from_secs(60));
    let leader = proc::watch(sandbox.read("root/pid").trim().parse().unwrap());
    rexd.signal(Signal::TERM);
    assert!(leader.ends_before(Instant::now() + Duration::from_secs(60)), "it does not wait for a reader");
    let ended = rexd.finish(&process);
    assert_eq!(ended.exit["bytes_stdout"], ended.stdout.len());
    assert!(ended.stdout.chunks(2).all(|line| line == b"y\n"));
    assert_eq!(rexd.wait().code(), Some(0));
}

#[test]
fn a_peer_that_never_reads_cannot_keep_a_signalled_daemon_alive() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    rexd.begin(json!({ "session_id": session, "shell": true, "command": "touch ready; exec yes" }));
    sandbox.appears("root/ready", Instant::now() + Duration::from_secs(60));
    rexd.patience = Duration::from_secs(60);
    rexd.signal(Signal::TERM);
    assert_eq!(rexd.wait().code(), Some(0));
}

/// A profile that protects a path which does not exist.
const MISSING: &str = "[sandbox]\nprofile = \"build\"\n\
                       [[sandbox.profiles]]\nname = \"build\"\nwrite_roots = true\nprotect = [\"$ROOT/deep/kept\"]\n";

#[test]
fn a_killed_daemon_leaves_no_stand_in_of_a_protected_path() {
    for containment in CONTAINMENTS {
        let sandbox = Sandbox::with_config(MISSING);
        let mut command = sandbox.command(REXD);
        command.arg("--stdio").arg("--config").arg(sandbox.config());
        command.envs(containment.map(|value| ("REXD_CONTAINMENT", value)));
        let mut rexd = Rexd::spawn(command);
        let session = rexd.open();
        let line = "setsid sleep 1000 & echo ready; exec sleep 1000";
        let process = rexd.begin(json!({ "session_id": session, "argv": ["sh", "-c", line] }));
        rexd.until(&process, "ready");
        assert!(sandbox.root().join("deep/kept").is_dir(), "{containment:?}: {}", rexd.log());
        let guardian = proc::guardian(rexd.pid());
        rexd.signal(Signal::KILL);
        rexd.wait();
        assert!(guardian.ends_before(Instant::now() + Duration::from_secs(60)));
        assert!(!sandbox.root().join("deep").exists(), "{containment:?}: a stand-in is left");
        assert!(sandbox.root().is_dir());
    }
}

/// What another program has put into a stand-in stays.
#[test]
fn the_guardian_of_a_killed_daemon_removes_no_directory_with_files() {
    let sandbox = Sandbox::with_config(MISSING);
    let mut command = sandbox.command(REXD);
    command.arg("--stdio").arg("--config").arg(sandbox.config());
    let mut rexd = Rexd::spawn(command);
    let session = rexd.open();
    let process =
        rexd.begin(json!({ "session_id": session, "argv": ["sh", "-c", "echo ready; exec sleep 1000"] }));
    rexd.until(&process, "ready");
    let guardian = proc::guardian(rexd.pid());
    std::fs::write(sandbox.root().join("deep/kept/file"), "mine").unwrap();
    rexd.signal(Signal::KILL);
    rexd.wait();
    assert!(guardian.ends_before(Instant::now() + Duration::from_secs(60)));
    assert_eq!(std::fs::read_to_string(sandbox.root().join("deep/kept/file")).unwrap(), "mine");
}
