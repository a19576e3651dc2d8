//! Processes of the run in `/proc`: those of a program before it is killed, and those that are left at the end.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use testkit::proc::{ProcessWatch, children, is_alive, marked, watch};

use crate::counters::{Counters, Work};

/// The variable with the kind of work of a process, for the report.
pub(crate) const WORK: &str = "SOAK_WORK";
/// How long ended sessions and programs may take to end their processes.
const GRACE: Duration = Duration::from_secs(60);

/// Processes that must have ended at the end of the run.
#[derive(Debug, Default)]
pub(crate) struct Leftovers(Mutex<Vec<ProcessWatch>>);

impl Leftovers {
    /// Remembers a program's process tree: its commands, guardians and keepers.
    pub(crate) fn remember_tree(&self, root: i32) {
        let mut remembered = self.0.lock().unwrap();
        remembered.retain(|process| !process.has_ended());
        let mut waiting = vec![root];
        while let Some(pid) = waiting.pop() {
            waiting.extend(children(pid));
            remembered.push(watch(pid));
        }
    }

    /// Counts those that still run, and ends them.
    pub(crate) fn count(&self, found: impl Fn() -> BTreeSet<i32>, counters: &Counters) {
        let deadline = Instant::now() + GRACE;
        let mut remembered = self.0.lock().unwrap();
        remembered.retain(|process| !process.ends_before(deadline));
        let mut left: BTreeSet<i32> = remembered.iter().map(|process| process.pid).collect();
        left.extend(remaining(&found, deadline));
        for pid in left {
            let (work, note) = describe(pid);
            counters.left(work, note);
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
            }
        }
    }
}

/// Waits until a search finds no process; returns those of the last one.
fn remaining(found: &impl Fn() -> BTreeSet<i32>, deadline: Instant) -> BTreeSet<i32> {
    loop {
        let left = found();
        let Some(first) = left.first().filter(|_| Instant::now() < deadline) else { return left };
        // Its end is the next change of interest.
        watch(*first).ends_before(deadline.min(Instant::now() + Duration::from_secs(1)));
    }
}

/// The processes of jobs that still run.
pub(crate) fn of_jobs(mark: &str) -> BTreeSet<i32> {
    marked(mark).into_iter().filter(|pid| work_of(*pid).is_some()).collect()
}

/// The processes that use a file below a directory.
pub(crate) fn users_of(directory: &Path) -> BTreeSet<i32> {
    let own = std::process::id().to_string();
    let is_below = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(directory));
    let uses = |process: &Path| {
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        is_below(&process.join("cwd")) || descriptors.into_iter().any(|entry| is_below(&entry.path()))
    };
    let processes = fs::read_dir("/proc").unwrap().flatten().filter(|entry| entry.file_name() != *own);
    let users = processes.filter(|entry| uses(&entry.path()));
    let pids = users.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_alive(*pid)).collect()
}

fn work_of(pid: i32) -> Option<Work> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{WORK}=");
    let value =
        environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()))?;
    Work::SESSIONS.iter().copied().find(|work| work.name().as_bytes() == value)
}

fn describe(pid: i32) -> (Work, String) {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    (work_of(pid).unwrap_or(Work::System), format!("{pid} ({}) {line}", testkit::proc::name(pid)))
}
