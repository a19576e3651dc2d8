//! Replays every transcript of REXD v1 over every socket of `rexd serve`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod transcript_audit;

use testkit::replay::ReplayTransport;
use testkit::serve::{CarrierKind, ServedDaemon};

const REXD: &str = env!("CARGO_BIN_EXE_rexd");

/// What holds on other carriers only, and why.
const ELSEWHERE: &[(&str, &[CarrierKind], &str)] = &[
    ("session-last", &[CarrierKind::Http], "each request has a connection of its own"),
    ("session-resume-attached", &[CarrierKind::Http], "without a link nobody has it: it is taken up again"),
    (
        "session-open-compress-is-not-granted",
        &[CarrierKind::WebSocket],
        "frames of a WebSocket can be packed: it is granted",
    ),
    ("frames-binary", &[CarrierKind::Http], TEXT_ONLY),
    ("frames-binary-invalid", &[CarrierKind::Http], TEXT_ONLY),
    ("approval-approve", &[CarrierKind::Http], ONE_AT_A_TIME),
    ("approval-deny", &[CarrierKind::Http], ONE_AT_A_TIME),
    ("approval-write", &[CarrierKind::Http], ONE_AT_A_TIME),
];

const TEXT_ONLY: &str = "bodies and event streams are text: binary frames are not granted";
const ONE_AT_A_TIME: &str =
    "the replayer waits for each posted answer; tests/approvals.rs asks and answers over two connections";

fn every_transcript_holds_over(way: CarrierKind) {
    for (name, ..) in ELSEWHERE {
        assert!(
            transcript_audit::transcripts().iter().any(|file| file.file_stem().unwrap() == *name),
            "no {name}"
        );
    }
    let is_elsewhere =
        |name: &str| ELSEWHERE.iter().any(|(known, ways, _why)| *known == name && ways.contains(&way));
    let start = |sandbox: &_| ReplayTransport::new(ServedDaemon::start(REXD, sandbox), way);
    let caller = match way {
        CarrierKind::Unix => format!("uid:{}", rustix::process::getuid().as_raw()),
        CarrierKind::WebSocket | CarrierKind::Http => "token:env".to_owned(),
    };
    transcript_audit::every_transcript_holds(&caller, |name| !is_elsewhere(name), start);
}

/// ARCHITECTURE.md, invariant 33.
#[test]
fn every_transcript_holds_over_a_unix_socket() {
    every_transcript_holds_over(CarrierKind::Unix);
}

/// ARCHITECTURE.md, invariant 33.
#[test]
fn every_transcript_holds_over_a_websocket() {
    every_transcript_holds_over(CarrierKind::WebSocket);
}

/// ARCHITECTURE.md, invariant 33.
#[test]
fn every_transcript_holds_over_http() {
    every_transcript_holds_over(CarrierKind::Http);
}
