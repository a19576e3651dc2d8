//! An audit file that cannot be written while the daemon runs: no record of a configured file is lost, and those of the
//! default file are counted.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};
use testkit::carrier::Carrier;
use testkit::client::{AnyClient, Client};
use testkit::daemon::{CommandOutcome, PATIENCE, Rexd};
use testkit::http::{Http, bearer};
use testkit::prometheus;
use testkit::sandbox::Sandbox;
use testkit::serve::{CarrierKind, ServedDaemon, TOKEN};
use testkit::tries::Tries;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
/// The code of a request that was refused because a limit is reached.
const RESOURCE_LIMIT: i64 = -32008;

/// Moves the file away and puts a directory in its place, so that no write succeeds.
fn block(sandbox: &Sandbox, file: &str) {
    fs::rename(sandbox.path(file), sandbox.path("moved.log")).unwrap();
    fs::create_dir(sandbox.path(file)).unwrap();
}

fn records(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Repeats a request until it is refused, and returns the error and how many were recorded before. The params are long enough
/// that few records fill the queue.
fn fill<C: Carrier>(client: &mut Client<C>, method: &str, params: &Value) -> (Value, usize) {
    for recorded in 0..10_000 {
        let mut response = client.ask(method, params.clone()).unwrap();
        if response["error"]["code"] == RESOURCE_LIMIT {
            return (response["error"].take(), recorded);
        }
    }
    panic!("{method} is never refused");
}

#[test]
fn requests_are_refused_while_a_configured_file_cannot_be_written() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open_with(json!({}))["session_id"].clone();
    sandbox.gains("audit.log", "session.open", Instant::now() + PATIENCE);
    block(&sandbox, "audit.log");
    let stat = json!({ "session_id": session, "path": "x/".repeat(8_000) });
    let (refused, recorded) = fill(&mut rexd, "fs.stat", &stat);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("audit.log") && message.contains("not executed"), "{message}");
    assert_eq!(refused["data"]["retry"], true);
    let start = json!({ "session_id": session, "argv": ["touch", "started"] });
    assert_eq!(rexd.ask("exec.start", start).unwrap()["error"]["code"], RESOURCE_LIMIT);
    assert!(!sandbox.path("root/started").exists());
    fs::remove_dir(sandbox.path("audit.log")).unwrap();
    let mut tries = Tries::within(PATIENCE, "requests are accepted again");
    let list = json!({ "session_id": session });
    while rexd.ask("exec.list", list.clone()).unwrap()["error"]["code"] == RESOURCE_LIMIT {
        tries.again();
    }
    rexd.call("session.close", json!({ "session_id": session }));
    rexd.end();
    let written = records(&sandbox.read("audit.log"));
    assert!(written.iter().all(|record| record.get("lost").is_none()), "nothing is missing");
    let stats = written.iter().filter(|record| record["method"] == "fs.stat").count();
    assert_eq!(stats, recorded, "each executed request has its record, and no refused one");
}

/// A refused acknowledgement would stop the output of a session for ever, because a client does not repeat it.
#[test]
fn output_flows_and_processes_are_killed_while_a_configured_file_cannot_be_written() {
    const LINES: u32 = 200_000;
    let sandbox = Sandbox::with_config(
        "[limits]\nmax_output_bytes = 0\nhard_output_bytes = 0\n[server]\nresume_bytes = 65536\n",
    );
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut client = served.client(CarrierKind::Unix);
    let opened = client.open_with(json!({ "client_name": "test", "resume": true }));
    let session = &opened["session_id"];
    let acknowledge = |client: &mut AnyClient, event: u64| {
        let params = json!({ "session_id": session, "event_id": event });
        client.send(&json!({ "jsonrpc": "2.0", "method": "session.ack", "params": params }).to_string());
    };
    acknowledge(&mut client, 0);
    let line = format!("until test -e go; do sleep 0.01; done; seq 1 {LINES}");
    let flood = client.begin(json!({ "session_id": session, "argv": ["sh", "-c", line] }));
    let sleeper = client.begin(json!({ "session_id": session, "argv": ["sleep", "1000"] }));
    sandbox.gains("audit.log", "1000", Instant::now() + PATIENCE);
    block(&sandbox, "audit.log");
    let (long, mut recorded) = ("x/".repeat(8_000), 0);
    recorded += fill(&mut client, "fs.stat", &json!({ "session_id": session, "path": long })).1;
    client.call("exec.kill", json!({ "session_id": session, "process_id": sleeper }));
    // A client that repeats such a request may not use up the memory for the records of what still runs.
    recorded += fill(&mut client, "exec.kill", &json!({ "session_id": session, "process_id": long })).1;
    sandbox.write("root/go", "");
    let (mut output, mut last) = (CommandOutcome::default(), 0);
    while output.exit.is_null() {
        let mut message = client.take("an event", |message| message["method"].is_string());
        if let Some(event) = message["params"]["event_id"].as_u64().filter(|event| *event > last) {
            last = event;
            acknowledge(&mut client, last);
        }
        if message["params"]["process_id"] == flood.as_str() {
            output.add(message.take());
        }
    }
    let expected: String = (1..=LINES).map(|number| format!("{number}\n")).collect();
    assert!(output.stdout == expected.as_bytes(), "{} bytes", output.stdout.len());
    fs::remove_dir(sandbox.path("audit.log")).unwrap();
    let mut tries = Tries::within(PATIENCE, "requests are accepted again");
    while client.ask("session.close", json!({ "session_id": session })).unwrap()["error"]["data"]["retry"]
        == true
    {
        tries.again();
    }
    sandbox.gains("audit.log", "session.close", Instant::now() + PATIENCE);
    let written = records(&sandbox.read("audit.log"));
    assert!(written.iter().all(|record| record.get("lost").is_none()), "nothing is missing");
    let of = |method: &str| written.iter().filter(|record| record["method"] == method).count();
    assert_eq!(of("fs.stat") + of("exec.kill"), recorded + 1, "each executed request has its record");
}

#[test]
fn lost_records_of_the_default_file_are_counted() {
    let sandbox = Sandbox::with_config("[audit]\nenabled = true\n");
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut client = served.client(CarrierKind::Unix);
    let file = "home/state/rexd/audit.log";
    client.open();
    sandbox.gains(file, "session.open", Instant::now() + PATIENCE);
    block(&sandbox, file);
    let lost = || {
        let mut http = Http::connect(served.addresses.http).unwrap();
        let page = http.ask("/metrics", &bearer(Some(TOKEN)), None).unwrap();
        prometheus::parse(&page.body).unwrap().value("rexd_audit_lost_total", &[]).unwrap()
    };
    let mut tries = Tries::within(PATIENCE, "lost records are counted");
    while lost() < 3.0 {
        client.call("server.ping", json!({}));
        tries.again();
    }
    fs::remove_dir(sandbox.path(file)).unwrap();
    client.call("server.ping", json!({}));
    sandbox.gains(file, "\"lost\"", Instant::now() + PATIENCE);
}
