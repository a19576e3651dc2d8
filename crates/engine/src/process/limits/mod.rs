//! Resource limits: what one tree may use up, held by the kernel from before its program runs.
//!
//! Memory and processes of a whole tree are held by cgroups: those of version 2 where its controllers are delegated to
//! the daemon, else those of version 1 where they are mounted and writable. Where neither is, limits of the single
//! process take their place, which hold less; [`gaps`] says so. Everything else is a limit of the single process.

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

/// The most hierarchies a child joins by itself.
pub(super) const MAX_JOINED_GROUPS: usize = 2;

/// Makes what holds limits. One per engine; nothing is made before somebody is limited.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    groups: OnceLock<Groups>,
    pool: OnceLock<Option<Arc<Pool>>>,
}

/// What holds one child's limits. Kept until its tree is gone.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// For the child to set, in this order.
    pub(super) rlimits: Vec<Rlimit>,
    /// Of version 1, for the child to join.
    groups: Vec<Group>,
}

/// What the kernel counted because of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counted {
    /// Members ended because memory was used up.
    pub(super) memory_kills: u64,
    /// Processes and threads that were not made because there were too many.
    pub(super) processes_refused: u64,
}

impl Limiter {
    /// Prepares what a child needs to be held, and the cgroup to clone it into if that holds a part.
    pub(super) fn prepare(&self, limits: &ResourceLimits) -> io::Result<(Held, Option<Lease>)> {
        let controllers = Controllers::probe();
        let mut held = Held { rlimits: rlimits::of(limits, controllers), groups: Vec::new() };
        let mut unified = ResourceLimits::default();
        let wanted = [
            (Kind::Memory, controllers.memory, limits.memory_bytes),
            (Kind::Processes, controllers.processes, limits.processes),
        ];
        for (kind, holder, limit) in wanted {
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

impl Held {
    /// The files through which the child joins its groups.
    pub(super) fn joins(&self) -> [Option<BorrowedFd<'_>>; MAX_JOINED_GROUPS] {
        let mut groups = self.groups.iter().map(Group::entrance);
        [groups.next().flatten(), groups.next().flatten()]
    }

    /// What was counted so far.
    pub(super) fn counted(&self) -> Counted {
        self.groups.iter().fold(Counted::default(), |sum, group| sum + group.counted())
    }
}

impl std::ops::Add for Counted {
    type Output = Counted;

    fn add(self, other: Counted) -> Counted {
        Counted {
            memory_kills: self.memory_kills + other.memory_kills,
            processes_refused: self.processes_refused + other.processes_refused,
        }
    }
}

/// The number behind a word at the beginning of a line, as in `oom_kill 3`.
pub(super) fn number_after(text: &str, word: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}
