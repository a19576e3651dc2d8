//! The cost of `rex` itself: the time of `--help`, and memory while a command runs.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use anyhow::{Result, ensure};

use super::{median, table};
use crate::peers::rex::{Rex, whole};
use crate::proc::peak;
use crate::report::{Findings, limit};
use crate::stats::{interleave, mib, time};
use crate::watchdog::Server;
use crate::world::World;

/// Limit for `rex --help`, in seconds.
const MOST_HELP: f64 = 10e-3;
/// Limit for the peak memory of `rex exec`, in bytes.
const MOST_MEMORY: f64 = 15.0 * 1024.0 * 1024.0;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let rex = Rex::new(world, None)?;
    let each = world.amount(20, 3);
    let mut asks = [("rex --help", ["--help"]), ("rex --version", ["--version"])];
    let names: Vec<String> = asks.iter().map(|(name, _)| (*name).to_owned()).collect();
    let samples = interleave(&mut asks, world.amount(10, 2), |(_, arguments)| {
        (0..each).map(|_| whole(&mut rex.command(arguments))).collect()
    })?;
    let mut findings = Findings::new("`rex` itself");
    table(&mut findings, "start to end", &names, &samples, time);
    findings.targets.push(limit("rex --help", median(&names, &samples, "rex --help")?, MOST_HELP, time));
    findings.targets.push(limit("peak memory of rex exec", memory(&rex)?, MOST_MEMORY, mib));
    Ok(findings)
}

/// The peak memory of `rex exec` after one command.
fn memory(rex: &Rex) -> Result<f64> {
    let mut command = rex.command(&["exec", "-t", "local", "--", "cat"]);
    let mut server = Server::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?.ends_with_stdin();
    let mut input = server.stdin()?;
    input.write_all(b"hello\n")?;
    let mut line = String::new();
    BufReader::new(server.stdout()?).read_line(&mut line)?;
    ensure!(line == "hello\n", "cat did not echo through rex");
    let most = peak(server.id())?;
    drop(input);
    Ok(most)
}
