//! The rlimits of a child, in the form that the child passes to the kernel.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::{Resource, getrlimit};

use super::controllers::{Controllers, Holder};
use crate::process::open_files;
use crate::sandbox::ResourceLimits;

/// An rlimit, as `prlimit64` expects it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process) struct Rlimit {
    /// The number of the resource.
    pub(in crate::process) resource: usize,
    /// The soft and the hard limit.
    pub(in crate::process) values: [u64; 2],
}

/// The rlimits of a confined child: no core dumps, and the requested limits.
pub(super) fn of(limits: &ResourceLimits, controllers: &Controllers) -> Vec<Rlimit> {
    let mut all = vec![Rlimit { resource: libc::RLIMIT_CORE as usize, values: [0, 0] }];
    let mut bound = |which: Resource, number: u32, soft: Option<u64>, grace: u64| {
        let Some(soft) = soft else { return };
        let found = getrlimit(which);
        let lowest = |value: u64, found: Option<u64>| value.min(found.unwrap_or(u64::MAX));
        // The hard limit can be lowered but not raised.
        let hard = lowest(soft.saturating_add(grace), found.maximum);
        all.push(Rlimit { resource: number as usize, values: [lowest(soft, found.maximum).min(hard), hard] });
    };
    bound(Resource::Fsize, libc::RLIMIT_FSIZE, limits.file_bytes, 0);
    // The process receives XCPU at the soft limit and KILL one second later.
    bound(Resource::Cpu, libc::RLIMIT_CPU, limits.cpu_seconds, 1);
    if controllers.memory == Holder::Rlimit {
        bound(Resource::As, libc::RLIMIT_AS, limits.memory_bytes, 0);
    }
    if controllers.processes == Holder::Rlimit {
        let max = limits.processes.map(|max| max.saturating_add(of_this_user()));
        bound(Resource::Nproc, libc::RLIMIT_NPROC, max, 0);
    }
    if let Some(max) = limits.open_files {
        let found = getrlimit(Resource::Nofile);
        let own = [found.current, found.maximum].map(|value| value.unwrap_or(u64::MAX));
        let values = open_files::of_children().copied().unwrap_or(own).map(|found| found.min(max));
        all.push(Rlimit { resource: libc::RLIMIT_NOFILE as usize, values });
    }
    all
}

/// The number of processes and threads of this user, which the kernel's limit includes.
fn of_this_user() -> u64 {
    let own = rustix::process::getuid().as_raw();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_number = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let threads = entries.filter(|entry| is_number(&entry.file_name())).filter_map(|entry| {
        let tasks = fs::metadata(entry.path().join("task")).ok().filter(|tasks| tasks.uid() == own)?;
        // A directory has two links and one for each subdirectory.
        Some(tasks.nlink().saturating_sub(2).max(1))
    });
    threads.sum()
}
