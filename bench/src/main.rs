//! `bench`: measures rexd and comparable programs in one run and prints ratios.

mod args;
mod peers;
mod proc;
mod report;
mod rows;
mod stats;
mod watchdog;
mod world;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::args::Args;
use crate::report::{Findings, targets_table};
use crate::rows::Row;
use crate::watchdog::Watchdog;
use crate::world::World;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(peers::minimal::ARGUMENT) {
        return match peers::minimal::serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_broken) => ExitCode::FAILURE,
        };
    }
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print(&format!("bench: {error:#}\n"));
            ExitCode::from(2)
        }
    }
}

/// Runs the rows; false if one of them failed.
fn run() -> Result<bool> {
    let Some(args) = Args::parse()? else {
        print(args::USAGE);
        return Ok(true);
    };
    for name in &args.only {
        if !rows::ALL.iter().any(|row| row.name == name) {
            bail!("no row {name}");
        }
    }
    allow_many_files()?;
    let world = World::new(&args)?;
    let versions = versions(&world)?;
    let mut done = Vec::new();
    for row in rows::ALL.iter().filter(|row| args.wants(row.name)) {
        let start = Instant::now();
        let outcome = measure(row, &world);
        match &outcome {
            Ok(findings) => print(&findings.markdown()),
            Err(error) => print(&format!("### FAILED: {}\n\n{error:#}\n", row.name)),
        }
        print(&format!("\n({}: {:.0} s)\n\n", row.name, start.elapsed().as_secs_f64()));
        done.push((row.name, outcome));
    }
    let summary = summary(&done);
    print(&summary);
    if let Some(out) = &args.out {
        let text = markdown(&args, &versions, &summary, &done);
        if let Some(directory) = out.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(out, text).with_context(|| format!("could not write {}", out.display()))?;
    }
    Ok(done.iter().all(|(_, outcome)| outcome.is_ok()))
}

/// Raises the limit of open files for thousands of pipes; every server inherits it.
fn allow_many_files() -> Result<()> {
    const ENOUGH: u64 = 65536;
    let limit = getrlimit(Resource::Nofile);
    let current = Some(limit.maximum.map_or(ENOUGH, |most| most.min(ENOUGH)));
    setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum })?;
    Ok(())
}

/// Runs one row under a watchdog.
fn measure(row: &Row, world: &World) -> Result<Findings> {
    let watchdog = Watchdog::start(row.limit);
    let outcome = (row.run)(world);
    if watchdog.stop() {
        let late = format!("the row did not end within {} s", row.limit.as_secs());
        return outcome.and_then(|_| bail!("{late}")).context(late.clone());
    }
    outcome
}

fn versions(world: &World) -> Result<Vec<String>> {
    let rexd = std::process::Command::new(&world.rexd).arg("--version").output()?;
    Ok(vec![
        String::from_utf8_lossy(&rexd.stdout).trim().to_owned(),
        peers::sshd::version()?,
        peers::codex::version(&world.home)?,
        peers::swerex::version(&world.home)?,
        peers::rg::version()?,
    ])
}

type Done = (&'static str, Result<Findings>);

/// All targets in one table, and the rows that failed.
fn summary(done: &[Done]) -> String {
    let found = || done.iter().filter_map(|(_, outcome)| outcome.as_ref().ok());
    let targets: Vec<_> = found().flat_map(|findings| &findings.targets).collect();
    let reached = targets.iter().filter(|target| target.reached).count();
    let mut text = format!("## Targets: {reached} of {} reached\n\n", targets.len());
    text += &targets_table(targets);
    for (name, outcome) in done {
        if let Err(error) = outcome {
            text += &format!("\n**FAILED: {name}**: {error:#}\n");
        }
    }
    text
}

fn markdown(args: &Args, versions: &[String], summary: &str, done: &[Done]) -> String {
    let quick = if args.quick { "\n**A quick run: the figures are not meaningful.**\n" } else { "" };
    let mut text = format!(
        "# Benchmarks\n\nMade by `make bench` on {} UTC.\n{quick}\n\
         Machine: {}.\nVersions: {}.\n\n{METHOD}\n\n{summary}\n## Rows\n\n",
        jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M"),
        proc::machine(),
        versions.join("; "),
    );
    for findings in done.iter().filter_map(|(_, outcome)| outcome.as_ref().ok()) {
        text += &findings.markdown();
        text.push('\n');
    }
    text
}

const METHOD: &str = "\
## Method

All peers run interleaved on the same machine, on loopback or pipes: each of them has its share of every round, after a
warm-up round that is not counted. `p50` is the median of the rounds' medians; `p99`, `min` and `max` are over all samples.
On a shared machine absolute figures vary by up to 2x: compare only ratios within one table. This program is the client of
every peer: one thread, large blocking reads, payloads extracted from JSON without a parser, base64 decoded with SIMD.

- `minimal`: a server of the same protocol that only spawns, reads and answers; beside it, the cost of policy, limits, audit,
  trees and logs is visible.
- `floor`: the same work inside this program, with `posix_spawn` (through `std::process`), pipes and files.
- `rexd`: on stdio, audit on, limits raised, output as base64 unless the row says utf8. `rexd unix`, `rexd ws`,
  `rexd http`: clients of one `rexd serve` with the same configuration and a token, without TLS. The WebSocket client
  masks with zeros and borrows messages from its buffer.
- `ssh mux`: a private sshd without PAM and with an empty home directory, one connection; the client uses the mux protocol
  on the control socket, so no `ssh` process is started per command. `sftp`: version 3 over the same connection, blocks of
  255 KiB sent ahead.
- `codex`: `codex exec-server` from npm, its native program without the wrapper; no sandbox. `c64`:
  `--concurrent-requests 64`. On the WebSocket the client acknowledges at once (TCP_QUICKACK): otherwise, Nagle's algorithm
  and delayed acknowledgement cost it 40 ms per command.
- `swe-rex`: its server from PyPI, over raw keep-alive HTTP instead of its own, slower client.
- `rex`: the whole command, from start to exit, with its own registry; it starts `rexd` locally or by ssh. `ssh -S` is
  OpenSSH's own client on the same master connection. `scp` and `rsync` have their own connection to the same sshd, as
  `rex cp` has; none of them compresses or syncs.
- A row fails if a peer did not run or if a byte differs from the known text.";

/// Prints to stdout and ignores a closed pipe.
fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}
