//! Harnesses: the wait for the executor, and their connections.

use std::sync::Arc;

use axum::response::Response;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::connection::{FrameForwarder, RelayConnection};
use super::executor::within;
use super::queue::{self, FrameReceiver};
use super::router::{ConnectionId, RouterMessage, StreamOwner, StreamRouterHandle};
use super::{ExecutorId, Rendezvous, UpgradeRequest, caller};
use crate::api_error::ApiError;
use crate::auth::Credential;
use crate::store::TokenKind;

/// Who a harness is.
#[derive(Debug)]
pub(super) struct HarnessIdentity {
    pub(super) credential: Credential,
    /// Announced to a host; none for executors.
    pub(super) owner: Option<StreamOwner>,
}

impl Rendezvous {
    /// Connects a harness to an executor; waits a limited time for one that is not connected.
    pub(crate) async fn harness(
        self: &Arc<Self>,
        executor: ExecutorId,
        token: Option<&str>,
        request: UpgradeRequest,
    ) -> Result<Response, ApiError> {
        let token = self.tokens.check(token, TokenKind::Harness).await?.id;
        request.connection.slot.authenticate_as(&caller(token))?;
        self.connect(executor, HarnessIdentity { credential: Credential::Token(token), owner: None }, request)
            .await
    }

    /// Connects an authenticated harness.
    pub(super) async fn connect(
        self: &Arc<Self>,
        executor: ExecutorId,
        identity: HarnessIdentity,
        request: UpgradeRequest,
    ) -> Result<Response, ApiError> {
        let (sender, response) = oneshot::channel();
        let rendezvous = self.clone();
        // A task, so that an admitted harness is also removed when this request is cancelled.
        self.tasks.spawn(async move { rendezvous.serve_harness(executor, identity, request, sender).await });
        let ended = || ApiError::unavailable("ended", "the hub stops, or the token was removed");
        response.await.unwrap_or_else(|_| Err(ended()))
    }

    async fn serve_harness(
        &self,
        executor: ExecutorId,
        identity: HarnessIdentity,
        request: UpgradeRequest,
        mut response: oneshot::Sender<Result<Response, ApiError>>,
    ) {
        let HarnessIdentity { credential, owner } = identity;
        let router = self.router(&executor);
        let admitted = tokio::select! {
            admitted = self.admit(&router, owner) => admitted,
            () = response.closed() => return,
            _reason = self.ended(&credential) => return,
        };
        let (id, mut receiver) = match admitted {
            Ok(admitted) => admitted,
            // The request may have been cancelled.
            Err(error) => return drop(response.send(Err(error))),
        };
        let forwarder = FrameForwarder::new(id, router, &self.limits);
        let UpgradeRequest { handshake, connection } = request;
        let (accepted, upgraded) = handshake.accept();
        // If the request was cancelled, the upgrade fails too.
        drop(response.send(Ok(accepted)));
        let Some(stream) = within(self.limits.handshake, upgraded).await else {
            drop(receiver);
            return forwarder.disconnect().await;
        };
        tracing::info!(executor = executor.as_str(), "harness connected");
        let connection = RelayConnection::new(stream, connection, (&self.limits, &self.budget));
        let closing = connection.carry(&forwarder, &mut receiver, self.ended(&credential)).await;
        drop(receiver);
        forwarder.disconnect().await;
        tracing::info!(executor = executor.as_str(), reason = closing.reason.text(), "harness disconnected");
        closing.finish().await;
    }

    /// Registers a harness with the router and waits for the executor.
    async fn admit(
        &self,
        router: &StreamRouterHandle,
        owner: Option<StreamOwner>,
    ) -> Result<(ConnectionId, FrameReceiver), ApiError> {
        let (sender, receiver) = queue::queue(self.limits.queued_bytes);
        let (id_sender, mut id) = oneshot::channel();
        let connected = RouterMessage::HarnessConnected { queue: sender, owner, id: id_sender };
        router.messages.send(connected).await.ok();
        let received = match timeout(self.limits.executor_away, &mut id).await {
            Ok(received) => received.ok(),
            // The id may have been sent at this moment.
            Err(_late) => {
                id.close();
                id.try_recv().ok()
            }
        };
        match received {
            Some(Some(id)) => Ok((id, receiver)),
            Some(None) => {
                let limit = self.limits.harnesses_per_executor;
                let message = format!("too many harnesses for this executor (limit {limit})");
                Err(ApiError::unavailable("too_many_harnesses", message))
            }
            None => {
                let message = "the executor is not connected: start it, or try again later";
                Err(ApiError::unavailable("executor_away", message))
            }
        }
    }
}
