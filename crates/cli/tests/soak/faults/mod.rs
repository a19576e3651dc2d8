//! Faults: each kind is injected in random order, at random times, until the time is over. One file per kind.
//!
//! To add one: a variant with its name, a file, and an arm in [`inject`].

pub(crate) mod cuts;
mod full_disk;
mod half_open;
mod kills;
mod low_limits;
mod stops;

use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::Stage;
use crate::random::Random;
use crate::system::Part;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    CutUnix,
    CutWeb,
    CutCopies,
    CutHarness,
    CutExecutor,
    HalfOpenWeb,
    HalfOpenHarness,
    HalfOpenExecutor,
    StopDaemon,
    StopHub,
    StopExecutor,
    StopKeeper,
    StopRex,
    KillDaemon,
    KillHub,
    KillExecutor,
    KillKeeper,
    KillRex,
    FullDisk,
    LowLimits,
}

impl FaultKind {
    pub(crate) const ALL: &[FaultKind] = &[
        FaultKind::CutUnix,
        FaultKind::CutWeb,
        FaultKind::CutCopies,
        FaultKind::CutHarness,
        FaultKind::CutExecutor,
        FaultKind::HalfOpenWeb,
        FaultKind::HalfOpenHarness,
        FaultKind::HalfOpenExecutor,
        FaultKind::StopDaemon,
        FaultKind::StopHub,
        FaultKind::StopExecutor,
        FaultKind::StopKeeper,
        FaultKind::StopRex,
        FaultKind::KillDaemon,
        FaultKind::KillHub,
        FaultKind::KillExecutor,
        FaultKind::KillKeeper,
        FaultKind::KillRex,
        FaultKind::FullDisk,
        FaultKind::LowLimits,
    ];

    /// The name in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FaultKind::CutUnix => "cut: unix socket",
            FaultKind::CutWeb => "cut: WebSocket",
            FaultKind::CutCopies => "cut: rex cp",
            FaultKind::CutHarness => "cut: harness and hub",
            FaultKind::CutExecutor => "cut: executor and hub",
            FaultKind::HalfOpenWeb => "half open: WebSocket",
            FaultKind::HalfOpenHarness => "half open: harness and hub",
            FaultKind::HalfOpenExecutor => "half open: executor and hub",
            FaultKind::StopDaemon => "stop and continue: daemon",
            FaultKind::StopHub => "stop and continue: hub",
            FaultKind::StopExecutor => "stop and continue: executor",
            FaultKind::StopKeeper => "stop and continue: keeper",
            FaultKind::StopRex => "stop and continue: rex cp",
            FaultKind::KillDaemon => "kill -9: daemon",
            FaultKind::KillHub => "kill -9: hub",
            FaultKind::KillExecutor => "kill -9: executor",
            FaultKind::KillKeeper => "kill -9: keeper",
            FaultKind::KillRex => "kill -9: rex cp",
            FaultKind::FullDisk => "full disk",
            FaultKind::LowLimits => "low limits: open files",
        }
    }

    /// Whether the programs need a minute to notice it. Such a fault occurs once, in a long run.
    pub(crate) fn is_slow(self) -> bool {
        matches!(self, FaultKind::HalfOpenHarness | FaultKind::HalfOpenExecutor)
    }

    /// Whether it concerns connections; such faults occur independently of the others.
    fn is_of_network(self) -> bool {
        use FaultKind::{CutCopies, CutExecutor, CutHarness, CutUnix, CutWeb};
        use FaultKind::{HalfOpenExecutor, HalfOpenHarness, HalfOpenWeb};
        matches!(
            self,
            CutUnix
                | CutWeb
                | CutCopies
                | CutHarness
                | CutExecutor
                | HalfOpenWeb
                | HalfOpenHarness
                | HalfOpenExecutor
        )
    }
}

/// The pauses between two faults, in milliseconds.
const NETWORK_PAUSE: std::ops::Range<u64> = 100..900;
const MACHINE_PAUSE: std::ops::Range<u64> = 100..700;

/// Injects faults for the duration of the run, and each at least once.
pub(crate) async fn run(stage: &Stage) {
    let deadline = Instant::now() + stage.settings.duration;
    let (network, machine): (Vec<_>, Vec<_>) = FaultKind::ALL.iter().partition(|kind| kind.is_of_network());
    tokio::join!(
        schedule(stage, network, (stage.settings.random(1001), NETWORK_PAUSE), deadline),
        schedule(stage, machine, (stage.settings.random(1002), MACHINE_PAUSE), deadline),
    );
}

/// Injects these faults in rounds, each round in another order.
async fn schedule(
    stage: &Stage,
    kinds: Vec<FaultKind>,
    (mut random, pause): (Random, std::ops::Range<u64>),
    deadline: Instant,
) {
    let (slow, mut kinds): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|kind| kind.is_slow());
    let mut slow = slow.into_iter().filter(|_| stage.settings.is_long());
    let mut is_first = true;
    while is_first || Instant::now() < deadline {
        random.shuffle(&mut kinds);
        // The rounds after the first end with the time.
        for kind in slow.next().iter().chain(&kinds) {
            if is_first || Instant::now() < deadline {
                let number = stage.history.began(*kind);
                inject(stage, *kind, &mut random).await;
                stage.history.ended(number);
                last(random.time(pause.clone())).await;
            }
        }
        is_first = false;
    }
}

async fn inject(stage: &Stage, kind: FaultKind, random: &mut Random) {
    let system = &stage.system;
    match kind {
        FaultKind::CutUnix => cuts::inject(&system.unix, random),
        FaultKind::CutWeb => cuts::inject(&system.web, random),
        FaultKind::CutCopies => cuts::inject(&system.copies, random),
        FaultKind::CutHarness => cuts::inject(&system.harness, random),
        FaultKind::CutExecutor => cuts::inject(&system.executor_link, random),
        FaultKind::HalfOpenWeb => half_open::inject(&system.web),
        FaultKind::HalfOpenHarness => half_open::inject(&system.harness),
        FaultKind::HalfOpenExecutor => half_open::inject(&system.executor_link),
        FaultKind::StopDaemon => stops::program(stage, Part::Daemon, random).await,
        FaultKind::StopHub => stops::program(stage, Part::Hub, random).await,
        FaultKind::StopExecutor => stops::program(stage, Part::Executor, random).await,
        FaultKind::StopKeeper => stops::keeper(stage, random).await,
        FaultKind::StopRex => stops::rex(stage, random).await,
        FaultKind::KillDaemon => kills::program(stage, Part::Daemon).await,
        FaultKind::KillHub => kills::program(stage, Part::Hub).await,
        FaultKind::KillExecutor => kills::program(stage, Part::Executor).await,
        FaultKind::KillKeeper => kills::keeper(stage, random).await,
        FaultKind::KillRex => kills::rex(stage, random).await,
        FaultKind::FullDisk => full_disk::inject(stage, random).await,
        FaultKind::LowLimits => low_limits::inject(stage, random).await,
    }
}

/// Lets a state last for a time.
async fn last(time: Duration) {
    timeout(time, std::future::pending::<()>()).await.ok();
}
