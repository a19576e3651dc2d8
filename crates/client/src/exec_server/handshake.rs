//! The handshake: opens a session on a new link or resumes one.

use link::{Incoming, Link};
use wire::exec_server::envelope::{self, Message};
use wire::exec_server::v1::{INITIALIZE, INITIALIZED, InitializeParams, InitializeResponse};

use super::error::{ExecServerError, ExecServerLoss};

/// The id of the first request.
const HANDSHAKE_ID: u64 = 1;
/// The first id of the requests that follow.
pub(super) const FIRST_FREE_ID: u64 = 2;

/// Sends `initialize`, waits for its response and sends `initialized`.
pub(super) async fn handshake(
    link: &mut Link,
    params: &InitializeParams,
) -> Result<InitializeResponse, ExecServerError> {
    let closed = || ExecServerError::from(ExecServerLoss::Disconnected);
    let message = envelope::request(HANDSHAKE_ID, INITIALIZE, params)
        .map_err(|error| ExecServerError::encode(INITIALIZE, error))?;
    link.outgoing.respond(message.into()).await.map_err(|_| closed())?;
    let response = loop {
        let Some(incoming) = link.incoming.recv().await else { return Err(closed()) };
        let Incoming::Message(line) = incoming else { continue };
        // Events of a resumed session are read again later, and a program may print text before it serves.
        let Ok(Message::Response { id, result }) = envelope::parse(&line) else { continue };
        if id == HANDSHAKE_ID.into() {
            break serde_json::from_str::<InitializeResponse>(result?.get())
                .map_err(|error| ExecServerError::decode(INITIALIZE, error))?;
        }
    };
    let message = envelope::notification(INITIALIZED, &serde_json::json!({}))
        .map_err(|error| ExecServerError::encode(INITIALIZED, error))?;
    link.outgoing.respond(message.into()).await.map_err(|_| closed())?;
    Ok(response)
}
