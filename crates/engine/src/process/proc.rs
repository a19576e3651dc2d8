//! Facts about other processes from `/proc`: names, ancestry, environment marks, and open pipes.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

/// Checks of a process that is executing a program; beyond it the process counts as unrelated.
const MAX_EXEC_CHECKS: usize = 1_000;

/// Descriptors that a search for processes needs at the same time.
const NEEDED_DESCRIPTORS: usize = 4;
/// How long a search waits for them, and how often it tries.
const DESCRIPTOR_TIMEOUT: Duration = Duration::from_secs(30);
const DESCRIPTOR_INTERVAL: Duration = Duration::from_millis(10);

/// The fields of `/proc/PID/stat` that relate processes to each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ancestry {
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    pub(super) is_zombie: bool,
}

/// Whether this process is out of descriptors: a search would find nothing.
pub(super) fn is_out_of_descriptors() -> bool {
    let opened: io::Result<Vec<File>> = (0..NEEDED_DESCRIPTORS).map(|_| File::open("/proc")).collect();
    opened.is_err_and(|error| needs_descriptors(&error))
}

fn needs_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Waits until files can be opened: a search without free descriptors would leave everything running. Blocks.
pub(super) fn wait_for_descriptors() {
    let deadline = Instant::now() + DESCRIPTOR_TIMEOUT;
    while is_out_of_descriptors() && Instant::now() < deadline {
        std::thread::sleep(DESCRIPTOR_INTERVAL);
    }
}

/// The short name of a process, or `?` if it does not exist.
pub(super) fn name(pid: i32) -> String {
    fs::read(format!("/proc/{pid}/comm"))
        .map_or_else(|_| "?".to_owned(), |name| String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

/// The fields of `/proc/PID/stat` from the state on; `None` if there is no such process. They follow the last parenthesis:
/// the name of the program can contain any bytes.
pub fn stat_fields(pid: impl Display) -> io::Result<Option<String>> {
    let stat = match fs::read(format!("/proc/{pid}/stat")) {
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::SRCH)) => {
            return Ok(None);
        }
        stat => stat?,
    };
    let name_end = memchr::memrchr(b')', &stat).ok_or(io::ErrorKind::InvalidData)?;
    let fields = stat.get(name_end + 1..).unwrap_or_default().trim_ascii_start();
    Ok(Some(String::from_utf8_lossy(fields).into_owned()))
}

/// Whether a process has certainly ended: there is none, or it is a zombie. An error, such as that of a process without free
/// descriptors, proves neither.
pub(super) fn has_ended(pid: i32) -> bool {
    stat_fields(pid).is_ok_and(|fields| fields.is_none_or(|fields| fields.starts_with(['Z', 'X'])))
}

/// The start time of this process in clock ticks since boot, which distinguishes it from a later one with its pid; 0 if it
/// cannot be read. Kept for each pid, because a fork does not have the same.
pub fn own_start_time() -> u64 {
    static KNOWN: Mutex<(u32, u64)> = Mutex::new((0, 0));
    let pid = std::process::id();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.0 != pid || known.1 == 0 {
        *known = (pid, start_time(pid).ok().flatten().unwrap_or(0));
    }
    known.1
}

/// Whether the process with this pid and [start time](own_start_time) has certainly been reaped. An error proves nothing.
pub fn is_reaped(pid: u32, started: u64) -> bool {
    start_time(pid).is_ok_and(|found| found.is_none_or(|found| started != 0 && found != started))
}

fn start_time(pid: u32) -> io::Result<Option<u64>> {
    let Some(fields) = stat_fields(pid)? else { return Ok(None) };
    let started = fields.split_ascii_whitespace().nth(19).and_then(|field| field.parse().ok());
    Ok(Some(started.ok_or(io::ErrorKind::InvalidData)?))
}

/// Opens a pidfd, which refers to the process that has this pid now.
pub(super) fn open(pid: i32) -> Option<OwnedFd> {
    rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Whether the pid of a leader still refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaderPid {
    /// It does: the leader was not reaped.
    Valid,
    /// The leader was reaped. The kernel does not reuse the pid while a session or group has this id. A process with this
    /// pid is therefore unrelated, and then so is every session or group with this id.
    Released,
}

/// Those of `pids` that are descendants of `leader`, are in its session or group, or have `mark` in their environment.
///
/// Used without cgroups. It does not find a process that left session and group, lost its parents and cleared its
/// environment.
pub(super) fn tree(
    pids: impl Iterator<Item = i32>,
    (leader, leader_pid): (i32, LeaderPid),
    mark: &str,
) -> Vec<i32> {
    let table: HashMap<i32, Ancestry> = pids.filter_map(|pid| Some((pid, ancestry(pid)?))).collect();
    let is_reused = leader_pid == LeaderPid::Released && ancestry(leader).is_some();
    let mut found: HashSet<i32> = HashSet::new();
    for (pid, entry) in &table {
        let is_related = *pid == leader || entry.session == leader || entry.group == leader;
        if (is_related && !is_reused) || has_mark(*pid, mark) {
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

/// Whether a process has a mark in its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkState {
    /// It has the mark.
    Present,
    /// It does not have the mark, or has ended.
    Absent,
    /// Its environment is empty, perhaps because it is executing another program, or cannot be read without free
    /// descriptors.
    Unknown,
}

/// Whether a process has a mark whose value starts with `prefix`.
pub(super) fn mark_state(pid: i32, name: &str, prefix: &str) -> MarkState {
    let start = format!("{name}={prefix}");
    let environment = match read_environment(pid) {
        Ok(environment) => environment,
        Err(error) if needs_descriptors(&error) => return MarkState::Unknown,
        Err(_) => return MarkState::Absent,
    };
    let environment = match environment.is_empty().then(|| environment_bytes(pid)) {
        None => environment,
        Some(None) => return MarkState::Unknown,
        // Keepers and guardians have an empty one.
        Some(Some(0)) => return MarkState::Absent,
        // The exec has completed in between.
        Some(Some(_)) => match read_environment(pid) {
            Err(error) if needs_descriptors(&error) => return MarkState::Unknown,
            environment => environment.unwrap_or_default(),
        },
    };
    match environment.split(|byte| *byte == 0).any(|pair| pair.starts_with(start.as_bytes())) {
        true => MarkState::Present,
        false => MarkState::Absent,
    }
}

fn read_environment(pid: i32) -> io::Result<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ"))
}

/// The length of the environment of a process; `None` while it is executing a program and has none yet, or without free
/// descriptors. A zombie has an empty one, and so has a kernel thread, a child of process 2.
fn environment_bytes(pid: i32) -> Option<u64> {
    let fields = match stat_fields(pid) {
        Ok(Some(fields)) => fields,
        Err(error) if needs_descriptors(&error) => return None,
        Ok(None) | Err(_) => return Some(0),
    };
    let mut fields = fields.split_ascii_whitespace();
    let (state, parent) = (fields.next(), fields.next());
    if matches!(state, Some("Z" | "X")) || parent == Some("2") {
        return Some(0);
    }
    // `env_start` and `env_end`, the 50th and the 51st field; those above were the third and the fourth.
    let mut position = |skip| fields.nth(skip).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let (start, end) = (position(45), position(0));
    (start > 0).then(|| end.saturating_sub(start))
}

/// The pid that was assigned last.
pub(super) fn last_pid() -> Option<i32> {
    let mut text = [0; 128];
    let length = fs::File::open("/proc/loadavg").and_then(|mut file| file.read(&mut text)).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    text.split_whitespace().next_back()?.parse().ok()
}

/// Those of `pids` that have one of these pipes or terminals open.
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

/// Parent, group, session and state of a process.
pub(super) fn ancestry(pid: i32) -> Option<Ancestry> {
    let fields = stat_fields(pid).ok()??;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let mut number = || fields.next()?.parse::<i32>().ok();
    Some(Ancestry {
        parent: number()?,
        group: number()?,
        session: number()?,
        is_zombie: matches!(state, "Z" | "X"),
    })
}

/// Whether a process has `mark`, a variable with its value. One that is executing a program shows its environment when that
/// is complete, which takes microseconds.
fn has_mark(pid: i32, mark: &str) -> bool {
    let (name, value) = mark.split_once('=').unwrap_or((mark, ""));
    for _ in 0..MAX_EXEC_CHECKS {
        match mark_state(pid, name, value) {
            MarkState::Present => return true,
            MarkState::Absent => return false,
            MarkState::Unknown => std::thread::yield_now(),
        }
    }
    false
}

/// The pids of all processes.
pub(super) fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The children of this process, including adopted ones.
pub(super) fn children() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .collect()
}

/// Whether a child of this process has `mark`, such as an adopted orphan of a tree.
pub(super) fn has_marked_child(mark: &str) -> bool {
    children().into_iter().any(|pid| !has_ended(pid) && has_mark(pid, mark))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_process_that_reuses_the_pid_of_a_reaped_leader_is_not_in_its_tree() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(tree(pids(), (own, LeaderPid::Valid), "NO=mark").contains(&own));
        assert!(!tree(pids(), (own, LeaderPid::Released), "NO=mark").contains(&own));
    }

    /// Waits until the child executes its program: `spawn` can return before its environment is complete.
    fn executed(child: &std::process::Child) -> i32 {
        let pid = i32::try_from(child.id()).unwrap();
        while environment_bytes(pid).is_none() {
            std::thread::yield_now();
        }
        pid
    }

    #[test]
    fn a_process_with_an_empty_environment_has_no_mark() {
        let mut child = std::process::Command::new("sleep").arg("1000").env_clear().spawn().unwrap();
        let pid = executed(&child);
        let state = mark_state(pid, "NO", "mark");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(state, MarkState::Absent);
    }

    #[test]
    fn a_process_is_found_whatever_bytes_its_name_contains() {
        use std::os::unix::ffi::OsStrExt as _;

        let (own, directory) = (std::process::id(), tempfile::tempdir().unwrap());
        let program = directory.path().join(OsStr::from_bytes(b") S 1 \xff"));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(program).arg("1000").env("A", "mark").spawn().unwrap();
        let pid = executed(&child);
        let found = (ancestry(pid), mark_state(pid, "A", "ma"), environment_bytes(pid), name(pid));
        let had_ended = has_ended(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(u32::try_from(found.0.unwrap().parent).unwrap(), own);
        assert!(found.1 == MarkState::Present && found.2.unwrap() > 0, "{found:?}");
        assert_eq!(found.3, ") S 1 \u{fffd}");
        assert!(!had_ended && has_ended(pid));
    }

    #[test]
    fn a_process_is_reaped_if_there_is_none_or_another_one_with_its_pid() {
        let (pid, started) = (std::process::id(), own_start_time());
        assert!(started > 0 && !is_reaped(pid, started));
        assert!(is_reaped(pid, started + 1));
        assert!(!is_reaped(pid, 0), "a start time that was not known");
        assert!(is_reaped(u32::MAX, started) && is_reaped(u32::MAX, 0));
    }
}
