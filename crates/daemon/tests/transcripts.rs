//! Every transcript of REXD v1 over the real binary, and its audit records.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod transcript_audit;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::daemon::{Rexd, run};
use testkit::sandbox::Sandbox;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");

/// ARCHITECTURE.md, invariant 33.
#[test]
fn every_transcript_holds_over_stdio_and_its_audit_is_whole() {
    every_transcript_holds(None);
}

#[test]
fn every_transcript_holds_without_cgroups() {
    every_transcript_holds(Some("marks"));
}

fn every_transcript_holds(containment: Option<&str>) {
    transcript_audit::every_transcript_holds(
        "stdio",
        |_every| true,
        |sandbox| {
            let mut command = sandbox.command(REXD);
            command.arg("--stdio").arg("--config").arg(sandbox.config());
            command.envs(containment.map(|value| ("REXD_CONTAINMENT", value)));
            Rexd::spawn(command)
        },
    );
}

/// A daemon that did a few things and ended, for its audit.
fn some_audit() -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    rexd.call("fs.write", json!({ "session_id": session, "path": "a.txt", "content": "MARKER-content" }));
    rexd.run(json!({ "session_id": session, "argv": ["cat", "a.txt"] }));
    rexd.refused("fs.read", json!({ "session_id": session, "path": "/etc/shadow" }));
    assert_eq!(rexd.end().0.code(), Some(0));
    let path = sandbox.audit();
    (sandbox, path)
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn an_audit_record_has_caller_request_and_outcome() {
    let (_sandbox, path) = some_audit();
    let records: Vec<Value> = lines(&path).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |method: &str| records.iter().find(|record| record["method"] == method).unwrap();
    for record in &records {
        assert_eq!((&record["client_name"], &record["face"]), (&json!("test"), &json!("rexd")), "{record}");
        assert!(record["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{record}");
    }
    let start = of("exec.start");
    assert!(start["session_id"].as_str().is_some_and(|id| id.starts_with("s_")), "{start}");
    assert_eq!(start["params"]["argv"], json!(["cat", "a.txt"]), "{start}");
    assert_eq!(of("fs.write")["params"]["content"]["hidden_bytes"], 14, "{}", of("fs.write"));
    assert_eq!(of("fs.read")["error"]["code"], -32002, "{}", of("fs.read"));
    assert_eq!(of("exec.exit")["exit_code"], 0, "{}", of("exec.exit"));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "for its owner only");
}

#[test]
fn verify_accepts_what_the_daemon_wrote_and_nothing_else() {
    let (sandbox, path) = some_audit();
    let good = fs::read(&path).unwrap();
    let name = path.to_str().unwrap().to_owned();
    let accepts = || run(&sandbox, REXD, &["audit", "verify", &name]).code == Some(0);
    assert!(accepts(), "as it was written");
    let summary = daemon::observe::audit::verify(&path).unwrap();

    for at in 0..good.len() - 1 {
        let mut bad = good.clone();
        bad[at] ^= 0x04;
        fs::write(&path, &bad).unwrap();
        assert!(daemon::observe::audit::verify(&path).is_err(), "byte {at} was flipped and nobody noticed");
        // The binary says the same; a sample is enough, it is the same code.
        if at % 251 == 0 {
            assert!(!accepts(), "byte {at} was flipped and the command says ok");
        }
    }
    // Without its line end the last record is what a crash leaves: not accepted as a record, but said to be torn.
    let mut torn = good.clone();
    *torn.last_mut().unwrap() ^= 0x04;
    fs::write(&path, &torn).unwrap();
    let found = daemon::observe::audit::verify(&path).unwrap();
    assert!(found.torn_bytes > 0 && found.records == summary.records - 1, "{found:?}");

    let all: Vec<&[u8]> = good.split_inclusive(|byte| *byte == b'\n').collect();
    for at in 0..all.len() {
        let mut without = all.clone();
        without.remove(at);
        fs::write(&path, without.concat()).unwrap();
        match at + 1 == all.len() {
            false => assert!(!accepts(), "line {at} was deleted and nobody noticed"),
            // Cut off at the end, the chain is whole but shorter: its last hash is another one.
            true => assert_ne!(daemon::observe::audit::verify(&path).unwrap().last_hash, summary.last_hash),
        }
    }
    for at in 1..all.len() {
        let mut swapped = all.clone();
        swapped.swap(at - 1, at);
        fs::write(&path, swapped.concat()).unwrap();
        assert!(!accepts(), "lines {at} and before were swapped and nobody noticed");
    }
    let mut twice = all.clone();
    twice.insert(1, all[0]);
    fs::write(&path, twice.concat()).unwrap();
    assert!(!accepts(), "a line was doubled and nobody noticed");
    fs::write(&path, &good).unwrap();
    assert!(accepts(), "and again as it was written");
}

#[test]
fn daemons_that_share_an_audit_file_keep_one_chain() {
    let sandbox = Sandbox::new();
    let (daemons, requests) = (4, 200);
    std::thread::scope(|scope| {
        for number in 0..daemons {
            let sandbox = &sandbox;
            scope.spawn(move || {
                let mut rexd = Rexd::start(REXD, sandbox);
                let session = rexd.open_as(&format!("client {number}"));
                for round in 0..requests {
                    let path = format!("from-{number}-{}.txt", round % 10);
                    rexd.call("fs.stat", json!({ "session_id": session, "path": path }));
                }
                assert_eq!(rexd.end().0.code(), Some(0));
            });
        }
    });
    let summary = daemon::observe::audit::verify(&sandbox.audit()).unwrap();
    assert_eq!(summary.records, daemons * (requests + 1), "{summary:?}");
    assert_eq!((summary.recovered, summary.torn_bytes), (0, 0), "{summary:?}");
    let audit = lines(&sandbox.audit());
    for number in 0..daemons {
        let name = format!("\"client_name\":\"client {number}\"");
        assert_eq!(audit.iter().filter(|line| line.contains(&name)).count() as u64, requests + 1, "{name}");
    }
}

#[test]
fn the_next_daemon_continues_the_audit_of_a_killed_one() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open();
    rexd.call("fs.stat", json!({ "session_id": session, "path": "a" }));
    rexd.signal(rustix::process::Signal::KILL);
    rexd.wait();
    // As if it had died in the middle of a line.
    let mut audit = fs::read(sandbox.audit()).unwrap();
    audit.extend_from_slice(b"{\"timestamp\":\"20");
    fs::write(sandbox.audit(), audit).unwrap();
    let mut next = Rexd::start(REXD, &sandbox);
    next.open();
    assert_eq!(next.end().0.code(), Some(0));
    let summary = daemon::observe::audit::verify(&sandbox.audit()).unwrap();
    assert_eq!((summary.recovered, summary.torn_bytes), (1, 0), "{summary:?}");
}

#[test]
fn every_method_event_and_error_code_has_a_transcript() {
    let texts: Vec<String> =
        transcript_audit::transcripts().iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let all = texts.join("\n");
    let missing: Vec<&str> = wire::rexd::v1::METHODS
        .iter()
        .map(|method| method.name)
        .filter(|name| !all.contains(&format!("\"method\":\"{name}\"")))
        .collect();
    assert!(missing.is_empty(), "no transcript of {missing:?}");
    for event in
        ["exec.stdout", "exec.stderr", "exec.exit", "exec.error", "pty.output", "pty.exit", "fs.changed"]
    {
        assert!(
            all.contains(&format!("< {{\"jsonrpc\":\"2.0\",\"method\":\"{event}\"")),
            "no transcript of {event}"
        );
    }
    for code in wire::rexd::v1::codes::ALL.iter().filter(|code| **code != -32603) {
        assert!(all.contains(&format!("\"code\":{code}")), "no transcript of {code}");
    }
}
