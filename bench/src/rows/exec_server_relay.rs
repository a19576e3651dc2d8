//! A hundred streams over one executor's WebSocket through `rexhub`, compared with one direct WebSocket: throughput and
//! fairness.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::exec_server::{ExecServerClient, ExecServerEvent, RemoteExecServerConnectArgs, v1::ExecParams};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::table;
use crate::report::{Bound, Findings, compare};
use crate::stats::{Samples, interleave, quantile, rate};
use crate::watchdog::{Server, tied};
use crate::world::World;

const STREAMS: usize = 100;
/// Output of each stream.
const EACH_BYTES: u64 = 4 << 20;
/// Limit for the registration of an executor.
const PATIENCE: Duration = Duration::from_secs(20);
const DIRECT: &str = "direct ws, 100 processes";
const RELAY: &str = "relay, 100 streams";

/// How the streams reach the server.
struct Way {
    name: &'static str,
    /// One connection for all streams, or one for each.
    clients: Vec<ExecServerClient>,
    /// Fairness of each round: the slowest stream relative to the mean.
    evenness: Vec<f64>,
    _servers: Vec<Server>,
}

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let size = world.amount(EACH_BYTES, EACH_BYTES / 16);
    let path = world.text(size)?;
    let mut ways = vec![direct(world, &runtime)?, relay(world, &runtime)?];
    let samples = interleave(&mut ways, world.amount(9, 2), |way| {
        let (seconds, each) = runtime.block_on(pass(world, way, &path, size)).context(way.name)?;
        let mean = each.iter().sum::<f64>() / each.len() as f64;
        way.evenness.push(each.into_iter().fold(f64::INFINITY, f64::min) / mean);
        Ok(vec![(size * STREAMS as u64) as f64 / seconds])
    })?;
    let names: Vec<String> = ways.iter().map(|way| way.name.to_owned()).collect();
    let mut findings = Findings::new("exec-server: a hundred streams through the relay");
    table(&mut findings, "4 MiB from each of 100 `cat`", &names, &samples, rate);
    targets(&mut findings, &ways, &samples);
    findings.note(
        "Both rows use the client of this workspace on one thread, with 100 concurrent processes. Directly they share \
         one WebSocket; through the relay each has a WebSocket and a stream of its own to `rexhub`, and all streams share \
         the executor's one WebSocket, so that every byte passes one more program. Every byte was compared with the \
         known text.",
    );
    Ok(findings)
}

fn targets(findings: &mut Findings, ways: &[Way], samples: &[Samples]) {
    let [direct, relay] = samples else { return };
    let direct = ("direct ws", direct.p50());
    let target = compare(RELAY, relay.p50(), direct, Bound::AtLeast(0.5), rate);
    findings.targets.push(target);
    if let Some(relay) = ways.last() {
        // The first round warms up.
        let evenness = quantile(relay.evenness.iter().skip(1).copied().collect(), 0.5);
        let show = |share: f64| format!("{share:.2}");
        let slowest =
            compare("slowest of 100 streams, rate", evenness, ("mean", 1.0), Bound::AtLeast(0.5), show);
        findings.targets.push(slowest);
    }
}

fn direct(world: &World, runtime: &Runtime) -> Result<Way> {
    let mut command = tied(&world.rexd);
    command.args(["exec-server", "--listen", "ws://127.0.0.1:0"]);
    let (server, line) = announced(command, world)?;
    let client = runtime.block_on(connect(RemoteExecServerConnectArgs::new(line.trim(), "bench")))?;
    Ok(Way { name: DIRECT, clients: vec![client], evenness: Vec::new(), _servers: vec![server] })
}

fn relay(world: &World, runtime: &Runtime) -> Result<Way> {
    let data = world.directory.join("hub");
    let mut command = tied(&world.rexhub);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
    let (hub, line) = announced(command, world)?;
    let url = line.trim().strip_prefix("listening ").context("rexhub does not listen")?.to_owned();
    let (executor, harness) = (token(world, "executor")?, token(world, "harness")?);
    let mut command = tied(&world.rexd);
    command.args(["exec-server", "--remote", &url, "--executor-id", "bench"]);
    command.env("CODEX_EXEC_SERVER_REMOTE_BEARER_TOKEN", executor).env("XDG_STATE_HOME", &world.directory);
    let executor = Server::start(command.current_dir(&world.directory).stderr(Stdio::null()))?;
    let address = format!("{}/cloud/executor/bench/rendezvous", url.replacen("http", "ws", 1));
    let args = RemoteExecServerConnectArgs {
        bearer_token: Some(harness),
        ..RemoteExecServerConnectArgs::new(address, "bench")
    };
    let clients = runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..STREAMS {
            clients.push(connect_relay(&args).await?);
        }
        Ok::<_, anyhow::Error>(clients)
    })?;
    Ok(Way { name: RELAY, clients, evenness: Vec::new(), _servers: vec![executor, hub] })
}

/// Starts a server and waits for its first line.
pub(super) fn announced(mut command: std::process::Command, world: &World) -> Result<(Server, String)> {
    command.env("XDG_STATE_HOME", &world.directory).current_dir(&world.directory);
    let mut server =
        Server::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()))?;
    let mut lines = BufReader::new(server.stdout()?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    // The pipe stays open until the server has ended: it may print more.
    std::thread::spawn(move || drop(std::io::copy(&mut lines, &mut std::io::sink())));
    Ok((server, line))
}

fn token(world: &World, kind: &str) -> Result<String> {
    let mut command = std::process::Command::new(&world.rexhub);
    command.args(["token", "add", kind, "--kind", kind, "--data"]).arg(world.directory.join("hub"));
    let output = command.output()?;
    ensure!(output.status.success(), "no token: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

async fn connect(args: RemoteExecServerConnectArgs) -> Result<ExecServerClient> {
    Ok(ExecServerClient::connect_websocket(args).await?)
}

/// The same through the hub, after the executor has registered.
async fn connect_relay(args: &RemoteExecServerConnectArgs) -> Result<ExecServerClient> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ExecServerClient::connect_relay(args.clone()).await {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_not_yet) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Runs all streams at once; returns the total time and the rate of each.
async fn pass(world: &World, way: &Way, path: &std::path::Path, size: u64) -> Result<(f64, Vec<f64>)> {
    let expected: std::sync::Arc<[u8]> = world.known(usize::MAX).into();
    let start = Instant::now();
    let mut streams = JoinSet::new();
    for number in 0..STREAMS {
        let client = way.clients.get(number % way.clients.len()).context("no client")?.clone();
        streams.spawn(stream(client, (number, path.to_owned()), size, expected.clone()));
    }
    let mut each = Vec::with_capacity(STREAMS);
    while let Some(done) = streams.join_next().await {
        each.push(size as f64 / done??.saturating_duration_since(start).as_secs_f64());
    }
    Ok((start.elapsed().as_secs_f64(), each))
}

/// Runs one stream until its process ends; returns the time.
async fn stream(
    client: ExecServerClient,
    (number, path): (usize, PathBuf),
    size: u64,
    expected: std::sync::Arc<[u8]>,
) -> Result<Instant> {
    static ROUND: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let fresh = ROUND.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = path.to_str().context("a path that is not text")?;
    let params = ExecParams {
        process_id: format!("{number}-{fresh}"),
        argv: vec!["/bin/cat".to_owned(), path.to_owned()],
        cwd: "file:///".to_owned(),
        ..ExecParams::default()
    };
    let mut process = client.start(params).await?;
    let mut at = 0;
    while let Some(event) = process.next().await? {
        match event {
            ExecServerEvent::Output { bytes, .. } => {
                for piece in bytes.chunks(4096) {
                    let from = at % expected.len();
                    let here = piece.len().min(expected.len() - from);
                    let (first, second) = piece.split_at(here);
                    let is_known = expected.get(from..from + here) == Some(first)
                        && expected.get(..second.len()) == Some(second);
                    ensure!(is_known, "the bytes differ from the text near offset {at}");
                    at += piece.len();
                }
            }
            ExecServerEvent::Exited { exit_code, .. } => {
                ensure!(exit_code == 0, "cat exited with {exit_code}")
            }
            ExecServerEvent::Closed => break,
            other => bail!("{other:?}"),
        }
    }
    ensure!(at as u64 == size, "{at} of {size} bytes arrived");
    Ok(Instant::now())
}
