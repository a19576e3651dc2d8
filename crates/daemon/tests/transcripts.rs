//! Every transcript of REXD v1 over the real binary, and what the audit keeps of it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};
use testkit::daemon::{Rexd, run};
use testkit::sandbox::Sandbox;
use testkit::transcript::{Vars, check};

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/rexd-v1/transcripts");
/// What transcripts write where a secret may stand: content, input, environment, patches, tokens.
const MARKER: &str = "MARKER-";
/// Transcripts replayed at the same time; each has a daemon of its own.
const WORKERS: usize = 4;

fn transcripts() -> Vec<PathBuf> {
    let entries = fs::read_dir(FOLDER).unwrap_or_else(|error| panic!("{FOLDER}: {error}"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
}

#[test]
fn every_transcript_holds_over_stdio_and_its_audit_is_whole() {
    every_transcript_holds(None);
}

#[test]
fn every_transcript_holds_without_cgroups() {
    every_transcript_holds(Some("marks"));
}

fn every_transcript_holds(containment: Option<&str>) {
    let files = transcripts();
    assert!(files.len() > 100, "only {} transcripts in {FOLDER}", files.len());
    let waiting = Mutex::new(files.iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(file) = waiting.lock().unwrap().next() else { return };
                    // A promise broken on any line panics; that is a failure of this file alone.
                    let result = std::panic::catch_unwind(|| replay(file, containment));
                    let result = result.unwrap_or_else(|panic| {
                        Err(panic.downcast::<String>().map_or("a panic".to_owned(), |text| *text))
                    });
                    if let Err(failure) = result {
                        let name = file.file_stem().unwrap().display();
                        failures.lock().unwrap().push(format!("{name}: {failure}"));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), files.len(), failures.join("\n"));
}

/// Replays one file, then looks at its audit.
fn replay(file: &Path, containment: Option<&str>) -> Result<(), String> {
    let text = fs::read_to_string(file).unwrap();
    let config: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("#config ")).collect();
    let sandbox = Sandbox::with_config(&config.join("\n"));
    let vars = Vars::new()
        .with("ROOT", sandbox.root().to_str().unwrap())
        .with("OUTSIDE", sandbox.outside().to_str().unwrap())
        .with("VERSION", env!("CARGO_PKG_VERSION"));
    let mut command = sandbox.command(REXD);
    command.arg("--stdio").arg("--config").arg(sandbox.config());
    command.envs(containment.map(|value| ("REXD_CONTAINMENT", value)));
    let mut rexd = Rexd::spawn(command);
    check(&text, &mut rexd, &vars).map_err(|error| format!("{error:#}"))?;
    drop(rexd);
    check_audit(&text, &sandbox)
}

fn check_audit(text: &str, sandbox: &Sandbox) -> Result<(), String> {
    let path = sandbox.audit();
    let audit = fs::read_to_string(&path).map_err(|error| format!("audit: {error}"))?;
    if audit.contains(MARKER) {
        return Err(format!("a secret is in the audit:\n{audit}"));
    }
    let asked = methods_asked(text);
    let mut kept: BTreeMap<String, usize> = BTreeMap::new();
    for line in audit.lines() {
        let record: Value = serde_json::from_str(line).map_err(|error| format!("audit: {error}: {line}"))?;
        let method = record["method"].as_str().unwrap_or_default();
        if asked.contains_key(method) {
            *kept.entry(method.to_owned()).or_default() += 1;
        } else if !matches!(method, "exec.exit" | "pty.exit") {
            return Err(format!("nobody asked for this: {line}"));
        }
    }
    if kept != asked {
        return Err(format!("asked {asked:?}, but the audit has {kept:?}:\n{audit}"));
    }
    daemon::audit::verify(&path).map(drop).map_err(|error| format!("audit: {error}"))
}

/// How often each method is asked for: requests and notifications, alone and in batches, answered well or not. What
/// is no request is not counted, and neither is `$/cancel`, which only withdraws one.
fn methods_asked(text: &str) -> BTreeMap<String, usize> {
    let mut asked = BTreeMap::new();
    let mut count = |message: &Value| {
        let id_is_fit = matches!(message["id"], Value::Null | Value::Number(_) | Value::String(_));
        if let (Some(method), "2.0", true) =
            (message["method"].as_str(), message["jsonrpc"].as_str().unwrap_or_default(), id_is_fit)
            && method != "$/cancel"
        {
            *asked.entry(method.to_owned()).or_default() += 1;
        }
    };
    for line in text.lines() {
        let sent: Vec<String> = match line.split_once(' ') {
            Some((">", json)) => vec![json.to_owned()],
            Some((">raw", raw)) => raw.replace("\\r", "").split("\\n").map(str::to_owned).collect(),
            _ => continue,
        };
        for sent in sent {
            match serde_json::from_str(sent.trim_start_matches("\\t").trim()) {
                Ok(Value::Array(parts)) => parts.iter().for_each(&mut count),
                Ok(message) => count(&message),
                Err(_no_json) => {}
            }
        }
    }
    asked
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
fn an_audit_says_who_did_what_and_how_it_ended() {
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
    let summary = daemon::audit::verify(&path).unwrap();

    for at in 0..good.len() - 1 {
        let mut bad = good.clone();
        bad[at] ^= 0x04;
        fs::write(&path, &bad).unwrap();
        assert!(daemon::audit::verify(&path).is_err(), "byte {at} was flipped and nobody noticed");
        // The binary says the same; a sample is enough, it is the same code.
        if at % 251 == 0 {
            assert!(!accepts(), "byte {at} was flipped and the command says ok");
        }
    }
    // Without its line end the last record is what a crash leaves: not accepted as a record, but said to be torn.
    let mut torn = good.clone();
    *torn.last_mut().unwrap() ^= 0x04;
    fs::write(&path, &torn).unwrap();
    let found = daemon::audit::verify(&path).unwrap();
    assert!(found.torn_bytes > 0 && found.records == summary.records - 1, "{found:?}");

    let all: Vec<&[u8]> = good.split_inclusive(|byte| *byte == b'\n').collect();
    for at in 0..all.len() {
        let mut without = all.clone();
        without.remove(at);
        fs::write(&path, without.concat()).unwrap();
        match at + 1 == all.len() {
            false => assert!(!accepts(), "line {at} was deleted and nobody noticed"),
            // Cut off at the end, the chain is whole but shorter: its last hash is another one.
            true => assert_ne!(daemon::audit::verify(&path).unwrap().last_hash, summary.last_hash),
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
    let summary = daemon::audit::verify(&sandbox.audit()).unwrap();
    assert_eq!(summary.records, daemons * (requests + 1), "{summary:?}");
    assert_eq!((summary.recovered, summary.torn_bytes), (0, 0), "{summary:?}");
    let audit = lines(&sandbox.audit());
    for number in 0..daemons {
        let name = format!("\"client_name\":\"client {number}\"");
        assert_eq!(audit.iter().filter(|line| line.contains(&name)).count() as u64, requests + 1, "{name}");
    }
}

#[test]
fn a_daemon_that_was_killed_leaves_an_audit_that_the_next_one_goes_on_with() {
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
    let summary = daemon::audit::verify(&sandbox.audit()).unwrap();
    assert_eq!((summary.recovered, summary.torn_bytes), (1, 0), "{summary:?}");
}

#[test]
fn every_method_event_and_error_code_has_a_transcript() {
    let texts: Vec<String> = transcripts().iter().map(|file| fs::read_to_string(file).unwrap()).collect();
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
