//! Requested limits that this machine cannot enforce, or only in part.

use std::fmt;

use super::controllers::{Controllers, Holder};
use crate::sandbox::ResourceLimits;

/// A limit that cannot be enforced, or only in part. Its text contains a remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitGap {
    /// The processes of a tree are not limited: there is no cgroup, and `RLIMIT_NPROC` does not apply to root.
    Processes,
    /// The limit counts all processes of the user.
    ProcessesOfUser,
    /// The limit applies to the address space of each process instead of the memory of the tree.
    MemoryOfProcess,
}

impl LimitGap {
    /// Whether the limit is not enforced at all.
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

/// The parts of `limits` that these controllers cannot enforce.
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
    fn a_limit_that_cannot_be_enforced_is_essential_and_a_weaker_one_is_reported() {
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
