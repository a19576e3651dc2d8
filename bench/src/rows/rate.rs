//! Commands per second with 64 in flight on one connection.

use anyhow::{Context, Result, ensure};

use super::{median, table};
use crate::peers::Commands;
use crate::peers::codex::{self, Transport};
use crate::peers::floor::Floor;
use crate::peers::ssh::Ssh;
use crate::peers::sshd::Sshd;
use crate::peers::swerex::Swerex;
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, timed};
use crate::world::World;

const FLIGHT: usize = 64;

/// A peer, its commands per round, and its failures.
struct Entry {
    peer: Box<dyn Commands>,
    total: usize,
    wrong: usize,
}

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let sshd = Sshd::start()?;
    let (many, few) = (world.amount(1280, 128), world.amount(192, 64));
    let entry = |peer: Box<dyn Commands>, total| Entry { peer, total, wrong: 0 };
    let mut entries = vec![
        entry(Box::<Floor>::default(), many),
        entry(Box::new(world.setup().start()?), many),
        entry(Box::new(codex::start(&world.home, &world.directory, Transport::Stdio, FLIGHT)?), few),
        entry(Box::new(codex::start(&world.home, &world.directory, Transport::WebSocket, FLIGHT)?), few),
        entry(Box::new(Ssh::new(sshd.control())), few * 2),
        entry(Box::new(Swerex::start(&world.home)?), few),
    ];
    let names: Vec<String> = entries.iter().map(|entry| entry.peer.name()).collect();
    let samples = interleave(&mut entries, world.amount(9, 2), |entry| {
        let (seconds, wrong) = timed(|| entry.peer.burst(&["/bin/true"], entry.total, FLIGHT))
            .with_context(|| entry.peer.name())?;
        entry.wrong += wrong;
        Ok(vec![entry.total as f64 / seconds])
    })?;
    let mut findings = Findings::new("Commands per second, 64 in flight");
    table(&mut findings, "commands per second", &names, &samples, |rate| format!("{rate:.0}/s"));
    for entry in entries.iter().filter(|entry| entry.wrong > 0) {
        findings.note(format!("{}: {} commands did not exit with code 0.", entry.peer.name(), entry.wrong));
        ensure!(!entry.peer.name().starts_with("rexd"), "rexd: {} wrong exit codes", entry.wrong);
    }
    findings.note("The floor is one thread that spawns and waits; rexd may use more than one.");
    let floor = ("floor", median(&names, &samples, "floor")?);
    let ours = median(&names, &samples, "rexd base64")?;
    let show = |rate: f64| format!("{rate:.0}/s");
    findings.targets.push(compare("commands per second", ours, floor, Bound::AtLeast(0.95), show));
    findings.targets.push(compare("commands per second, aim", ours, floor, Bound::AtLeast(1.3), show));
    Ok(findings)
}
