//! A command whose start was requested.

use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::{Notify, oneshot};

use super::Session;
use super::message::{ClientRequest, NewRoute, ProcessRoute, Received};
use crate::connection::ReplayPolicy;
use crate::error::Error;
use crate::process::{EventResult, Process, StartRequest, StartedIds};
use crate::queue::{self, queue};

/// A command whose start was requested. Dropping this does not stop it: it ends with the session, unless it is detached.
#[derive(Debug)]
pub struct StartingProcess {
    session: Session,
    response: StartResponse,
}

/// What receives the response to a start, and the events of the process.
#[derive(Debug)]
pub(super) struct StartResponse {
    id: u64,
    decode: fn(&[u8]) -> Result<StartedIds, Error>,
    result: oneshot::Receiver<Result<Received, Error>>,
    events: queue::Receiver<EventResult>,
}

impl StartResponse {
    /// The request for the session's task, and what receives its response.
    pub(super) fn of(
        request: &StartRequest,
        (id, message): (u64, Bytes),
        drained: Arc<Notify>,
    ) -> (ClientRequest, StartResponse) {
        let (response, result) = oneshot::channel();
        let (sender, events) = queue(drained);
        let is_detached = request.is_detached();
        let route = ProcessRoute { events: sender, cursor: 0, is_detached, skipped: 0 };
        let (method, decode) = (request.method(), request.decoder());
        let request = ClientRequest {
            id,
            method,
            message,
            replay: ReplayPolicy::Safe,
            route: NewRoute::Process(route),
            response,
            sent: 0,
        };
        (request, StartResponse { id, decode, result, events })
    }

    pub(super) fn in_session(self, session: Session) -> StartingProcess {
        StartingProcess { session, response: self }
    }
}

impl StartingProcess {
    /// Waits until the process runs. Dropping this future cancels the request.
    pub async fn process(self) -> Result<Process, Error> {
        let StartingProcess { session, response: StartResponse { id, decode, result, events } } = self;
        let received = session.response(id, result).await?;
        let StartedIds { process_id, pty_id } = decode(&received.text)?;
        Ok(Process::new(session, process_id, pty_id, events))
    }
}
