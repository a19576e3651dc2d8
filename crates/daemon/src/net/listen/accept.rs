//! Accepting, through moments in which the system has nothing left to accept with.

use std::io;
use std::time::Duration;

/// How long to wait when accepting fails: descriptors or memory may come free meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts until it works. `short` is called when the system is short of descriptors, so that somebody may be sent away.
pub async fn accept<T, F>(mut next: impl FnMut() -> F, short: impl Fn()) -> T
where
    F: Future<Output = io::Result<T>>,
{
    let mut has_told = false;
    loop {
        let error = match next().await {
            Ok(accepted) => return accepted,
            Err(error) => error,
        };
        match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            // The peer had left before it was its turn.
            Some(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => continue,
            Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => short(),
            _ => {}
        }
        if !std::mem::replace(&mut has_told, true) {
            tracing::error!(%error, "cannot accept connections for the moment");
        }
        tokio::time::sleep(PAUSE).await;
    }
}
