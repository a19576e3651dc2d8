//! REXD for carriers that come and go: one request at a time, and a stream of events to listen to.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use link::rpc::{Request, Requests, RpcLimits};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::jsonrpc::RpcError;
use wire::rexd::v1::codes;

use super::call::Call;
use super::desk::{self, TurnedAway};
use super::errors::{session_not_found, unknown_session};
use super::mailbox::{Asked, Letter, Listen, Resume};
use super::methods::{open, ping};
use super::{Arrival, Service};
use crate::net::auth::Caller;

/// Events on their way to one listener; past it the events task waits, and the logs hold the rest.
const EVENTS_WAITING: usize = 2;

/// What came of a posted message.
#[derive(Debug)]
pub struct Posted {
    /// The answer, or nothing if nobody waits for one: then everything in it was a notification.
    pub answer: Option<Bytes>,
    /// How the carrier should put it.
    pub status: Status,
}

/// The outcome as a carrier with status codes tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The message was understood, whatever came of it.
    Understood,
    /// The message was no JSON-RPC.
    Malformed,
    /// The caller may not do this.
    Forbidden,
}

/// One event of a session: its number, if it has one, and the whole notification.
#[derive(Debug, Clone)]
pub struct Told {
    /// What to name when listening again.
    pub event_id: Option<u64>,
    /// The notification.
    pub line: Bytes,
}

/// The events of one session as they come. Ends when the session does, or when somebody listens anew.
pub type Listening = Pin<Box<dyn Stream<Item = Told> + Send>>;

/// Does what one posted message asks for. Sessions opened here belong to their caller and live on between messages.
/// Dropping this future withdraws what can be withdrawn; what changes something is done all the same.
pub async fn post(service: &Arc<Service>, arrival: &Arrival, message: Bytes) -> Posted {
    let caller = &arrival.caller;
    let (incoming, outgoing, mut answers) = link::posted(message, &link::Limits::default());
    let running = service.sessions.requests_of(caller);
    let mut requests = Some(Requests::together(running, incoming, outgoing, RpcLimits::default()));
    let caller = Arc::new(caller.clone());
    let mut post = Post { service, arrival, caller, status: None, withdrawn: Vec::new() };
    loop {
        tokio::select! {
            biased;
            request = next(&mut requests) => match request {
                Some(request) => post.hand_over(request).await,
                // Nothing else holds the way back now but those who answer.
                None => requests = None,
            },
            answer = answers.next() => {
                let is_understood = post.status.is_some() || answer.is_none();
                let status = if is_understood { post.status } else { Some(Status::Malformed) };
                post.withdrawn.drain(..).for_each(|guard| drop(guard.disarm()));
                return Posted { answer, status: status.unwrap_or(Status::Understood) };
            }
        }
    }
}

async fn next(requests: &mut Option<Requests>) -> Option<Request> {
    match requests {
        Some(requests) => requests.next().await,
        None => std::future::pending().await,
    }
}

/// One message on its way through.
struct Post<'a> {
    service: &'a Arc<Service>,
    arrival: &'a Arrival,
    caller: Arc<Caller>,
    status: Option<Status>,
    /// Withdraws each request if nobody waits for the answer any more.
    withdrawn: Vec<DropGuard>,
}

impl Post<'_> {
    async fn hand_over(&mut self, request: Request) {
        let cancel: CancellationToken = request.cancel.clone();
        self.withdrawn.push(cancel.drop_guard());
        let (sessions, caller) = (&self.service.sessions, &self.caller);
        let find = |id: &str| sessions.find(id, caller);
        let (asked, handle) = match desk::receive(self.service, (self.arrival, &self.caller), request, find) {
            Ok(received) => received,
            Err(turned) => {
                let TurnedAway { answer, error } = *turned;
                let is_refusal = error.code == codes::UNAUTHORIZED && self.status.is_none();
                self.status = Some(if is_refusal { Status::Forbidden } else { Status::Understood });
                return answer.send(Err::<(), _>(error)).await;
            }
        };
        self.status = Some(Status::Understood);
        let Asked { call, answer, .. } = asked;
        let id = call.session_id().unwrap_or_default().to_owned();
        match (call, handle) {
            (Call::SessionOpen(params), _) => match open(self.service, &self.caller, &params, None) {
                Ok(opened) => opened.answer(params, answer, None).await,
                Err(error) => answer.send(Err::<(), _>(error)).await,
            },
            (Call::SessionResume(params), _) => self.resume(params, answer).await,
            (Call::ServerPing(_), _) => ping(answer).await,
            (call, Some(handle)) => {
                if let Err(Asked { answer, .. }) = handle.ask(Asked::new(call, answer)).await {
                    answer.send(Err::<(), _>(session_not_found(&id))).await;
                }
            }
            (_, None) => answer.send(Err::<(), _>(session_not_found(&id))).await,
        }
    }

    async fn resume(&self, params: wire::rexd::v1::SessionResume, answer: super::answer::Answer) {
        let Some(handle) = self.service.sessions.find(&params.session_id, &self.caller) else {
            return answer.send(Err::<(), _>(unknown_session(&params.session_id))).await;
        };
        let (verdict, _heard) = oneshot::channel();
        let seen = u64::try_from(params.last_event_id).unwrap_or(0);
        let resume = Resume { seen, token: params.resume_token, link: None, answer, verdict };
        handle.tell(Letter::Resume(Box::new(resume))).await;
    }
}

/// Listens to a session of this caller, after the event that was seen last; without one, after the last that was sent.
pub async fn listen(
    service: &Arc<Service>,
    caller: &Caller,
    session_id: &str,
    last_event_id: Option<u64>,
) -> Result<Listening, RpcError> {
    let unknown = || session_not_found(session_id);
    let handle = service.sessions.find(session_id, caller).ok_or_else(unknown)?;
    let (to, events) = mpsc::channel(EVENTS_WAITING);
    let (verdict, heard) = oneshot::channel();
    handle.tell(Letter::Listen(Box::new(Listen { seen: last_event_id, to, verdict }))).await;
    heard.await.map_err(|_over| unknown())??;
    Ok(Box::pin(futures_util::stream::unfold(events, async |mut events| {
        Some((events.recv().await?, events))
    })))
}
