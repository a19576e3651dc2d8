//! What nothing on this machine can hold of the limits somebody asks for.

use std::fmt;

use super::controllers::{Controllers, Holder};
use crate::sandbox::ResourceLimits;

/// A limit that is not held, or held less than it says. Its text says what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitGap {
    /// Nothing bounds the processes of a tree: there is no cgroup for it, and other limits do not bind root.
    Processes,
    /// Processes are bounded together with the others of the user.
    ProcessesOfUser,
    /// Memory is bounded for each process instead of the tree, by what it may address.
    MemoryOfProcess,
}

impl LimitGap {
    /// Whether the limit is not held at all.
    pub fn is_essential(self) -> bool {
        match self {
            LimitGap::Processes => true,
            LimitGap::ProcessesOfUser | LimitGap::MemoryOfProcess => false,
        }
    }
}

impl fmt::Display for LimitGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DELEGATE: &str = "delegate the cgroup controllers memory and pids to the daemon (for a systemd unit, \
                                Delegate=memory pids and DelegateSubgroup=daemon)";
        match self {
            LimitGap::Processes => {
                write!(f, "the number of processes cannot be bounded: {DELEGATE}, or do not run as root")
            }
            LimitGap::ProcessesOfUser => {
                write!(f, "processes are counted with the others of the user: {DELEGATE}")
            }
            LimitGap::MemoryOfProcess => {
                write!(f, "memory is bounded for each process and not for all of a command: {DELEGATE}")
            }
        }
    }
}

/// What cannot be held of `limits` with what there is.
pub fn gaps(limits: &ResourceLimits, controllers: &Controllers) -> Vec<LimitGap> {
    let mut gaps = Vec::new();
    if limits.processes.is_some() && controllers.processes == Holder::Rlimit {
        gaps.push(if controllers.binds_user { LimitGap::ProcessesOfUser } else { LimitGap::Processes });
    }
    if limits.memory_bytes.is_some() && controllers.memory == Holder::Rlimit {
        gaps.push(LimitGap::MemoryOfProcess);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_nothing_holds_is_an_essential_gap_and_a_weaker_one_is_told() {
        let cgroups = Controllers { memory: Holder::Legacy, processes: Holder::Unified, binds_user: false };
        let root = Controllers { memory: Holder::Rlimit, processes: Holder::Rlimit, binds_user: false };
        let user = Controllers { binds_user: true, ..root };
        let all = ResourceLimits {
            memory_bytes: Some(1),
            processes: Some(1),
            file_bytes: Some(1),
            open_files: Some(1),
            cpu_seconds: Some(1),
        };
        let other = ResourceLimits { memory_bytes: None, processes: None, ..all };
        assert_eq!(gaps(&all, &cgroups), []);
        assert_eq!(gaps(&other, &root), []);
        assert_eq!(gaps(&all, &root), [LimitGap::Processes, LimitGap::MemoryOfProcess]);
        assert_eq!(gaps(&all, &user), [LimitGap::ProcessesOfUser, LimitGap::MemoryOfProcess]);
        let essential = |found: Vec<LimitGap>| found.into_iter().filter(|gap| gap.is_essential()).count();
        assert_eq!((essential(gaps(&all, &root)), essential(gaps(&all, &user))), (1, 0));
    }
}
