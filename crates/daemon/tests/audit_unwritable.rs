//! An audit file that cannot be written while the daemon runs: no record of a configured file is lost, and those of the
//! default file are counted.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;

use serde_json::{Value, json};
use testkit::daemon::{PATIENCE, Rexd};
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

#[test]
fn requests_are_refused_while_a_configured_file_cannot_be_written() {
    let sandbox = Sandbox::new();
    let mut rexd = Rexd::start(REXD, &sandbox);
    let session = rexd.open_with(json!({}))["session_id"].clone();
    sandbox.gains("audit.log", "session.open", std::time::Instant::now() + PATIENCE);
    block(&sandbox, "audit.log");
    // Long enough that few requests fill the queue.
    let path = "x/".repeat(8_000);
    let stat = json!({ "session_id": session, "path": path });
    let mut recorded = 0;
    let refused = loop {
        let response = rexd.ask("fs.stat", stat.clone()).unwrap();
        match response["error"]["code"].as_i64() {
            Some(RESOURCE_LIMIT) => break response,
            _ => recorded += 1,
        }
        assert!(recorded < 10_000, "nothing is refused");
    };
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("audit.log") && message.contains("not executed"), "{message}");
    let start = json!({ "session_id": session, "argv": ["touch", "started"] });
    assert_eq!(rexd.ask("exec.start", start).unwrap()["error"]["code"], RESOURCE_LIMIT);
    assert!(!sandbox.path("root/started").exists());
    fs::remove_dir(sandbox.path("audit.log")).unwrap();
    let mut tries = Tries::within(PATIENCE, "requests are accepted again");
    while rexd.ask("server.ping", json!({})).unwrap()["error"]["code"] == RESOURCE_LIMIT {
        tries.again();
    }
    rexd.call("session.close", json!({ "session_id": session }));
    rexd.end();
    let written = records(&sandbox.read("audit.log"));
    assert!(written.iter().all(|record| record.get("lost").is_none()), "nothing is missing");
    let stats = written.iter().filter(|record| record["method"] == "fs.stat").count();
    assert_eq!(stats, recorded, "each executed request has its record, and no refused one");
}

#[test]
fn lost_records_of_the_default_file_are_counted() {
    let sandbox = Sandbox::with_config("[audit]\nenabled = true\n");
    let served = ServedDaemon::start(REXD, &sandbox);
    let mut client = served.client(CarrierKind::Unix);
    let file = "home/state/rexd/audit.log";
    client.open();
    sandbox.gains(file, "session.open", std::time::Instant::now() + PATIENCE);
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
    sandbox.gains(file, "\"lost\"", std::time::Instant::now() + PATIENCE);
}
