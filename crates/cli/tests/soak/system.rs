//! The system of a run: a daemon, a hub and an executor that can be killed and started again, each behind proxies.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use testkit::daemon::PATIENCE;
use testkit::log::Log;
use testkit::proc::{marked, watch};
use testkit::programs::program;
use testkit::proxy::Proxy;
use testkit::sandbox::Sandbox;
use testkit::serve::{Addresses, ServedDaemon};

use crate::counters::{Counters, Work};
use crate::disk::Disk;
use crate::leftovers::{Leftovers, of_jobs, users_of};

/// The id of the executor at the hub.
const EXECUTOR: &str = "soak";
/// Memory for output is small, so that output reaches the disk. Everything that no fault changes has enough of the rest.
const CONFIG: &str = r#"
[server]
ping_ms = 1000
resume_ms = 120000
resume_bytes = 262144

[limits]
hard_output_bytes = 0
hard_timeout_ms = 0
log_bytes = 65536
spill_bytes = 8388608
max_processes_per_session = 4
max_concurrent_sessions = 256

[keepers]
log_bytes = 4194304
quota_bytes = 16777216
keep_ms = 600000

[approvals]
timeout_ms = 120000

[[policy.rules]]
name = "once"
action = "ask"
argv = ["$ROOT/once", "*"]

[[security.allowed_roots]]
path = "$ROOT"

[[security.allowed_roots]]
path = "$DIR/disk/copies"
"#;

/// A program that can be killed and started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Daemon,
    Hub,
    Executor,
}

/// A hub, an executor or a host, which ends with the run.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The system of a run.
pub(crate) struct System {
    daemon: Mutex<ServedDaemon>,
    hub: Mutex<Running>,
    executor: Mutex<Running>,
    /// Connections of clients to the daemon: over the unix socket, over WebSockets, and of `rex cp`.
    pub(crate) unix: Proxy,
    pub(crate) web: Proxy,
    pub(crate) copies: Proxy,
    /// Connections to the hub: of harnesses and of the executor.
    pub(crate) harness: Proxy,
    pub(crate) executor_link: Proxy,
    bearer: String,
    /// The token of a harness.
    pub(crate) token: String,
    /// The running `rex cp`.
    pub(crate) rex: Mutex<BTreeSet<i32>>,
    leftovers: Leftovers,
    // Before the sandbox, which it is mounted in.
    pub(crate) disk: Disk,
    pub(crate) sandbox: Sandbox,
}

impl System {
    pub(crate) fn start() -> System {
        let sandbox = Sandbox::new();
        sandbox.configure(CONFIG);
        let disk = Disk::new(sandbox.path("disk"));
        std::fs::create_dir(disk.path().join("copies")).unwrap();
        let daemon = start_daemon(&sandbox);
        let proxy = |name: &str, before: &Addresses| {
            let directory = sandbox.path(name);
            std::fs::create_dir(&directory).unwrap();
            Proxy::start(before, &directory)
        };
        let (hub, at_hub) = start_hub(&sandbox);
        let token = |name: &str, kind: &str| {
            let output = rexhub(&sandbox, &["token", "add", name, "--kind", kind]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
        };
        let (bearer, harness_token) = (token("executor", "executor"), token("harness", "harness"));
        let executor_link = proxy("executor-link", &at_hub);
        let executor = start_executor(&sandbox, &executor_link, &bearer);
        System {
            unix: proxy("unix", &daemon.addresses),
            web: proxy("web", &daemon.addresses),
            copies: proxy("copies", &daemon.addresses),
            harness: proxy("harness", &at_hub),
            executor_link,
            daemon: Mutex::new(daemon),
            hub: Mutex::new(hub),
            executor: Mutex::new(executor),
            bearer,
            token: harness_token,
            rex: Mutex::default(),
            leftovers: Leftovers::default(),
            disk,
            sandbox,
        }
    }

    /// The process id of a program.
    pub(crate) fn pid(&self, part: Part) -> i32 {
        let running = |running: MutexGuard<'_, Running>| i32::try_from(running.0.id()).unwrap();
        match part {
            Part::Daemon => self.daemon.lock().unwrap().pid(),
            Part::Hub => running(self.hub.lock().unwrap()),
            Part::Executor => running(self.executor.lock().unwrap()),
        }
    }

    /// Kills a program and starts it again. Blocks until it listens.
    pub(crate) fn restart(&self, part: Part) {
        self.leftovers.remember_tree(self.pid(part));
        match part {
            Part::Daemon => {
                let mut daemon = self.daemon.lock().unwrap();
                daemon.signal(Signal::KILL);
                daemon.wait(PATIENCE);
                *daemon = start_daemon(&self.sandbox);
                for proxy in [&self.unix, &self.web, &self.copies] {
                    proxy.redirect(&daemon.addresses);
                }
            }
            Part::Hub => {
                let mut hub = self.hub.lock().unwrap();
                kill(&mut hub.0);
                let (started, addresses) = start_hub(&self.sandbox);
                *hub = started;
                for proxy in [&self.harness, &self.executor_link] {
                    proxy.redirect(&addresses);
                }
            }
            Part::Executor => {
                let mut executor = self.executor.lock().unwrap();
                kill(&mut executor.0);
                *executor = start_executor(&self.sandbox, &self.executor_link, &self.bearer);
            }
        }
    }

    /// Remembers the process tree of a program that is going to be killed.
    pub(crate) fn remember_tree(&self, pid: i32) {
        self.leftovers.remember_tree(pid);
    }

    /// The address of the executor at the hub, through the proxy of harnesses.
    pub(crate) fn rendezvous(&self) -> String {
        format!("ws://{}/cloud/executor/{EXECUTOR}/rendezvous", self.harness.addresses.http)
    }

    /// Counts the processes of jobs that are left, stops the programs, and counts the processes of the programs.
    pub(crate) fn stop(&self, counters: &Counters) {
        let mark = mark(&self.sandbox);
        self.leftovers.remember_tree(self.pid(Part::Daemon));
        self.leftovers.remember_tree(self.pid(Part::Executor));
        // Only processes of jobs: those that were remembered may need the end of the programs.
        Leftovers::default().count(|| of_jobs(&mark), counters);
        for part in [Part::Executor, Part::Hub, Part::Daemon] {
            let pid = self.pid(part);
            kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
            if !watch(pid).ends_before(Instant::now() + 2 * PATIENCE) {
                counters.unanswered(Work::System, format!("{part:?} does not end on TERM"));
                kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
            }
        }
        self.daemon.lock().unwrap().wait(PATIENCE);
        for running in [&self.hub, &self.executor] {
            running.lock().unwrap().0.wait().unwrap();
        }
        let directory = self.sandbox.path(".").canonicalize().unwrap();
        let found = || marked(&mark).into_iter().chain(users_of(&directory)).collect();
        self.leftovers.count(found, counters);
    }
}

/// The variable that marks every process of this run, as `NAME=value`.
pub(crate) fn mark(sandbox: &Sandbox) -> String {
    format!("SOAK_RUN={}", sandbox.root().display())
}

/// A command of one of the programs, marked as part of this run.
pub(crate) fn marked_command(sandbox: &Sandbox, name: &str) -> Command {
    let mut command = sandbox.command(program(name));
    command.env("SOAK_RUN", sandbox.root());
    command
}

/// The same with its state on the small disk.
fn command(sandbox: &Sandbox, name: &str) -> Command {
    let mut command = marked_command(sandbox, name);
    command.env("XDG_STATE_HOME", sandbox.path("disk/state"));
    command
}

fn start_daemon(sandbox: &Sandbox) -> ServedDaemon {
    let mut command = command(sandbox, "rexd");
    command.arg("serve").arg("--config").arg(sandbox.config());
    ServedDaemon::spawn(command, sandbox)
}

fn rexhub(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = command(sandbox, "rexhub");
    command.args(arguments).arg("--data").arg(sandbox.path("hub"));
    command
}

fn start_hub(sandbox: &Sandbox) -> (Running, Addresses) {
    let log = Log::new();
    let mut hub = rexhub(sandbox, &["serve", "--listen", "127.0.0.1:0"]);
    let mut hub = hub.stdout(Stdio::piped()).stderr(log.stdio()).spawn().unwrap();
    let http = listening(&mut hub, &log);
    (Running(hub), Addresses { unix: sandbox.path("none.sock"), http, token: None })
}

/// The address that a hub prints when it listens.
pub(crate) fn listening(hub: &mut Child, log: &Log) -> SocketAddr {
    let mut line = String::new();
    BufReader::new(hub.stdout.as_mut().unwrap()).take(4096).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening http://").and_then(|rest| rest.parse().ok());
    address.unwrap_or_else(|| panic!("the hub printed {line:?}: {}", log.text()))
}

fn start_executor(sandbox: &Sandbox, link: &Proxy, bearer: &str) -> Running {
    let mut executor = command(sandbox, "rexd");
    let url = format!("http://{}", link.addresses.http);
    executor.args(["exec-server", "--remote", &url, "--executor-id", EXECUTOR]);
    executor.env("CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN", bearer).current_dir(sandbox.root());
    // A state directory of its own: it must not find the keepers of the daemon.
    executor.env("XDG_STATE_HOME", sandbox.path("home/executor"));
    Running(executor.stdout(Stdio::null()).stderr(Log::new().stdio()).spawn().unwrap())
}

pub(crate) fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
