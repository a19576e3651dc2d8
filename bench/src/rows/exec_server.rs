//! `rexd exec-server` and the released server: one command, many commands, much output, keys in a terminal.

use anyhow::{Context, Result, ensure};

use super::{median, table};
use crate::peers::codex::{self, Codex, Transport};
use crate::peers::floor::Floor;
use crate::peers::peer::JsonPeer;
use crate::peers::{Commands, Terminals, ignore};
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, rate, time, timed};
use crate::world::{TEXT_BYTES, World};

const FLIGHT: usize = 64;
/// Keys sent before the clock starts, in every new terminal.
const WARM_UP: usize = 20;
const OURS: [&str; 2] = ["rexd exec-server stdio", "rexd exec-server ws"];

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let mut findings = Findings::new("exec-server: commands, output, terminals");
    one_by_one(world, &mut findings)?;
    many(world, &mut findings)?;
    output(world, &mut findings)?;
    keys(world, &mut findings)?;
    Ok(findings)
}

fn ours(world: &World, transport: Transport) -> Result<JsonPeer<Codex>> {
    codex::ours(&world.rexd, &world.directory, transport)
}

fn theirs(world: &World, transport: Transport, concurrent: usize) -> Result<JsonPeer<Codex>> {
    codex::start(&world.home, &world.directory, transport, concurrent)
}

fn one_by_one(world: &World, findings: &mut Findings) -> Result<()> {
    let mut peers: Vec<Box<dyn Commands>> = vec![
        Box::new(Floor::default()),
        Box::new(ours(world, Transport::Stdio)?),
        Box::new(ours(world, Transport::WebSocket)?),
        Box::new(theirs(world, Transport::Stdio, 1)?),
        Box::new(theirs(world, Transport::WebSocket, 1)?),
    ];
    let names: Vec<String> = peers.iter().map(|peer| peer.name()).collect();
    let each = world.amount(60, 10);
    let samples = interleave(&mut peers, world.amount(12, 2), |peer| {
        let mut one = || {
            let (seconds, code) = timed(|| peer.run(&["/bin/true"], &mut ignore))?;
            ensure!(code == 0, "/bin/true exited with {code}");
            Ok(seconds)
        };
        (0..each).map(|_| one()).collect::<Result<Vec<f64>>>().with_context(|| peer.name())
    })?;
    table(findings, "/bin/true", &names, &samples, time);
    let floor = ("floor", median(&names, &samples, "floor")?);
    for name in OURS {
        let figure = median(&names, &samples, name)?;
        findings.targets.push(compare(
            &format!("/bin/true, {name}"),
            figure,
            floor,
            Bound::AtMost(1.35),
            time,
        ));
    }
    Ok(())
}

fn many(world: &World, findings: &mut Findings) -> Result<()> {
    let (many, few) = (world.amount(1280, 128), world.amount(192, 64));
    let mut peers: Vec<(Box<dyn Commands>, usize)> = vec![
        (Box::<Floor>::default(), many),
        (Box::new(ours(world, Transport::Stdio)?), many),
        (Box::new(ours(world, Transport::WebSocket)?), many),
        (Box::new(theirs(world, Transport::WebSocket, FLIGHT)?), few),
    ];
    let names: Vec<String> = peers.iter().map(|(peer, _)| peer.name()).collect();
    let samples = interleave(&mut peers, world.amount(8, 2), |(peer, total)| {
        let (seconds, wrong) =
            timed(|| peer.burst(&["/bin/true"], *total, FLIGHT)).with_context(|| peer.name())?;
        ensure!(wrong == 0 || peer.name().starts_with("codex"), "{}: {wrong} went wrong", peer.name());
        Ok(vec![*total as f64 / seconds])
    })?;
    let show = |rate: f64| format!("{rate:.0}/s");
    table(findings, "commands per second, 64 in flight", &names, &samples, show);
    let floor = ("floor", median(&names, &samples, "floor")?);
    for name in OURS {
        let figure = median(&names, &samples, name)?;
        let work = format!("commands per second, {name}");
        findings.targets.push(compare(&work, figure, floor, Bound::AtLeast(0.9), show));
    }
    Ok(())
}

fn output(world: &World, findings: &mut Findings) -> Result<()> {
    let size = world.amount(TEXT_BYTES, TEXT_BYTES / 16);
    let path = world.text(size)?;
    let path = path.to_str().context("a path that is not text")?;
    let mut peers: Vec<Box<dyn Commands>> = vec![
        Box::<Floor>::default(),
        Box::new(ours(world, Transport::Stdio)?),
        Box::new(ours(world, Transport::WebSocket)?),
        Box::new(theirs(world, Transport::WebSocket, 1)?),
    ];
    let names: Vec<String> = peers.iter().map(|peer| peer.name()).collect();
    let samples = interleave(&mut peers, world.amount(7, 2), |peer| {
        let mut expected = world.expect();
        let (seconds, code) = timed(|| peer.run(&["/bin/cat", path], &mut |bytes| expected.take(bytes)))
            .with_context(|| peer.name())?;
        ensure!(code == 0, "{}: cat exited with {code}", peer.name());
        expected.end(size).with_context(|| peer.name())?;
        Ok(vec![size as f64 / seconds])
    })?;
    table(findings, "256 MiB from `cat`", &names, &samples, rate);
    let codex = ("codex ws", median(&names, &samples, "codex ws")?);
    let figure = median(&names, &samples, OURS[1])?;
    findings.targets.push(compare("256 MiB of stdout over ws", figure, codex, Bound::AtLeast(1.5), rate));
    Ok(())
}

fn keys(world: &World, findings: &mut Findings) -> Result<()> {
    let mut peers: Vec<Box<dyn Terminals>> = vec![
        Box::new(Floor::default()),
        Box::new(ours(world, Transport::Stdio)?),
        Box::new(ours(world, Transport::WebSocket)?),
        Box::new(theirs(world, Transport::WebSocket, 1)?),
    ];
    let names: Vec<String> = peers.iter().map(|peer| peer.name()).collect();
    let count = world.amount(200, 30);
    let samples = interleave(&mut peers, world.amount(10, 2), |peer| {
        let mut round = || {
            peer.open()?;
            for _ in 0..WARM_UP {
                peer.key(b'w')?;
            }
            (0..count).map(|_| peer.key(b'k').map(|time| time.as_secs_f64())).collect::<Result<Vec<f64>>>()
        };
        round().with_context(|| peer.name())
    })?;
    table(findings, "keystroke to echo", &names, &samples, time);
    let floor = ("floor", median(&names, &samples, "floor")?);
    let figure = median(&names, &samples, OURS[1])?;
    findings.targets.push(compare("PTY keystroke to echo over ws", figure, floor, Bound::AtMost(7.0), time));
    Ok(())
}
