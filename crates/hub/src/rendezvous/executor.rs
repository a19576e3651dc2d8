//! Executors: their registration and their connection.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use link::listen::{HttpConnection, UpgradedStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::connection::{FrameForwarder, RelayConnection};
use super::router::RouterMessage;
use super::{ExecutorId, Rendezvous, UpgradeRequest, caller, queue};
use crate::api_error::ApiError;
use crate::auth::{Credential, Secret, TokenDigest, now, now_ms};
use crate::store::{ExecutorClaim, NewTicket, TokenKind};

/// The queue to an executor, in multiples of the harnesses' shared credit: as much again for resets.
const QUEUE_FACTOR: usize = 2;

impl Rendezvous {
    /// Registers an executor with a token. The returned ticket is valid for one connection.
    pub(crate) async fn register(
        &self,
        executor: &ExecutorId,
        token: Option<&str>,
        connection: &HttpConnection,
    ) -> Result<Secret, ApiError> {
        let token = self.tokens.check(token, TokenKind::Executor).await?;
        connection.slot.authenticate_as(&caller(token.id))?;
        let limit = i64::try_from(self.limits.executors_per_token).unwrap_or(i64::MAX);
        let claim = ExecutorClaim { token: token.id, limit, now: now() };
        match self.tokens.store().claim_executor(executor.as_str(), claim).await? {
            Some(owner) if owner == token.id => {}
            Some(_other) => {
                let message = "this executor was registered with another token: use that one, \
                               or remove it with `rexhub token remove`";
                return Err(ApiError::forbidden("not_yours", message));
            }
            None => {
                let message = format!("too many executors for the token {:?} (limit {limit})", token.name);
                return Err(ApiError::forbidden("too_many_executors", message));
            }
        }
        let ticket = Secret::random().map_err(|error| {
            tracing::error!(%error, "no random bytes for a ticket");
            ApiError::unavailable("no_randomness", "the hub cannot create a ticket at the moment")
        })?;
        let now_ms = now_ms();
        let new = NewTicket {
            digest: ticket.digest(),
            executor: executor.as_str(),
            token: token.id,
            now_ms,
            ends_ms: now_ms.saturating_add(i64::try_from(self.limits.ticket.as_millis()).unwrap_or(i64::MAX)),
            limit: i64::try_from(self.limits.tickets_per_executor).unwrap_or(i64::MAX),
        };
        self.tokens.store().add_ticket(new).await?;
        Ok(ticket)
    }

    /// Redeems an executor's ticket and serves its connection on a task.
    pub(crate) async fn executor(
        self: &Arc<Self>,
        executor: ExecutorId,
        ticket: &str,
        request: UpgradeRequest,
    ) -> Result<Response, ApiError> {
        let digest = TokenDigest::of(ticket);
        // With its token, a ticket is removed too.
        let Some(token) = self.tokens.store().redeem_ticket(digest, executor.as_str(), now_ms()).await?
        else {
            let message = "the ticket is unknown, used or expired: register again";
            return Err(ApiError::unauthenticated("bad_ticket", message));
        };
        let UpgradeRequest { handshake, connection } = request;
        connection.slot.authenticate_as(&caller(token))?;
        let (response, upgraded) = handshake.accept();
        let rendezvous = self.clone();
        self.tasks.spawn(async move {
            if let Some(stream) = within(rendezvous.limits.handshake, upgraded).await {
                let credential = Credential::Token(token);
                rendezvous.serve_executor(&executor, &credential, (stream, connection)).await;
            }
        });
        Ok(response)
    }

    pub(super) async fn serve_executor(
        &self,
        executor: &ExecutorId,
        credential: &Credential,
        (stream, connection): (UpgradedStream, Arc<HttpConnection>),
    ) {
        let connection = RelayConnection::new(stream, connection, (&self.limits, &self.budget));
        let router = self.router(executor);
        let (sender, mut receiver) = queue::queue(self.limits.queued_bytes.saturating_mul(QUEUE_FACTOR));
        let (id_sender, id) = oneshot::channel();
        // The router runs as long as its handle exists.
        router.messages.send(RouterMessage::ExecutorConnected { queue: sender, id: id_sender }).await.ok();
        let Ok(id) = id.await else { return };
        tracing::info!(executor = executor.as_str(), "executor connected");
        let forwarder = FrameForwarder::new(id, router, &self.limits);
        let closing = connection.carry(&forwarder, &mut receiver, self.ended(credential)).await;
        drop(receiver);
        forwarder.disconnect().await;
        tracing::info!(executor = executor.as_str(), reason = closing.reason.text(), "executor disconnected");
        closing.finish().await;
    }
}

/// The upgraded stream, if the handshake ends in time.
pub(super) async fn within(
    limit: Duration,
    upgraded: impl Future<Output = Option<UpgradedStream>>,
) -> Option<UpgradedStream> {
    timeout(limit, upgraded).await.ok().flatten()
}
