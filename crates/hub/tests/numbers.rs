//! Numbers of one node: stored events per second, the time from a host to an app, and the memory of a connection. They are
//! printed, not asserted; what is asserted is that nothing is lost. `HUB_NUMBERS=full` uses the sizes of the documents.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hub::auth::{UserRole, now_ms};
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

/// How loaded the machine is: numbers mean little beside other work.
fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    load.split(' ').next().unwrap().to_owned()
}

/// The program with an SQLite database.
fn program() -> Running {
    Running::program(|data| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rexhub"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).stderr(Stdio::null());
        command
    })
}

/// Stores batches as the hub's writer does, and returns the events per second.
async fn stored_per_second(store: &Store) -> f64 {
    let (rounds, runs, per_run) = if is_full() { (200, 100, 10) } else { (10, 20, 10) };
    let mut spent = Duration::ZERO;
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
        let started = Instant::now();
        let written = store.write_events(&[batch], now_ms()).await.unwrap();
        spent += started.elapsed();
        assert!(written[0].runs.iter().all(|run| run.last_seq == (round + 1) * per_run));
    }
    (rounds * runs * per_run) as f64 / spent.as_secs_f64()
}

#[tokio::test]
async fn events_stored_per_second() {
    let directory = tempfile::tempdir().unwrap();
    let sqlite = stored_per_second(&Store::open_sqlite(directory.path()).await.unwrap()).await;
    let postgres = Postgres::start();
    let url = postgres.url(&postgres.database());
    let postgresql = stored_per_second(&Store::open_postgres(&url).await.unwrap()).await;
    println!("events stored per second: SQLite {sqlite:.0}, PostgreSQL {postgresql:.0}; load {}", load());
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

/// The seconds of processor time that a process has used.
fn processor_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // The 14th and 15th of all fields; the first two are before the parenthesis.
    let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

#[test]
fn every_event_of_many_hosts_reaches_its_app() {
    let (hosts, runs, apps, rate, seconds) =
        if is_full() { (200, 1000, 20, 10_000, 10) } else { (8, 40, 4, 400, 1) };
    let hub = program();
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
    let mut watching: Vec<Envelopes> = (0..apps).map(|_| app(&hub, &token)).collect();
    for (number, app) in watching.iter_mut().enumerate() {
        for run in number * per_app..(number + 1) * per_app {
            app.send(&command("run.subscribe", &run_id(run), json!({ "after_seq": 1 })));
        }
        // It is answered after the subscriptions.
        app.send(&command("no.such.type", "r", json!({})));
        app.next("app.error");
    }
    let epoch = Instant::now();
    let (hub_before, own_before) = (processor_seconds(hub.pid()), processor_seconds(std::process::id()));
    let watching: Vec<_> = watching
        .into_iter()
        .map(|mut app| std::thread::spawn(move || delays(&mut app, epoch, per_app * events)))
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
        let data = json!({ "stream": "stdout", "text": text });
        connected[run % hosts].event(&run_id(run), seq, "run.output", data);
    }
    let took = epoch.elapsed().as_secs_f64();
    let mut delays: Vec<Duration> = watching.into_iter().flat_map(|app| app.join().unwrap()).collect();
    let hub_used = processor_seconds(hub.pid()) - hub_before;
    let own_used = processor_seconds(std::process::id()) - own_before;
    delays.sort();
    let at = |part: f64| delays[((delays.len() - 1) as f64 * part) as usize];
    println!(
        "{hosts} hosts, {runs} runs, {apps} apps: {:.0} events/s sent, p50 {:?}, p99 {:?}, all {total} arrived; \
         processor time per event: hub {:.0} µs, hosts and apps {:.0} µs; load {}",
        total as f64 / took,
        at(0.5),
        at(0.99),
        hub_used * 1e6 / total as f64,
        own_used * 1e6 / total as f64,
        load()
    );
}

/// The resident memory of a process in KiB.
fn resident_kib(pid: u32) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn memory_of_idle_connections() {
    let count: i64 = if is_full() { 800 } else { 20 };
    let hub = program();
    let token = hub.client("v", UserRole::Viewer);
    let host = |number: i64| {
        let mut host = ScriptedHost::connect(&hub, &format!("host-{number}"));
        host.socket
            .send(&json!({ "type": "host.hello", "data": { "name": "box", "version": "1", "runs": [] } }));
        host.socket.next("hub.ready");
        host
    };
    // The first ones also pay for what all share.
    let mut hosts: Vec<ScriptedHost> = (0..count / 4).map(host).collect();
    let before = resident_kib(hub.pid());
    hosts.extend((count / 4..count / 4 + count).map(host));
    let with_hosts = resident_kib(hub.pid());
    let _first: Vec<Envelopes> = (0..count / 4).map(|_| app(&hub, &token)).collect();
    let before_apps = resident_kib(hub.pid());
    let _apps: Vec<Envelopes> = (0..count).map(|_| app(&hub, &token)).collect();
    let with_apps = resident_kib(hub.pid());
    let per = |more: i64| more as f64 / count as f64;
    println!(
        "memory per idle connection: host {:.1} KiB, app {:.1} KiB",
        per(with_hosts - before),
        per(with_apps - before_apps)
    );
}

/// Each event once, and no more frames for it than 1.05: the host continues behind the acknowledged position.
#[test]
fn frames_sent_for_replay_after_cuts() {
    let (rounds, per_round) = if is_full() { (20, 2_000) } else { (4, 100) };
    let hub = program();
    let total: i64 = rounds * per_round;
    assert_eq!(total % 50, 0);
    let (mut next, mut sent, mut cuts) = (1, 0, 0);
    while next <= total {
        let mut host = ScriptedHost::connect(&hub, "h");
        let held = json!([{ "run_id": "r", "last_seq": total }]);
        host.socket
            .send(&json!({ "type": "host.hello", "data": { "name": "", "version": "", "runs": held } }));
        next = host.socket.next("run.ack")["data"]["last_seq"].as_i64().unwrap() + 1;
        // A window of what is not acknowledged, as the host keeps it.
        let end = (next + per_round - 1).min(total);
        for seq in next..=end {
            host.output("r", seq);
            sent += 1;
            if seq % 50 == 0 {
                host.acked("r", seq);
            }
        }
        next = end + 1;
        // Cut without a closing handshake.
        drop(host);
        cuts += 1;
    }
    let stored = hub.with_store(async |store| store.positions(&["r"], None).await.unwrap());
    assert_eq!(stored["r"], total);
    println!("{cuts} cuts: {:.3} frames per unique event", f64::from(sent) / total as f64);
}
