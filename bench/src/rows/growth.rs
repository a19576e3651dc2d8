//! Cost of one more process or session with 1, 10, 100 and 1,000 existing ones.

use std::process::Child;
use std::time::Duration;

use anyhow::Result;

use crate::peers::floor::Floor;
use crate::peers::peer::StdioKind;
use crate::proc::memory;
use crate::report::{Bound, Findings, compare};
use crate::stats::{Samples, time, timed, times};
use crate::world::World;

const IDLE: [&str; 2] = ["/bin/sleep", "60"];
/// The numbers of existing processes or sessions.
const COUNTS: [usize; 4] = [1, 10, 100, 1000];
/// Starts that are timed at each count.
const PROBES: usize = 30;

/// The figures at one count.
struct Point {
    count: usize,
    /// Median time to start one more.
    start: f64,
    /// Growth of the server's memory per unit, probes included.
    each: f64,
}

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let counts: &[usize] = world.amount(&COUNTS, &[1, 10, 100]);
    let mut lines = Vec::new();
    let (mut processes, mut sessions) = (Vec::new(), Vec::new());
    for &count in counts {
        let floor = floor(count)?;
        let mut peer = world.setup().start()?;
        let process = climb(count, peer.server.id(), || peer.start(&IDLE, StdioKind::Pipes).map(drop))?;
        drop(peer);
        let mut peer = world.setup().start()?;
        let session = climb(count, peer.server.id(), || peer.open_session().map(drop))?;
        lines.push(line(&floor, &process, &session));
        processes.push(process);
        sessions.push(session);
    }
    let mut findings = Findings::new("What one more costs");
    let head = [
        "count",
        "start a process",
        "floor",
        "ratio",
        "memory per process",
        "open a session",
        "memory per session",
    ];
    findings.table(&head, lines);
    findings.note(format!(
        "A new server for each count, and the median of {PROBES} further starts in one round, so noise is not averaged. \
         Memory is the growth since the server was idle, divided by count and starts together."
    ));
    flat(&mut findings, "start of a process", &processes);
    flat(&mut findings, "opening of a session", &sessions);
    Ok(findings)
}

/// The target: at the largest count, one more costs at most 1.5 times as much as at ten.
fn flat(findings: &mut Findings, work: &str, points: &[Point]) {
    if let [_, ten, .., last] = points {
        let work = format!("{work} at {}", last.count);
        findings.targets.push(compare(&work, last.start, ("at 10", ten.start), Bound::AtMost(1.5), time));
    }
}

fn line(floor: &Point, process: &Point, session: &Point) -> Vec<String> {
    let each = |point: &Point| format!("{:.1} KiB", point.each / 1024.0);
    vec![
        process.count.to_string(),
        time(process.start),
        time(floor.start),
        times(process.start / floor.start),
        each(process),
        time(session.start),
        each(session),
    ]
}

/// Creates units up to the count, then measures some more.
fn climb(count: usize, pid: u32, mut one_more: impl FnMut() -> Result<()>) -> Result<Point> {
    let idle = memory(pid)?.rss;
    for _ in 0..count {
        one_more()?;
    }
    let mut samples = Samples::default();
    samples
        .push((0..PROBES).map(|_| timed(&mut one_more).map(|(seconds, ())| seconds)).collect::<Result<_>>()?);
    std::thread::sleep(Duration::from_millis(200));
    let each = (memory(pid)?.rss - idle).max(0.0) / (count + PROBES) as f64;
    Ok(Point { count, start: samples.p50(), each })
}

/// The same with plain children of this program.
fn floor(count: usize) -> Result<Point> {
    let mut children: Vec<Child> = Vec::new();
    let point = climb(count, std::process::id(), || {
        children.push(Floor::spawn(&IDLE)?);
        Ok(())
    });
    for mut child in children {
        child.kill()?;
        child.wait()?;
    }
    point
}
