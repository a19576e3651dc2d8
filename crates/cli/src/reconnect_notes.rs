//! Notes on stderr when the connection to a target is lost and when it is back.

use client::ConnectionState;
use tokio::sync::watch;

use crate::output;

/// Prints a note at each change, until the session ends.
pub(crate) async fn report(mut connection: watch::Receiver<ConnectionState>, target: String) {
    let mut is_lost = false;
    while connection.changed().await.is_ok() {
        let state = connection.borrow_and_update().clone();
        match state {
            ConnectionState::Reconnecting { timeout, .. } => output::note(format_args!(
                "connection to {target} lost, retrying for {} s (Ctrl-C ends the wait)",
                timeout.as_secs()
            )),
            // A connection that is back at once may not have been seen as lost.
            ConnectionState::Connected if is_lost => {
                output::note(format_args!("connected to {target} again"));
            }
            ConnectionState::Connected => {}
        }
        is_lost = matches!(state, ConnectionState::Reconnecting { .. });
    }
}
