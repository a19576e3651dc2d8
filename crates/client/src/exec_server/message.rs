//! The messages that handles send to the task that owns the link.

use bytes::Bytes;
use tokio::sync::oneshot;

use super::error::ExecServerError;
use super::listeners::NotificationSender;
use super::routes::ProcessEventRoute;
use crate::connection::ReplayPolicy;

/// A message to the task.
#[derive(Debug)]
pub(super) enum ExecServerMessage {
    /// Send a request to the server.
    Request(Box<ExecServerRequest>),
    /// Send the notifications that belong to no process to this queue.
    Subscribe(NotificationSender),
}

/// A request and the sender for its response.
#[derive(Debug)]
pub(super) struct ExecServerRequest {
    pub(super) id: u64,
    pub(super) method: &'static str,
    /// The encoded request.
    pub(super) message: Bytes,
    pub(super) replay: ReplayPolicy,
    /// The process that the request starts, if its events are routed.
    pub(super) start: Option<ProcessStart>,
    /// Receives the text of the result.
    pub(super) response: oneshot::Sender<Result<Bytes, ExecServerError>>,
    /// The number of times it was sent.
    pub(super) sent: u32,
}

/// A process that a request starts. A second start with the same id is refused, which shows that the first succeeded.
#[derive(Debug)]
pub(super) struct ProcessStart {
    pub(super) process_id: String,
    /// The route of its events, until the request is sent for the first time.
    pub(super) route: Option<ProcessEventRoute>,
}
