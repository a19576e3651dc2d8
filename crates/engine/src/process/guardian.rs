//! The guardian: a small program that kills the process trees of its owner, a daemon or a keeper, when the owner is killed.
//!
//! The kernel kills only the leaders together with their owner. The guardian waits on a pipe whose other end only the owner
//! has: the kernel closes it, whatever ended the owner. In an orderly end the owner ends the guardian itself.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, WaitId, WaitIdOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::launch::{LEADERS, exec_outcome};
use super::proc::{self, MarkState};
use super::runaways::kill_marked;
use super::session_leader::clone_session_leader;
use super::spawn::{PendingExec, SpawnedChild};
use super::{Signal, cgroup, sys};

/// Time between the first command and the start of the guardian: 2 ms. A daemon that runs one short command needs none.
const START_DELAY: Duration = Duration::from_millis(2);
/// Pause before a guardian that ended is replaced.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// Longest wait for the end of the guardian in an orderly end.
const END_TIMEOUT: Duration = Duration::from_millis(100);
/// Pauses before the searches for processes, from the last process that was found on: one that is being executed shows its
/// mark only afterwards.
const PAUSES_MS: [u64; 5] = [0, 5, 20, 100, 400];
/// Longest search: a process that is stuck in the kernel cannot be killed.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps a guardian running until this future is dropped. `mark` is the prefix of the marks of all trees of this process,
/// and `trees` the number of those that have not ended.
pub(super) async fn keep(program: PathBuf, mark: String, trees: Arc<AtomicUsize>) {
    tokio::time::sleep(START_DELAY).await;
    loop {
        if let Err(error) = guard_once(&program, &mark, &trees).await {
            tracing::warn!(%error, "no guardian: descendants of commands may outlive a killed daemon");
            return;
        }
        tokio::time::sleep(RESTART_DELAY).await;
    }
}

/// Starts a guardian and waits for its end.
async fn guard_once(program: &Path, mark: &str, trees: &Arc<AtomicUsize>) -> io::Result<()> {
    let (guardian, pending) = Guardian::start(program, mark, trees.clone())?;
    exec_outcome(pending).await.map_err(io::Error::from)?;
    let _ended = guardian.handle.readable().await?;
    Ok(())
}

/// A running guardian. Dropping it ends it; if trees are left, it kills them first.
#[derive(Debug)]
struct Guardian {
    pid: Pid,
    handle: AsyncFd<OwnedFd>,
    /// The end of the pipe that closes with this process.
    _alive: OwnedFd,
    trees: Arc<AtomicUsize>,
}

impl Guardian {
    fn start(program: &Path, mark: &str, trees: Arc<AtomicUsize>) -> io::Result<(Guardian, PendingExec)> {
        let (watched, alive) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let argv = [program.display().to_string(), "guardian".to_owned(), mark.to_owned()];
        // No environment: it must not have the mark of a command.
        let SpawnedChild { pid, pidfd, pending } =
            clone_session_leader(&argv, &[], [watched.as_fd(), null.as_fd(), null.as_fd()])?;
        let handle = sys::watch(pidfd, Interest::READABLE)?;
        Ok((Guardian { pid, handle, _alive: alive, trees }, pending))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        if self.trees.load(Ordering::Relaxed) > 0 {
            return;
        }
        let handle = self.handle.get_ref().as_fd();
        sys::send(handle, Signal::KILL);
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(END_TIMEOUT.subsec_nanos()) };
        // If it takes longer, the guardian ends after this process.
        let _ended = rustix::event::poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout));
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        if let Ok(Some(_)) = rustix::process::waitid(WaitId::PidFd(handle), options) {
            LEADERS.forget(self.pid.as_raw_nonzero().get());
        }
    }
}

/// The program of a guardian: waits for the end of its owner on standard input, then kills the owner's trees.
pub fn guard(mark: &str) {
    // Without `rexd`, so that `pkill -9 rexd` does not match it.
    let _named = rustix::thread::set_name(c"guardian");
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        sys::ignore(signal);
    }
    let owner = mark.split('.').next().and_then(|pid| pid.parse().ok());
    let mut byte = [0];
    // Nothing is ever written to the pipe.
    while rustix::io::read(rustix::stdio::stdin(), &mut byte) == Err(Errno::INTR) {}
    if let Some(owner) = owner {
        end_trees(owner, mark);
    }
}

/// Kills the cgroups of the owner and all processes with its mark, until no more are found.
fn end_trees(owner: i32, mark: &str) {
    let parent = cgroup::own_cgroup_dir().ok();
    let deadline = Instant::now() + SEARCH_TIMEOUT;
    let mut pauses = PAUSES_MS.iter();
    while let Some(pause) = pauses.next()
        && Instant::now() < deadline
    {
        std::thread::sleep(Duration::from_millis(*pause));
        // Cgroups with limits may be beside the owner's own one.
        for dir in parent.iter().flat_map(|own| [Some(own.as_path()), own.parent()]).flatten() {
            cgroup::end_all_of(owner, dir);
        }
        if proc::pids().filter(|pid| kill_marked(*pid, mark) == MarkState::Present).count() > 0 {
            pauses = PAUSES_MS.iter();
        }
    }
}
