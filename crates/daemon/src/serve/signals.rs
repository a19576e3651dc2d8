//! Signals: the first asks for the end, the second for the end at once, and HUP for a look at the files.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What signals ask for.
#[derive(Debug, Clone, Default)]
pub(super) struct Ending {
    /// The daemon is asked to end.
    pub(super) stop: CancellationToken,
    /// It is asked again: at once.
    pub(super) at_once: CancellationToken,
}

/// Listens for TERM and INT; for HUP too if `and_hangup`. Must be called within a tokio runtime.
pub(super) fn ending(and_hangup: bool) -> anyhow::Result<Ending> {
    let ending = Ending::default();
    let mut kinds = vec![SignalKind::terminate(), SignalKind::interrupt()];
    kinds.extend(and_hangup.then(SignalKind::hangup));
    for kind in kinds {
        let mut received = listen(kind)?;
        let ending = ending.clone();
        // Lives as long as the runtime.
        tokio::spawn(async move {
            while received.recv().await.is_some() {
                let token = if ending.stop.is_cancelled() { &ending.at_once } else { &ending.stop };
                token.cancel();
            }
        });
    }
    Ok(ending)
}

/// Hears HUP, which then no longer ends the daemon.
pub(super) fn hangups() -> anyhow::Result<Signal> {
    listen(SignalKind::hangup())
}

fn listen(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).context("cannot listen for signals")
}
