//! The handshake: opening a session, or going on with one.

use link::{Incoming, Link};
use wire::exec_server::envelope::{self, Message};
use wire::exec_server::v1::{INITIALIZE, INITIALIZED, InitializeParams, InitializeResponse};

use super::error::ExecServerError;

/// The id of the handshake; requests count on from there.
const GREETING_ID: u64 = 1;
/// The first id that requests may have.
pub(super) const FIRST_FREE_ID: u64 = 2;

/// Says who we are; what the server is.
pub(super) async fn greet(
    link: &mut Link,
    params: &InitializeParams,
) -> Result<InitializeResponse, ExecServerError> {
    let odd = |error: serde_json::Error| {
        ExecServerError::Protocol(format!("the answer to {INITIALIZE} is odd: {error}"))
    };
    let ended = || ExecServerError::Lost("the exec-server closed the connection".to_owned());
    let message = envelope::request(GREETING_ID, INITIALIZE, params).map_err(odd)?;
    link.outgoing.respond(message.into()).await.map_err(|_| ended())?;
    let answer = loop {
        let Some(incoming) = link.incoming.recv().await else { return Err(ended()) };
        let Incoming::Message(line) = incoming else { continue };
        // What processes of a resumed session say already is read again; a program may greet before it serves.
        let Ok(Message::Response { id, result }) = envelope::parse(&line) else { continue };
        if id == GREETING_ID.into() {
            break serde_json::from_str::<InitializeResponse>(result?.get()).map_err(odd)?;
        }
    };
    let message = envelope::notification(INITIALIZED, &serde_json::json!({})).map_err(odd)?;
    link.outgoing.respond(message.into()).await.map_err(|_| ended())?;
    Ok(answer)
}
