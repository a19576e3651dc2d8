//! What one more process or session costs when there are 1, 10, 100 and 1,000 of them already.

use std::process::Child;
use std::time::Duration;

use anyhow::Result;

use crate::peers::floor::Floor;
use crate::peers::peer::Streams;
use crate::proc::memory;
use crate::report::{Bound, Findings, compare};
use crate::stats::{Samples, time, timed, times};
use crate::world::World;

const IDLE: [&str; 2] = ["/bin/sleep", "60"];
/// How many there are when a figure is taken.
const COUNTS: [usize; 4] = [1, 10, 100, 1000];
/// Starts that are timed at each count.
const PROBES: usize = 30;

/// The figures at one count.
struct Point {
    count: usize,
    /// Median time to start one more.
    start: f64,
    /// Resident memory of the server.
    rss: f64,
}

/// Runs the row.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let counts: &[usize] = world.amount(&COUNTS, &[1, 10, 100]);
    let floor = floor(counts)?;
    let mut peer = world.setup().start()?;
    let idle = memory(peer.server.id())?.rss;
    let pid = peer.server.id();
    let processes = climb(counts, pid, || peer.start(&IDLE, Streams::Pipes).map(drop))?;
    drop(peer);
    let mut peer = world.setup().start()?;
    let pid = peer.server.id();
    let sessions = climb(counts, pid, || peer.open_session().map(drop))?;
    drop(peer);
    let mut findings = Findings::new("What one more costs");
    let lines = (0..counts.len()).map(|at| line(idle, &floor[at], &processes[at], &sessions[at])).collect();
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
        "Median of {PROBES} starts on top of the count; memory is what the server grew since it was idle, by unit."
    ));
    flat(&mut findings, "start of a process", &processes);
    flat(&mut findings, "opening of a session", &sessions);
    Ok(findings)
}

/// At the largest count one more may cost at most half as much again as at ten.
fn flat(findings: &mut Findings, work: &str, points: &[Point]) {
    if let [_, ten, .., last] = points {
        let work = format!("{work} at {}", last.count);
        findings.targets.push(compare(&work, last.start, ("at 10", ten.start), Bound::AtMost(1.5), time));
    }
}

fn line(idle: f64, floor: &Point, process: &Point, session: &Point) -> Vec<String> {
    let per = |point: &Point| {
        format!("{:.1} KiB", (point.rss - idle).max(0.0) / 1024.0 / (point.count + PROBES) as f64)
    };
    vec![
        process.count.to_string(),
        time(process.start),
        time(floor.start),
        times(process.start / floor.start),
        per(process),
        time(session.start),
        per(session),
    ]
}

/// Goes up through the counts. Each point's probes stay and count towards the next.
fn climb(counts: &[usize], pid: u32, mut one_more: impl FnMut() -> Result<()>) -> Result<Vec<Point>> {
    let mut there = 0;
    let mut points = Vec::new();
    for &count in counts {
        while there < count {
            one_more()?;
            there += 1;
        }
        let mut samples = Samples::default();
        samples.push(
            (0..PROBES).map(|_| timed(&mut one_more).map(|(seconds, ())| seconds)).collect::<Result<_>>()?,
        );
        there += PROBES;
        std::thread::sleep(Duration::from_millis(200));
        points.push(Point { count, start: samples.p50(), rss: memory(pid)?.rss });
    }
    Ok(points)
}

/// The same with plain children of this program.
fn floor(counts: &[usize]) -> Result<Vec<Point>> {
    let mut children: Vec<Child> = Vec::new();
    let points = climb(counts, std::process::id(), || {
        children.push(Floor::spawn(&IDLE)?);
        Ok(())
    });
    for mut child in children {
        child.kill()?;
        child.wait()?;
    }
    points
}
