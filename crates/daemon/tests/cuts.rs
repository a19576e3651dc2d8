//! Connections cut at any byte: after a resume every event was seen exactly once, and nothing was done twice.
//!
//! Every case is drawn from a seed, which a failure names. `REXD_CUTS=SEED` runs that one alone, `REXD_CUTS=xN` runs N
//! random ones beside those that always run.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod survivor;

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use survivor::{Dice, Survivor};
use testkit::daemon::CommandOutcome;
use testkit::proxy::{CutKind, Direction, Proxy};
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon};

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
/// Seeds that always run, on every way.
const SEEDS: std::ops::Range<u64> = 0..80;
/// Seeds of the clock that run too.
const RANDOM: usize = 8;
/// Lines that a talker prints on each stream.
const LINES: usize = 400;

/// Prints numbered lines on both streams, some of them no text, and says when it began.
fn talker(name: &str) -> String {
    format!(
        "echo {name} >> began; i=0; while [ $i -lt {LINES} ]; do printf 'out %s\\n' $i; printf 'err %s\\n' $i >&2; \
         [ $((i % 50)) -ne 7 ] || printf '\\377\\000\\n'; [ $((i % 40)) -ne 9 ] || read pace; i=$((i+1)); done"
    )
}

/// What a talker prints on each stream.
fn said() -> (Vec<u8>, Vec<u8>) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    for i in 0..LINES {
        out.extend(format!("out {i}\n").into_bytes());
        err.extend(format!("err {i}\n").into_bytes());
        if i % 50 == 7 {
            out.extend(b"\xff\0\n");
        }
    }
    (out, err)
}

fn seeds() -> Vec<u64> {
    let chosen = std::env::var("REXD_CUTS").unwrap_or_default();
    if let Ok(seed) = chosen.parse() {
        return vec![seed];
    }
    let random = chosen.strip_prefix('x').and_then(|count| count.parse().ok()).unwrap_or(RANDOM);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    SEEDS.chain((0..random as u64).map(|number| Dice::new(now ^ number).below(u64::MAX))).collect()
}

/// Runs every seed; a failure names it.
fn for_every_seed(way: CarrierKind, case: impl Fn(&mut Survivor, &mut Dice)) {
    let sandbox =
        Sandbox::with_config("[server]\nlog_level = \"info\"\n[limits]\nmax_concurrent_sessions = 1000\n");
    let mut served = ServedDaemon::start(REXD, &sandbox);
    let mut cuts = 0;
    let seeds = seeds();
    for seed in &seeds {
        let folder = sandbox.path(format!("proxy-{seed}"));
        std::fs::create_dir(&folder).unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let proxy = Proxy::start(&served.addresses, &folder);
            let mut survivor =
                Survivor::new(&served, proxy, way, sandbox.root().join(format!("case-{seed}")));
            case(&mut survivor, &mut Dice::new(*seed));
            survivor.proxy().cuts()
        }));
        match result {
            Ok(made) => cuts += made,
            Err(panic) => {
                let why = panic.downcast::<String>().map_or("a panic".to_owned(), |text| *text);
                panic!("{way:?}, seed {seed}: {why}");
            }
        }
    }
    assert!(cuts >= seeds.len() || seeds.len() == 1, "only {cuts} cuts in {} cases", seeds.len());
    assert_eq!(served.stop().code(), Some(0), "{}", served.log.text());
    assert!(!served.log.text().contains("panicked"), "{}", served.log.text());
}

/// A whole conversation, cut up to three times at any byte.
fn a_conversation_survives(survivor: &mut Survivor, dice: &mut Dice) {
    survivor.plan(dice, 3);
    survivor.open();
    survivor.write_lines(2, dice);
    let mut talkers: Vec<(String, CommandOutcome)> = Vec::new();
    for number in 0..2 {
        let name = format!("talker-{number}");
        let params = json!({
            "argv": ["sh", "-c", talker(&name)], "cwd": survivor.folder(), "idempotency_key": name
        });
        let started = survivor.call("exec.start", params);
        talkers.push((started["process_id"].as_str().unwrap().to_owned(), CommandOutcome::default()));
    }
    survivor.write_lines(2, dice);
    for (process_id, _) in &talkers {
        // What was typed may have been lost with its answer, so the end of input is what lets it go on.
        survivor.call_until_it_counts("exec.input", json!({ "process_id": process_id, "data": "1\n2\n3\n" }));
        survivor.call_until_it_counts("exec.input", json!({ "process_id": process_id, "eof": true }));
    }
    while talkers.iter().any(|(_, finished)| finished.exit.is_null()) {
        let event = survivor.event();
        let process_id = event["params"]["process_id"].as_str().unwrap_or_default().to_owned();
        let talker = talkers.iter_mut().find(|(id, _)| *id == process_id);
        let (_, finished) = talker.unwrap_or_else(|| survivor.fail(&format!("who is this: {event}")));
        finished.add(event);
    }
    survivor.write_lines(1, dice);
    let (out, err) = said();
    for (_, finished) in &talkers {
        assert!(finished.stdout == out, "stdout: {} of {} bytes", finished.stdout.len(), out.len());
        assert!(finished.stderr == err, "stderr: {} of {} bytes", finished.stderr.len(), err.len());
        assert_eq!(finished.exit["exit_code"], 0);
    }
    let began = std::fs::read_to_string(survivor.folder().join("began")).unwrap();
    assert_eq!(began.lines().count(), 2, "each began once: {began:?}");
    survivor.check_lines();
    survivor.close();
}

/// ARCHITECTURE.md, invariant 30.
#[test]
fn a_conversation_over_a_unix_socket_survives_cuts_at_any_byte() {
    for_every_seed(CarrierKind::Unix, a_conversation_survives);
}

/// ARCHITECTURE.md, invariant 30.
#[test]
fn a_conversation_over_a_websocket_survives_cuts_at_any_byte() {
    for_every_seed(CarrierKind::WebSocket, a_conversation_survives);
}

/// ARCHITECTURE.md, invariant 30.
#[test]
fn a_conversation_over_http_survives_cuts_at_any_byte() {
    for_every_seed(CarrierKind::Http, a_conversation_survives);
}

/// The length of a request is at least that of its JSON, whatever surrounds it.
fn a_half_request_is_not_done(survivor: &mut Survivor, dice: &mut Dice) {
    survivor.open();
    let path = survivor.folder().join("half");
    for _ in 0..3 {
        let params =
            json!({ "path": path, "content": "x".repeat(50), "mode": "append", "mkdir_parents": true });
        let request = survivor.text("fs.write", &params);
        let bytes = dice.below(request.len() as u64 - 1) as usize;
        survivor.proxy().cut_after(Direction::Daemon, bytes + 1, dice.how());
        assert!(survivor.ask("fs.write", params).is_err(), "{bytes} bytes of {} were enough", request.len());
        survivor.come_back();
        let found = survivor.call("fs.stat", json!({ "path": path }));
        assert_eq!(found["exists"], false, "done after {bytes} of {} bytes", request.len());
    }
    survivor.close();
}

/// The answer is lost, wholly or in part: with a key the request may be repeated, and was done once.
fn a_lost_answer_is_given_again(survivor: &mut Survivor, dice: &mut Dice) {
    survivor.open();
    for round in 0..3 {
        let path = survivor.folder().join(format!("kept-{round}"));
        let key = format!("key-{round}");
        let params = json!({
            "path": path, "content": "once\n", "mode": "append", "mkdir_parents": true, "idempotency_key": key
        });
        survivor.proxy().cut_after(Direction::Client, dice.below(90) as usize + 1, dice.how());
        assert!(survivor.ask("fs.write", params.clone()).is_err(), "the answer was cut");
        survivor.come_back();
        let again = survivor.call("fs.write", params);
        assert_eq!(again["path"], Value::from(path.to_str().unwrap()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "once\n");
    }
    survivor.close();
}

/// ARCHITECTURE.md, invariant 44.
#[test]
fn a_request_cut_in_half_is_not_done() {
    for way in CarrierKind::ALL {
        for_every_seed(way, a_half_request_is_not_done);
    }
}

/// ARCHITECTURE.md, invariant 44.
#[test]
fn a_request_whose_answer_was_cut_is_done_once_however_often_it_is_asked() {
    for way in CarrierKind::ALL {
        for_every_seed(way, a_lost_answer_is_given_again);
    }
}

#[test]
fn a_stalled_link_is_resumed_elsewhere_as_soon_as_the_daemon_lets_go() {
    let sandbox = Sandbox::with_config("[server]\nping_ms = 200\n");
    let served = ServedDaemon::start(REXD, &sandbox);
    for way in [CarrierKind::WebSocket, CarrierKind::Http] {
        let folder = sandbox.path(format!("proxy-{way:?}"));
        std::fs::create_dir(&folder).unwrap();
        let proxy = Proxy::start(&served.addresses, &folder);
        let mut survivor = Survivor::new(&served, proxy, way, sandbox.root().join(format!("{way:?}")));
        survivor.open();
        let params = json!({ "argv": ["sh", "-c", "cat; echo over"] });
        let process_id = survivor.call("exec.start", params)["process_id"].as_str().unwrap().to_owned();
        survivor.proxy().cut(CutKind::Stalled);
        survivor.come_back();
        // A link belongs to one at a time; a stream of events goes to whoever asked last.
        assert_eq!(survivor.told_to_retry > 0, way == CarrierKind::WebSocket, "{way:?}");
        survivor.call("exec.input", json!({ "process_id": process_id, "data": "typed\n", "eof": true }));
        let mut finished = CommandOutcome::default();
        while !finished.add(survivor.event()) {}
        assert_eq!(finished.text(), "typed\nover\n", "{way:?}");
    }
}
