//! The handle to a session, through which connections and tasks reach it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use link::task::Tasks;
use tokio::sync::mpsc;

use super::{Face, PendingRequest, SessionMessage};
use crate::core::request::Requester;

/// A handle to one session. Cheap to clone; the session does not end with its last handle.
pub struct SessionHandle<F: Face> {
    /// The session's id.
    pub id: Arc<str>,
    /// Who opened it.
    pub requester: Requester,
    pub(super) inbox: mpsc::Sender<SessionMessage<F>>,
    pub(super) disconnected_since: Arc<AtomicU64>,
    pub(super) tasks: Tasks,
}

impl<F: Face> Clone for SessionHandle<F> {
    fn clone(&self) -> SessionHandle<F> {
        SessionHandle {
            id: self.id.clone(),
            requester: self.requester.clone(),
            inbox: self.inbox.clone(),
            disconnected_since: self.disconnected_since.clone(),
            tasks: self.tasks.clone(),
        }
    }
}

impl<F: Face> SessionHandle<F> {
    /// The same session for requests of another caller, in faces whose sessions serve several.
    pub fn on_behalf_of(&self, requester: Requester) -> SessionHandle<F> {
        SessionHandle { requester, ..self.clone() }
    }

    /// Sends a request; it comes back if the session is over.
    pub async fn request(&self, request: Box<PendingRequest<F>>) -> Result<(), Box<PendingRequest<F>>> {
        match self.inbox.send(SessionMessage::Request(request)).await {
            Ok(()) => Ok(()),
            Err(mpsc::error::SendError(SessionMessage::Request(request))) => Err(request),
            Err(_other) => Ok(()),
        }
    }

    /// Sends a message; a session that is over ignores it.
    pub async fn send(&self, message: SessionMessage<F>) {
        self.inbox.send(message).await.ok();
    }

    /// Sends a message without waiting; a task of the core waits while the inbox is full.
    pub fn send_soon(&self, message: SessionMessage<F>) {
        if let Err(mpsc::error::TrySendError::Full(message)) = self.inbox.try_send(message) {
            let inbox = self.inbox.clone();
            self.tasks.spawn(async move { inbox.send(message).await.ok() });
        }
    }

    /// Ends the session and waits until it has ended completely.
    pub async fn end(&self) {
        self.send(SessionMessage::End).await;
        self.inbox.closed().await;
    }

    /// Ends the session without waiting for it.
    pub fn end_soon(&self) {
        self.send_soon(SessionMessage::End);
    }

    /// Whether the session has ended completely.
    pub fn is_over(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Waits until the session has ended completely.
    pub async fn ended(&self) {
        self.inbox.closed().await;
    }

    /// Whether a client receives the session's events now.
    pub fn is_connected(&self) -> bool {
        self.disconnected_since() == 0
    }

    /// When the session lost its connection, in the order of sessions; 0 while it has one.
    pub(super) fn disconnected_since(&self) -> u64 {
        self.disconnected_since.load(Ordering::Relaxed)
    }
}

opaque_debug!(SessionHandle<F: Face>);
