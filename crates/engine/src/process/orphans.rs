//! Orphans: without cgroups the daemon becomes the subreaper, so that descendants that left their tree can be found and reaped.

use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, WaitId, WaitIdOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use super::launch::LEADERS;
use super::proc;

/// Makes this process the subreaper of its descendants, and reaps orphans as they exit, in a task of `tasks`. Returns
/// whether it succeeded.
pub(super) fn adopt(tasks: &Mutex<JoinSet<()>>) -> bool {
    let own = Pid::from_raw(1);
    if let Err(error) = rustix::process::set_child_subreaper(own) {
        tracing::warn!(%error, "cannot become the subreaper: descendants of a command may outlive it");
        return false;
    }
    match signal(SignalKind::child()) {
        Ok(mut ended) => {
            let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.spawn(async move {
                while ended.recv().await.is_some() {
                    LEADERS.for_each_orphan(proc::children(), reap);
                }
            });
            true
        }
        Err(error) => {
            tracing::warn!(%error, "cannot watch for exited orphans: zombies may remain");
            false
        }
    }
}

fn reap(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // An error means that it was reaped already.
        let _status = rustix::process::waitid(WaitId::Pid(pid), options);
    }
}
