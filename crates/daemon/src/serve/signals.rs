//! Signals: the first TERM or INT ends the daemon, the second ends it at once, and HUP reloads the configuration.

use std::sync::Arc;

use anyhow::Context as _;
use link::task::OwnedTask;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The requests to end the daemon. The tasks that wait for signals end with the last clone.
#[derive(Debug, Clone, Default)]
pub(super) struct ShutdownSignals {
    /// Cancelled by the first signal.
    pub(super) stop: CancellationToken,
    /// Cancelled by the second signal.
    pub(super) at_once: CancellationToken,
    _tasks: Arc<Vec<OwnedTask<()>>>,
}

/// Handles TERM and INT, and HUP if `and_hangup`. Must be called within a tokio runtime.
pub(super) fn handle_shutdown(and_hangup: bool) -> anyhow::Result<ShutdownSignals> {
    let (stop, at_once) = (CancellationToken::new(), CancellationToken::new());
    let mut kinds = vec![SignalKind::terminate(), SignalKind::interrupt()];
    kinds.extend(and_hangup.then(SignalKind::hangup));
    let mut tasks = Vec::new();
    for kind in kinds {
        let mut received = install(kind)?;
        let (stop, at_once) = (stop.clone(), at_once.clone());
        tasks.push(OwnedTask::spawn(async move {
            while received.recv().await.is_some() {
                let token = if stop.is_cancelled() { &at_once } else { &stop };
                token.cancel();
            }
        }));
    }
    Ok(ShutdownSignals { stop, at_once, _tasks: Arc::new(tasks) })
}

/// Receives HUP, which then no longer ends the daemon.
pub(super) fn hangups() -> anyhow::Result<Signal> {
    install(SignalKind::hangup())
}

fn install(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).context("cannot handle signals")
}
