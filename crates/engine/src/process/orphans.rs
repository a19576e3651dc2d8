//! Orphans: where no cgroup holds a tree together, its runaways are made children of the daemon, found and reaped.

use rustix::process::{Pid, WaitId, WaitIdOptions};
use tokio::signal::unix::{SignalKind, signal};

use super::launch::LEADERS;
use super::proc;

/// Makes this process the parent of everything that loses its own below it, and reaps what ends.
pub(super) fn adopt() {
    let own = Pid::from_raw(1);
    if let Err(error) = rustix::process::set_child_subreaper(own) {
        tracing::warn!(%error, "cannot become the reaper of orphans: runaways of a command may outlive it");
        return;
    }
    match signal(SignalKind::child()) {
        Ok(mut ended) => {
            // Lives as long as the runtime; it owns nothing that would need an orderly end.
            tokio::spawn(async move {
                while ended.recv().await.is_some() {
                    LEADERS.others(proc::children(), reap);
                }
            });
        }
        Err(error) => tracing::warn!(%error, "cannot watch for ended orphans: zombies may stay"),
    }
}

fn reap(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // Gone already, or not ended yet: both are fine.
        let _status = rustix::process::waitid(WaitId::Pid(pid), options);
    }
}
