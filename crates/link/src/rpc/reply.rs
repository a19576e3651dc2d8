//! The reply to a request.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use wire::exec_server::{ErrorObject, envelope};
use wire::jsonrpc::{self, Id, RpcError};

use super::in_flight::Slot;
use crate::budget::Allowance;
use crate::lanes::TryRespondError;
use crate::task::OwnedTask;
use crate::{Closed, Outgoing};

/// Sends the one response to a request. If it is dropped unsent, it responds with an internal error, so that no caller waits
/// forever. The reply to a notification sends nothing.
#[derive(Debug)]
pub struct Reply {
    dialect: Dialect,
    state: ReplyState,
    outgoing: Outgoing,
    /// Memory that the response takes until it is written.
    memory: Option<Allowance>,
    _slot: Option<Slot>,
}

/// How a protocol writes its responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// JSON-RPC 2.0, with its version member and `data` in every error.
    #[default]
    Versioned,
    /// The same without a version member, as exec-server writes it.
    Unversioned,
}

#[derive(Debug)]
enum ReplyState {
    /// A notification, or the response was sent.
    Done,
    /// A single request.
    Single(Id),
    /// A request of a batch.
    Batch { id: Id, batch: Arc<Batch>, index: usize },
    /// The response is encoded and waits for capacity in the lane.
    Encoded(Bytes),
}

impl Reply {
    /// The reply to a request that was not read by [`super::Requests`].
    pub fn new(dialect: Dialect, id: Id, outgoing: Outgoing) -> Reply {
        Reply { dialect, state: ReplyState::Single(id), outgoing, memory: None, _slot: None }
    }

    pub(super) fn to_notification(outgoing: Outgoing, slot: Option<Slot>) -> Reply {
        Reply { dialect: Dialect::Versioned, state: ReplyState::Done, outgoing, memory: None, _slot: slot }
    }

    pub(super) fn to_single(id: Id, outgoing: Outgoing, slot: Option<Slot>) -> Reply {
        Reply {
            dialect: Dialect::Versioned,
            state: ReplyState::Single(id),
            outgoing,
            memory: None,
            _slot: slot,
        }
    }

    pub(super) fn in_batch(
        id: Id,
        batch: Arc<Batch>,
        index: usize,
        outgoing: Outgoing,
        slot: Option<Slot>,
    ) -> Reply {
        Reply {
            dialect: Dialect::Versioned,
            state: ReplyState::Batch { id, batch, index },
            outgoing,
            memory: None,
            _slot: slot,
        }
    }

    /// True if the peer expects a response.
    pub fn is_expected(&self) -> bool {
        !matches!(self.state, ReplyState::Done)
    }

    /// Counts the response as part of a budget until it is written.
    pub fn count(&mut self, memory: Allowance) {
        self.memory = Some(memory);
    }

    /// Sends the response. If the link has ended, it is dropped; the reading side reports the end.
    pub async fn send<T: Serialize>(self, result: Result<T, RpcError>) {
        self.deliver(result, Wait::Queued).await.ok();
    }

    /// Sends the response and waits until it is written to the carrier. In a batch it does not wait for the others.
    pub async fn send_written<T: Serialize>(self, result: Result<T, RpcError>) -> Result<(), Closed> {
        self.deliver(result, Wait::Written).await
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
        match &self.state {
            ReplyState::Done | ReplyState::Encoded(_) => None,
            ReplyState::Single(id) | ReplyState::Batch { id, .. } => Some(id),
        }
    }

    /// The encoded response, for the caller to send; `None` while other responses of the batch are missing.
    pub(super) fn into_line<T: Serialize>(mut self, result: Result<T, RpcError>) -> Option<Bytes> {
        let response = self.dialect.encode(self.id()?, result);
        let line = self.state.line(response, self.memory.take());
        self.state = ReplyState::Done;
        line
    }

    async fn deliver<T: Serialize>(mut self, result: Result<T, RpcError>, wait: Wait) -> Result<(), Closed> {
        let Some(id) = self.id() else { return Ok(()) };
        let response = self.dialect.encode(id, result);
        self.forward(response, wait).await
    }

    async fn forward(&mut self, mut response: Vec<u8>, wait: Wait) -> Result<(), Closed> {
        let (bytes, limit) = (response.len(), self.outgoing.largest());
        if let Some(id) = self.id().filter(|_| bytes > limit) {
            // A longer message would end the connection for every request on it.
            let message =
                format!("response too large: {bytes} bytes (limit {limit}); request less at a time");
            response = self.dialect.encode(id, Err::<(), _>(RpcError::internal(message)));
        }
        let Some(line) = self.state.line(response, self.memory.take()) else {
            self.state = ReplyState::Done;
            return Ok(());
        };
        // If this future is dropped from here on, the response is still sent.
        self.state = ReplyState::Encoded(line.clone());
        match wait {
            Wait::Queued => {
                let sent = self.outgoing.respond(line).await;
                self.state = ReplyState::Done;
                sent
            }
            Wait::Written => {
                let sent = self.outgoing.respond_tracked(line).await;
                self.state = ReplyState::Done;
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

impl Dialect {
    fn encode<T: Serialize>(self, id: &Id, result: Result<T, RpcError>) -> Vec<u8> {
        match (self, result) {
            (Dialect::Versioned, Ok(result)) => jsonrpc::response(Some(id), &result),
            (Dialect::Versioned, Err(error)) => jsonrpc::error_response(Some(id), &error),
            (Dialect::Unversioned, Ok(result)) => envelope::response(id, &result),
            (Dialect::Unversioned, Err(RpcError { code, message, data })) => {
                let data = Some(data).filter(|data| data.as_object().is_none_or(|data| !data.is_empty()));
                envelope::error_response(id, &ErrorObject { code, message, data })
            }
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let ReplyState::Encoded(line) = &self.state {
            return send_from_drop(&self.outgoing, line.clone());
        }
        let Some(id) = self.id() else { return };
        let response = self.dialect.encode(id, Err::<(), _>(RpcError::internal("request abandoned")));
        if let Some(line) = self.state.line(response, None) {
            send_from_drop(&self.outgoing, line);
        }
    }
}

impl ReplyState {
    /// The line to send; `None` while other responses of the batch are missing.
    fn line(&self, response: Vec<u8>, memory: Option<Allowance>) -> Option<Bytes> {
        match self {
            ReplyState::Done | ReplyState::Encoded(_) => None,
            ReplyState::Single(_) => Some(counted(Bytes::from(response), memory)),
            ReplyState::Batch { batch, index, .. } => {
                // A batch is one JSON text.
                batch.put(*index, wire::binary::to_text(response.into()).into(), memory)
            }
        }
    }
}

fn counted(line: Bytes, memory: Option<Allowance>) -> Bytes {
    match memory {
        Some(mut memory) => memory.attach(line),
        None => line,
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
    responses: Vec<Option<Vec<u8>>>,
    missing: usize,
    memory: Option<Allowance>,
}

impl Batch {
    /// A batch of `count` responses.
    pub(super) fn new(count: usize) -> Batch {
        Batch { state: Mutex::new(BatchState { responses: vec![None; count], missing: count, memory: None }) }
    }

    /// Stores a response; returns the whole line with the last one.
    pub(super) fn put(&self, index: usize, response: Vec<u8>, memory: Option<Allowance>) -> Option<Bytes> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = state.responses.get_mut(index).filter(|slot| slot.is_none())?;
        *slot = Some(response);
        state.missing -= 1;
        match (&mut state.memory, memory) {
            (Some(held), Some(more)) => held.merge(more),
            (none, more) => *none = none.take().or(more),
        }
        (state.missing == 0).then(|| {
            let line = Bytes::from(jsonrpc::array(state.responses.iter().flatten()));
            counted(line, state.memory.take())
        })
    }
}
