//! `rex exec` on a host behind a hub, compared with the same daemon over a direct WebSocket.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::exec_server_relay::announced;
use super::{median, table};
use crate::peers::rex::{Rex, whole};
use crate::report::{Findings, limit};
use crate::stats::{interleave, time};
use crate::watchdog::{Server, tied};
use crate::world::World;

/// What the hub may add to one command, in seconds.
const MOST_ADDED: f64 = 0.003;
/// Limit for the host to connect.
const PATIENCE: Duration = Duration::from_secs(20);
const TOKEN: &str = "a-token-for-benchmarks-0123456789abcdef";
const DIRECT: &str = "rex exec over a WebSocket";
const HUB: &str = "rex exec -t hub:HOST";

/// Runs one command and returns the seconds.
type Once<'a> = Box<dyn FnMut() -> Result<f64> + 'a>;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let rex = Rex::new(world, None)?;
    let (_daemon, address) = daemon(world)?;
    let _servers = hub(world, &rex)?;
    let mut peers: Vec<(&str, Once<'_>)> = vec![
        (
            DIRECT,
            Box::new(|| whole(rex.command(&["exec", "-t", &address, "--", "true"]).env("REX_TOKEN", TOKEN))),
        ),
        (HUB, Box::new(|| whole(&mut rex.command(&["exec", "-t", "hub:bench", "--", "true"])))),
    ];
    let names: Vec<String> = peers.iter().map(|(name, _)| (*name).to_owned()).collect();
    let each = world.amount(20, 3);
    let samples =
        interleave(&mut peers, world.amount(10, 2), |(_, once)| (0..each).map(|_| once()).collect())?;
    let mut findings = Findings::new("`rex exec` through a hub");
    table(&mut findings, "true", &names, &samples, time);
    let added = median(&names, &samples, HUB)? - median(&names, &samples, DIRECT)?;
    findings.targets.push(limit("added by the hub to `rex exec -- true`, p50", added, MOST_ADDED, time));
    Ok(findings)
}

/// A daemon that listens itself.
fn daemon(world: &World) -> Result<(Server, String)> {
    let mut command = tied(&world.rexd);
    command.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(world.setup().configured()?);
    command.env("REXD_TOKEN", TOKEN);
    let (server, line) = announced(command, world)?;
    let address = line.trim().strip_prefix("listening rexd ").context("rexd does not listen")?.to_owned();
    Ok((server, address))
}

/// A hub and its host; `rex` is signed in.
fn hub(world: &World, rex: &Rex) -> Result<[Server; 2]> {
    let data = world.directory.join("hub-of-hosts");
    let mut command = tied(&world.rexhub);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
    let (hub, line) = announced(command, world)?;
    let url = line.trim().strip_prefix("listening ").context("rexhub does not listen")?.to_owned();
    let mut add = Command::new(&world.rexhub);
    add.args(["token", "add", "bench", "--kind", "client", "--role", "operator", "--data"]).arg(&data);
    let token = String::from_utf8(add.output()?.stdout)?;
    let token = token.split_whitespace().max_by_key(|word| word.len()).context("no token")?;
    login(rex, &url, token)?;
    let mut command = tied(&world.rexd);
    command.args(["host", "--hub", &url, "--host-id", "bench", "--config"]).arg(world.setup().configured()?);
    command.env("XDG_STATE_HOME", world.directory.join("host-state")).current_dir(&world.directory);
    let host = Server::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))?;
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = whole(&mut rex.command(&["exec", "-t", "hub:bench", "--", "true"])) {
        ensure!(Instant::now() < deadline, "the host does not connect: {error}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok([hub, host])
}

fn login(rex: &Rex, url: &str, token: &str) -> Result<()> {
    let mut child = rex.command(&["login", url, "--token-stdin"]).stdin(Stdio::piped()).spawn()?;
    writeln!(child.stdin.take().context("no stdin")?, "{token}")?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "rex login: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
