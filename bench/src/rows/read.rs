//! Whole files of 4 KiB, 1 MiB and 64 MiB.

use anyhow::{Context, Result};

use super::{median, table};
use crate::peers::Files;
use crate::peers::codex::{self, Transport};
use crate::peers::floor::Floor;
use crate::peers::rexd::{Encoding, Setup};
use crate::peers::sftp::Sftp;
use crate::peers::sshd::Sshd;
use crate::peers::swerex::Swerex;
use crate::report::{Bound, Findings, compare};
use crate::stats::{Samples, interleave, time, timed};
use crate::world::World;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let sshd = Sshd::start()?;
    let utf8 = Setup { encoding: Encoding::Utf8, ..world.setup() };
    let mut peers: Vec<Box<dyn Files>> = vec![
        Box::new(Floor::default()),
        Box::new(world.setup().start()?),
        Box::new(utf8.start()?),
        Box::new(codex::start(&world.home, &world.directory, Transport::Stdio, 1)?),
        Box::new(codex::start(&world.home, &world.directory, Transport::WebSocket, 1)?),
        Box::new(Sftp::start(&sshd.control())?),
        Box::new(Swerex::start(&world.home)?),
    ];
    let names: Vec<String> = peers.iter().map(|peer| peer.name()).collect();
    let mut findings = Findings::new("Reading files");
    let sizes = [("4 KiB", 4 << 10, 50, 12), ("1 MiB", 1 << 20, 10, 12), ("64 MiB", 64 << 20, 1, 7)];
    for (label, size, each, rounds) in sizes {
        let path = world.text(size)?;
        let (each, rounds) = world.amount((each, rounds), (each.min(5), 2));
        let samples = interleave(&mut peers, rounds, |peer| {
            let mut one = || {
                let mut expected = world.expect();
                let (seconds, ()) = timed(|| peer.read(&path, &mut |bytes| expected.take(bytes)))?;
                expected.end(size)?;
                Ok(seconds)
            };
            (0..each).map(|_| one()).collect::<Result<Vec<f64>>>().with_context(|| peer.name())
        })?;
        table(&mut findings, &format!("read {label}"), &names, &samples, time);
        let best = best_peer(&names, &samples)?;
        for ours in ["rexd base64", "rexd utf8"] {
            let work = format!("read {label}, {ours}");
            let figure = median(&names, &samples, ours)?;
            findings.targets.push(compare(&work, figure, best, Bound::AtMost(1.0), time));
        }
    }
    findings.note("Compared with the fastest of all peers in the same rounds.");
    Ok(findings)
}

/// The fastest peer except rexd and the floor, with its median.
fn best_peer(names: &[String], samples: &[Samples]) -> Result<(&'static str, f64)> {
    let peers = ["codex stdio", "codex ws", "sftp", "swe-rex"];
    let medians: Result<Vec<_>> =
        peers.map(|peer| Ok((peer, median(names, samples, peer)?))).into_iter().collect();
    medians?.into_iter().min_by(|one, other| one.1.total_cmp(&other.1)).context("no peers")
}
