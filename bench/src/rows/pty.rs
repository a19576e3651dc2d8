//! From a keystroke to its echo in a terminal.

use anyhow::{Context, Result};

use super::{median, table};
use crate::peers::Terminals;
use crate::peers::codex::{self, Transport};
use crate::peers::daemon::Daemon;
use crate::peers::floor::Floor;
use crate::peers::ssh::Ssh;
use crate::peers::sshd::Sshd;
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, time};
use crate::world::World;

/// Keys sent before the clock starts, in every new terminal.
const WARM_UP: usize = 20;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let sshd = Sshd::start()?;
    let daemon = Daemon::start(world.setup())?;
    let mut peers: Vec<Box<dyn Terminals>> = vec![
        Box::new(Floor::default()),
        Box::new(world.setup().start_minimal()?),
        Box::new(world.setup().start()?),
        Box::new(daemon.unix()?),
        Box::new(daemon.websocket()?),
        Box::new(codex::start(&world.home, &world.directory, Transport::Stdio, 1)?),
        Box::new(codex::start(&world.home, &world.directory, Transport::WebSocket, 1)?),
        Box::new(Ssh::new(sshd.control())),
    ];
    let names: Vec<String> = peers.iter().map(|peer| peer.name()).collect();
    let keys = world.amount(200, 30);
    let samples = interleave(&mut peers, world.amount(10, 2), |peer| {
        round(peer.as_mut(), keys).with_context(|| peer.name())
    })?;
    let mut findings = Findings::new("Keystroke to echo in a terminal");
    table(&mut findings, "keystroke to echo", &names, &samples, time);
    findings.note("`cat` in a terminal with echo; a fresh terminal for every round.");
    let floor = ("floor", median(&names, &samples, "floor")?);
    let ours = median(&names, &samples, "rexd base64")?;
    findings.targets.push(compare("PTY keystroke to echo, p50", ours, floor, Bound::AtMost(3.0), time));
    let minimal = ("minimal", median(&names, &samples, "rexd minimal")?);
    findings.targets.push(compare("PTY keystroke to echo, p50", ours, minimal, Bound::AtMost(1.3), time));
    let work = "PTY keystroke to echo over WebSocket, p50";
    let ours = median(&names, &samples, "rexd ws")?;
    findings.targets.push(compare(work, ours, floor, Bound::AtMost(5.0), time));
    let codex = ("codex ws", median(&names, &samples, "codex ws")?);
    findings.targets.push(compare(work, ours, codex, Bound::AtMost(1.0), time));
    Ok(findings)
}

fn round(peer: &mut dyn Terminals, keys: usize) -> Result<Vec<f64>> {
    peer.open()?;
    for _ in 0..WARM_UP {
        peer.key(b'w')?;
    }
    (0..keys).map(|_| peer.key(b'k').map(|time| time.as_secs_f64())).collect()
}
