//! Executors: registering one, and its connection.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::queue::{self, Inbox};
use super::routes::Letter;
use super::socket::{Socket, Source};
use super::{ExecutorId, Rendezvous};
use crate::auth::{Secret, now};
use crate::refusal::Refusal;
use crate::store::{Claim, Kind, TokenId};
use crate::upgrade::{Handshake, Stream};

/// What a queue to an executor holds, in the sizes of what harnesses may have on its way: as much again for resets.
const ROOM_FOR_RESETS: usize = 2;

impl Rendezvous {
    /// Registers an executor with a token. The ticket lets it connect once.
    pub(crate) async fn register(
        &self,
        executor: &ExecutorId,
        token: Option<&str>,
    ) -> Result<Secret, Refusal> {
        let token = self.tokens.check(token, Kind::Executor).await?;
        let at_most = i64::try_from(self.limits.executors_per_token).unwrap_or(i64::MAX);
        let claim = Claim { token: token.id, at_most, now: now() };
        match self.tokens.store().claim_executor(executor.as_str(), claim).await? {
            Some(owner) if owner == token.id => {}
            Some(_other) => {
                let message = "this executor was registered with another token: use that one, \
                               or remove it with `rexhub token remove`";
                return Err(Refusal::forbidden("not_yours", message));
            }
            None => {
                let message = format!("the token {:?} has {at_most} executors, the most it may", token.name);
                return Err(Refusal::forbidden("too_many_executors", message));
            }
        }
        self.tickets.issue(executor.clone(), token.id, &self.limits).map_err(|error| {
            tracing::error!(%error, "no randomness for a ticket");
            Refusal::unavailable("no_randomness", "the hub cannot make a ticket at the moment")
        })
    }

    /// Takes an executor's ticket, and serves the connection it is for.
    pub(crate) async fn executor(
        self: &Arc<Self>,
        executor: ExecutorId,
        ticket: &str,
        handshake: Handshake,
    ) -> Result<axum::response::Response, Refusal> {
        let token = self.tickets.redeem(&executor, ticket);
        let token = match token {
            Some(token) if self.tokens.store().has_token(token).await? => token,
            _ => {
                let message = "the ticket is unknown, used, or too old: register again";
                return Err(Refusal::unproven("bad_ticket", message));
            }
        };
        let (response, stream) = handshake.accept(self.limits.handshake);
        let rendezvous = self.clone();
        self.tasks.spawn(async move {
            if let Some(stream) = stream.await {
                rendezvous.serve_executor(&executor, token, stream).await;
            }
        });
        Ok(response)
    }

    async fn serve_executor(&self, executor: &ExecutorId, token: TokenId, stream: Stream) {
        let socket = Socket::new(stream, self.limits.clone()).await;
        let door = self.room(executor);
        let (outbox, mut inbox) = queue::queue(self.limits.queued_bytes.saturating_mul(ROOM_FOR_RESETS));
        let (sender, seat) = oneshot::channel();
        // The room is there as long as its door is.
        door.letters.send(Letter::ExecutorCame { outbox, seat: sender }).await.ok();
        let Ok(seat) = seat.await else { return };
        tracing::info!(executor = executor.as_str(), "an executor is connected");
        let source = Source::new(seat, door, &self.limits);
        let ended = socket.carry(&source, &mut inbox, self.ended(token)).await;
        leave(source, inbox).await;
        tracing::info!(executor = executor.as_str(), why = ended.why.reason(), "an executor is gone");
        ended.say_goodbye().await;
    }
}

/// Tells the room that somebody has left it. Who still writes to them writes to nobody.
pub(super) async fn leave(source: Source, inbox: Inbox) {
    drop(inbox);
    source.letters.send(Letter::Left { seat: source.seat }).await.ok();
}
