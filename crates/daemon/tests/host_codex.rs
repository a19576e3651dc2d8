//! Codex from npm with its commands on a daemon that is also a host: the hub watches a process that Codex started and stops
//! it, and Codex reports the end to its model.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod codex;
mod host_support;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use codex::script::{ENDED, run};
use codex::{CarrierKind, Conversation, Place, REXD, Release};
use host_support::{HostProcess, ScriptedHub, Stored};
use serde_json::{Value, json};
use tokio::time::timeout;

/// How long Codex has to start its command.
const PATIENCE: Duration = Duration::from_secs(180);

#[tokio::test]
async fn the_hub_watches_and_stops_a_process_that_codex_started() {
    let (place, hub, mut stored) = (Place::new(), ScriptedHub::new().await, Stored::default());
    let mut command = place.command(REXD, "server");
    command.args([
        "serve",
        "--hub",
        &hub.url(),
        "--exec-server",
        "ws://127.0.0.1:0",
        "--root",
        &place.root(),
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let _daemon = HostProcess { child };
    let line = lines.find_map(|line| line.ok().filter(|line| line.contains("ws://"))).unwrap();
    let url = line.split_whitespace().next_back().unwrap().to_owned();
    let (mut connection, _) = hub.greeted(&stored).await;

    // It never prints the text for which the script polls, so the model polls until the process has ended.
    let long = "echo from-$((40+2)); exec sleep 1000";
    let script = vec![vec![run("long", long, json!({ "yield_time_ms": 250 })).until(ENDED)]];
    let codex = tokio::task::spawn_blocking(move || {
        let way = CarrierKind::Url(url);
        let sandbox = "danger-full-access";
        Conversation { place: &place, client: Release::V0_166, way, sandbox }.hold(script)
    });
    let is_output = |message: &Value| {
        message["type"] == "run.output"
            && message["data"]["text"].as_str().is_some_and(|text| text.contains("from-42"))
    };
    let output = timeout(PATIENCE, connection.until(&mut stored, is_output)).await.unwrap();
    let run = output["run_id"].as_str().unwrap();
    let started = &stored.of(run)[0];
    assert_eq!((&started["type"], &started["data"]["tool"]), (&json!("run.started"), &json!("exec-server")));

    connection.send("run.stop", Some(run), json!({ "signal": "kill", "user": "ann" })).await;
    assert_eq!(connection.exited(&mut stored, run).await["data"]["exit_code"], 137);
    stored.assert_complete(run);
    let model = codex.await.unwrap();
    let long = model.output("long");
    assert!(long.contains("from-42") && long.contains(&format!("{ENDED} 137")), "{long}");
}
