//! Connections interrupted at any byte: after a resume every event has arrived once, and no request was executed twice.
//!
//! Every case is generated from a seed, which a failure reports. `REXD_CUTS=SEED` runs only that case, `REXD_CUTS=xN` runs N
//! random cases in addition to the fixed ones.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod reconnecting_client;

use std::time::{SystemTime, UNIX_EPOCH};

use reconnecting_client::{Dice, ReconnectingClient};
use serde_json::{Value, json};
use testkit::daemon::CommandOutcome;
use testkit::proxy::{CutKind, Direction, Proxy};
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon};

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
/// Seeds that always run, on every carrier.
const SEEDS: std::ops::Range<u64> = 0..80;
/// Number of additional seeds from the clock.
const RANDOM: usize = 8;
/// Lines that a talker prints on each stream.
const LINES: usize = 400;

/// A script that prints numbered lines on both streams, some of them not text, and records its start in a file.
fn talker(name: &str) -> String {
    format!(
        "echo {name} >> began; i=0; while [ $i -lt {LINES} ]; do printf 'out %s\\n' $i; printf 'err %s\\n' $i >&2; \
         [ $((i % 50)) -ne 7 ] || printf '\\377\\000\\n'; [ $((i % 40)) -ne 9 ] || read pace; i=$((i+1)); done"
    )
}

/// The output of the script on each stream.
fn expected_output() -> (Vec<u8>, Vec<u8>) {
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

/// Runs every seed; a failure reports its seed.
fn for_every_seed(way: CarrierKind, case: impl Fn(&mut ReconnectingClient, &mut Dice)) {
    let sandbox =
        Sandbox::with_config("[server]\nlog_level = \"info\"\n[limits]\nmax_concurrent_sessions = 1000\n");
    let mut served = ServedDaemon::start(REXD, &sandbox);
    let mut cuts = 0;
    let seeds = seeds();
    for seed in &seeds {
        let directory = sandbox.path(format!("proxy-{seed}"));
        std::fs::create_dir(&directory).unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let proxy = Proxy::start(&served.addresses, &directory);
            let mut client =
                ReconnectingClient::new(&served, proxy, way, sandbox.root().join(format!("case-{seed}")));
            case(&mut client, &mut Dice::new(*seed));
            client.proxy().cuts()
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

/// A whole conversation, interrupted up to three times at any byte.
fn a_conversation_survives(client: &mut ReconnectingClient, dice: &mut Dice) {
    client.plan(dice, 3);
    client.open();
    client.write_lines(2, dice);
    let mut talkers: Vec<(String, CommandOutcome)> = Vec::new();
    for number in 0..2 {
        let name = format!("talker-{number}");
        let params = json!({
            "argv": ["sh", "-c", talker(&name)], "cwd": client.directory(), "idempotency_key": name
        });
        let started = client.call("exec.start", params);
        talkers.push((started["process_id"].as_str().unwrap().to_owned(), CommandOutcome::default()));
    }
    client.write_lines(2, dice);
    for (process_id, _) in &talkers {
        // The input may have been lost with its response; the end of input lets the script continue.
        client.call_until_answered("exec.input", json!({ "process_id": process_id, "data": "1\n2\n3\n" }));
        client.call_until_answered("exec.input", json!({ "process_id": process_id, "eof": true }));
    }
    while talkers.iter().any(|(_, finished)| finished.exit.is_null()) {
        let event = client.event();
        let process_id = event["params"]["process_id"].as_str().unwrap_or_default().to_owned();
        let talker = talkers.iter_mut().find(|(id, _)| *id == process_id);
        let (_, finished) =
            talker.unwrap_or_else(|| client.fail(&format!("an event of an unknown process: {event}")));
        finished.add(event);
    }
    client.write_lines(1, dice);
    let (out, err) = expected_output();
    for (_, finished) in &talkers {
        assert!(finished.stdout == out, "stdout: {} of {} bytes", finished.stdout.len(), out.len());
        assert!(finished.stderr == err, "stderr: {} of {} bytes", finished.stderr.len(), err.len());
        assert_eq!(finished.exit["exit_code"], 0);
    }
    let began = std::fs::read_to_string(client.directory().join("began")).unwrap();
    assert_eq!(began.lines().count(), 2, "each started once: {began:?}");
    client.check_lines();
    client.close();
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

/// Interrupts a request before the end of its JSON text.
fn a_half_request_is_not_done(client: &mut ReconnectingClient, dice: &mut Dice) {
    client.open();
    let path = client.directory().join("half");
    for _ in 0..3 {
        let params =
            json!({ "path": path, "content": "x".repeat(50), "mode": "append", "mkdir_parents": true });
        let request = client.text("fs.write", &params);
        let bytes = dice.below(request.len() as u64 - 1) as usize;
        client.proxy().cut_after(Direction::Daemon, bytes + 1, dice.how());
        assert!(client.ask("fs.write", params).is_err(), "{bytes} bytes of {} were enough", request.len());
        client.reconnect();
        let found = client.call("fs.stat", json!({ "path": path }));
        assert_eq!(found["exists"], false, "done after {bytes} of {} bytes", request.len());
    }
    client.close();
}

/// The response is lost completely or in part: with a key the request can be repeated, and is executed once.
fn a_lost_answer_is_given_again(client: &mut ReconnectingClient, dice: &mut Dice) {
    client.open();
    for round in 0..3 {
        let path = client.directory().join(format!("kept-{round}"));
        let key = format!("key-{round}");
        let params = json!({
            "path": path, "content": "once\n", "mode": "append", "mkdir_parents": true, "idempotency_key": key
        });
        client.proxy().cut_after(Direction::Client, dice.below(90) as usize + 1, dice.how());
        assert!(client.ask("fs.write", params.clone()).is_err(), "the response was interrupted");
        client.reconnect();
        let again = client.call("fs.write", params);
        assert_eq!(again["path"], Value::from(path.to_str().unwrap()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "once\n");
    }
    client.close();
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
fn a_request_whose_response_was_lost_is_executed_once_however_often_it_is_sent() {
    for way in CarrierKind::ALL {
        for_every_seed(way, a_lost_answer_is_given_again);
    }
}

#[test]
fn a_session_of_a_stalled_connection_is_resumed_on_another() {
    let sandbox = Sandbox::with_config("[server]\nping_ms = 200\n");
    let served = ServedDaemon::start(REXD, &sandbox);
    for way in [CarrierKind::WebSocket, CarrierKind::Http] {
        let directory = sandbox.path(format!("proxy-{way:?}"));
        std::fs::create_dir(&directory).unwrap();
        let proxy = Proxy::start(&served.addresses, &directory);
        let mut client =
            ReconnectingClient::new(&served, proxy, way, sandbox.root().join(format!("{way:?}")));
        client.open();
        let params = json!({ "argv": ["sh", "-c", "cat; echo over"] });
        let process_id = client.call("exec.start", params)["process_id"].as_str().unwrap().to_owned();
        client.proxy().cut(CutKind::Stalled);
        client.reconnect();
        // A WebSocket session has one connection at a time; a new event stream replaces the old one.
        assert_eq!(client.retries > 0, way == CarrierKind::WebSocket, "{way:?}");
        client.call("exec.input", json!({ "process_id": process_id, "data": "typed\n", "eof": true }));
        let mut finished = CommandOutcome::default();
        while !finished.add(client.event()) {}
        assert_eq!(finished.text(), "typed\nover\n", "{way:?}");
    }
}
