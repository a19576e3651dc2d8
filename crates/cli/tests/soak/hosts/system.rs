//! The system of a run with hosts: a hub with its store and a host that can be killed and started again, behind proxies.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::daemon::PATIENCE;
use testkit::log::Log;
use testkit::postgres::{Postgres, SOCKET, url_at};
use testkit::proc::{marked, watch};
use testkit::proxy::Proxy;
use testkit::sandbox::Sandbox;
use testkit::serve::Addresses;

use crate::counters::{Counters, Work};
use crate::leftovers::{Leftovers, users_of};
use crate::system::{Running, kill, listening, mark, marked_command};

/// The id of the host.
pub(super) const HOST: &str = "soak-host";
/// Questions wait longer than any fault lasts.
const CONFIG: &str = r#"
[approvals]
timeout_ms = 600000

[keepers]
keep_ms = 600000
"#;
/// Prints the events of a SQLite database, one JSON array per line.
const READ_SQLITE: &str = "
import json, sqlite3, sys
for row in sqlite3.connect(sys.argv[1]).execute(
        'SELECT run_id, seq, type, text FROM events ORDER BY run_id, seq'):
    print(json.dumps(row))
";
const READ_POSTGRES: &str =
    "SELECT json_build_array(run_id, seq, type, text) FROM events ORDER BY run_id, seq";

/// Where the hub stores its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreKind {
    Sqlite,
    Postgres,
}

/// A program that can be killed and started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostPart {
    Hub,
    Host,
}

/// A database server behind a proxy.
struct Database {
    proxy: Proxy,
    name: String,
    server: Postgres,
}

/// A row of the hub's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredEvent {
    pub(super) run: String,
    pub(super) seq: u64,
    pub(super) kind: String,
    pub(super) text: String,
}

/// The system of a run with hosts.
pub(super) struct HostSystem {
    hub: Mutex<(Running, Log)>,
    host: Mutex<(Running, Log)>,
    /// Connections of apps and of the host to the hub.
    pub(super) apps: Proxy,
    pub(super) host_link: Proxy,
    database: Option<Database>,
    /// The token of an app that may do everything the run needs.
    pub(super) token: String,
    leftovers: Leftovers,
    pub(super) sandbox: Sandbox,
}

impl HostSystem {
    pub(super) fn start(store: StoreKind) -> HostSystem {
        let sandbox = Sandbox::with_config(CONFIG);
        let directory = |name: &str| {
            let directory = sandbox.path(name);
            std::fs::create_dir(&directory).unwrap();
            directory
        };
        let database = (store == StoreKind::Postgres).then(|| {
            let server = Postgres::start();
            let name = server.database();
            let http = "127.0.0.1:1".parse().unwrap();
            let directory = directory("database");
            let proxy = Proxy::start(&Addresses { unix: server.socket(), http, token: None }, &directory);
            symlink(&proxy.addresses.unix, directory.join(SOCKET)).unwrap();
            Database { proxy, name, server }
        });
        let (hub, at_hub) = start_hub(&sandbox, database.as_ref());
        let token = rexhub(&sandbox, database.as_ref())
            .args(["token", "add", "app", "--kind", "client", "--role", "operator"])
            .output()
            .unwrap();
        assert!(token.status.success(), "{token:?}");
        let host_link = Proxy::start(&at_hub, &directory("host-link"));
        let host = start_host(&sandbox, &host_link, database.is_some());
        HostSystem {
            hub: Mutex::new(hub),
            host: Mutex::new(host),
            apps: Proxy::start(&at_hub, &directory("apps")),
            host_link,
            database,
            token: String::from_utf8(token.stdout).unwrap().trim_end().to_owned(),
            leftovers: Leftovers::default(),
            sandbox,
        }
    }

    /// The connections between the hub and its database, if that is a server.
    pub(super) fn database(&self) -> Option<&Proxy> {
        self.database.as_ref().map(|database| &database.proxy)
    }

    fn part(&self, part: HostPart) -> std::sync::MutexGuard<'_, (Running, Log)> {
        match part {
            HostPart::Hub => self.hub.lock().unwrap(),
            HostPart::Host => self.host.lock().unwrap(),
        }
    }

    /// The process id of a program.
    pub(super) fn pid(&self, part: HostPart) -> i32 {
        i32::try_from(self.part(part).0.0.id()).unwrap()
    }

    /// The last lines that a program has logged.
    pub(super) fn log(&self, part: HostPart) -> String {
        let text = self.part(part).1.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Kills a program and starts it again. A hub listens then; a host may not be connected yet.
    pub(super) fn restart(&self, part: HostPart) {
        let mut running = self.part(part);
        kill(&mut running.0.0);
        match part {
            HostPart::Hub => {
                let (hub, at_hub) = start_hub(&self.sandbox, self.database.as_ref());
                *running = hub;
                self.apps.redirect(&at_hub);
                self.host_link.redirect(&at_hub);
            }
            HostPart::Host => *running = start_host(&self.sandbox, &self.host_link, self.database.is_some()),
        }
    }

    /// Stops the programs and counts the processes that are left.
    pub(super) fn stop(&self, counters: &Counters) {
        self.leftovers.remember_tree(self.pid(HostPart::Host));
        for part in [HostPart::Host, HostPart::Hub] {
            let pid = self.pid(part);
            kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
            if !watch(pid).ends_before(Instant::now() + 2 * PATIENCE) {
                counters.unanswered(Work::System, format!("{part:?} does not end on TERM"));
                kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
            }
            self.part(part).0.0.wait().unwrap();
        }
        let directory = self.sandbox.path(".").canonicalize().unwrap();
        let mark = mark(&self.sandbox);
        let found = || marked(&mark).into_iter().chain(users_of(&directory)).collect();
        self.leftovers.count(found, counters);
    }

    /// All events in the store, by run and number, read with plain SQL.
    pub(super) fn stored(&self) -> Vec<StoredEvent> {
        let text = match &self.database {
            Some(database) => database.server.sql(&database.name, READ_POSTGRES),
            None => {
                let file = self.sandbox.path("rexhub/hub.db");
                let read = Command::new("python3").args(["-c", READ_SQLITE]).arg(file).output().unwrap();
                assert!(read.status.success(), "{read:?}");
                String::from_utf8(read.stdout).unwrap()
            }
        };
        text.lines().map(stored_event).collect()
    }
}

fn stored_event(line: &str) -> StoredEvent {
    let row: Value = serde_json::from_str(line).unwrap();
    let text = |column: usize| row[column].as_str().unwrap_or_default().to_owned();
    StoredEvent { run: text(0), seq: row[1].as_u64().unwrap(), kind: text(2), text: text(3) }
}

fn rexhub(sandbox: &Sandbox, database: Option<&Database>) -> Command {
    let mut command = marked_command(sandbox, "rexhub");
    match database {
        Some(database) => {
            command.env("REXHUB_DATABASE", url_at(&database.name, &sandbox.path("database")));
        }
        None => {
            command.env("XDG_DATA_HOME", sandbox.path(""));
        }
    }
    command
}

fn start_hub(sandbox: &Sandbox, database: Option<&Database>) -> ((Running, Log), Addresses) {
    let log = Log::new();
    let mut hub = rexhub(sandbox, database);
    let hub = hub.args(["serve", "--listen", "127.0.0.1:0"]);
    let mut hub = hub.stdout(Stdio::piped()).stderr(log.stdio()).spawn().unwrap();
    let http = listening(&mut hub, &log);
    ((Running(hub), log), Addresses { unix: sandbox.path("none.sock"), http, token: None })
}

/// A host of its own, or one beside the other faces.
fn start_host(sandbox: &Sandbox, link: &Proxy, has_faces: bool) -> (Running, Log) {
    let log = Log::new();
    let mut host = marked_command(sandbox, "rexd");
    match has_faces {
        false => host.arg("host"),
        true => host.args(["serve", "--unix"]).arg(sandbox.path("rexd.sock")),
    };
    host.arg("--config").arg(sandbox.config());
    host.args(["--host-id", HOST, "--hub", &format!("http://{}", link.addresses.http)]);
    (Running(host.stdout(Stdio::null()).stderr(log.stdio()).spawn().unwrap()), log)
}
