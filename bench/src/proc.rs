//! Memory and processor time of processes from `/proc`, and a description of the machine.

use std::fs;

use anyhow::{Context, Result};

/// Memory of a process in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Resident, shared pages counted in full.
    pub(crate) rss: f64,
    /// Resident, shared pages divided among those that share them.
    pub(crate) pss: f64,
    /// Written by this process alone: what it costs beside its program file.
    pub(crate) private_dirty: f64,
}

/// Memory of one process.
pub(crate) fn memory(pid: u32) -> Result<Memory> {
    let rss = field(&format!("/proc/{pid}/status"), "VmRSS:")?;
    let pss = field(&format!("/proc/{pid}/smaps_rollup"), "Pss:").unwrap_or(f64::NAN);
    let private_dirty = field(&format!("/proc/{pid}/smaps_rollup"), "Private_Dirty:").unwrap_or(f64::NAN);
    Ok(Memory { rss, pss, private_dirty })
}

/// The peak resident memory of a process.
pub(crate) fn peak(pid: u32) -> Result<f64> {
    field(&format!("/proc/{pid}/status"), "VmHWM:")
}

/// Memory of several processes together.
pub(crate) fn memory_of_all(pids: &[u32]) -> Result<Memory> {
    let mut sum = Memory::default();
    for pid in pids {
        let one = memory(*pid)?;
        sum.rss += one.rss;
        sum.pss += one.pss;
        sum.private_dirty += one.private_dirty;
    }
    Ok(sum)
}

fn field(path: &str, name: &str) -> Result<f64> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).context("no such field")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024.0)
}

/// Seconds of processor that the threads of a process have used.
pub(crate) fn cpu(pid: u32) -> Result<f64> {
    let mut nanoseconds = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        // A thread may end between the two reads.
        let stat = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        nanoseconds += stat.split(' ').next().and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    }
    Ok(nanoseconds / 1e9)
}

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> Result<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.nth(1).and_then(|field| field.parse().ok()).context("no parent in /proc")
}

/// Whether a process exists and is not a zombie.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// Cores, processor and kernel in one line.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("?", |m| m.1);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    format!("{cores} cores, {model}, Linux {}, load {load} at the end", kernel.trim())
}
