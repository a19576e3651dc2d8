//! Replacing a file of 1 MiB, first without fsync and then with it.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::{median, table};
use crate::peers::Files;
use crate::peers::codex::{self, Transport};
use crate::peers::floor::Floor;
use crate::peers::rexd::Setup;
use crate::peers::sftp::Sftp;
use crate::peers::sshd::Sshd;
use crate::peers::swerex::Swerex;
use crate::report::{Bound, Findings, compare, fact};
use crate::stats::{Samples, interleave, time, timed, times};
use crate::world::World;

const SIZE: usize = 1 << 20;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let sshd = Sshd::start()?;
    let mut findings = Findings::new("Writing 1 MiB");
    let quick = Setup { durable: false, ..world.setup() };
    let mut peers: Vec<Box<dyn Files>> = vec![
        Box::new(Floor::default()),
        Box::new(quick.start()?),
        Box::new(codex::start(&world.home, &world.directory, Transport::Stdio, 1)?),
        Box::new(codex::start(&world.home, &world.directory, Transport::WebSocket, 1)?),
        Box::new(Sftp::start(&sshd.control())?),
        Box::new(Swerex::start(&world.home)?),
    ];
    let (names, fast) = measure(world, &mut peers)?;
    table(&mut findings, "write 1 MiB, no fsync", &names, &fast, time);
    let mut synced = Sftp::start(&sshd.control())?;
    synced.durable = true;
    let mut peers: Vec<Box<dyn Files>> =
        vec![Box::new(Floor::durable()), Box::new(world.setup().start()?), Box::new(synced)];
    let (synced_names, slow) = measure(world, &mut peers)?;
    table(&mut findings, "write 1 MiB, fsync", &synced_names, &slow, time);
    findings.note(
        "floor, rexd and sftp write a temporary file and rename it; Codex and SWE-ReX overwrite in place. With fsync, \
         floor and rexd sync the file and its directory, sftp only the file.",
    );
    let ours = median(&names, &fast, "rexd base64")?;
    let sftp = ("sftp", median(&names, &fast, "sftp")?);
    findings.targets.push(compare("write 1 MiB atomic, no fsync", ours, sftp, Bound::AtMost(1.0), time));
    let durable = median(&synced_names, &slow, "rexd base64")?;
    let price = format!("{} ({} of no fsync)", time(durable - ours), times(durable / ours));
    findings.targets.push(fact("price of fsync", price, "stated", true));
    Ok(findings)
}

fn measure(world: &World, peers: &mut [Box<dyn Files>]) -> Result<(Vec<String>, Vec<Samples>)> {
    let names: Vec<String> = peers.iter().map(|peer| peer.name()).collect();
    let each = world.amount(10, 3);
    let content = world.known(SIZE);
    let path = world.directory.join("written.txt");
    let samples = interleave(peers, world.amount(12, 2), |peer| {
        drop(fs::remove_file(&path));
        let one = |_| timed(|| peer.write(&path, content)).map(|(seconds, ())| seconds);
        let round = (0..each).map(one).collect::<Result<Vec<f64>>>().with_context(|| peer.name())?;
        ensure!(fs::read(&path)? == content, "{} wrote something else", peer.name());
        Ok(round)
    })?;
    Ok((names, samples))
}
