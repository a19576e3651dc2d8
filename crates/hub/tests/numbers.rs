//! Numbers of one node: stored events per second, and the time from a host to an app. They are printed, not asserted; what is
//! asserted is that nothing is lost. `HUB_NUMBERS=full` uses the sizes of the documents.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hub::auth::{UserRole, now_ms};
use hub::config::Limits;
use hub::runs::HostEvent;
use hub::store::{EventBatch, Store};
use serde_json::json;
use support::Running;
use support::peers::{Envelopes, ScriptedHost, app, command};
use support::postgres::Postgres;
use wire::hub::v1::Envelope;

fn is_full() -> bool {
    std::env::var("HUB_NUMBERS").is_ok_and(|value| value == "full")
}

/// Stores batches as the hub's writer does, and returns the events per second.
async fn stored_per_second(store: &Store) -> f64 {
    let (rounds, runs, per_run) = if is_full() { (200, 100, 10) } else { (10, 20, 10) };
    let started = Instant::now();
    for round in 0..rounds {
        let event = |run: i64, number: i64| {
            let text = json!({
                "type": "run.output", "run_id": format!("run-{run:036}"), "seq": round * per_run + number,
                "data": { "stream": "stdout", "text": "a line of output with some text in it, as compilers print them\r\n" },
            });
            HostEvent::parse(Envelope::parse(&text.to_string()).unwrap(), "h", "2026-01-01T00:00:00Z")
                .unwrap()
        };
        let events = (0..runs).flat_map(|run| (1..=per_run).map(move |number| event(run, number))).collect();
        let batch = EventBatch { host_id: "h".to_owned(), events };
        let written = store.write_events(&[batch], now_ms()).await.unwrap();
        assert!(written[0].runs.iter().all(|run| run.last_seq == (round + 1) * per_run));
    }
    (rounds * runs * per_run) as f64 / started.elapsed().as_secs_f64()
}

#[tokio::test]
async fn events_stored_per_second() {
    let directory = tempfile::tempdir().unwrap();
    let sqlite = stored_per_second(&Store::open_sqlite(directory.path()).await.unwrap()).await;
    let postgres = Postgres::start();
    let url = postgres.url(&postgres.database());
    let postgresql = stored_per_second(&Store::open_postgres(&url).await.unwrap()).await;
    println!("events stored per second: SQLite {sqlite:.0}, PostgreSQL {postgresql:.0}");
}

/// Reads events until so many have arrived, and returns how long each took.
fn delays(app: &mut Envelopes, epoch: Instant, events: usize) -> Vec<Duration> {
    let (mut seen, mut delays) = (HashMap::new(), Vec::new());
    while delays.len() < events {
        let event = app.next("run.output");
        let sent: u64 = event["data"]["text"].as_str().unwrap().trim().parse().unwrap();
        delays.push(epoch.elapsed().saturating_sub(Duration::from_micros(sent)));
        let run = event["run_id"].as_str().unwrap().to_owned();
        let last = seen.insert(run, event["seq"].as_i64().unwrap()).unwrap_or(1);
        assert_eq!(event["seq"], last + 1, "each event once and in order");
    }
    delays
}

#[test]
fn every_event_of_many_hosts_reaches_its_app() {
    let (hosts, runs, apps, rate, seconds) =
        if is_full() { (200, 1000, 20, 10_000, 10) } else { (8, 40, 4, 400, 1) };
    let hub = Running::start(Limits::default());
    let token = hub.client("v", UserRole::Viewer);
    let mut connected: Vec<ScriptedHost> =
        (0..hosts).map(|number| ScriptedHost::connect(&hub, &format!("host-{number}"))).collect();
    let run_id = |run: usize| format!("run-{run:036}");
    for run in 0..runs {
        connected[run % hosts].started(&run_id(run));
    }
    for run in 0..runs {
        connected[run % hosts].acked(&run_id(run), 1);
    }
    let (per_app, events) = (runs / apps, (rate * seconds / runs).max(1));
    let epoch = Instant::now();
    let watching: Vec<_> = (0..apps)
        .map(|number| {
            let mut app = app(&hub, &token);
            for run in number * per_app..(number + 1) * per_app {
                app.send(&command("run.subscribe", &run_id(run), json!({ "after_seq": 1 })));
            }
            std::thread::spawn(move || delays(&mut app, epoch, per_app * events))
        })
        .collect();
    // All events are due at equal distances; a sender that is late sends them at once.
    let total = runs * events;
    for number in 0..total {
        let due = Duration::from_secs_f64(number as f64 / rate as f64);
        if let Some(early) =
            due.checked_sub(epoch.elapsed()).filter(|early| *early > Duration::from_millis(2))
        {
            std::thread::park_timeout(early);
        }
        let (run, seq) = (number % runs, i64::try_from(number / runs).unwrap() + 2);
        let text = format!("{:060}\n", epoch.elapsed().as_micros());
        connected[run % hosts].event(
            &run_id(run),
            seq,
            "run.output",
            json!({ "stream": "stdout", "text": text }),
        );
    }
    let took = epoch.elapsed().as_secs_f64();
    let mut delays: Vec<Duration> = watching.into_iter().flat_map(|app| app.join().unwrap()).collect();
    delays.sort();
    let at = |part: f64| delays[((delays.len() - 1) as f64 * part) as usize];
    println!(
        "{hosts} hosts, {runs} runs, {apps} apps: {:.0} events/s, p50 {:?}, p99 {:?}, all {total} arrived",
        total as f64 / took,
        at(0.5),
        at(0.99)
    );
}
