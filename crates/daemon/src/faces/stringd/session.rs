//! The session of a topic in the core: it owns the topic's processes, and its requests are authorized and audited.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use engine::Roots;
use link::rpc::{Dialect, Params, Reply, Request};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::{Id, RpcError};

use super::convert::TopicName;
use super::errors::rpc_error;
use super::users::RegisteredUser;
use super::{AccessMode, Stringd};
use crate::core::dispatch::{Dispatch, dispatch};
use crate::core::events::EventOptions;
use crate::core::request::{ConnectionContext, Requester};
use crate::core::sandbox::SessionSandbox;
use crate::core::session::{Face as _, SessionConnection, SessionHandle, SessionMessage, SessionOptions};
use crate::net::auth::Caller;
use crate::observe::metrics::Transport;

/// A session of this face.
pub(super) type Session = crate::core::session::Session<Stringd>;

/// The session of one topic. It is opened with its first request and ends when this is dropped.
#[derive(Debug)]
pub(super) struct TopicSession {
    user: Arc<RegisteredUser>,
    topic: TopicName,
    open: Mutex<OpenState>,
    /// True while a request of the topic waits for an approver.
    asks: watch::Sender<bool>,
}

#[derive(Debug)]
enum OpenState {
    NotYet,
    Open(SessionHandle<Stringd>),
    /// The topic was deleted.
    Ended,
}

impl TopicSession {
    pub(super) fn new(
        user: &Arc<RegisteredUser>,
        topic: &TopicName,
        asks: watch::Sender<bool>,
    ) -> TopicSession {
        let open = Mutex::new(OpenState::NotYet);
        TopicSession { user: user.clone(), topic: topic.clone(), open, asks }
    }

    /// Makes an internal request and waits for its result.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        face: &Arc<Stringd>,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<R, RpcError> {
        #[derive(Deserialize)]
        struct Response<R> {
            // An absent result differs from a null one.
            #[serde(
                default = "Option::default",
                deserialize_with = "present",
                bound = "R: DeserializeOwned"
            )]
            result: Option<R>,
            error: Option<RpcError>,
        }
        let params = serde_json::to_vec(params).map_err(|error| RpcError::internal(error.to_string()))?;
        let line = self.request(face, method, params).await?;
        match serde_json::from_slice(&line) {
            Ok(Response { result: Some(result), error: None }) => Ok(result),
            Ok(Response { error: Some(error), .. }) => Err(error),
            Ok(_) => Err(abandoned()),
            Err(error) => Err(RpcError::internal(error.to_string())),
        }
    }

    /// Makes a request and waits for its response, both encoded.
    async fn request(
        &self,
        face: &Arc<Stringd>,
        method: &'static str,
        params: Vec<u8>,
    ) -> Result<Bytes, RpcError> {
        let handle = self.handle(face)?;
        let (_, outgoing, mut answers) = link::posted(Bytes::new(), &link::Limits::default());
        let cancel = CancellationToken::new();
        let _withdraw = cancel.clone().drop_guard();
        let reply = Reply::new(Dialect::Versioned, Id::from(1), outgoing);
        let params = Params::new(Some(params.into()));
        let request = Request { method: method.to_owned(), params, reply, cancel };
        let context = ConnectionContext::new(Caller::on_loopback(), Transport::Http);
        let requester = Requester::new(Stringd::NAME, context.caller.clone());
        match dispatch::<Stringd>(face.core(), &context, requester, request, |_| Some(handle)) {
            Ok(Dispatch::Session(mut request, handle)) => {
                request.asks = Some(self.asks.clone());
                if let Err(request) = handle.request(request).await {
                    request.responder.reject(Stringd::session_closed(&handle.id)).await;
                }
            }
            Ok(Dispatch::NoSession(_, responder)) => responder.reject(Stringd::session_closed("")).await,
            Ok(Dispatch::Connection(never, _)) => match never {},
            Err(rejected) => rejected.respond().await,
        }
        answers.next().await.ok_or_else(abandoned)
    }

    /// The handle of the session, which is opened if it is not.
    pub(super) fn handle(&self, face: &Arc<Stringd>) -> Result<SessionHandle<Stringd>, RpcError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match &*open {
            OpenState::Open(handle) if !handle.is_over() => return Ok(handle.clone()),
            OpenState::Ended => return Err(Stringd::session_closed(self.topic.as_str())),
            OpenState::Open(_) | OpenState::NotYet => {}
        }
        let handle = self.open(face)?;
        *open = OpenState::Open(handle.clone());
        Ok(handle)
    }

    fn open(&self, face: &Arc<Stringd>) -> Result<SessionHandle<Stringd>, RpcError> {
        let id = format!("{}:{}", self.user.id, self.topic.as_str());
        let caller = Arc::new(Caller::on_loopback());
        let client = Arc::from(self.user.id.as_str());
        let requester =
            Requester { session: Some(id.into()), client, ..Requester::new(Stringd::NAME, caller) };
        let engine = face.core().engine.open_uncounted_session(|_| ()).map_err(rpc_error)?;
        let mut options = SessionOptions::new(face, requester, engine, super::TopicProcesses::default());
        options.is_resumable = false;
        options.events = EventOptions::replaying(0);
        options.roots = self.roots(face);
        options.sandbox = SessionSandbox::new(None, options.roots.clone());
        options.cwd = self.user.home.clone();
        let (_, outgoing, _) = link::posted(Bytes::new(), &link::Limits::default());
        Ok(options.open(SessionConnection { outgoing, hang_up: None }))
    }

    /// The directories that the commands of the topic reach.
    pub(super) fn roots(&self, face: &Stringd) -> Roots {
        match face.settings.access {
            AccessMode::Full => face.roots.clone(),
            // A home outside the roots leaves nothing.
            AccessMode::Workspace => {
                let own = self.user.workspace();
                face.roots.narrowed(own).unwrap_or_else(|_outside| Roots::new(Vec::new()))
            }
        }
    }

    /// Sends a message, if the session is open.
    pub(super) async fn send(&self, message: SessionMessage<Stringd>) {
        let handle = match &*self.open.lock().unwrap_or_else(PoisonError::into_inner) {
            OpenState::Open(handle) => Some(handle.clone()),
            OpenState::NotYet | OpenState::Ended => None,
        };
        if let Some(handle) = handle {
            handle.send(message).await;
        }
    }

    /// Waits, as a request that waits for an approver.
    pub(super) async fn while_asking<T>(&self, wait: impl Future<Output = T>) -> T {
        struct Asking<'a>(&'a watch::Sender<bool>);
        impl Drop for Asking<'_> {
            fn drop(&mut self) {
                self.0.send_replace(false);
            }
        }
        self.asks.send_replace(true);
        let _asking = Asking(&self.asks);
        wait.await
    }

    /// Ends the topic's processes; later requests of its commands fail.
    pub(super) fn end(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let OpenState::Open(handle) = std::mem::replace(&mut *open, OpenState::Ended) {
            handle.end_soon();
        }
    }
}

impl Drop for TopicSession {
    fn drop(&mut self) {
        self.end();
    }
}

fn present<'de, R: Deserialize<'de>, D: serde::Deserializer<'de>>(from: D) -> Result<Option<R>, D::Error> {
    R::deserialize(from).map(Some)
}

fn abandoned() -> RpcError {
    RpcError::internal("request abandoned")
}
