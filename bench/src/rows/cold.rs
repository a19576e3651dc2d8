//! Time from the start of the program to its first response.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};

use super::{median, table};
use crate::peers::codex::{self, Transport};
use crate::peers::sshd::Sshd;
use crate::peers::swerex::Swerex;
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, time, timed};
use crate::watchdog::Server;
use crate::world::World;

/// Starts a peer, returns the seconds to its first response, and stops it.
type Start<'a> = Box<dyn FnMut() -> Result<f64> + 'a>;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let sshd = Sshd::start()?;
    let setup = world.setup();
    let mut command = setup.command()?;
    let mut starts: Vec<(&str, Start<'_>)> = vec![
        ("cat", Box::new(cat)),
        ("rexd", Box::new(|| until_answer(|| setup.start_with(&mut command)))),
        (
            "codex stdio",
            Box::new(|| until_answer(|| codex::start(&world.home, &world.directory, Transport::Stdio, 1))),
        ),
        ("ssh cold", Box::new(|| ssh(&sshd))),
        ("swe-rex", Box::new(|| until_answer(|| Swerex::start(&world.home)))),
    ];
    let names: Vec<String> = starts.iter().map(|(name, _)| (*name).to_owned()).collect();
    let samples = interleave(&mut starts, world.amount(15, 2), |(_, start)| Ok(vec![start()?]))?;
    let mut findings = Findings::new("Cold start to the first answer");
    table(&mut findings, "cold start", &names, &samples, time);
    findings.note(
        "`cat` echoes one line; rexd answers `session.open`, Codex `initialize`, SWE-ReX `/is_alive`; ssh connects, \
         authenticates and runs `true`.",
    );
    let cat = ("cat", median(&names, &samples, "cat")?);
    let ours = median(&names, &samples, "rexd")?;
    findings.targets.push(compare("cold start to first answer", ours, cat, Bound::AtMost(2.5), time));
    Ok(findings)
}

/// Seconds until the peer responds; it is stopped after the clock.
fn until_answer<T>(start: impl FnOnce() -> Result<T>) -> Result<f64> {
    timed(start).map(|(seconds, _peer)| seconds)
}

fn cat() -> Result<f64> {
    let start = Instant::now();
    let mut server = Server::start(Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::piped()))?
        .ends_with_stdin();
    let mut stdin = server.stdin()?;
    stdin.write_all(b"hello\n")?;
    let mut line = String::new();
    BufReader::new(server.stdout()?).read_line(&mut line)?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(line == "hello\n", "cat did not echo");
    drop(stdin);
    Ok(seconds)
}

fn ssh(sshd: &Sshd) -> Result<f64> {
    let mut client = sshd.cold_client();
    client.arg("127.0.0.1").arg("true").stdin(Stdio::null());
    let (seconds, output) = timed(|| Ok(client.output()?))?;
    ensure!(output.status.success(), "ssh failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(seconds)
}
