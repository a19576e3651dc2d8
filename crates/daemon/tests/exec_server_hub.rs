//! Real Codex clients through the hub's rendezvous, with the released executor and with ours.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod codex;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use codex::script::{every_tool, every_tool_answered, prepare};
use codex::{CarrierKind, Conversation, Place, Release, Server};
use rustix::process::{Pid, Signal, kill_process};
use testkit::log::Log;
use testkit::proc::watch;
use testkit::programs::program;
use testkit::tries::Tries;
use testkit::websocket::Socket;

/// How long an executor may take to come.
const PATIENCE: Duration = Duration::from_secs(60);
/// The executor's name at the hub.
const ID: &str = "box";

/// A child that ends with this.
struct Running {
    child: Child,
    log: Log,
    _stdout: Option<BufReader<ChildStdout>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Asked, not killed: it ends what it started.
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).ok();
        if !watch(pid.as_raw_nonzero().get()).ends_before(Instant::now() + PATIENCE) {
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}

/// A hub, and what its two kinds of guests show.
struct Hub {
    _running: Running,
    address: String,
    executor: String,
    harness: String,
}

impl Hub {
    fn start(place: &Place) -> Hub {
        let log = Log::new();
        let mut command = place.command(program("rexhub"), "server");
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(place.path("hub"));
        let mut child = command.stdout(Stdio::piped()).stderr(log.stdio()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening http://");
        let address = url.unwrap_or_else(|| panic!("{line:?}: {}", log.text())).to_owned();
        let token = |kind: &str| {
            let mut command = place.command(program("rexhub"), "server");
            command.args(["token", "add", kind, "--kind", kind, "--data"]).arg(place.path("hub"));
            let made = command.output().unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            String::from_utf8(made.stdout).unwrap().trim().to_owned()
        };
        let (executor, harness) = (token("executor"), token("harness"));
        Hub { _running: Running { child, log, _stdout: Some(stdout) }, address, executor, harness }
    }

    /// Registers an executor there, and waits until harnesses find it.
    fn executor(&self, place: &Place, server: Server) -> Running {
        let log = Log::new();
        let mut command = place.server_command(server);
        command.args(["--remote", &format!("http://{}", self.address), "--executor-id", ID]);
        command.env("CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN", &self.executor);
        let child = command.stdout(Stdio::null()).stderr(log.stdio()).spawn().unwrap();
        let running = Running { child, log, _stdout: None };
        let mut tries = Tries::within(PATIENCE, "the executor comes");
        let address = self.address.parse().unwrap();
        while Socket::connect_to(address, &self.path(), None).is_err() {
            tries.again();
        }
        running
    }

    fn path(&self) -> String {
        format!("/cloud/executor/{ID}/rendezvous?role=harness&token={}", self.harness)
    }
}

/// One client plays all tools through the hub.
fn through_the_hub(client: Release, server: Server) {
    let place = Place::new();
    prepare(&place);
    let hub = Hub::start(&place);
    let executor = hub.executor(&place, server);
    let way = CarrierKind::Url(format!("ws://{}{}", hub.address, hub.path()));
    let talk = Conversation { place: &place, client, way, sandbox: "danger-full-access" };
    let model = talk.hold(every_tool(client));
    every_tool_answered(&model, &place, server, client);
    assert!(!executor.log.text().contains("panicked"), "{}", executor.log.text());
    drop(executor);
    if server == Server::Ours {
        place.nothing_is_left();
    }
}

#[test]
fn codex_0_131_uses_every_tool_of_the_released_executor_through_the_hub() {
    through_the_hub(Release::V0_131, Server::Released(Release::V0_131));
}

#[test]
fn codex_0_131_uses_every_tool_through_the_hub() {
    through_the_hub(Release::V0_131, Server::Ours);
}

#[test]
fn codex_0_166_uses_every_tool_through_the_hub() {
    through_the_hub(Release::V0_166, Server::Ours);
}
