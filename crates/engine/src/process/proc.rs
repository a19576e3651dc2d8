//! What `/proc` says about other processes: names, ancestry, and who holds a pipe open.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags};

/// The lines of `/proc/PID/stat` that ancestry needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ancestry {
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    pub(super) is_zombie: bool,
}

/// The short name of a process, or `?` when it is gone.
pub(super) fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
}

/// Whether a process exists and is not merely a zombie.
pub(super) fn is_alive(pid: i32) -> bool {
    ancestry(pid).is_some_and(|found| !found.is_zombie)
}

/// Opens a handle that stays bound to the process that has this number now.
pub(super) fn open(pid: i32) -> Option<OwnedFd> {
    rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Whether the number of a leader is still its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    /// It was not reaped.
    Kept,
    /// It was reaped. The kernel gives the number to nobody while a session or group is called so; who has it now is
    /// a stranger, and then so is everybody in a session or group of that number.
    Free,
}

/// Everything that descends from `leader`, runs in its session or group, or carries `mark` in its environment.
///
/// Used where no cgroup holds the tree together. A process that left the session, lost its parents and wiped its
/// environment is not found; that is the limit of what the kernel tells without cgroups.
pub(super) fn tree(leader: i32, number: Number, mark: &str) -> Vec<i32> {
    let table: HashMap<i32, Ancestry> = pids().filter_map(|pid| Some((pid, ancestry(pid)?))).collect();
    let is_strangers = number == Number::Free && table.contains_key(&leader);
    let mut found: HashSet<i32> = HashSet::new();
    for (pid, entry) in &table {
        let is_kin = *pid == leader || entry.session == leader || entry.group == leader;
        if (is_kin && !is_strangers) || carries(*pid, mark) {
            found.insert(*pid);
        }
    }
    loop {
        let more: Vec<i32> = table
            .iter()
            .filter(|(pid, entry)| found.contains(&entry.parent) && !found.contains(*pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    found.into_iter().filter(|pid| table.get(pid).is_some_and(|entry| !entry.is_zombie)).collect()
}

/// What a process's environment says about a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marked {
    /// It carries it.
    Yes,
    /// It does not, or it is gone.
    No,
    /// It has none to be seen: perhaps it is just becoming another program.
    Unseen,
}

/// Whether a process carries a mark whose value starts with `prefix`.
pub(super) fn marked(pid: i32, name: &str, prefix: &str) -> Marked {
    let start = format!("{name}={prefix}");
    match fs::read(format!("/proc/{pid}/environ")) {
        Ok(environment) if environment.is_empty() && is_program(pid) => Marked::Unseen,
        Ok(environment)
            if environment.split(|byte| *byte == 0).any(|pair| pair.starts_with(start.as_bytes())) =>
        {
            Marked::Yes
        }
        Ok(_) | Err(_) => Marked::No,
    }
}

/// Whether it runs, and is no thread of the kernel: those are children of the second process.
fn is_program(pid: i32) -> bool {
    ancestry(pid).is_some_and(|found| !found.is_zombie && found.parent != 2)
}

/// The number that was given to a new process last.
pub(super) fn last_number() -> Option<i32> {
    let mut text = [0; 128];
    let length = fs::File::open("/proc/loadavg").and_then(|mut file| file.read(&mut text)).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    text.split_whitespace().next_back()?.parse().ok()
}

/// Those of `pids` that hold one of these pipes or terminals open.
pub(super) fn holders(pids: &[i32], targets: &[String]) -> Vec<i32> {
    let holds = |pid: &&i32| {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        entries.flatten().any(|entry| {
            fs::read_link(entry.path())
                .is_ok_and(|link| targets.iter().any(|target| link == Path::new(target)))
        })
    };
    pids.iter().filter(holds).copied().collect()
}

/// What `/proc/PID` says of its place among the others.
pub(super) fn ancestry(pid: i32) -> Option<Ancestry> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and brackets; everything after the last bracket is plain.
    let rest = stat.get(stat.rfind(')')? + 2..)?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let mut number = || fields.next()?.parse::<i32>().ok();
    Some(Ancestry {
        parent: number()?,
        group: number()?,
        session: number()?,
        is_zombie: matches!(state, "Z" | "X"),
    })
}

fn carries(pid: i32, mark: &str) -> bool {
    environment_has(pid, |pair| pair == mark.as_bytes())
}

fn environment_has(pid: i32, wanted: impl Fn(&[u8]) -> bool) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ"));
    environment.is_ok_and(|environment| environment.split(|byte| *byte == 0).any(wanted))
}

/// Every process there is.
pub(super) fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The children of this process, adopted ones included.
pub(super) fn children() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .collect()
}

/// Whether a child of this process carries `mark`: a runaway that was handed to us.
pub(super) fn has_marked_child(mark: &str) -> bool {
    children().into_iter().any(|pid| is_alive(pid) && carries(pid, mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_number_of_a_reaped_leader_is_a_stranger() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(tree(own, Number::Kept, "NO=mark").contains(&own));
        assert!(!tree(own, Number::Free, "NO=mark").contains(&own));
    }
}
