//! Ctrl-C while no command handles it: `rex` exits, and with it the ssh that carries the connection.
//!
//! On a terminal, ssh ignores SIGINT, so that the connection survives when the remote command receives it.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// 128 + SIGINT, as in a shell.
pub(crate) const INTERRUPTED: u8 = 130;
/// Whether the running command handles SIGINT itself.
static HANDLED_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// From now on the running command handles SIGINT itself.
pub(crate) fn handle_elsewhere() {
    HANDLED_ELSEWHERE.store(true, Ordering::Relaxed);
}

/// A listener for SIGINT.
#[derive(Debug)]
pub(crate) struct Interrupt(Signal);

impl Interrupt {
    /// Starts to listen; from now on SIGINT does not terminate the process by itself.
    pub(crate) fn listen() -> Result<Interrupt, Failure> {
        Ok(Interrupt(signal(SignalKind::interrupt())?))
    }

    /// Completes at the first SIGINT that no command handles.
    pub(crate) async fn received(&mut self) {
        while self.0.recv().await.is_some() && HANDLED_ELSEWHERE.load(Ordering::Relaxed) {}
    }

    /// Exits at the first such SIGINT, after closing the open sessions.
    pub(crate) async fn exit_on_interrupt(mut self) {
        self.received().await;
        crate::app::close_all_sessions().await;
        std::process::exit(INTERRUPTED.into());
    }
}

/// Cancels `token` at the first of these signals, as long as the returned tasks are held.
#[must_use = "dropping the tasks ends the handling of signals"]
pub(crate) fn cancel_on_signals(
    kinds: &[SignalKind],
    token: &CancellationToken,
) -> Result<JoinSet<()>, Failure> {
    let mut tasks = JoinSet::new();
    for kind in kinds {
        let (mut signals, token) = (signal(*kind)?, token.clone());
        tasks.spawn(async move {
            signals.recv().await;
            token.cancel();
        });
    }
    Ok(tasks)
}
