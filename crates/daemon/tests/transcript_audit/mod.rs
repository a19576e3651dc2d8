//! Replays every transcript of REXD v1 in its own sandbox and checks the audit records.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::Value;
use testkit::sandbox::Sandbox;
use testkit::transcript::{Transport, Vars, check};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/rexd-v1/transcripts");
/// What transcripts write where a secret may stand: content, input, environment, patches, tokens.
const MARKER: &str = "MARKER-";
/// Transcripts replayed at the same time; each has a daemon of its own.
const WORKERS: usize = 4;

/// The files.
pub(crate) fn transcripts() -> Vec<PathBuf> {
    let entries = fs::read_dir(DIRECTORY).unwrap_or_else(|error| panic!("{DIRECTORY}: {error}"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
}

/// Replays every file that `concerns` says, each on a transport of its own, and looks at its audit:
/// every request is there once, with the name of the caller.
pub(crate) fn every_transcript_holds<T: Transport>(
    caller: &str,
    concerns: impl Fn(&str) -> bool,
    transport: impl Fn(&Sandbox) -> T + Sync + std::panic::RefUnwindSafe,
) {
    let mut files = transcripts();
    assert!(files.len() > 100, "only {} transcripts in {DIRECTORY}", files.len());
    files.retain(|file| concerns(&name_of(file)));
    let waiting = Mutex::new(files.iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(file) = waiting.lock().unwrap().next() else { return };
                    // A promise broken on any line panics; that is a failure of this file alone.
                    let result = std::panic::catch_unwind(|| replay(file, caller, &transport));
                    let result = result.unwrap_or_else(|panic| {
                        Err(panic.downcast::<String>().map_or("a panic".to_owned(), |text| *text))
                    });
                    if let Err(failure) = result {
                        failures.lock().unwrap().push(format!("{}: {failure}", name_of(file)));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), files.len(), failures.join("\n"));
}

fn name_of(file: &Path) -> String {
    file.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// Replays one file, then looks at its audit.
fn replay<T: Transport>(file: &Path, caller: &str, transport: impl Fn(&Sandbox) -> T) -> Result<(), String> {
    let text = fs::read_to_string(file).unwrap();
    let config: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("#config ")).collect();
    let sandbox = Sandbox::with_config(&config.join("\n"));
    let vars = Vars::new()
        .with("ROOT", sandbox.root().to_str().unwrap())
        .with("OUTSIDE", sandbox.outside().to_str().unwrap())
        .with("VERSION", env!("CARGO_PKG_VERSION"));
    let mut transport = transport(&sandbox);
    check(&text, &mut transport, &vars).map_err(|error| format!("{error:#}"))?;
    drop(transport);
    check_audit(&text, &sandbox, caller)
}

fn check_audit(text: &str, sandbox: &Sandbox, caller: &str) -> Result<(), String> {
    let path = sandbox.audit();
    let audit = fs::read_to_string(&path).map_err(|error| format!("audit: {error}"))?;
    if audit.contains(MARKER) {
        return Err(format!("a secret is in the audit:\n{audit}"));
    }
    let asked = count_methods(text);
    let mut kept: BTreeMap<String, usize> = BTreeMap::new();
    for line in audit.lines() {
        let record: Value = serde_json::from_str(line).map_err(|error| format!("audit: {error}: {line}"))?;
        let method = record["method"].as_str().unwrap_or_default();
        if record["caller"] != caller {
            return Err(format!("not asked by {caller}: {line}"));
        }
        if asked.contains_key(method) {
            *kept.entry(method.to_owned()).or_default() += 1;
        } else if !matches!(method, "exec.exit" | "pty.exit") {
            return Err(format!("nobody asked for this: {line}"));
        }
    }
    if kept != asked {
        return Err(format!("asked {asked:?}, but the audit has {kept:?}:\n{audit}"));
    }
    daemon::observe::audit::verify(&path).map(drop).map_err(|error| format!("audit: {error}"))
}

/// How often each method is asked for: requests and notifications, alone and in batches, answered well or not. What
/// is no request is not counted, and neither is `$/cancel`, which only withdraws one, nor a valid `session.ack`, of which a
/// client sends many.
fn count_methods(text: &str) -> BTreeMap<String, usize> {
    let mut asked = BTreeMap::new();
    let mut count = |message: &Value| {
        let id_is_fit = matches!(message["id"], Value::Null | Value::Number(_) | Value::String(_));
        if let (Some(method), "2.0", true) =
            (message["method"].as_str(), message["jsonrpc"].as_str().unwrap_or_default(), id_is_fit)
            && method != "$/cancel"
            && !(method == "session.ack" && message["params"]["event_id"].as_i64() >= Some(0))
        {
            *asked.entry(method.to_owned()).or_default() += 1;
        }
    };
    for line in text.lines() {
        let sent: Vec<String> = match line.split_once(' ') {
            Some((">", json)) => vec![json.to_owned()],
            Some((">bin", rest)) => {
                rest.split_once("\" ").map(|(_payload, json)| json.to_owned()).into_iter().collect()
            }
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
