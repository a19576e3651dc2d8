//! Reply: the one answer to a request.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use wire::jsonrpc::{self, Id, RpcError};

use super::in_flight::Slot;
use crate::lanes::TryRespondError;
use crate::{Closed, Outgoing};

/// Answers one request, once. A reply that is dropped answers with an internal error, so that no caller waits for
/// ever; a reply to a notification says nothing.
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
    /// The answer is made and waits for room in the lane.
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

    /// Whether anybody waits for the answer.
    pub fn is_wanted(&self) -> bool {
        !matches!(self.to, To::Nobody)
    }

    /// Answers. An answer that nobody can read any more is dropped: the reading side learns that the link is gone.
    pub async fn send<T: Serialize>(self, answer: Result<T, RpcError>) {
        self.deliver(answer, Wait::Queued).await.ok();
    }

    /// Answers, and waits until the kernel has the answer. In a batch it only waits for its turn.
    pub async fn send_written<T: Serialize>(self, answer: Result<T, RpcError>) -> Result<(), Closed> {
        self.deliver(answer, Wait::Written).await
    }

    /// Answers with a result.
    pub async fn ok(self, result: impl Serialize) {
        self.send(Ok(result)).await;
    }

    /// Answers with an error.
    pub async fn error(self, error: RpcError) {
        self.send(Err::<(), _>(error)).await;
    }

    /// Answers with text that is a whole response already, for results too large to be encoded twice. The text must
    /// carry the id that [`Reply::id`] gives.
    pub async fn raw(mut self, response: Vec<u8>) {
        self.forward(response, Wait::Queued).await.ok();
    }

    /// The id to answer to, if an answer is wanted.
    pub fn id(&self) -> Option<&Id> {
        match &self.to {
            To::Nobody | To::Due(_) => None,
            To::Caller(id) | To::Batch { id, .. } => Some(id),
        }
    }

    /// The line that answers, to be sent by whoever asked for it; nothing while a batch waits for others.
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
        // From here on the answer exists: if this future is dropped while the lane is full, it is still sent.
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

/// How far an answer must have come before its sender goes on.
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
    /// The line to send for this answer; nothing while a batch waits for others.
    fn line(&self, response: Vec<u8>) -> Option<Bytes> {
        match self {
            To::Nobody | To::Due(_) => None,
            To::Caller(_) => Some(Bytes::from(response)),
            To::Batch { batch, place, .. } => batch.put(*place, response),
        }
    }
}

/// Dropping cannot wait. A full lane is waited for by a task that lives as long as the link.
fn send_from_drop(outgoing: &Outgoing, line: Bytes) {
    let Err(TryRespondError::Full(line)) = outgoing.try_respond(line) else { return };
    let outgoing = outgoing.clone();
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move { outgoing.respond(line).await });
    }
}

/// The answers of one batch, in the order of its calls.
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
    /// A batch that waits for `wanted` answers.
    pub(super) fn new(wanted: usize) -> Batch {
        Batch { state: Mutex::new(BatchState { answers: vec![None; wanted], missing: wanted }) }
    }

    /// Puts an answer in its place; with the last one the line is whole.
    pub(super) fn put(&self, place: usize, answer: Vec<u8>) -> Option<Bytes> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let free = state.answers.get_mut(place).filter(|free| free.is_none())?;
        *free = Some(answer);
        state.missing -= 1;
        (state.missing == 0).then(|| Bytes::from(jsonrpc::array(state.answers.iter().flatten())))
    }
}
