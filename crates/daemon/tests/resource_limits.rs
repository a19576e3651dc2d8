//! Commands that use up processes, memory, disk and output are limited, and other commands are not affected.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::time::Duration;

use engine::process::limits::{Controllers, gaps};
use engine::sandbox::ResourceLimits;
use serde_json::{Value, json};
use testkit::client::AnyClient;
use testkit::proc;
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon};

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
const PROCESSES: usize = 32;
const MEMORY: u64 = 64 * 1024 * 1024;
const FILE: u64 = 1024 * 1024;
/// Doubles six times and leaves a sleeper each time: where nothing held it, it would end at about 250 processes.
const BOMB: &str = "bomb() { sleep 1000 & if [ $1 -gt 0 ]; then bomb $(($1-1)) & bomb $(($1-1)) & fi; wait; }; \
                    bomb 6 & echo lit; exec sleep 1000";
/// Has to keep one line of so many bytes, and no more.
const MEMORY_HOG: &str = "head -c 300000000 /dev/zero | tail -n 1 > /dev/null";
const DISK_FILLER: &str = "exec head -c 50000000 /dev/zero > full";

fn config() -> String {
    format!(
        "[[sandbox.profiles]]\nname = \"tight\"\nwrite_roots = true\n\
         [sandbox.profiles.limits]\nprocesses = {PROCESSES}\nmemory_bytes = {MEMORY}\nfile_bytes = {FILE}\n"
    )
}

/// Whether this machine can hold the whole of a tree. Where not, the daemon refuses the profile, and says so.
fn are_held() -> bool {
    let limits = ResourceLimits {
        processes: Some(PROCESSES as u64),
        memory_bytes: Some(MEMORY),
        ..ResourceLimits::default()
    };
    gaps(&limits, Controllers::probe()).is_empty()
}

/// Where the limits cannot be held, a session that wants them is told so.
fn the_gap_is_reported() {
    let sandbox = Sandbox::with_config(&config());
    let served = ServedDaemon::start(REXD, &sandbox);
    let opened = served.client(CarrierKind::Unix).open_with(json!({ "sandbox": "tight" }));
    assert!(opened["sandbox"]["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty()), "{opened}");
}

/// A client whose commands are confined, or are not.
fn connect(served: &ServedDaemon, root: &std::path::Path, sandbox: &str) -> (AnyClient, String) {
    let mut client = served.client(CarrierKind::Unix);
    let opened = client.open_with(json!({ "client_name": "hogs", "sandbox": sandbox, "cwd": root }));
    let session = opened["session_id"].as_str().unwrap().to_owned();
    (client, session)
}

fn start(session: &str, line: &str, more: &Value) -> Value {
    let mut params = json!({ "session_id": session, "argv": ["sh", "-c", line], "stdin": "" });
    let (all, more) = (params.as_object_mut().unwrap(), more.as_object().unwrap());
    all.extend(more.clone());
    params
}

/// Commands of somebody else, one after the other; every one succeeds.
fn work_beside(client: &mut AnyClient, session: &str, count: usize, mut look: impl FnMut()) {
    for number in 0..count {
        look();
        let line = format!("echo {number}; cat /proc/self/stat > /dev/null; echo $(echo nested)");
        let done = client.run(start(session, &line, &json!({})));
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert_eq!((said, &done.exit["exit_code"]), (format!("{number}\nnested\n"), &json!(0)), "{done:?}");
    }
}

#[test]
fn hogs_are_held_while_every_command_of_a_neighbour_succeeds() {
    if !are_held() {
        return the_gap_is_reported();
    }
    let sandbox = Sandbox::with_config(&config());
    let mut served = ServedDaemon::start(REXD, &sandbox);
    let root = sandbox.root();
    let (mut hog, hogs) = connect(&served, &root, "tight");
    let (mut neighbour, beside) = connect(&served, &root, "off");
    // Harmless first: if this does not run into the limit, nothing else is tried.
    let probe = "for i in $(seq 50); do sleep 20 & done; echo all";
    let probed = hog.run(start(&hogs, probe, &json!({})));
    assert_ne!(probed.exit["exit_code"], 0, "the limit does not hold: {probed:?}");
    assert!(!String::from_utf8_lossy(&probed.stdout).contains("all"));

    let mark = format!("REXD_HOG={}", root.display());
    let marked = json!({ "env": { "REXD_HOG": root } });
    let bomb = hog.begin(start(&hogs, BOMB, &marked));
    hog.until(&bomb, "lit");
    let memory = hog.begin(start(&hogs, MEMORY_HOG, &json!({})));
    let disk = hog.begin(start(&hogs, DISK_FILLER, &json!({ "cwd": root })));
    let flood = hog.begin(start(&hogs, "yes", &json!({ "max_output_bytes": 100_000 })));
    let mut most = 0;
    work_beside(&mut neighbour, &beside, 40, || most = most.max(proc::marked(&mark).len()));
    assert!((8..=PROCESSES).contains(&most), "{most} processes of the bomb");
    let memory = hog.finish(&memory);
    assert_eq!(memory.exit["reason"], "memory_limit", "{memory:?}");
    let disk = hog.finish(&disk);
    assert_eq!((&disk.exit["signal"], &disk.exit["reason"]), (&json!("XFSZ"), &Value::Null), "{disk:?}");
    assert_eq!(std::fs::metadata(root.join("full")).unwrap().len(), FILE);
    let flood = hog.finish(&flood);
    assert_eq!((flood.stdout.len(), &flood.exit["output_limit_exceeded"]), (100_000, &json!(true)));

    let ended = hog.call("exec.kill", json!({ "session_id": hogs, "process_id": bomb, "signal": "KILL" }));
    assert_eq!(ended["left"], json!([]), "{ended}");
    hog.event("exec.exit", &bomb);
    assert!(proc::survivors(&proc::watch_marked(&mark), Duration::ZERO).is_empty());
    assert_eq!(proc::marked(&mark), Vec::<i32>::new(), "something of the bomb is left");
    work_beside(&mut neighbour, &beside, 5, || {});
    served.stop();
}

#[test]
fn a_daemon_that_ends_takes_a_bomb_along() {
    if !are_held() {
        return the_gap_is_reported();
    }
    let sandbox = Sandbox::with_config(&config());
    let mut served = ServedDaemon::start(REXD, &sandbox);
    let root = sandbox.root();
    let (mut hog, session) = connect(&served, &root, "tight");
    let mark = format!("REXD_HOG={}", root.display());
    let bomb = hog.begin(start(&session, BOMB, &json!({ "env": { "REXD_HOG": root } })));
    hog.until(&bomb, "lit");
    let crowd = proc::watch_marked(&mark);
    served.stop();
    assert!(proc::survivors(&crowd, Duration::from_secs(30)).is_empty());
    assert_eq!(proc::marked(&mark), Vec::<i32>::new());
}
