//! Processes as seen in `/proc`: whether they run, their descriptors and memory, and their end.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::tries::Tries;

/// The name of the program that ends the commands of a killed daemon or keeper.
pub const GUARDIAN: &str = "guardian";

/// A process that can be waited for without being its parent.
#[derive(Debug)]
pub struct ProcessWatch {
    /// Its number.
    pub pid: i32,
    handle: Option<OwnedFd>,
}

/// Watches a process; an unknown process counts as ended.
pub fn watch(pid: i32) -> ProcessWatch {
    let handle = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    ProcessWatch { pid, handle }
}

/// Watches every process that has `NAME=value` in its environment.
pub fn watch_marked(mark: &str) -> Vec<ProcessWatch> {
    marked(mark).into_iter().map(watch).collect()
}

impl ProcessWatch {
    /// Waits for its end; false after the deadline.
    pub fn ends_before(&self, deadline: Instant) -> bool {
        let Some(handle) = &self.handle else { return true };
        wait_readable(handle, deadline)
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ends_before(Instant::now())
    }
}

/// The watched processes that still run after the given time.
pub fn survivors(watched: &[ProcessWatch], within: Duration) -> Vec<i32> {
    let deadline = Instant::now() + within;
    watched.iter().filter(|process| !process.ends_before(deadline)).map(|process| process.pid).collect()
}

/// Waits for readable data or the end; false after the deadline.
pub fn wait_readable(fd: &impl AsFd, deadline: Instant) -> bool {
    wait_for(fd, PollFlags::IN, deadline)
}

/// Waits for one of `flags`; false after the deadline.
pub fn wait_for(fd: &impl AsFd, flags: PollFlags, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).expect("a short time"),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(fd, flags)], Some(&timeout)) {
            Ok(0) if Instant::now() >= deadline => return false,
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return true,
            Err(error) => panic!("poll: {error}"),
        }
    }
}

/// Every process with `NAME=value` in its environment, without zombies.
pub fn marked(mark: &str) -> Vec<i32> {
    let wanted = mark.as_bytes();
    let is_marked = |pid: &i32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == wanted))
    };
    all().into_iter().filter(is_marked).filter(|pid| is_alive(*pid)).collect()
}

/// Whether a process runs; a zombie does not.
pub fn is_alive(pid: i32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The state letter of a process.
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.get(stat.rfind(')')? + 2..)?.chars().next()
}

/// The children of a process, zombies included.
pub fn children(pid: i32) -> Vec<i32> {
    let parent = |child: i32| {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        stat.get(stat.rfind(')')? + 4..)?.split(' ').next()?.parse::<i32>().ok()
    };
    all().into_iter().filter(|child| parent(*child) == Some(pid)).collect()
}

/// The short name of a process; empty if it does not exist.
pub fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// The guardian of a daemon or a keeper; waits until it runs.
pub fn guardian(owner: i32) -> ProcessWatch {
    let mut tries = Tries::within(Duration::from_secs(60), "a guardian runs");
    loop {
        let is_guardian = |pid: &i32| name(*pid) == GUARDIAN && is_alive(*pid);
        if let Some(pid) = children(owner).into_iter().find(is_guardian) {
            return watch(pid);
        }
        tries.again();
    }
}

/// The number of open descriptors of a process.
pub fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the descriptors of a live process").count()
}

/// The targets of a process's descriptors, for messages.
pub fn descriptor_names(pid: i32) -> BTreeSet<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string())).collect()
}

/// Bytes of private memory of a process, without pages of its program: how many of a large debug build
/// are resident depends on the page cache, not on the process.
pub fn held_bytes(pid: i32) -> u64 {
    (status_kib(pid, "RssAnon:") + status_kib(pid, "RssShmem:")) * 1024
}

fn status_kib(pid: i32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the status of a live process");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a line of the status");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of KiB")
}

fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
