//! Faults on the hub's side: a database whose connections are cut, one that goes away, and a full disk. Nothing is lost or
//! seen twice, and the rest keeps working.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hub::auth::UserRole;
use hub::config::{Limits, Storage};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use support::Running;
use support::peers::{Envelopes, ScriptedHost, app, command, output_of};
use support::postgres::Postgres;
use testkit::daemon::PATIENCE;
use testkit::proxy::{CutKind, Direction, Proxy};
use testkit::serve::Addresses;

/// A database behind a proxy.
struct ProxiedDatabase {
    postgres: Postgres,
    proxy: Proxy,
    directory: tempfile::TempDir,
}

impl ProxiedDatabase {
    fn start() -> ProxiedDatabase {
        let (postgres, directory) = (Postgres::start(), tempfile::tempdir().unwrap());
        let proxy = Proxy::start(&addresses(&postgres.socket()), directory.path());
        ProxiedDatabase { postgres, proxy, directory }
    }

    fn hub(&self) -> Running {
        let url = self.postgres.url_through(&self.postgres.database(), self.directory.path());
        // The apps read nothing, and answer no ping, until the faults are over.
        let limits = Limits { silence: Duration::from_secs(3600), ..Limits::default() };
        Running::start_with(limits, |config| config.storage = Storage::Database(url))
    }

    fn go_away(&self) {
        self.proxy.redirect(&addresses(Path::new("/nonexistent")));
        self.proxy.cut(CutKind::Reset);
    }

    fn come_back(&self) {
        self.proxy.redirect(&addresses(&self.postgres.socket()));
    }
}

/// Only the unix socket is used.
fn addresses(socket: &Path) -> Addresses {
    Addresses { unix: socket.to_owned(), http: "127.0.0.1:1".parse().unwrap(), token: None }
}

/// Connects a host that has events of the run `r`, and returns the position that the hub has stored.
fn connect(hub: &Running) -> (ScriptedHost, i64) {
    let deadline = Instant::now() + 2 * PATIENCE;
    loop {
        // While the hub has no database, it refuses connections or closes them.
        if let Ok(mut host) = ScriptedHost::try_connect(hub, "h", "token") {
            let held = json!([{ "run_id": "r", "last_seq": 1 }]);
            let hello = json!({ "type": "host.hello", "data": { "name": "", "version": "", "runs": held } });
            host.socket.send(&hello);
            if let Ok(ack) = host.socket.try_next("run.ack") {
                let stored = ack["data"]["last_seq"].as_i64().unwrap();
                return (host, stored);
            }
        }
        assert!(Instant::now() < deadline, "the hub does not accept the host");
    }
}

/// Sends the lines up to `end` until all of them are acknowledged, over as many connections as that takes.
fn send_up_to(hub: &Running, end: i64) {
    loop {
        let (mut host, mut stored) = connect(hub);
        for seq in stored + 1..=end {
            if host.try_output("r", seq).is_err() {
                break;
            }
        }
        while stored < end {
            match host.socket.try_next("run.ack") {
                Ok(ack) => stored = ack["data"]["last_seq"].as_i64().unwrap(),
                Err(_ended) => break,
            }
        }
        if stored >= end {
            return;
        }
    }
}

fn all_lines(end: i64) -> Vec<i64> {
    (1..=end).collect()
}

fn is_line(number: i64) -> impl Fn(&Value) -> bool {
    move |message| message["type"] == "run.output" && message["seq"] == number
}

/// Waits until the hub has handled everything that an app has sent, and has sent what is pending.
fn settle(app: &mut Envelopes) {
    app.send(&command("no.such.type", "r", json!({})));
    app.next("app.error");
}

/// Whether a transaction was committed whose connection was cut is not known to the hub.
#[test]
fn cuts_at_any_byte_lose_nothing_and_repeat_nothing() {
    let database = ProxiedDatabase::start();
    let hub = database.hub();
    let token = hub.client("v", UserRole::Viewer);
    // One app receives everything, the other one continues from a stored position; both stay connected.
    let mut watching = app(&hub, &token);
    settle(&mut watching);
    let mut subscribed: Option<Envelopes> = None;
    let (rounds, lines) = (24, 20);
    for round in 0..rounds {
        // After the answer to a statement of one of the next transactions: often that of COMMIT.
        let bytes = usize::try_from(7 + round * 23).unwrap();
        let toward = if round % 3 == 0 { Direction::Daemon } else { Direction::Client };
        database.proxy.cut_after(toward, bytes, CutKind::Reset);
        send_up_to(&hub, (round + 1) * lines);
        if subscribed.is_none() {
            // A subscription reads the store: an app whose read is cut has to connect again.
            database.proxy.call_off();
            let mut new = app(&hub, &token);
            new.send(&command("run.subscribe", "r", json!({ "after_seq": 0 })));
            settle(&mut new);
            subscribed = Some(new);
        }
    }
    database.proxy.call_off();
    assert!(database.proxy.cuts() > 0, "no connection was cut");
    let total = rounds * lines;
    assert_eq!(output_of(&watching.until(is_line(total))), all_lines(total));
    assert_eq!(output_of(&subscribed.unwrap().until(is_line(total))), all_lines(total));
    let stored = hub.with_store(async |store| store.events_after("r", (0, i64::MAX), 10_000).await.unwrap());
    assert_eq!(stored.iter().map(|event| event.seq).collect::<Vec<_>>(), all_lines(total));
}

#[test]
fn a_database_that_goes_away_and_comes_back_loses_nothing() {
    let database = ProxiedDatabase::start();
    let hub = database.hub();
    let token = hub.client("v", UserRole::Viewer);
    let mut watching = app(&hub, &token);
    // A new connection reads what is pending; the database must not go away before that.
    settle(&mut watching);
    let (mut host, _) = connect(&hub);
    host.output("r", 1);
    host.acked("r", 1);
    database.go_away();
    host.output("r", 2);
    assert_eq!(host.socket.closed(), 1013, "the host is told to try again");
    let answer = hub.get("/runs", &token);
    assert_eq!((answer.head.status, answer.head.header("retry-after")), (503, Some("1")), "{}", answer.body);
    assert!(!answer.body.contains("postgres"), "{}", answer.body);
    assert_eq!(hub.ask("/healthz", &[], None).head.status, 200, "the hub itself is up");
    database.come_back();
    send_up_to(&hub, 10);
    assert_eq!(output_of(&watching.until(is_line(10))), all_lines(10), "the app stayed connected");
}

/// The limit on the size of a file of a running process: beyond it, writes fail as on a full disk.
fn limit_files(hub: &Running, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(hub.pid()).unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

#[test]
fn a_full_disk_stops_hosts_and_nothing_else() {
    let hub = Running::program(|data| {
        // Without the signal, a write beyond the limit returns an error.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_rexhub")]);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).stderr(Stdio::null());
        command
    });
    let (token, admin) = (hub.client("v", UserRole::Viewer), hub.client("a", UserRole::Admin));
    let mut watching = app(&hub, &token);
    send_up_to(&hub, 20);
    let (mut host, stored) = connect(&hub);
    assert_eq!(stored, 20);
    limit_files(&hub, Some(1));
    host.output("r", 21);
    assert_eq!(host.socket.closed(), 1013);
    assert_eq!(hub.get("/runs", &token).head.status, 200, "what is stored can be read");
    assert_eq!(hub.request("POST", "/join-codes", &admin, Some("{}")).0, 503);
    let mut refused = ScriptedHost::connect(&hub, "h");
    assert_eq!(refused.socket.closed(), 1013);
    limit_files(&hub, None);
    send_up_to(&hub, 40);
    assert_eq!(output_of(&watching.until(is_line(40))), all_lines(40), "the app stayed connected");
    assert_eq!(hub.request("POST", "/join-codes", &admin, Some("{}")).0, 200);
}
