//! Stops: a program receives SIGSTOP and, a little later, SIGCONT.

use rustix::process::{Pid, Signal, kill_process};

use super::last;
use crate::Stage;
use crate::faults::kills::{running_keeper, running_rex};
use crate::random::Random;
use crate::system::Part;

/// How long a program is stopped, in milliseconds.
const STOPPED: std::ops::Range<u64> = 50..1500;

pub(super) async fn program(stage: &Stage, part: Part, random: &mut Random) {
    stop(stage.system.pid(part), random).await;
}

pub(super) async fn keeper(stage: &Stage, random: &mut Random) {
    if let Some((_, pid)) = running_keeper(stage, random).await {
        stop(pid, random).await;
    }
}

pub(super) async fn rex(stage: &Stage, random: &mut Random) {
    if let Some(pid) = running_rex(stage, random).await {
        stop(pid, random).await;
    }
}

/// A program other than those of the system may end before either signal.
async fn stop(pid: i32, random: &mut Random) {
    let Some(pid) = Pid::from_raw(pid) else { return };
    kill_process(pid, Signal::STOP).ok();
    last(random.time(STOPPED)).await;
    kill_process(pid, Signal::CONT).ok();
}
