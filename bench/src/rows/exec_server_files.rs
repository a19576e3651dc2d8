//! `fs/readFile` and `fs/writeFile` of `rexd exec-server` and of the released server.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::{median, table};
use crate::peers::Files;
use crate::peers::codex::{self, Transport};
use crate::peers::floor::Floor;
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, time, timed};
use crate::world::World;

const OURS: &str = "rexd exec-server stdio";
const THEIRS: &str = "codex stdio";

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let mut peers: Vec<Box<dyn Files>> = vec![
        Box::new(Floor::default()),
        Box::new(codex::ours(&world.rexd, &world.directory, Transport::Stdio)?),
        Box::new(codex::start(&world.home, &world.directory, Transport::Stdio, 1)?),
    ];
    let names: Vec<String> = peers.iter().map(|peer| peer.name()).collect();
    let mut findings = Findings::new("exec-server: files");
    // The released server rejects lines longer than 64 MiB.
    let sizes = [("4 KiB", 4 << 10, 50, 12), ("1 MiB", 1 << 20, 10, 12), ("40 MiB", 40 << 20, 1, 7)];
    for (label, size, each, rounds) in sizes {
        let (each, rounds) = world.amount((each, rounds), (each.min(5), 2));
        let path = world.text(size)?;
        let read = interleave(&mut peers, rounds, |peer| {
            let mut one = || {
                let mut expected = world.expect();
                let (seconds, ()) = timed(|| peer.read(&path, &mut |bytes| expected.take(bytes)))?;
                expected.end(size)?;
                Ok(seconds)
            };
            (0..each).map(|_| one()).collect::<Result<Vec<f64>>>().with_context(|| peer.name())
        })?;
        let content = fs::read(&path)?;
        let target = world.directory.join("exec-server-written.txt");
        let written = interleave(&mut peers, rounds, |peer| {
            let one = |_| timed(|| peer.write(&target, &content)).map(|(seconds, ())| seconds);
            let round = (0..each).map(one).collect::<Result<Vec<f64>>>().with_context(|| peer.name())?;
            ensure!(fs::read(&target)? == content, "{} wrote something else", peer.name());
            Ok(round)
        })?;
        for (work, samples) in [("read", &read), ("write", &written)] {
            let work = format!("{work} {label}");
            table(&mut findings, &work, &names, samples, time);
            let (ours, theirs) = (median(&names, samples, OURS)?, median(&names, samples, THEIRS)?);
            findings.targets.push(compare(&work, ours, (THEIRS, theirs), Bound::AtMost(1.0), time));
        }
    }
    findings.note(
        "Floor and rexd write a temporary file and rename it; Codex overwrites in place. None of them syncs.",
    );
    Ok(findings)
}
