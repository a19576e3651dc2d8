//! Every transcript of REXD v1 over every socket of `rexd serve`, from the files that stdio replays too.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod audited;

use testkit::replay::Replayed;
use testkit::serve::{Served, Way};

const REXD: &str = env!("CARGO_BIN_EXE_rexd");

/// What holds over standard streams alone, and why.
const STDIO_ONLY: &[(&str, &str)] = &[(
    "session-open-resume-is-not-granted",
    "a daemon behind a socket outlives its connections, so it is granted",
)];

fn every_transcript_holds_over(way: Way) {
    for (name, _why) in STDIO_ONLY {
        assert!(audited::transcripts().iter().any(|file| file.file_stem().unwrap() == *name), "no {name}");
    }
    let concerns = |name: &str| STDIO_ONLY.iter().all(|(only, _why)| *only != name);
    audited::every_transcript_holds(concerns, |sandbox| Replayed::new(Served::start(REXD, sandbox), way));
}

#[test]
fn every_transcript_holds_over_a_unix_socket() {
    every_transcript_holds_over(Way::Unix);
}

#[test]
fn every_transcript_holds_over_a_websocket() {
    every_transcript_holds_over(Way::WebSocket);
}

#[test]
fn every_transcript_holds_over_http() {
    every_transcript_holds_over(Way::Http);
}
