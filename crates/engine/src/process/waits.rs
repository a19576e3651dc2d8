//! Futures of a supervisor: the exit of the leader, the next output, the end of a tree.

use std::os::fd::{AsFd, OwnedFd};

use bytes::Bytes;
use rustix::process::{WaitId, WaitIdOptions};
use tokio::io::unix::AsyncFd;

use super::Signal;
use super::spec::ExitStatus;
use super::streams::Output;
use super::supervisor::KillFuture;
use super::tree::KillOutcome;

/// Lets every task that is ready run first. Unlike the yield of the runtime it does not poll for new I/O before, so that
/// cleaning up does not come before the next request.
pub(super) async fn yield_to_ready_tasks() {
    let mut has_stepped = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_stepped, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Reads and discards output forever.
pub(super) async fn discard(outputs: &mut Vec<Output>) {
    loop {
        if let (index, None) = next_output(outputs).await {
            outputs.remove(index);
        }
    }
}

pub(super) async fn wait_ending(ending: &mut Option<KillFuture>) -> KillOutcome {
    match ending {
        Some(ending) => ending.await,
        None => std::future::pending().await,
    }
}

/// Waits on the pidfd for the exit of the leader, and reaps it.
pub(super) async fn wait_exit(leader: &AsyncFd<OwnedFd>) -> ExitStatus {
    loop {
        let Ok(mut guard) = leader.readable().await else { return ExitStatus::Code(-1) };
        let handle = WaitId::PidFd(leader.get_ref().as_fd());
        match rustix::process::waitid(handle, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(Some(status)) => {
                let signal = status.terminating_signal().and_then(Signal::from_number);
                return signal
                    .map_or(ExitStatus::Code(status.exit_status().unwrap_or(-1)), ExitStatus::Signal);
            }
            Ok(None) => guard.clear_ready(),
            // Reaped by other code in this process, which is not expected: the status is lost, the exit is not.
            Err(_taken) => return ExitStatus::Code(-1),
        }
    }
}

/// The next piece of any output; waits forever when there is none left.
pub(super) async fn next_output(outputs: &mut [Output]) -> (usize, Option<Bytes>) {
    match outputs {
        [first, second] => tokio::select! {
            bytes = first.next() => (0, bytes),
            bytes = second.next() => (1, bytes),
        },
        [only] => (0, only.next().await),
        _ => std::future::pending().await,
    }
}
