//! REXD over HTTP: one posted message at a time, and a stream of events.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use link::rpc::{Request, Requests, RpcLimits};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::jsonrpc::RpcError;
use wire::rexd::v1;

use super::errors::{session_not_found, unknown_session};
use super::resume_key::ResumeKey;
use super::session::{ResumeProof, open, resume, subscribe};
use super::{ConnectionCall, Rexd, methods};
use crate::core::dispatch::{Dispatch, Rejected, UNAUTHORIZED, dispatch};
pub use crate::core::events::StreamEvent;
use crate::core::request::{ConnectionContext, Requester};
use crate::core::responder::Responder;
use crate::core::session::Face as _;
use crate::net::auth::Caller;

/// Events on their way to one subscriber; the publisher waits when it is full, and the logs hold the rest.
const STREAM_EVENTS: usize = 2;

/// The result of a posted message.
#[derive(Debug)]
pub struct PostResult {
    /// The response; `None` if the message contained only notifications.
    pub response: Option<Bytes>,
    /// The HTTP status to respond with.
    pub status: PostStatus,
}

/// The result as an HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostStatus {
    /// The message was a JSON-RPC message, whatever its result.
    Accepted,
    /// The message was not a JSON-RPC message.
    Malformed,
    /// The caller does not have the scope.
    Forbidden,
}

/// The events of one session. Ends with the session, or when another stream subscribes.
pub type EventSubscription = Pin<Box<dyn Stream<Item = StreamEvent> + Send>>;

/// Runs one posted message. Sessions that it opens belong to the caller and live on between messages. If this future is
/// dropped, requests that can be cancelled are; changes still happen.
pub async fn post(face: &Arc<Rexd>, context: &ConnectionContext, message: Bytes) -> PostResult {
    let (incoming, outgoing, mut responses) = link::posted(message, &link::Limits::default());
    let running = face.sessions().requests_of(&context.caller);
    let mut requests = Some(Requests::together(running, incoming, outgoing, RpcLimits::default()));
    let mut post = Post { face, context, status: None, cancel_guards: Vec::new() };
    loop {
        tokio::select! {
            biased;
            request = next(&mut requests) => match request {
                Some(request) => post.handle(request).await,
                // Only responders hold the sending side now.
                None => requests = None,
            },
            response = responses.next() => {
                let is_request = post.status.is_some() || response.is_none();
                let status = if is_request { post.status } else { Some(PostStatus::Malformed) };
                post.cancel_guards.drain(..).for_each(|guard| drop(guard.disarm()));
                return PostResult { response, status: status.unwrap_or(PostStatus::Accepted) };
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

/// One posted message while it runs.
struct Post<'a> {
    face: &'a Arc<Rexd>,
    context: &'a ConnectionContext,
    status: Option<PostStatus>,
    /// Cancel each request if the HTTP client goes away.
    cancel_guards: Vec<DropGuard>,
}

impl Post<'_> {
    async fn handle(&mut self, request: Request) {
        let cancel: CancellationToken = request.cancel.clone();
        self.cancel_guards.push(cancel.drop_guard());
        let (face, caller) = (self.face, &self.context.caller);
        let find = |id: Option<&str>| face.sessions().find(id?, caller);
        let requester = Requester::new(Rexd::NAME, caller.clone());
        let dispatched = match dispatch::<Rexd>(face.core(), self.context, requester, request, find) {
            Ok(dispatched) => dispatched,
            Err(rejected) => return self.reject(*rejected).await,
        };
        self.status = Some(PostStatus::Accepted);
        match dispatched {
            Dispatch::Connection(ConnectionCall::Open(params), responder) => {
                self.open(&params, responder).await;
            }
            Dispatch::Connection(ConnectionCall::Resume(params), responder) => {
                match face.sessions().find(&params.session_id, caller) {
                    Some(handle) => {
                        let proof = ResumeProof::Token(params.resume_token);
                        handle.send(resume(proof, params.last_event_id, None, responder).0).await;
                    }
                    None => responder.reject(unknown_session(&params.session_id)).await,
                }
            }
            Dispatch::Connection(ConnectionCall::Ping, responder) => methods::session::ping(responder).await,
            Dispatch::Session(request, handle) => {
                if let Err(request) = handle.request(request).await {
                    request.responder.reject(session_not_found(&handle.id)).await;
                }
            }
            Dispatch::NoSession(id, responder) => {
                responder.reject(session_not_found(&id.unwrap_or_default())).await;
            }
        }
    }

    async fn open(&self, params: &v1::SessionOpen, responder: Responder) {
        let (face, caller) = (self.face, &self.context.caller);
        let mut key = match ResumeKey::of(params, face) {
            Ok(key) => key,
            Err(error) => return responder.reject(error).await,
        };
        if let Some(key) = key.as_mut() {
            let found = face.sessions().find(key.session_id(), caller);
            if let Some(handle) = found.filter(|_| key.is_resent()) {
                let proof = ResumeProof::Key(key.as_str().to_owned());
                return handle.send(resume(proof, 0, None, responder).0).await;
            }
            // A daemon that serves HTTP has no socket for each session.
            if let Err(error) = key.reserve(face) {
                return responder.reject(error).await;
            }
        }
        let opened = open(face, self.context, params, None, &mut key);
        key.into_iter().for_each(|unused| unused.release(face));
        match opened {
            Ok(opened) => opened.respond(responder, false, None).await,
            Err(error) => responder.reject(error).await,
        }
    }

    async fn reject(&mut self, rejected: Rejected) {
        let is_forbidden = rejected.error.code == UNAUTHORIZED && self.status.is_none();
        self.status = Some(if is_forbidden { PostStatus::Forbidden } else { PostStatus::Accepted });
        rejected.respond().await;
    }
}

/// Subscribes to a session of this caller, after the last event it has seen, or after the last one that was sent.
pub async fn listen(
    face: &Arc<Rexd>,
    caller: &Caller,
    session_id: &str,
    last_event_id: Option<u64>,
) -> Result<EventSubscription, RpcError> {
    let unknown = || session_not_found(session_id);
    let handle = face.sessions().find(session_id, caller).ok_or_else(unknown)?;
    let (stream, events) = mpsc::channel(STREAM_EVENTS);
    let (message, subscribed) = subscribe(last_event_id, stream);
    handle.send(message).await;
    subscribed.await.map_err(|_over| unknown())??;
    Ok(Box::pin(futures_util::stream::unfold(events, async |mut events| {
        Some((events.recv().await?, events))
    })))
}
