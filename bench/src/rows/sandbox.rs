//! `/bin/true` with a sandbox profile, compared with no profile and with Codex's sandbox.

use anyhow::{Context, Result, ensure};

use super::{median, table};
use crate::peers::codex::{self, Transport};
use crate::peers::{Commands, ignore};
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, time, timed};
use crate::world::World;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let codex = |confined: bool| -> Result<Box<dyn Commands>> {
        let peer = codex::start(&world.home, &world.directory, Transport::Stdio, 1)?;
        Ok(if confined { Box::new(peer.confine()) } else { Box::new(peer) })
    };
    let mut peers: Vec<Box<dyn Commands>> = vec![
        Box::new(world.setup().start()?),
        Box::new(world.setup().start_confined("read-only")?),
        Box::new(world.setup().start_confined("workspace-write")?),
        codex(false)?,
        codex(true)?,
    ];
    let names: Vec<String> = peers.iter().map(|peer| peer.name()).collect();
    let each = world.amount(60, 10);
    let samples =
        interleave(&mut peers, world.amount(12, 2), |peer| (0..each).map(|_| one(peer.as_mut())).collect())?;
    let mut findings = Findings::new("`/bin/true` under a sandbox profile");
    table(&mut findings, "/bin/true", &names, &samples, time);
    let plain = ("rexd without a profile", median(&names, &samples, "rexd base64")?);
    for profile in ["read-only", "workspace-write"] {
        let ours = median(&names, &samples, &format!("rexd {profile}"))?;
        findings.targets.push(compare(
            &format!("/bin/true under {profile}, p50"),
            ours,
            plain,
            Bound::AtMost(1.25),
            time,
        ));
    }
    let ours = median(&names, &samples, "rexd workspace-write")?;
    let theirs = ("codex stdio workspace-write", median(&names, &samples, "codex stdio workspace-write")?);
    findings.targets.push(compare("the same, compared with Codex", ours, theirs, Bound::AtMost(1.0), time));
    findings.note(
        "The kernel enforces every profile: Landlock, seccomp, no-new-privileges, and a namespace that is created once.",
    );
    Ok(findings)
}

fn one(peer: &mut dyn Commands) -> Result<f64> {
    let (seconds, code) = timed(|| peer.run(&["/bin/true"], &mut ignore)).with_context(|| peer.name())?;
    ensure!(code == 0, "{}: /bin/true exited with {code}", peer.name());
    Ok(seconds)
}
