//! A handle to one connection. Cheap to clone; a task owns the link and the state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, oneshot};
use tokio_util::task::TaskTracker;
use wire::exec_server::envelope;
use wire::exec_server::v1::{EnvironmentInfo, InitializeResponse};

use super::error::ExecServerError;
use super::message::{ExecServerMessage, ExecServerRequest, ProcessStart};
use crate::connection::{CloseRequest, InboxSender, ReplayPolicy};
use crate::queue::{self, queue};

/// A connection to an exec-server. It is closed when the last handle and process of it are dropped: the server ends the
/// session's processes unless a client resumes it in time.
#[derive(Debug, Clone)]
pub struct ExecServerClient {
    pub(super) inbox: InboxSender<ExecServerMessage>,
    /// The task that owns the link; [`ExecServerClient::close`] waits for it.
    pub(super) tasks: TaskTracker,
    pub(super) initialized: Arc<InitializeResponse>,
    pub(super) next_id: Arc<AtomicU64>,
    pub(super) drained: Arc<Notify>,
    /// The prefix of the names that this client gives to writes, processes and handles.
    pub(super) name_prefix: Arc<str>,
}

/// A notification of the server that belongs to no process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The method of the notification.
    pub method: String,
    /// The params as JSON text.
    pub params: Bytes,
}

/// The notifications that belong to no process, since the subscription.
#[derive(Debug)]
pub struct Notifications(queue::Receiver<Result<Notification, ExecServerError>>);

impl Notifications {
    /// The next notification; `None` when the connection has ended. [`ExecServerError::Missed`] marks where some are
    /// missing; others follow. While they are not read, the connection is read only for pending requests. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Notification>, ExecServerError> {
        self.0.recv().await.transpose()
    }
}

/// The response to a request that was sent.
pub(crate) struct PendingResponse<R> {
    method: &'static str,
    text: oneshot::Receiver<Result<Bytes, ExecServerError>>,
    result: std::marker::PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> PendingResponse<R> {
    /// Waits for the response and decodes it.
    pub(crate) async fn wait(self) -> Result<R, ExecServerError> {
        let text = self.text.await.map_err(|_| ExecServerError::Closed)??;
        serde_json::from_slice(&text).map_err(|error| ExecServerError::decode(self.method, error))
    }
}

impl ExecServerClient {
    /// The session that can be resumed; `None` if the server has no sessions.
    pub fn session_id(&self) -> Option<&str> {
        self.initialized.session_id.as_deref()
    }

    /// The environment of the server, if it was part of the handshake; see
    /// [`environment_info`](ExecServerClient::environment_info).
    pub fn environment(&self) -> Option<&EnvironmentInfo> {
        self.initialized.environment_info.as_ref()
    }

    /// Subscribes to the notifications that belong to no process.
    pub async fn notifications(&self) -> Result<Notifications, ExecServerError> {
        let (events, receiver) = queue(self.drained.clone());
        let message = ExecServerMessage::Subscribe(events);
        self.inbox.send(message).await.map_err(|_closed| ExecServerError::Closed)?;
        Ok(Notifications(receiver))
    }

    /// Closes the connection. The server keeps the session for a limited time.
    pub async fn close(&self) -> Result<(), ExecServerError> {
        let request = CloseRequest { waits: true };
        self.inbox.close(request).await.map_err(|_closed| ExecServerError::Closed)?;
        self.tasks.wait().await;
        Ok(())
    }

    pub(super) async fn request<P: Serialize, R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &P,
        replay: ReplayPolicy,
    ) -> Result<R, ExecServerError> {
        self.send(method, params, (replay, None)).await?.wait().await
    }

    /// Queues a request; requests are sent in the order in which this returns.
    pub(super) async fn send<P: Serialize, R>(
        &self,
        method: &'static str,
        params: &P,
        (replay, start): (ReplayPolicy, Option<ProcessStart>),
    ) -> Result<PendingResponse<R>, ExecServerError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let message =
            envelope::request(id, method, params).map_err(|error| ExecServerError::encode(method, error))?;
        let (response, text) = oneshot::channel();
        let message = Bytes::from(message);
        let request = ExecServerRequest { id, method, message, replay, start, response, sent: 0 };
        let message = ExecServerMessage::Request(Box::new(request));
        self.inbox.send(message).await.map_err(|_closed| ExecServerError::Closed)?;
        Ok(PendingResponse { method, text, result: std::marker::PhantomData })
    }

    /// A name that is unique among the writes, processes and handles of the session.
    pub(crate) fn unique_name(&self) -> String {
        format!("{}-{}", self.name_prefix, self.next_id.fetch_add(1, Ordering::Relaxed))
    }
}
