//! The reply to a request.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use wire::jsonrpc::{self, Id, RpcError};

use super::in_flight::Slot;
use crate::lanes::TryRespondError;
use crate::task::OwnedTask;
use crate::{Closed, Outgoing};

/// Answers one request exactly once. A dropped reply answers with an internal error, so that no caller waits forever; a
/// reply to a notification sends nothing.
#[derive(Debug)]
pub struct Reply {
    to: To,
    outgoing: Outgoing,
    _slot: Option<Slot>,
}

#[derive(Debug)]
enum To {
    Nobody,
    Caller(Id),
    Batch {
        id: Id,
        batch: Arc<Batch>,
        place: usize,
    },
    /// The response is encoded and waits for capacity in the lane.
    Due(Bytes),
}

impl Reply {
    pub(super) fn nobody(outgoing: Outgoing, slot: Option<Slot>) -> Reply {
        Reply { to: To::Nobody, outgoing, _slot: slot }
    }

    pub(super) fn caller(id: Id, outgoing: Outgoing, slot: Option<Slot>) -> Reply {
        Reply { to: To::Caller(id), outgoing, _slot: slot }
    }

    pub(super) fn batch(
        id: Id,
        batch: Arc<Batch>,
        place: usize,
        outgoing: Outgoing,
        slot: Option<Slot>,
    ) -> Reply {
        Reply { to: To::Batch { id, batch, place }, outgoing, _slot: slot }
    }

    /// True if the caller expects a response.
    pub fn is_wanted(&self) -> bool {
        !matches!(self.to, To::Nobody)
    }

    /// Sends the response. If the link has ended, it is dropped; the reading side reports the end.
    pub async fn send<T: Serialize>(self, answer: Result<T, RpcError>) {
        self.deliver(answer, Wait::Queued).await.ok();
    }

    /// Sends the response and waits until the kernel has it. In a batch it does not wait for the others.
    pub async fn send_written<T: Serialize>(self, answer: Result<T, RpcError>) -> Result<(), Closed> {
        self.deliver(answer, Wait::Written).await
    }

    /// Responds with a result.
    pub async fn ok(self, result: impl Serialize) {
        self.send(Ok(result)).await;
    }

    /// Responds with an error.
    pub async fn error(self, error: RpcError) {
        self.send(Err::<(), _>(error)).await;
    }

    /// Responds with an encoded response, for results too large to be encoded twice. It must contain the id of
    /// [`Reply::id`].
    pub async fn raw(mut self, response: Vec<u8>) {
        self.forward(response, Wait::Queued).await.ok();
    }

    /// The id of the request, if a response is expected.
    pub fn id(&self) -> Option<&Id> {
        match &self.to {
            To::Nobody | To::Due(_) => None,
            To::Caller(id) | To::Batch { id, .. } => Some(id),
        }
    }

    /// The encoded response, for the caller to send; `None` while a batch waits for others.
    pub(super) fn into_line<T: Serialize>(mut self, answer: Result<T, RpcError>) -> Option<Bytes> {
        let response = encode(self.id()?, answer);
        let line = self.to.line(response);
        self.to = To::Nobody;
        line
    }

    async fn deliver<T: Serialize>(mut self, answer: Result<T, RpcError>, wait: Wait) -> Result<(), Closed> {
        let Some(id) = self.id() else { return Ok(()) };
        let response = encode(id, answer);
        self.forward(response, wait).await
    }

    async fn forward(&mut self, response: Vec<u8>, wait: Wait) -> Result<(), Closed> {
        let Some(line) = self.to.line(response) else {
            self.to = To::Nobody;
            return Ok(());
        };
        // If this future is dropped from here on, the response is still sent.
        self.to = To::Due(line.clone());
        match wait {
            Wait::Queued => {
                let sent = self.outgoing.respond(line).await;
                self.to = To::Nobody;
                sent
            }
            Wait::Written => {
                let sent = self.outgoing.respond_tracked(line).await;
                self.to = To::Nobody;
                sent?.await.map_err(|_| Closed)
            }
        }
    }
}

/// When a sender continues.
#[derive(Debug, Clone, Copy)]
enum Wait {
    Queued,
    Written,
}

fn encode<T: Serialize>(id: &Id, answer: Result<T, RpcError>) -> Vec<u8> {
    match answer {
        Ok(result) => jsonrpc::response(Some(id), &result),
        Err(error) => jsonrpc::error_response(Some(id), &error),
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let To::Due(line) = &self.to {
            return send_from_drop(&self.outgoing, line.clone());
        }
        let Some(id) = self.id() else { return };
        let response = jsonrpc::error_response(Some(id), &RpcError::internal("the request was given up"));
        if let Some(line) = self.to.line(response) {
            send_from_drop(&self.outgoing, line);
        }
    }
}

impl To {
    /// The line to send; `None` while a batch waits for others.
    fn line(&self, response: Vec<u8>) -> Option<Bytes> {
        match self {
            To::Nobody | To::Due(_) => None,
            To::Caller(_) => Some(Bytes::from(response)),
            To::Batch { batch, place, .. } => batch.put(*place, response),
        }
    }
}

/// Sends from a `Drop`, which cannot wait: if the lane is full, on a task that ends with the link at the latest.
fn send_from_drop(outgoing: &Outgoing, line: Bytes) {
    let Err(TryRespondError::Full(line)) = outgoing.try_respond(line) else { return };
    let outgoing = outgoing.clone();
    if tokio::runtime::Handle::try_current().is_ok() {
        OwnedTask::spawn(async move { outgoing.respond(line).await }).detach();
    }
}

/// The responses of one batch, in the order of its calls.
#[derive(Debug)]
pub(super) struct Batch {
    state: Mutex<BatchState>,
}

#[derive(Debug)]
struct BatchState {
    answers: Vec<Option<Vec<u8>>>,
    missing: usize,
}

impl Batch {
    /// A batch of `wanted` responses.
    pub(super) fn new(wanted: usize) -> Batch {
        Batch { state: Mutex::new(BatchState { answers: vec![None; wanted], missing: wanted }) }
    }

    /// Stores a response; returns the whole line with the last one.
    pub(super) fn put(&self, place: usize, answer: Vec<u8>) -> Option<Bytes> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let free = state.answers.get_mut(place).filter(|free| free.is_none())?;
        *free = Some(answer);
        state.missing -= 1;
        (state.missing == 0).then(|| Bytes::from(jsonrpc::array(state.answers.iter().flatten())))
    }
}
