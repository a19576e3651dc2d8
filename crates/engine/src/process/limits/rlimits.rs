//! Limits of the single process, laid out for the child to set.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::{Resource, getrlimit};

use super::controllers::{Controllers, Holder};
use crate::process::open_files;
use crate::sandbox::ResourceLimits;

/// A limit as the kernel wants it told.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::process) struct Rlimit {
    /// Which one.
    pub(in crate::process) resource: usize,
    /// The limit that counts, and how far the process may raise it itself.
    pub(in crate::process) values: [u64; 2],
}

/// What a confined child sets: nothing leaves a core dump, and what is bounded is.
pub(super) fn of(limits: &ResourceLimits, controllers: &Controllers) -> Vec<Rlimit> {
    let mut all = vec![Rlimit { resource: libc::RLIMIT_CORE as usize, values: [0, 0] }];
    let mut bound = |which: Resource, number: u32, soft: Option<u64>, grace: u64| {
        let Some(soft) = soft else { return };
        let found = getrlimit(which);
        let lowest = |value: u64, found: Option<u64>| value.min(found.unwrap_or(u64::MAX));
        // A limit can be lowered by everybody; raised it would be refused.
        let hard = lowest(soft.saturating_add(grace), found.maximum);
        all.push(Rlimit { resource: number as usize, values: [lowest(soft, found.maximum).min(hard), hard] });
    };
    bound(Resource::Fsize, libc::RLIMIT_FSIZE, limits.file_bytes, 0);
    // At the first the process is told, a second later it ends.
    bound(Resource::Cpu, libc::RLIMIT_CPU, limits.cpu_seconds, 1);
    if controllers.memory == Holder::Rlimit {
        bound(Resource::As, libc::RLIMIT_AS, limits.memory_bytes, 0);
    }
    if controllers.processes == Holder::Rlimit {
        let most = limits.processes.map(|most| most.saturating_add(of_this_user()));
        bound(Resource::Nproc, libc::RLIMIT_NPROC, most, 0);
    }
    if let Some(most) = limits.open_files {
        let found = getrlimit(Resource::Nofile);
        let own = [found.current, found.maximum].map(|value| value.unwrap_or(u64::MAX));
        let values = open_files::of_children().copied().unwrap_or(own).map(|found| found.min(most));
        all.push(Rlimit { resource: libc::RLIMIT_NOFILE as usize, values });
    }
    all
}

/// How many processes and threads this user has now: the kernel's limit counts those with the child's.
fn of_this_user() -> u64 {
    let own = rustix::process::getuid().as_raw();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_number = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let threads = entries.filter(|entry| is_number(&entry.file_name())).filter_map(|entry| {
        let tasks = fs::metadata(entry.path().join("task")).ok().filter(|tasks| tasks.uid() == own)?;
        // A folder has a link from each folder in it, beside its own two.
        Some(tasks.nlink().saturating_sub(2).max(1))
    });
    threads.sum()
}
