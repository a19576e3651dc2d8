//! The same requests to `rexd exec-server` and to the released servers: what differs stands in a table, with its reason.
//!
//! `spec/codex-v1/differences.toml` is that table. A difference that is not listed fails here, and so does one that is
//! listed and does not occur.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod codex;

use std::collections::BTreeSet;

use codex::cases::{Case, Stage, all};
use codex::outcome::Outcome;
use codex::wired::Wired;
use codex::{Place, Release, Server, Serving, is_original};
use testkit::model::Model;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/codex-v1/differences.toml");

/// Plays cases against one server over a WebSocket.
fn over_a_websocket(server: Server, release: Release, cases: &[Case]) -> Vec<Outcome> {
    let (place, model) = (Place::new(), Model::start(Vec::new()));
    let serving = Serving::start(&place, server);
    let address = serving.address();
    let connect = || Wired::websocket(address);
    let stage = Stage { place: &place, release, http: model.url(), connect: &connect };
    let outcomes = cases.iter().map(|case| stage.play(case)).collect();
    serving.stop();
    outcomes
}

/// Plays cases against one server over standard streams, each with a server of its own.
fn over_standard_streams(server: Server, release: Release, cases: &[Case]) -> Vec<Outcome> {
    let (place, model) = (Place::new(), Model::start(Vec::new()));
    let connect = || Wired::stdio(place.server_command(server));
    let stage = Stage { place: &place, release, http: model.url(), connect: &connect };
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
fn differences(release: Release, way: &str, play: Play, concerns: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut cases = all();
    cases.retain(|case| case.concerns(release) && concerns(&case.name));
    let (theirs, ours) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| play(Server::Released(release), release, &cases));
        let ours = scope.spawn(|| play(Server::under_test(release), release, &cases));
        (theirs.join().unwrap(), ours.join().unwrap())
    });
    let mut found = BTreeSet::new();
    for (case, (theirs, ours)) in cases.iter().zip(theirs.iter().zip(&ours)) {
        if std::env::var_os("REXD_TEST_SHOW").is_some() {
            eprintln!("{} {way} {}: {theirs:#?}", release.number(), case.name);
        }
        for (at, theirs, ours) in theirs.differences(ours) {
            found.insert(format!("{}{way} | {} | {at} | {theirs} | {ours}", release.number(), case.name));
        }
    }
    found
}

/// What the table lists, every line once.
fn listed() -> BTreeSet<String> {
    let table: toml::Table = std::fs::read_to_string(TABLE).unwrap().parse().unwrap();
    let mut lines = BTreeSet::new();
    for entry in table["difference"].as_array().unwrap() {
        assert!(
            entry["reason"].as_str().is_some_and(|reason| !reason.is_empty()),
            "without a reason: {entry}"
        );
        for line in entry["seen"].as_array().unwrap() {
            assert!(lines.insert(line.as_str().unwrap().to_owned()), "listed twice: {line}");
        }
    }
    lines
}

fn every_difference_is_listed(release: Release, way: &str, play: Play, concerns: impl Fn(&str) -> bool) {
    let found = differences(release, way, play, concerns);
    let begins = format!("{}{way} | ", release.number());
    // A release does not differ from itself, or the cases are no good.
    let listed = if is_original() { BTreeSet::new() } else { listed() };
    let listed: BTreeSet<String> = listed.into_iter().filter(|line| line.starts_with(&begins)).collect();
    let show = |lines: Vec<&String>| lines.iter().map(|line| format!("  '{line}',\n")).collect::<String>();
    let (new, gone) = (show(found.difference(&listed).collect()), show(listed.difference(&found).collect()));
    assert!(new.is_empty() && gone.is_empty(), "not listed:\n{new}listed and not seen:\n{gone}");
}

#[test]
fn every_difference_from_0_131_is_listed() {
    every_difference_is_listed(Release::V0_131, "", over_a_websocket, |_all| true);
}

#[test]
fn every_difference_from_0_166_is_listed() {
    every_difference_is_listed(Release::V0_166, "", over_a_websocket, |_all| true);
}

/// What may differ with the carrier: the beginning of a connection, its end, and what is no message.
fn depends_on_the_carrier(name: &str) -> bool {
    ["frame-", "handshake", "initialize", "notification", "response", "error-"]
        .iter()
        .any(|start| name.starts_with(start))
}

#[test]
fn every_difference_from_0_131_over_standard_streams_is_listed() {
    every_difference_is_listed(Release::V0_131, " stdio", over_standard_streams, depends_on_the_carrier);
}

#[test]
fn every_difference_from_0_166_over_standard_streams_is_listed() {
    every_difference_is_listed(Release::V0_166, " stdio", over_standard_streams, depends_on_the_carrier);
}
