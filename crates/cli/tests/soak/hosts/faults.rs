//! Faults of a run with hosts, in random order: kills, stops, cut and half-open connections, and cuts of the database.

use std::fmt::Write as _;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::proxy::CutKind;

use super::HostStage;
use super::system::HostPart;
use crate::faults::cuts;
use crate::random::Random;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostFault {
    CutHost,
    CutApps,
    CutDatabase,
    HalfOpenHost,
    KillHost,
    KillHub,
    StopHost,
    StopHub,
}

impl HostFault {
    const ALL: [HostFault; 8] = [
        HostFault::CutHost,
        HostFault::CutApps,
        HostFault::CutDatabase,
        HostFault::HalfOpenHost,
        HostFault::KillHost,
        HostFault::KillHub,
        HostFault::StopHost,
        HostFault::StopHub,
    ];

    fn name(self) -> &'static str {
        match self {
            HostFault::CutHost => "cut: host and hub",
            HostFault::CutApps => "cut: apps and hub",
            HostFault::CutDatabase => "cut: hub and PostgreSQL",
            HostFault::HalfOpenHost => "half open: host and hub",
            HostFault::KillHost => "kill -9: host",
            HostFault::KillHub => "kill -9: hub",
            HostFault::StopHost => "stop and continue: host",
            HostFault::StopHub => "stop and continue: hub",
        }
    }
}

/// How long a program is stopped, and the pauses between two faults, in milliseconds.
const STOPPED: std::ops::Range<u64> = 50..1500;
const PAUSE: std::ops::Range<u64> = 100..1500;

/// Injects faults for the duration of the run, and each at least once. Returns how often each occurred.
pub(super) fn run(stage: &HostStage) -> String {
    let mut random = stage.settings.random(2001);
    let deadline = Instant::now() + stage.settings.duration;
    let has_database = stage.system.database().is_some();
    // The host needs a minute to notice that its connection is half open, so this occurs once, in a long run.
    let mut half_open = stage.settings.is_long();
    let mut kinds: Vec<HostFault> = HostFault::ALL.into_iter().collect();
    kinds.retain(|kind| *kind != HostFault::CutDatabase || has_database);
    let (mut times, mut is_first) = ([0; HostFault::ALL.len()], true);
    while is_first || Instant::now() < deadline {
        random.shuffle(&mut kinds);
        for kind in &kinds {
            let is_wanted = *kind != HostFault::HalfOpenHost || std::mem::take(&mut half_open);
            if is_wanted && (is_first || Instant::now() < deadline) {
                times[*kind as usize] += 1;
                inject(stage, *kind, &mut random);
                last(random.time(PAUSE));
            }
        }
        is_first = false;
    }
    let mut table = String::from("fault                            times\n");
    for kind in HostFault::ALL {
        writeln!(table, "{:<32} {:>5}", kind.name(), times[kind as usize]).unwrap();
    }
    table
}

fn inject(stage: &HostStage, kind: HostFault, random: &mut Random) {
    let system = &stage.system;
    match kind {
        HostFault::CutHost => cuts::inject(&system.host_link, random),
        HostFault::CutApps => cuts::inject(&system.apps, random),
        HostFault::CutDatabase => system.database().into_iter().for_each(|proxy| cuts::inject(proxy, random)),
        HostFault::HalfOpenHost => system.host_link.cut(CutKind::Stalled),
        HostFault::KillHost => system.restart(HostPart::Host),
        HostFault::KillHub => system.restart(HostPart::Hub),
        HostFault::StopHost => stop(system.pid(HostPart::Host), random.time(STOPPED)),
        HostFault::StopHub => stop(system.pid(HostPart::Hub), random.time(STOPPED)),
    }
}

fn stop(pid: i32, time: Duration) {
    let pid = Pid::from_raw(pid).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    last(time);
    kill_process(pid, Signal::CONT).unwrap();
}

/// Lets a state last for a time.
pub(super) fn last(time: Duration) {
    let (_open, never) = mpsc::channel::<()>();
    never.recv_timeout(time).ok();
}
