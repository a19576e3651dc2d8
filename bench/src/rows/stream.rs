//! 256 MiB of text from one process; every byte is compared with the known text.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::{median, table};
use crate::peers::Commands;
use crate::peers::codex::{self, Transport};
use crate::peers::daemon::Daemon;
use crate::peers::floor::Floor;
use crate::peers::rexd::{Encoding, Setup};
use crate::peers::ssh::Ssh;
use crate::peers::sshd::Sshd;
use crate::peers::swerex::Swerex;
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, rate, timed};
use crate::world::{TEXT_BYTES, World};

/// SWE-ReX keeps several copies of all output in memory, so it prints less.
const SWEREX_BYTES: u64 = 32 << 20;

/// A peer with its output.
struct Entry {
    peer: Box<dyn Commands>,
    path: PathBuf,
    size: u64,
}

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let sshd = Sshd::start()?;
    let daemon = Daemon::start(world.setup())?;
    let size = world.amount(TEXT_BYTES, TEXT_BYTES / 16);
    let path = world.text(size)?;
    let entry = |peer: Box<dyn Commands>| Entry { peer, path: path.clone(), size };
    let utf8 = Setup { encoding: Encoding::Utf8, ..world.setup() };
    let mut entries = vec![
        entry(Box::<Floor>::default()),
        entry(Box::new(world.setup().start()?)),
        entry(Box::new(utf8.start()?)),
        entry(Box::new(daemon.unix()?)),
        entry(Box::new(daemon.websocket()?)),
        entry(Box::new(codex::start(&world.home, &world.directory, Transport::Stdio, 1)?)),
        entry(Box::new(codex::start(&world.home, &world.directory, Transport::WebSocket, 1)?)),
        entry(Box::new(Ssh::new(sshd.control()))),
    ];
    let small = size.min(SWEREX_BYTES);
    let swerex = Box::new(Swerex::start(&world.home)?);
    entries.push(Entry { peer: swerex, path: world.text(small)?, size: small });
    let names: Vec<String> = entries.iter().map(|entry| entry.peer.name()).collect();
    let samples = interleave(&mut entries, world.amount(7, 2), |entry| Ok(vec![print(world, entry)?]))?;
    let mut findings = Findings::new("256 MiB of text from one process");
    table(&mut findings, "`cat FILE`", &names, &samples, rate);
    findings.note("Every byte was compared with the known text. SWE-ReX printed 32 MiB.");
    let ssh = ("ssh mux", median(&names, &samples, "ssh mux")?);
    for (name, least) in [("rexd base64", 1.5), ("rexd utf8", 0.8)] {
        let ours = median(&names, &samples, name)?;
        findings.targets.push(compare(
            &format!("256 MiB of text, {name}"),
            ours,
            ssh,
            Bound::AtLeast(least),
            rate,
        ));
    }
    let held =
        [("rexd unix", "rexd base64", 0.9), ("rexd ws", "rexd base64", 0.7), ("rexd ws", "codex ws", 1.5)];
    for (name, other, least) in held {
        let (ours, theirs) = (median(&names, &samples, name)?, median(&names, &samples, other)?);
        let work = format!("256 MiB of text, {name}");
        findings.targets.push(compare(&work, ours, (other, theirs), Bound::AtLeast(least), rate));
    }
    Ok(findings)
}

fn print(world: &World, entry: &mut Entry) -> Result<f64> {
    let path = entry.path.to_str().context("a path that is not text")?;
    let mut expected = world.expect();
    let (seconds, code) = timed(|| entry.peer.run(&["/bin/cat", path], &mut |bytes| expected.take(bytes)))
        .with_context(|| entry.peer.name())?;
    ensure!(code == 0, "{}: cat exited with {code}", entry.peer.name());
    expected.end(entry.size).with_context(|| entry.peer.name())?;
    Ok(entry.size as f64 / seconds)
}
