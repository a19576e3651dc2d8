//! The same requests to `rexd exec-server` and to the released servers: every difference is listed with its reason.
//!
//! `spec/exec-server-v1/differences.toml` is that table. A difference that is not listed fails here, and so does one that is
//! listed and does not occur.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod codex;

use std::collections::BTreeSet;

use codex::cases::{Case, Stage, all, holding_server};
use codex::outcome::Outcome;
use codex::wired::Wired;
use codex::{Place, Release, Server, Serving, is_original};
use testkit::model::Model;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/exec-server-v1/differences.toml");

/// Plays cases against one server over a WebSocket.
fn over_a_websocket(server: Server, release: Release, cases: &[Case]) -> Vec<Outcome> {
    let (place, model) = (Place::new(), Model::start(Vec::new()));
    // The same on every machine, whether it has control groups for us or not.
    let mut command = place.server_command(server);
    command
        .env("REXD_CONTAINMENT", "marks")
        .env("GITHUB_TOKEN", "secret")
        .args(["--listen", "ws://127.0.0.1:0"]);
    let serving = Serving::spawn(command);
    let address = serving.address();
    let connect = || Wired::websocket(address);
    let stage =
        Stage { place: &place, release, http: model.url(), hold: holding_server(), connect: &connect };
    let outcomes = cases.iter().map(|case| stage.play(case)).collect();
    serving.stop();
    outcomes
}

/// Plays cases against one server over standard streams, each with a server of its own.
fn over_standard_streams(server: Server, release: Release, cases: &[Case]) -> Vec<Outcome> {
    let (place, model) = (Place::new(), Model::start(Vec::new()));
    let connect = || Wired::stdio(place.server_command(server));
    let stage =
        Stage { place: &place, release, http: model.url(), hold: holding_server(), connect: &connect };
    // Side by side: a released server that has had enough is only known by its silence, which takes its time.
    let (first, second) = cases.split_at(cases.len() / 2);
    let play = |cases: &[Case]| cases.iter().map(|case| stage.play(case)).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let (first, second) = (scope.spawn(|| play(first)), scope.spawn(|| play(second)));
        [first.join().unwrap(), second.join().unwrap()].concat()
    })
}

type Play = fn(Server, Release, &[Case]) -> Vec<Outcome>;

/// Every difference between ours and a release, one line each.
fn differences(release: Release, way: &str, play: Play, concerns: fn(&str) -> bool) -> BTreeSet<String> {
    let mut cases = all();
    cases.retain(|case| case.concerns(release) && concerns(&case.name));
    let (theirs, ours) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| play(Server::Released(release), release, &cases));
        let ours = scope.spawn(|| play(Server::under_test(release), release, &cases));
        (theirs.join().unwrap(), ours.join().unwrap())
    });
    let mut found = BTreeSet::new();
    for (case, (theirs, ours)) in cases.iter().zip(theirs.iter().zip(&ours)) {
        for (at, theirs, ours) in theirs.differences(ours) {
            found.insert(format!("{}{way} | {} | {at} | {theirs} | {ours}", release.number(), case.name));
        }
    }
    found
}

/// A reason and the patterns of the lines it explains; `*` stands for anything.
struct Listed {
    reason: String,
    patterns: Vec<String>,
}

fn listed() -> Vec<Listed> {
    let table: toml::Table = std::fs::read_to_string(TABLE).unwrap().parse().unwrap();
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let entries = table["difference"].as_array().unwrap().iter();
    let listed = entries.map(|entry| Listed {
        reason: text(&entry["reason"]),
        patterns: entry["seen"].as_array().unwrap().iter().map(text).collect(),
    });
    listed.collect()
}

/// Whether a line fits a pattern.
fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// What may differ with the carrier: the beginning of a connection, its end, and what is no message.
fn depends_on_the_carrier(name: &str) -> bool {
    ["frame-", "handshake", "initialize", "notification", "response", "error-"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// ARCHITECTURE.md, invariant 59.
#[test]
fn every_difference_is_listed_and_nothing_else() {
    let found: BTreeSet<String> = std::thread::scope(|scope| {
        let runs = [Release::V0_131, Release::V0_166].map(|release| {
            let sockets = scope.spawn(move || differences(release, "", over_a_websocket, |_all| true));
            let streams = scope
                .spawn(move || differences(release, " stdio", over_standard_streams, depends_on_the_carrier));
            [sockets, streams]
        });
        runs.into_iter().flatten().flat_map(|run| run.join().unwrap()).collect()
    });
    // A release does not differ from itself, or the cases are no good.
    let listed = if is_original() { Vec::new() } else { listed() };
    let patterns: Vec<&String> = listed.iter().flat_map(|entry| &entry.patterns).collect();
    assert!(listed.iter().all(|entry| !entry.reason.is_empty()), "a difference without a reason");
    let is_listed = |line: &&String| patterns.iter().any(|pattern| fits(pattern, line));
    let is_seen = |pattern: &&&String| found.iter().any(|line| fits(pattern, line));
    let new: Vec<String> =
        found.iter().filter(|line| !is_listed(line)).map(|line| format!("  '''{line}''',")).collect();
    let gone: Vec<_> = patterns.iter().filter(|pattern| !is_seen(pattern)).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "not listed:\n{}\nlisted and not seen: {gone:#?}",
        new.join("\n")
    );
}

#[test]
fn a_pattern_matches_only_its_text() {
    assert!(fits("a*c", "abc") && fits("a*", "a") && fits("*b*", "abc") && fits("abc", "abc"));
    assert!(!fits("a*c", "abd") && !fits("abc", "abcd") && !fits("b*", "abc") && !fits("a*b*c", "ac"));
}
