//! Accepting connections, with a pause while the system has no descriptors or memory left for one.

use std::io;
use std::time::Duration;

use rustix::io::Errno;

/// The pause after a failed `accept`, in which descriptors or memory may be released.
const PAUSE: Duration = Duration::from_millis(100);

/// Calls `next` until it returns a connection. Calls `on_shortage` when the process or the system is out of descriptors,
/// so that the caller can close a connection. Dropping this future loses no connection.
pub async fn accept<T, F>(mut next: impl FnMut() -> F, on_shortage: impl Fn()) -> T
where
    F: Future<Output = io::Result<T>>,
{
    let mut is_logged = false;
    loop {
        let error = match next().await {
            Ok(accepted) => return accepted,
            Err(error) => error,
        };
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            // The peer closed the connection before it was accepted.
            Some(Errno::CONNABORTED | Errno::INTR) => continue,
            Some(Errno::MFILE | Errno::NFILE) => on_shortage(),
            _ => {}
        }
        if !std::mem::replace(&mut is_logged, true) {
            tracing::error!(%error, "accepting connections failed; trying again");
        }
        tokio::time::sleep(PAUSE).await;
    }
}
