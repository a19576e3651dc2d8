//! Resource limits of one process tree, which the kernel enforces from before its program runs.
//!
//! Cgroups limit memory and processes of a whole tree: those of version 2 if its controllers are delegated to the daemon,
//! otherwise those of version 1 if they are mounted and writable. Without either, rlimits take their place, which apply to
//! single processes or to the user; [`gaps`] reports this. All other limits are rlimits.

mod controllers;
mod gap;
mod groups;
mod rlimits;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

pub use controllers::{Controllers, Holder};
pub use gap::{LimitGap, gaps};
pub(super) use groups::{Group, Kind};
pub(super) use rlimits::Rlimit;

use super::cgroup::{Lease, Pool};
use crate::sandbox::ResourceLimits;
use groups::Groups;

/// Maximal number of version 1 cgroups that a child joins.
pub(super) const MAX_JOINED_GROUPS: usize = 2;

/// Prepares the limits of children. One per engine; creates no cgroup before the first limited child.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    groups: OnceLock<Groups>,
    pool: OnceLock<Option<Arc<Pool>>>,
}

/// The limits of one child. Kept until its tree has ended.
#[derive(Debug, Default)]
pub(super) struct ChildLimits {
    /// Set by the child, in this order.
    pub(super) rlimits: Vec<Rlimit>,
    /// Cgroups of version 1, which the child joins.
    groups: Vec<Group>,
}

/// Events that limits caused, as the kernel counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LimitEvents {
    /// Processes killed because the memory limit was reached.
    pub(super) memory_kills: u64,
    /// Processes and threads that could not be created because of the limit.
    pub(super) processes_refused: u64,
}

impl Limiter {
    /// Prepares the limits of a child, and the cgroup to clone it into if that enforces some of them.
    pub(super) fn prepare(&self, limits: &ResourceLimits) -> io::Result<(ChildLimits, Option<Lease>)> {
        let controllers = Controllers::probe();
        let mut held = ChildLimits { rlimits: rlimits::of(limits, controllers), groups: Vec::new() };
        let mut unified = ResourceLimits::default();
        let requested = [
            (Kind::Memory, controllers.memory, limits.memory_bytes),
            (Kind::Processes, controllers.processes, limits.processes),
        ];
        for (kind, holder, limit) in requested {
            match (holder, limit) {
                (Holder::Unified, Some(_)) if kind == Kind::Memory => unified.memory_bytes = limit,
                (Holder::Unified, Some(_)) => unified.processes = limit,
                (Holder::Legacy, Some(limit)) => held.groups.push(self.groups().take(kind, limit)?),
                (Holder::Rlimit, Some(_)) | (_, None) => {}
            }
        }
        if unified == ResourceLimits::default() {
            return Ok((held, None));
        }
        let pool = self.pool.get_or_init(|| controllers::limited_pool().ok());
        let lease = pool.as_ref().ok_or(io::ErrorKind::Unsupported)?.take_limited(&unified)?;
        Ok((held, Some(lease)))
    }

    fn groups(&self) -> &Groups {
        self.groups.get_or_init(Groups::default)
    }
}

impl ChildLimits {
    /// The `tasks` files with which the child joins its cgroups.
    pub(super) fn joins(&self) -> [Option<BorrowedFd<'_>>; MAX_JOINED_GROUPS] {
        let mut groups = self.groups.iter().map(Group::tasks_file);
        [groups.next().flatten(), groups.next().flatten()]
    }

    /// The events so far.
    pub(super) fn counted(&self) -> LimitEvents {
        self.groups.iter().fold(LimitEvents::default(), |sum, group| sum + group.counted())
    }
}

impl std::ops::Add for LimitEvents {
    type Output = LimitEvents;

    fn add(self, other: LimitEvents) -> LimitEvents {
        LimitEvents {
            memory_kills: self.memory_kills + other.memory_kills,
            processes_refused: self.processes_refused + other.processes_refused,
        }
    }
}

/// The number after a word at the start of a line, as in `oom_kill 3`.
pub(super) fn number_after(text: &str, word: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}
