//! Starting a program as an independent session leader, which outlives this process.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{WaitId, WaitIdOptions};
use tokio::io::Interest;
use tokio_util::task::TaskTracker;

use super::child::SessionMode;
use super::launch::{LEADERS, discard, exec_outcome};
use super::limits::MAX_JOINED_GROUPS;
use super::spawn::{self, SpawnRequest, SpawnedChild};
use super::sys;

/// Starts a program with exactly this environment, as the leader of a new session, in `/`, with no descriptors but the
/// three streams. Returns its pid once it executes. It outlives this process; if it ends
/// first, a task of `tasks` reaps it.
pub async fn spawn_session_leader(
    argv: &[String],
    env: &[(OsString, OsString)],
    stdio: [OwnedFd; 3],
    tasks: &TaskTracker,
) -> io::Result<i32> {
    let SpawnedChild { pid, pidfd, pending } =
        clone_session_leader(argv, env, stdio.each_ref().map(AsFd::as_fd))?;
    drop(stdio);
    let ended = match sys::watch(pidfd, Interest::READABLE) {
        Ok(ended) => ended,
        Err(error) => {
            discard(pid).await;
            return Err(error);
        }
    };
    if let Err(error) = exec_outcome(pending).await {
        discard(pid).await;
        return Err(error.into());
    }
    let number = pid.as_raw_nonzero().get();
    tasks.spawn(async move {
        // An error here only means that there is nothing to wait for.
        let _ended = ended.readable().await;
        let handle = WaitId::PidFd(ended.get_ref().as_fd());
        let _status = rustix::process::waitid(handle, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        LEADERS.forget(number);
    });
    Ok(number)
}

/// Clones the program, which may not have executed yet.
pub(super) fn clone_session_leader(
    argv: &[String],
    env: &[(OsString, OsString)],
    stdio: [BorrowedFd<'_>; 3],
) -> io::Result<SpawnedChild> {
    let cwd = rustix::fs::open("/", OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let request = SpawnRequest {
        argv,
        arg0: None,
        env,
        mark: None,
        cwd: cwd.as_fd(),
        stdio,
        inherited: [None; 2],
        session_mode: SessionMode::Session,
        cgroup: None,
        joins: [None; MAX_JOINED_GROUPS],
        rlimits: &[],
        dies_with_parent: false,
        confined: None,
    };
    LEADERS.register(|| spawn::start(&request))
}
