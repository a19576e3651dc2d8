//! The guardian: a small program that kills the process trees of its owner, a daemon or a keeper, when the owner is killed.
//!
//! The kernel kills only the leaders together with their owner. The guardian waits on a pipe whose other end only the owner
//! has: the kernel closes it, whatever ended the owner. In an orderly end the owner ends the guardian itself. Through the
//! pipe the owner sends the paths of its stand-ins, which the guardian removes as well.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
use crate::sandbox::remove_abandoned_stand_in;

/// Time between the first command and the start of the guardian: 2 ms. A daemon that runs one short command needs none.
const START_DELAY: Duration = Duration::from_millis(2);
/// Pause before a guardian that ended, or could not be started, is replaced.
const RESTART_DELAY: Duration = Duration::from_millis(100);
/// Longest wait for the end of the guardian in an orderly end.
const END_TIMEOUT: Duration = Duration::from_millis(100);
/// Pauses before the searches for processes, from the last process that was found on: one that is being executed shows its
/// mark only afterwards.
const PAUSES_MS: [u64; 5] = [0, 5, 20, 100, 400];
/// Longest search: a process that is stuck in the kernel cannot be killed.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Paths of stand-ins that a guardian removes: 256; those beyond remain until another command uses them.
const MAX_STAND_INS: usize = 256;
/// End of a path in the pipe.
const PATH_END: u8 = 0;

/// What a guardian has to end and to remove.
#[derive(Debug, Default)]
pub(super) struct Guarded {
    /// Trees that were started and have not ended.
    trees: AtomicUsize,
    stand_ins: Mutex<ReportedStandIns>,
}

#[derive(Debug, Default)]
struct ReportedStandIns {
    paths: BTreeSet<PathBuf>,
    /// The end of the guardian's pipe that closes with this process.
    pipe: Option<OwnedFd>,
}

impl Guarded {
    /// Notes that a tree is being started.
    pub(super) fn tree_starts(&self) {
        self.trees.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a tree has ended or could not be started.
    pub(super) fn tree_ended(&self) {
        self.trees.fetch_sub(1, Ordering::Relaxed);
    }

    /// Reports stand-ins to the guardian, or to the one that is started next.
    pub(super) fn report_stand_ins<'p>(&self, paths: impl Iterator<Item = &'p Path>) {
        let mut reported = self.stand_ins();
        for path in paths {
            if reported.paths.len() < MAX_STAND_INS && reported.paths.insert(path.to_owned()) {
                reported.send(path);
            }
        }
    }

    fn connect(&self, pipe: OwnedFd) {
        let mut reported = self.stand_ins();
        reported.pipe = Some(pipe);
        reported.paths.iter().for_each(|path| reported.send(path));
    }

    fn disconnect(&self) {
        self.stand_ins().pipe = None;
    }

    fn stand_ins(&self) -> MutexGuard<'_, ReportedStandIns> {
        self.stand_ins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReportedStandIns {
    /// Does not block: if the guardian does not read, the stand-in remains until another command uses it.
    fn send(&self, path: &Path) {
        if let Some(pipe) = &self.pipe {
            let record = [path.as_os_str().as_bytes(), &[PATH_END]].concat();
            // The kernel writes this much at once or not at all.
            if record.len() <= rustix::pipe::PIPE_BUF {
                let _sent = rustix::io::write(pipe, &record);
            }
        }
    }
}

/// Keeps a guardian running until this future is dropped. `mark` is the prefix of the marks of all trees of this process.
pub(super) async fn keep(program: PathBuf, mark: String, guarded: Arc<Guarded>) {
    tokio::time::sleep(START_DELAY).await;
    let mut is_reported = false;
    loop {
        match guard_once(&program, &mark, &guarded).await {
            Ok(()) => is_reported = false,
            // For example without free descriptors, which other commands give back.
            Err(error) if !is_reported => {
                tracing::warn!(%error, "no guardian: descendants of commands may outlive a killed daemon");
                is_reported = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(RESTART_DELAY).await;
    }
}

/// Starts a guardian and waits for its end.
async fn guard_once(program: &Path, mark: &str, guarded: &Arc<Guarded>) -> io::Result<()> {
    let (guardian, pending) = Guardian::start(program, mark, guarded.clone())?;
    if let Err(error) = exec_outcome(pending).await {
        // It may run, and would take the end of its pipe for the end of this process.
        sys::send(guardian.handle.get_ref().as_fd(), Signal::KILL);
        return Err(error.into());
    }
    let _ended = guardian.handle.readable().await?;
    Ok(())
}

/// A running guardian. Dropping it ends it; if trees are left, it kills them first.
#[derive(Debug)]
struct Guardian {
    pid: Pid,
    handle: AsyncFd<OwnedFd>,
    guarded: Arc<Guarded>,
}

impl Guardian {
    fn start(program: &Path, mark: &str, guarded: Arc<Guarded>) -> io::Result<(Guardian, PendingExec)> {
        let (watched, alive) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&alive, OFlags::NONBLOCK)?;
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let argv = [program.display().to_string(), "guardian".to_owned(), mark.to_owned()];
        // No environment: it must not have the mark of a command.
        let SpawnedChild { pid, pidfd, pending } =
            clone_session_leader(&argv, &[], [watched.as_fd(), null.as_fd(), null.as_fd()])?;
        let handle = sys::watch(pidfd, Interest::READABLE).inspect_err(|_| {
            // Before its pipe is closed, for the same reason. It was not reaped, so that the pid is its own.
            let _killed = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        })?;
        guarded.connect(alive);
        Ok((Guardian { pid, handle, guarded }, pending))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        if self.guarded.trees.load(Ordering::Relaxed) > 0 {
            return self.guarded.disconnect();
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
        self.guarded.disconnect();
    }
}

/// The program of a guardian: waits for the end of its owner on standard input, then kills the owner's trees and removes its
/// stand-ins.
pub fn guard(mark: &str) {
    // Without `rexd`, so that `pkill -9 rexd` does not match it.
    let _named = rustix::thread::set_name(c"guardian");
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        sys::ignore(signal);
    }
    let owner = mark.split('.').next().and_then(|pid| pid.parse().ok());
    let stand_ins = read_until_end();
    if let Some(owner) = owner {
        end_trees(owner, mark);
    }
    // Only now: a process of the trees must not be able to create the path. The innermost first.
    stand_ins.iter().rev().for_each(|path| remove_abandoned_stand_in(path));
}

/// The paths that the owner has sent before it ended.
fn read_until_end() -> BTreeSet<PathBuf> {
    let mut text = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => break,
            Ok(count) => text.extend_from_slice(buffer.get(..count).unwrap_or_default()),
        }
    }
    let paths = text.split(|byte| *byte == PATH_END).filter(|path| path.starts_with(b"/"));
    paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
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
