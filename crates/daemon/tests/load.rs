//! Ten thousand commands over one connection: no output is lost, and no process or file is left. Many watches share one
//! inotify instance.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;
use testkit::daemon::{Rexd, data};
use testkit::proc;
use testkit::sandbox::Sandbox;
use testkit::tries::Tries;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
const COMMANDS: usize = 10_000;
const IN_FLIGHT: usize = 64;
/// Enough for the daemon to reach the size it keeps: its pools are full, and it remembers as many finished
/// processes as it ever will.
const WARM_UP: usize = 1_500;
/// Descriptors that may be more after the run: cgroups are made eight at a time, with two descriptors each.
const SPARE_DESCRIPTORS: usize = 16;
const GROWTH: u64 = 6 * 1024 * 1024;

#[derive(Default)]
struct Running {
    number: usize,
    output: Vec<u8>,
}

/// Runs commands with so many in flight, and checks each one's response, output and exit.
fn run_commands(rexd: &mut Rexd, session: &str, count: usize) {
    let mut sent = 0;
    let mut done = 0;
    let mut asked: HashMap<u64, usize> = HashMap::new();
    let mut running: HashMap<String, Running> = HashMap::new();
    while done < count {
        while sent < count && asked.len() + running.len() < IN_FLIGHT {
            let argv = ["echo", "number", &sent.to_string(), "says grüß Gott"];
            let id = rexd.request("exec.start", json!({ "session_id": session, "argv": argv, "stdin": "" }));
            asked.insert(id, sent);
            sent += 1;
        }
        let message = rexd.receive().expect("more");
        if let Some(id) = message["id"].as_u64() {
            let number = asked.remove(&id).unwrap_or_else(|| panic!("a second answer to {id}: {message}"));
            let process = message["result"]["process_id"].as_str().unwrap_or_else(|| panic!("{message}"));
            let before = running.insert(process.to_owned(), Running { number, output: Vec::new() });
            assert!(before.is_none(), "two processes called {process}");
            continue;
        }
        let params = &message["params"];
        let process = params["process_id"].as_str().unwrap();
        match message["method"].as_str() {
            Some("exec.stdout") => running.get_mut(process).unwrap().output.extend(data(params)),
            Some("exec.exit") => {
                let ended = running.remove(process).unwrap();
                let expected = format!("number {} says grüß Gott\n", ended.number);
                assert_eq!(String::from_utf8_lossy(&ended.output), expected);
                assert_eq!((&params["exit_code"], &params["signal"]), (&json!(0), &json!(null)), "{params}");
                assert_eq!(params["bytes_stdout"], expected.len(), "{params}");
                done += 1;
            }
            other => panic!("unexpected {other:?}: {message}"),
        }
    }
    assert!(asked.is_empty() && running.is_empty());
}

#[test]
fn ten_thousand_commands_lose_nothing_and_leave_nothing() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    run_commands(&mut rexd, &session, WARM_UP);
    let (descriptors, held) = (proc::descriptors(rexd.pid()), proc::held_bytes(rexd.pid()));
    run_commands(&mut rexd, &session, COMMANDS);

    let info = rexd.call("session.info", json!({ "session_id": session }));
    assert_eq!(info["running_processes"], 0, "{info}");
    let children = proc::children(rexd.pid()).into_iter();
    let left: Vec<(i32, Option<char>)> = children
        .filter(|pid| proc::name(*pid) != proc::GUARDIAN)
        .map(|pid| (pid, proc::state(pid)))
        .collect();
    assert!(left.is_empty(), "children are left: {left:?}");
    let now = proc::descriptors(rexd.pid());
    let names = proc::descriptor_names(rexd.pid());
    assert!(now <= descriptors + SPARE_DESCRIPTORS, "{descriptors} descriptors became {now}: {names:#?}");
    let grown = proc::held_bytes(rexd.pid());
    assert!(grown <= held + GROWTH, "{held} bytes held became {grown}");
    let (status, rest) = rexd.end();
    assert_eq!((status.code(), rest.len()), (Some(0), 0), "{rest:?}");
}

#[test]
fn a_closed_session_returns_the_memory_of_its_commands() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start_open(REXD, &sandbox);
    let session = rexd.open();
    run_commands(&mut rexd, &session, 1_000);
    // A finished command that its session retains has about 5 KiB.
    let retained = proc::held_bytes(rexd.pid());
    rexd.call("session.close", json!({ "session_id": session }));
    let mut tries = Tries::within(Duration::from_secs(60), "the memory is returned");
    while proc::held_bytes(rexd.pid()) + 1024 * 1024 > retained {
        tries.again();
    }
}

/// The inotify instances of a process: a user has 128 by default.
fn inotify_instances(pid: i32) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    links.filter(|link| link.to_str() == Some("anon_inode:inotify")).count()
}

#[test]
fn two_hundred_watches_of_a_session_share_one_inotify_instance() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    assert_eq!(inotify_instances(rexd.pid()), 0);
    let mut watches = Vec::new();
    for number in 0..200 {
        let name = format!("d{number}");
        std::fs::create_dir(sandbox.root().join(&name)).unwrap();
        let answer = rexd.call("fs.watch", json!({ "session_id": session, "path": name }));
        watches.push(answer["watch_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(inotify_instances(rexd.pid()), 1);
    for number in [0, 137, 199] {
        std::fs::write(sandbox.root().join(format!("d{number}/file")), "x").unwrap();
        let event = rexd.take("fs.changed", |message| message["method"] == "fs.changed");
        let (watch, path) = (&event["params"]["watch_id"], &event["params"]["changes"][0]["path"]);
        assert_eq!(watch, &watches[number], "{event}");
        assert!(path.as_str().unwrap().ends_with(&format!("d{number}/file")), "{event}");
    }
    for watch in watches {
        rexd.call("fs.unwatch", json!({ "session_id": session, "watch_id": watch }));
    }
    // The thread of the watches holds it until it has ended.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while inotify_instances(rexd.pid()) > 0 {
        assert!(std::time::Instant::now() < deadline, "no watch is left");
        std::thread::yield_now();
    }
}
