//! Copies with `rex cp`: after a failure or a kill the target is as before, and the same command completes it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use testkit::proc::watch;

use super::Workload;
use crate::counters::{Outcome, Work};
use crate::faults::FaultKind;
use crate::random::Random;
use crate::{ANSWER, Stage};

const ROW: Work = Work::Copies;
/// The proxy forwards so many bytes per 5 ms, so that faults occur during a copy.
const SLOW: usize = 24 * 1024;
/// Runs of the same command until it succeeds.
const MAX_RUNS: u64 = 200;
/// What `rex cp` may say about a source or target that is not there, cannot be reached or has no space.
const FAILED: i32 = 255;

/// The direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyDirection {
    Up,
    Down,
}

pub(super) struct Copies {
    direction: CopyDirection,
    /// The content of the target, if it exists.
    before: Option<Vec<u8>>,
}

impl Copies {
    pub(super) fn new(stage: &Stage, direction: CopyDirection) -> Copies {
        stage.system.copies.throttle(Some(SLOW));
        Copies { direction, before: None }
    }

    /// The source and the target, as paths of this machine: the daemon is on it too.
    fn paths(&self, stage: &Stage) -> (PathBuf, PathBuf) {
        let there = stage.system.disk.path().join("copies");
        let here = stage.system.sandbox.path("home");
        match self.direction {
            CopyDirection::Up => (here.join("to-copy"), there.join("copy-up")),
            CopyDirection::Down => (there.join("to-copy"), here.join("copy-down")),
        }
    }

    fn command(&self, stage: &Stage) -> Command {
        let (source, target) = self.paths(stage);
        let remote = |path: PathBuf| format!(":{}", path.display());
        let system = &stage.system;
        let mut command = system.sandbox.command(env!("CARGO_BIN_EXE_rex"));
        command.env("XDG_DATA_HOME", system.sandbox.path("home/data"));
        command.arg("-t").arg(format!("unix:{}", system.copies.addresses.unix.display())).arg("cp");
        match self.direction {
            CopyDirection::Up => command.arg(source).arg(remote(target)),
            CopyDirection::Down => command.arg(remote(source)).arg(target),
        };
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Compares the target with its content before and after. It is never anything else.
    fn check(&mut self, stage: &Stage, after: &[u8], output: &Output) -> bool {
        let found = fs::read(self.paths(stage).1).ok();
        if output.status.success() {
            if found.as_deref() != Some(after) {
                let note =
                    format!("{:?} reports success: {:?}", self.direction, found.map(|bytes| bytes.len()));
                stage.counters.lost(ROW, after.len() as u64, note);
            }
            self.before = Some(after.to_vec());
            return true;
        }
        if found != self.before && found.as_deref() != Some(after) {
            let lengths = (found.map(|bytes| bytes.len()), self.before.as_ref().map(Vec::len), after.len());
            stage.counters.lost(ROW, 1, format!("{:?}: found, before, after: {lengths:?}", self.direction));
        }
        false
    }
}

impl Workload for Copies {
    const WORK: Work = ROW;

    async fn job(&mut self, stage: &Stage, random: &mut Random) -> Outcome {
        let length = random.within(100_000..2_500_000);
        let content = random.bytes(length);
        let (source, _) = self.paths(stage);
        // The source may be on the full disk.
        if fs::write(&source, &content).is_err() {
            fs::remove_file(&source).ok();
            return Outcome::Refused;
        }
        let begin = Instant::now();
        for _ in 0..MAX_RUNS {
            let Some(output) = run(stage, self.command(stage)).await else { return Outcome::InDoubt };
            if self.check(stage, &content, &output) {
                return Outcome::Finished;
            }
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_reported = output.status.code() == Some(FAILED) && !errors.is_empty();
            let was_killed =
                output.status.code().is_none() && stage.history.since(begin, &[FaultKind::KillRex]);
            if !is_reported && !was_killed {
                stage.counters.unanswered(ROW, format!("{}: {errors:?}", output.status));
            }
            tokio::time::timeout(random.time(50..250), std::future::pending::<()>()).await.ok();
        }
        stage.counters.unanswered(ROW, format!("{:?}: no run of {MAX_RUNS} succeeds", self.direction));
        Outcome::InDoubt
    }

    async fn end(&mut self, stage: &Stage) {
        let (_, target) = self.paths(stage);
        let part = target.with_file_name(format!(".{}.rex-part", target.file_name().unwrap().display()));
        if part.exists() {
            stage.counters.lost(ROW, 1, format!("{} is left after a complete copy", part.display()));
        }
    }
}

/// Runs the command to its end, which must come in time.
async fn run(stage: &Stage, mut command: Command) -> Option<Output> {
    let mut child = command.spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    stage.system.rex.lock().unwrap().insert(pid);
    let ending = tokio::task::spawn_blocking(move || {
        let has_ended = watch(pid).ends_before(Instant::now() + ANSWER);
        if !has_ended {
            child.kill().unwrap();
        }
        (has_ended, child.wait_with_output().unwrap())
    });
    let (has_ended, output) = ending.await.unwrap();
    stage.system.rex.lock().unwrap().remove(&pid);
    if !has_ended {
        stage.counters.unanswered(ROW, format!("rex cp does not end: {output:?}"));
        return None;
    }
    Some(output)
}
