//! `/bin/true` over an open connection, one after another.

use anyhow::{Context, Result, ensure};

use super::{median, table};
use crate::peers::codex::{self, Transport};
use crate::peers::daemon::Daemon;
use crate::peers::floor::Floor;
use crate::peers::rexd_http::ExitSource;
use crate::peers::ssh::Ssh;
use crate::peers::sshd::Sshd;
use crate::peers::swerex::Swerex;
use crate::peers::{Commands, ignore};
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, time, timed};
use crate::world::World;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let sshd = Sshd::start()?;
    let daemon = Daemon::start(world.setup())?;
    let mut peers: Vec<Box<dyn Commands>> = vec![
        Box::new(Floor::default()),
        Box::new(world.setup().start_minimal()?),
        Box::new(world.setup().start()?),
        Box::new(daemon.unix()?),
        Box::new(daemon.websocket()?),
        Box::new(daemon.http(ExitSource::Waited)?),
        Box::new(daemon.http(ExitSource::Heard)?),
        Box::new(codex::start(&world.home, &world.directory, Transport::Stdio, 1)?),
        Box::new(codex::start(&world.home, &world.directory, Transport::WebSocket, 1)?),
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
    let transports = [
        ("stdio", "rexd base64", 1.15),
        ("a unix socket", "rexd unix", 1.25),
        ("WebSocket", "rexd ws", 1.35),
        ("HTTP, two requests", "rexd http (start, wait)", 1.5),
        ("HTTP, one request and an event", "rexd http (start, events)", 1.5),
    ];
    for (transport, name, most) in transports {
        let ours = median(&names, &samples, name)?;
        let work = format!("/bin/true on {transport}, p50, audit on");
        findings.targets.push(compare(&work, ours, ("floor", floor), Bound::AtMost(most), time));
    }
    let (ours, minimal) =
        (median(&names, &samples, "rexd base64")?, median(&names, &samples, "rexd minimal")?);
    let work = "/bin/true on stdio, p50, audit on";
    findings.targets.push(compare(work, ours, ("minimal", minimal), Bound::AtMost(1.03), time));
    findings.note(
        "One daemon serves the unix socket, WebSocket and HTTP. Over HTTP a client posts `exec.start`, and then posts \
         `exec.wait` on the same connection or receives `exec.exit` on an open event stream.",
    );
    Ok(findings)
}

fn one(peer: &mut dyn Commands) -> Result<f64> {
    let (seconds, code) = timed(|| peer.run(&["/bin/true"], &mut ignore)).with_context(|| peer.name())?;
    ensure!(code == 0, "{}: /bin/true exited with {code}", peer.name());
    Ok(seconds)
}
