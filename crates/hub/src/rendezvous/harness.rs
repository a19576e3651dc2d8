//! Harnesses: waiting for the executor, and their connections.

use std::sync::Arc;

use axum::response::Response;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::executor::leave;
use super::queue::{self, Inbox};
use super::routes::{Door, Letter, Seat};
use super::socket::{Socket, Source};
use super::{ExecutorId, Rendezvous};
use crate::refusal::Refusal;
use crate::store::{Kind, TokenId};
use crate::upgrade::Handshake;

impl Rendezvous {
    /// Lets a harness in to an executor; waits a while for one that is away.
    pub(crate) async fn harness(
        self: &Arc<Self>,
        executor: ExecutorId,
        token: Option<&str>,
        handshake: Handshake,
    ) -> Result<Response, Refusal> {
        let token = self.tokens.check(token, Kind::Harness).await?.id;
        let (answer, answered) = oneshot::channel();
        let rendezvous = self.clone();
        // A task, so that whoever was let in also leaves, even if nobody waits for the answer any more.
        self.tasks.spawn(async move { rendezvous.serve_harness(executor, token, handshake, answer).await });
        let gone = || Refusal::unavailable("ended", "the hub ends, or the token was removed");
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn serve_harness(
        &self,
        executor: ExecutorId,
        token: TokenId,
        handshake: Handshake,
        mut answer: oneshot::Sender<Result<Response, Refusal>>,
    ) {
        let door = self.room(&executor);
        let let_in = tokio::select! {
            let_in = self.seat(&door) => let_in,
            () = answer.closed() => return,
            _why = self.ended(token) => return,
        };
        let (seat, mut inbox) = match let_in {
            Ok(let_in) => let_in,
            // Nobody may be waiting for it any more.
            Err(refusal) => return drop(answer.send(Err(refusal))),
        };
        let source = Source::new(seat, door, &self.limits);
        let (response, stream) = handshake.accept(self.limits.handshake);
        // If nobody waits for it any more, there is no stream either.
        drop(answer.send(Ok(response)));
        let Some(stream) = stream.await else { return leave(source, inbox).await };
        tracing::info!(executor = executor.as_str(), "a harness is connected");
        let socket = Socket::new(stream, self.limits.clone()).await;
        let ended = socket.carry(&source, &mut inbox, self.ended(token)).await;
        leave(source, inbox).await;
        tracing::info!(executor = executor.as_str(), why = ended.why.reason(), "a harness is gone");
        ended.say_goodbye().await;
    }

    /// A seat beside the executor, when it is there.
    async fn seat(&self, door: &Door) -> Result<(Seat, Inbox), Refusal> {
        let (outbox, inbox) = queue::queue(self.limits.queued_bytes);
        let (sender, mut seat) = oneshot::channel();
        door.letters.send(Letter::HarnessCame { outbox, seat: sender }).await.ok();
        let given = match timeout(self.limits.executor_away, &mut seat).await {
            Ok(given) => given.ok(),
            // It may have come in this very moment.
            Err(_late) => {
                seat.close();
                seat.try_recv().ok()
            }
        };
        match given {
            Some(Some(seat)) => Ok((seat, inbox)),
            Some(None) => {
                let message = format!(
                    "{} harnesses use this executor, the most that may",
                    self.limits.harnesses_per_executor
                );
                Err(Refusal::unavailable("too_many_harnesses", message))
            }
            None => {
                let message = "the executor is not connected: start it, or try again later";
                Err(Refusal::unavailable("executor_away", message))
            }
        }
    }
}
