//! `/bin/true` over an open connection, one after another.

use anyhow::{Context, Result, ensure};

use super::{median, table};
use crate::peers::codex::{self, Transport};
use crate::peers::floor::Floor;
use crate::peers::ssh::Ssh;
use crate::peers::sshd::Sshd;
use crate::peers::swerex::Swerex;
use crate::peers::{Commands, ignore};
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, time, timed};
use crate::world::World;

/// Runs the row.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let sshd = Sshd::start()?;
    let mut peers: Vec<Box<dyn Commands>> = vec![
        Box::new(Floor::default()),
        Box::new(world.setup().start()?),
        Box::new(codex::start(&world.home, &world.folder, Transport::Stdio, 1)?),
        Box::new(codex::start(&world.home, &world.folder, Transport::WebSocket, 1)?),
        Box::new(Ssh::new(sshd.control())),
        Box::new(Swerex::start(&world.home)?),
    ];
    let names: Vec<String> = peers.iter().map(|peer| peer.name()).collect();
    let each = world.amount(60, 10);
    let samples =
        interleave(&mut peers, world.amount(12, 2), |peer| (0..each).map(|_| one(peer.as_mut())).collect())?;
    let mut findings = Findings::new("`/bin/true` over an open connection");
    table(&mut findings, "/bin/true", &names, &samples, time);
    let floor = median(&names, &samples, "floor")?;
    let ours = median(&names, &samples, "rexd base64")?;
    let work = "/bin/true on stdio, p50, audit on";
    findings.targets.push(compare(work, ours, ("floor", floor), Bound::AtMost(1.15), time));
    Ok(findings)
}

fn one(peer: &mut dyn Commands) -> Result<f64> {
    let (seconds, code) = timed(|| peer.run(&["/bin/true"], &mut ignore)).with_context(|| peer.name())?;
    ensure!(code == 0, "{}: /bin/true exited with {code}", peer.name());
    Ok(seconds)
}
