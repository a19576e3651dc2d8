//! Process trees: a leader and all its descendants, including those that left its group or session.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::Interest;
use tokio::time::{Instant, timeout_at};

use super::cgroup::Lease;
use super::launch::LEADERS;
use super::signal::Signal;
use super::sys;
use super::{descendants, proc};

/// One process of a tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeMember {
    /// Its pid, which may be reused for another process later.
    pub pid: i32,
    /// Its short name.
    pub name: String,
}

/// The result of killing a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KillOutcome {
    /// Members that were alive and are gone.
    pub killed: Vec<TreeMember>,
    /// Members that are still alive 250 ms after KILL.
    pub remaining: Vec<TreeMember>,
    /// Whether these are all members. Without a cgroup, a member that left session and group, lost its parents and cleared
    /// its environment is not found and may be alive.
    pub is_complete: bool,
}

/// A leader and the means to find its descendants.
///
/// Every member has a mark in its environment and its ancestry. Where cgroups are available, one holds the tree as well:
/// no member leaves it by accident, and all are killed at once. A member that may move itself out of the cgroup is still
/// found by mark and ancestry.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) leader: Pid,
    pub(super) mark: String,
    pub(super) cgroup: Option<Arc<Lease>>,
    /// Set once the leader was reaped.
    pub(super) is_reaped: Arc<AtomicBool>,
    pub(super) scope: MemberScope,
    pub(super) candidates: Candidates,
    /// Whether the last search found a member outside the cgroup.
    pub(super) has_left_cgroup: Arc<AtomicBool>,
}

/// Where to search for the members of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum MemberScope {
    /// Among all candidates.
    #[default]
    Everywhere,
    /// In the cgroup of the tree, if it has one. The session searches for members that left it.
    Cgroup,
}

/// The processes that can be members of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Candidates {
    /// All processes of the machine.
    #[default]
    All,
    /// The descendants of this process, which adopts orphans.
    Descendants,
}

impl Candidates {
    /// Their pids, without the children that `is_excluded` and their descendants if that is known. Reads many files.
    pub(super) fn pids(self, is_excluded: impl Fn(i32) -> bool) -> Vec<i32> {
        let found = match self {
            Candidates::All => None,
            Candidates::Descendants => descendants::of_self(is_excluded),
        };
        found.unwrap_or_else(|| proc::pids().collect())
    }
}

/// Wait after KILL: 250 ms; a member that is still alive then is stuck in the kernel.
const AFTER_KILL: Duration = Duration::from_millis(250);

impl Tree {
    fn leader(&self) -> i32 {
        self.leader.as_raw_nonzero().get()
    }

    /// Notes that the leader was reaped: its pid may be reused from now on.
    pub(super) fn reaped(&self) {
        self.is_reaped.store(true, Ordering::Relaxed);
    }

    /// This tree for a session that ends: the session searches once for members that left their cgroups, so that a
    /// thousand trees do not read all of `/proc` each.
    pub(super) fn of_ending_session(&self) -> Tree {
        Tree { scope: MemberScope::Cgroup, ..self.clone() }
    }

    /// This tree after a search: if all members are in its cgroup, the next searches are limited to it, so that concurrent
    /// kills do not read all of `/proc` for each step.
    fn after_search(&self) -> Tree {
        let is_complete = self.cgroup.is_some() && !self.has_left_cgroup.load(Ordering::Relaxed);
        if is_complete { self.of_ending_session() } else { self.clone() }
    }

    fn leader_pid(&self) -> proc::LeaderPid {
        if self.is_reaped.load(Ordering::Relaxed) {
            proc::LeaderPid::Released
        } else {
            proc::LeaderPid::Valid
        }
    }

    /// The pids of all living members. Reads many files, so it must not run on the event loop.
    fn pids(&self) -> Vec<i32> {
        if let (Some(lease), MemberScope::Cgroup) = (&self.cgroup, self.scope) {
            return lease.members();
        }
        // Leaders of other trees, and programs that are independent of the tree.
        let is_other = |child| child != self.leader() && LEADERS.contains(child);
        self.among(self.candidates.pids(is_other).into_iter())
    }

    /// The living members among these, and those in the cgroup.
    fn among(&self, candidates: impl Iterator<Item = i32>) -> Vec<i32> {
        let mut pids = proc::tree(candidates, (self.leader(), self.leader_pid()), &self.mark);
        if let Some(lease) = &self.cgroup {
            let members = lease.members();
            let has_left = pids.iter().any(|pid| !members.contains(pid));
            self.has_left_cgroup.store(has_left, Ordering::Relaxed);
            pids.extend(members);
            pids.sort_unstable();
            pids.dedup();
        }
        pids
    }

    /// Whether no member is alive. Cheap in the usual case; reads all of `/proc` only in doubt. With a cgroup, the cgroup
    /// decides: the session searches for members that left it when it ends.
    pub(super) async fn is_gone(&self) -> bool {
        match &self.cgroup {
            Some(lease) => lease.is_empty(),
            None => {
                let has_group = rustix::process::test_kill_process_group(self.leader).is_ok();
                let looks_empty =
                    !has_group && !proc::has_marked_child(&self.mark) && !proc::is_out_of_descriptors();
                looks_empty || self.handles(None).await.is_empty()
            }
        }
    }

    /// Waits until probably no member is alive; confirm with `is_gone`.
    pub(super) async fn emptied(self) {
        match &self.cgroup {
            Some(lease) => {
                let _empty = wait_cgroup(lease).await;
            }
            None => {
                let alive = self.handles(None).await;
                wait_all(alive.into_iter().map(|(_, handle)| handle).collect()).await;
            }
        }
    }

    /// Sends a signal once to the process group of the leader, through pidfds if the leader was reaped already, so that no
    /// other process that reuses its pid is hit.
    pub(super) fn signal_group(&self, signal: Signal) -> bool {
        if self.leader_pid() == proc::LeaderPid::Valid {
            return sys::send_to_group(self.leader(), signal);
        }
        let in_group = |pid: &i32| proc::ancestry(*pid).is_some_and(|found| found.group == self.leader());
        let opened = self.pids().into_iter().filter_map(|pid| Some((pid, proc::open(pid)?)));
        opened
            .filter(|(pid, _)| in_group(pid))
            .filter(|(_, handle)| sys::send(handle.as_fd(), signal))
            .count()
            > 0
    }

    /// Members that hold one of these pipes open.
    pub(super) async fn holders(&self, targets: Vec<String>) -> Vec<TreeMember> {
        let tree = self.clone();
        let find = move || named(proc::holders(&tree.pids(), &targets));
        tokio::task::spawn_blocking(find).await.unwrap_or_default()
    }

    /// Ends the whole tree: TERM first if there is a `grace`, then KILL. Returns when it is empty, or 250 ms after KILL.
    /// Dropping this future stops between these steps.
    pub(super) async fn end(self, grace: Option<Duration>) -> KillOutcome {
        let mut seen: Vec<TreeMember> = Vec::new();
        if let Some(grace) = grace {
            let asked = self.handles(Some(Signal::TERM)).await;
            if self.after_search().wait_empty(asked, grace, None, &mut seen).await {
                return self.outcome(seen, Vec::new());
            }
        }
        // These are waited for even if the next search misses them: a process that dies has no environment any more.
        let mut alive = self.kill_all(&mut seen).await;
        let tree = self.after_search();
        // Searches again at once: a member may have forked meanwhile.
        alive.extend(tree.handles(Some(Signal::KILL)).await);
        if tree.wait_empty(alive, AFTER_KILL, Some(Signal::KILL), &mut seen).await {
            return self.outcome(seen, Vec::new());
        }
        let remaining = tokio::task::spawn_blocking(move || named(tree.pids())).await.unwrap_or_default();
        self.outcome(seen, remaining)
    }

    /// Kills all members, and returns those found. The cgroup is killed first and at once: no member in it can fork meanwhile,
    /// and the load of the machine cannot delay it.
    async fn kill_all(&self, seen: &mut Vec<TreeMember>) -> Vec<(TreeMember, OwnedFd)> {
        if let Some(lease) = self.cgroup.clone() {
            let kill = move || {
                proc::wait_for_descriptors();
                let members = named(lease.members());
                lease.kill();
                members
            };
            merge(seen, tokio::task::spawn_blocking(kill).await.unwrap_or_default());
        }
        self.handles(Some(Signal::KILL)).await
    }

    /// Waits until the tree is empty: waits for these members, then searches again, and signals new ones if `kill` is given.
    /// A search reads many files, so there is no more of them than necessary.
    async fn wait_empty(
        &self,
        mut alive: Vec<(TreeMember, OwnedFd)>,
        limit: Duration,
        kill: Option<Signal>,
        seen: &mut Vec<TreeMember>,
    ) -> bool {
        let deadline = Instant::now() + limit;
        while !alive.is_empty() {
            let handles = note_all(seen, alive);
            if timeout_at(deadline, wait_all(handles)).await.is_err() {
                return false;
            }
            alive = self.handles(kill).await;
        }
        true
    }

    /// Pidfds of all members. A signal is sent through a pidfd that was opened before its member was found a second time,
    /// so that a reused pid is not hit.
    async fn handles(&self, signal: Option<Signal>) -> Vec<(TreeMember, OwnedFd)> {
        let tree = self.clone();
        let find = move || {
            proc::wait_for_descriptors();
            let mut pids = tree.pids();
            // The leader first: a shell whose child dies of a signal would exit with a status of its own.
            pids.sort_by_key(|pid| *pid != tree.leader());
            let opened: Vec<_> = pids.into_iter().filter_map(|pid| Some((pid, proc::open(pid)?))).collect();
            let still = tree.among(opened.iter().map(|(pid, _)| *pid));
            let members = opened.into_iter().filter(|(pid, _)| still.contains(pid));
            // The name is read before the signal: the process may be gone right after it.
            let members = members.map(|(pid, handle)| (TreeMember { pid, name: proc::name(pid) }, handle));
            let signalled = members.filter(|(_, handle)| match signal {
                None => true,
                Some(signal) => {
                    // A shell whose child was signalled just before may have ended by itself: it is a member all the same.
                    let is_sent = sys::send(handle.as_fd(), signal) || sys::has_ended(handle.as_fd());
                    if signal != Signal::KILL {
                        sys::send(handle.as_fd(), Signal::CONT);
                    }
                    is_sent
                }
            });
            signalled.collect()
        };
        tokio::task::spawn_blocking(find).await.unwrap_or_default()
    }

    fn outcome(&self, seen: Vec<TreeMember>, remaining: Vec<TreeMember>) -> KillOutcome {
        let killed =
            seen.into_iter().filter(|member| !remaining.iter().any(|one| one.pid == member.pid)).collect();
        KillOutcome { killed, remaining, is_complete: self.cgroup.is_some() }
    }
}

async fn wait_cgroup(lease: &Lease) -> io::Result<()> {
    let events = sys::watch(lease.events()?, Interest::PRIORITY)?;
    loop {
        // Checked after the watch is armed, so that a change in between wakes this task.
        if lease.is_empty() {
            return Ok(());
        }
        events.ready(Interest::PRIORITY).await?.clear_ready();
    }
}

/// Waits until all of them have ended.
async fn wait_all(handles: Vec<OwnedFd>) {
    for handle in handles {
        if let Ok(handle) = sys::watch(handle, Interest::READABLE) {
            // An error here only means that there is nothing to wait for.
            let _ended = handle.readable().await;
        }
    }
}

fn note_all(seen: &mut Vec<TreeMember>, alive: Vec<(TreeMember, OwnedFd)>) -> Vec<OwnedFd> {
    let (members, handles): (Vec<_>, Vec<_>) = alive.into_iter().unzip();
    merge(seen, members);
    handles
}

fn named(pids: Vec<i32>) -> Vec<TreeMember> {
    let mut members: Vec<TreeMember> =
        pids.into_iter().map(|pid| TreeMember { pid, name: proc::name(pid) }).collect();
    members.sort_unstable();
    members
}

fn merge(seen: &mut Vec<TreeMember>, more: Vec<TreeMember>) {
    for member in more {
        if !seen.iter().any(|known| known.pid == member.pid) {
            seen.push(member);
        }
    }
}
