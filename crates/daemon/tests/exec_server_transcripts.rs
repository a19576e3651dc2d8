//! Every transcript of exec-server v0 and v1 over standard streams and over a WebSocket of the real binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod codex;

use std::fs;
use std::path::PathBuf;

use codex::wired::Wired;
use codex::{Place, Server, Serving};
use testkit::transcript::{Vars, check_file};

const SPEC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec");
/// Every method, and every notification of the server; each has a transcript.
const METHODS: [&str; 32] = [
    "initialize",
    "initialized",
    "command/exec",
    "command/exec/write",
    "command/exec/terminate",
    "command/exec/exited",
    "process/start",
    "process/read",
    "process/write",
    "process/terminate",
    "process/signal",
    "process/output",
    "process/exited",
    "process/closed",
    "fs/readFile",
    "fs/writeFile",
    "fs/createDirectory",
    "fs/getMetadata",
    "fs/readDirectory",
    "fs/remove",
    "fs/copy",
    "fs/canonicalize",
    "fs/walk",
    "fs/open",
    "fs/readBlock",
    "fs/writeBlock",
    "fs/close",
    "fs/watchMissing",
    "fs/missingChanged",
    "environment/info",
    "environment/status",
    "http/request",
];

fn transcripts() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for version in ["exec-server-v0", "exec-server-v1"] {
        let directory = format!("{SPEC}/{version}/transcripts");
        let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{directory}: {error}"));
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    files.sort();
    assert!(files.len() > 40, "only {} transcripts", files.len());
    files
}

/// Replays every file in a directory of its own.
fn every_transcript_holds(place: &Place, connect: impl Fn() -> Wired) {
    let mut failures = Vec::new();
    for file in transcripts() {
        let root = place.text(format!("root-{}", failures.len()));
        fs::create_dir(&root).unwrap();
        let mut wired = connect();
        if let Err(error) = check_file(&file, &mut wired, &Vars::new().with("ROOT", &root)) {
            failures.push(format!("{error:#}"));
        }
        drop(wired);
        fs::remove_dir_all(&root).ok();
    }
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

/// ARCHITECTURE.md, invariant 33.
#[test]
fn every_transcript_holds_over_a_websocket() {
    let place = Place::new();
    let serving = Serving::start(&place, Server::Ours);
    every_transcript_holds(&place, || Wired::websocket(serving.address()));
    serving.stop();
    place.nothing_is_left();
}

#[test]
fn every_transcript_holds_over_standard_streams() {
    let place = Place::new();
    every_transcript_holds(&place, || Wired::stdio(place.server_command(Server::Ours)));
    place.nothing_is_left();
}

#[test]
fn every_method_has_a_transcript() {
    let all: String = transcripts().iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let missing: Vec<_> =
        METHODS.iter().filter(|name| !all.contains(&format!("\"method\":\"{name}\""))).collect();
    assert!(missing.is_empty(), "no transcript of {missing:?}");
}
