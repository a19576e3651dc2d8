//! REXD for carriers that come and go: one request at a time, and a stream of events to listen to.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use wire::jsonrpc::RpcError;

use super::Service;
use crate::auth::Caller;

/// What came of a posted message.
#[derive(Debug)]
pub struct Posted {
    /// The answer, or nothing if nobody waits for one: then everything in it was a notification.
    pub answer: Option<Bytes>,
    /// How the carrier should put it.
    pub status: Status,
}

/// The outcome as a carrier with status codes tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The message was understood, whatever came of it.
    Understood,
    /// The message was no JSON-RPC.
    Malformed,
    /// The caller may not do this.
    Forbidden,
}

/// One event of a session: its number, if it has one, and the whole notification.
#[derive(Debug, Clone)]
pub struct Told {
    /// What to name when listening again.
    pub event_id: Option<u64>,
    /// The notification.
    pub line: Bytes,
}

/// The events of one session as they come. Ends when the session does, or when somebody listens anew.
pub type Listening = Pin<Box<dyn Stream<Item = Told> + Send>>;

/// Does what one posted message asks for. Sessions opened here belong to their caller and live on between messages.
pub async fn post(_service: &Arc<Service>, _caller: &Caller, _message: Bytes) -> Posted {
    Posted { answer: None, status: Status::Understood }
}

/// Listens to a session of this caller, after the event that was seen last.
pub fn listen(
    _service: &Arc<Service>,
    _caller: &Caller,
    session_id: &str,
    _last_event_id: Option<u64>,
) -> Result<Listening, RpcError> {
    Err(super::errors::session_not_found(session_id))
}
