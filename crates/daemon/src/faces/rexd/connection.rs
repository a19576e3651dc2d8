//! One connection: reads requests and sends them to the sessions they belong to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use link::rpc::{Request, Requests, RpcLimits};
use link::task::Tasks;
use link::{Link, Outgoing};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::RpcError;
use wire::rexd::v1::{self, Method as _};

use super::errors::{session_not_found, unknown_session};
use super::resume_key::ResumeKey;
use super::session::{ResumeProof, RexdHandle, open, resume};
use super::{ConnectionCall, Rexd, methods};
use crate::core::dispatch::{Dispatch, dispatch};
use crate::core::request::{ConnectionContext, Requester};
use crate::core::responder::Responder;
use crate::core::session::{Face as _, SessionConnection, SessionMessage, SubscriptionId};
use crate::core::{SHUTDOWN_TIMEOUT, flush};
use crate::observe::metrics::Transport;

/// Sessions of one connection at which those that have ended are dropped; a client may open and close any number.
const CLEANUP_AT: usize = 64;
/// How long a peer that must resume a session may take to request it.
const RESUME_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer that has closed its side may take to read the remaining messages.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(30);

/// A session on this connection.
struct ConnectionSession {
    handle: RexdHandle,
    /// Which of the session's connections this one is.
    subscription: SubscriptionId,
    is_resumable: bool,
}

/// One connection and its sessions.
pub(super) struct Connection {
    face: Arc<Rexd>,
    context: ConnectionContext,
    outgoing: Outgoing,
    sessions: HashMap<Arc<str>, ConnectionSession>,
    /// The session that was opened last, which requests may call [`v1::LAST_SESSION`].
    last: Option<Arc<str>>,
    cleanup_at: usize,
    tasks: Tasks,
    /// Cancelled when another connection has taken over.
    hang_up: CancellationToken,
    /// Whether the next request must resume a session.
    must_resume: bool,
}

impl Connection {
    pub(super) fn new(face: Arc<Rexd>, context: ConnectionContext, link: &Link) -> Connection {
        Connection {
            face,
            must_resume: context.resumes.is_some(),
            context,
            outgoing: link.outgoing.clone(),
            sessions: HashMap::new(),
            last: None,
            cleanup_at: CLEANUP_AT,
            tasks: Tasks::new(),
            hang_up: CancellationToken::new(),
        }
    }

    /// Serves until the peer is done, the connection is closed or `stop` is cancelled. Then ends the sessions that
    /// cannot be resumed.
    pub(super) async fn run(mut self, link: Link, stop: CancellationToken) {
        let Link { incoming, outgoing, writing } = link;
        let mut requests = Requests::new(incoming, outgoing, RpcLimits::default());
        self.receive(&mut requests, &stop).await;
        if let Some(resume) = &self.face.resume {
            resume.connection_closed();
        }
        if self.hang_up.is_cancelled() {
            // Its sessions continue on another connection; what is still queued here has no reader.
            writing.abort();
        }
        let is_ending = self.face.core().stop.is_cancelled();
        if !is_ending && self.sessions.values().any(|session| session.is_resumable) {
            // Responses that still run would keep a closed connection open.
            requests.withdraw_all();
        }
        drop(requests);
        let timeout = if is_ending || stop.is_cancelled() { SHUTDOWN_TIMEOUT } else { FLUSH_TIMEOUT };
        flush(writing, self.end(is_ending), timeout).await;
    }

    async fn receive(&mut self, requests: &mut Requests, stop: &CancellationToken) {
        let (peer, hang_up) = (self.outgoing.clone(), self.hang_up.clone());
        let shutdown = self.face.core().stop.clone();
        let resume_by = Instant::now() + RESUME_TIMEOUT;
        loop {
            tokio::select! {
                biased;
                request = requests.next() => match request {
                    Some(request) => self.handle(request).await,
                    None => return,
                },
                () = peer.closed() => return,
                () = hang_up.cancelled() => return,
                () = stop.cancelled() => return,
                () = shutdown.cancelled() => return,
                () = sleep_until(resume_by), if self.must_resume => return,
            }
            if self.must_resume {
                // The session was refused, and this connection is for nothing else.
                return;
            }
        }
    }

    async fn handle(&mut self, request: Request) {
        let find = |id: Option<&str>| {
            let id = match id? {
                v1::LAST_SESSION => self.last.as_deref()?,
                id => id,
            };
            self.sessions.get(id).map(|session| session.handle.clone())
        };
        let requester = Requester::new(Rexd::NAME, self.context.caller.clone());
        let opens = request.method == v1::SessionOpen::NAME;
        let dispatched = dispatch::<Rexd>(self.face.core(), &self.context, requester, request, find);
        if opens {
            // If it fails, requests that were sent together with it must not reach another session.
            self.last = None;
        }
        let dispatched = match dispatched {
            Ok(dispatched) => dispatched,
            Err(rejected) => return self.tasks.spawn(rejected.respond()),
        };
        match dispatched {
            Dispatch::Connection(ConnectionCall::Resume(params), responder) => {
                let proof = ResumeProof::Token(params.resume_token);
                self.resume(&params.session_id, proof, params.last_event_id, responder).await;
            }
            Dispatch::Connection(ConnectionCall::Open(params), responder) => {
                match ResumeKey::of(&params, &self.face) {
                    Ok(Some(key)) if key.is_resent() && self.has_session(key.session_id()) => {
                        let proof = ResumeProof::Key(key.as_str().to_owned());
                        self.resume(key.session_id(), proof, 0, responder).await;
                    }
                    Ok(_) if self.must_resume => self.reject(responder, unknown_session("")),
                    Ok(key) => self.open(&params, key, responder),
                    Err(error) => self.reject(responder, error),
                }
            }
            Dispatch::Connection(ConnectionCall::Ping, responder) if self.must_resume => {
                self.reject(responder, unknown_session(""));
            }
            Dispatch::Connection(ConnectionCall::Ping, responder) => {
                self.tasks.spawn(methods::session::ping(responder));
            }
            Dispatch::Session(request, _) if self.must_resume => {
                let error = unknown_session(request.session_id().unwrap_or_default());
                self.reject(request.responder, error);
            }
            Dispatch::Session(request, handle) => {
                if let Err(request) = handle.request(request).await {
                    self.sessions.remove(&handle.id);
                    self.reject(request.responder, session_not_found(&handle.id));
                }
            }
            Dispatch::NoSession(id, responder) => {
                let id = id.unwrap_or_default();
                let error = if self.must_resume { unknown_session(&id) } else { session_not_found(&id) };
                self.reject(responder, error);
            }
        }
    }

    /// Whether this connection may resume that session: one that was opened for a session resumes no other.
    fn may_resume(&self, session_id: &str) -> bool {
        !self.must_resume || self.context.resumes.as_deref() == Some(session_id)
    }

    /// Whether this daemon has that session of this caller.
    fn has_session(&self, session_id: &str) -> bool {
        self.face.sessions().find(session_id, &self.context.caller).is_some()
    }

    /// This connection as a session has it. Standard streams may be taken over: whether a peer still holds them
    /// cannot be found out.
    fn as_session_connection(&self) -> SessionConnection {
        let is_stdio = self.context.transport == Transport::Stdio;
        let hang_up = is_stdio.then(|| self.hang_up.clone());
        SessionConnection { outgoing: self.outgoing.clone(), hang_up }
    }

    fn open(&mut self, params: &v1::SessionOpen, mut key: Option<ResumeKey>, responder: Responder) {
        let socket = match key.as_mut().map(|key| key.reserve(&self.face)).transpose() {
            Ok(socket) => socket.flatten(),
            Err(error) => return self.reject(responder, error),
        };
        let opened = open(&self.face, &self.context, params, Some(self.as_session_connection()), &mut key);
        key.into_iter().for_each(|unused| unused.release(&self.face));
        match opened {
            Ok(opened) => {
                let is_resumable = opened.result.resume_token.is_some();
                let handle = opened.handle.clone();
                match (self.face.resume.as_ref().filter(|_| is_resumable), socket) {
                    (Some(resume), Some(socket)) => resume.serve_socket(&self.face, socket, handle.clone()),
                    (Some(resume), None) => resume.serve_session(&self.face, &handle.id, handle.clone()),
                    (None, _) => {}
                }
                self.last = Some(handle.id.clone());
                self.add(ConnectionSession { handle, subscription: SubscriptionId::FIRST, is_resumable });
                let wants_zstd = params.compress.as_deref() == Some("zstd");
                // Before the response to any request that was sent together with this one.
                self.tasks.begin(opened.respond(responder, wants_zstd, Some(self.outgoing.clone())));
            }
            Err(error) => self.reject(responder, error),
        }
    }

    /// Continues a session that has lost its connection on this one.
    async fn resume(
        &mut self,
        session_id: &str,
        proof: ResumeProof,
        last_event_id: i64,
        responder: Responder,
    ) {
        let sessions = self.face.sessions();
        let found = sessions.find(session_id, &self.context.caller).filter(|_| self.may_resume(session_id));
        let Some(handle) = found else {
            return self.reject(responder, unknown_session(session_id));
        };
        let is_opening = matches!(proof, ResumeProof::Key(_));
        let mut connection = self.as_session_connection();
        if self.sessions.contains_key(session_id) {
            // It would close itself.
            connection.hang_up = None;
        }
        let (message, resumed) = resume(proof, last_event_id, Some(connection), responder);
        handle.send(message).await;
        if let Ok(Some(subscription)) = resumed.await {
            self.must_resume = false;
            if is_opening {
                self.last = Some(handle.id.clone());
            }
            self.add(ConnectionSession { handle, subscription, is_resumable: true });
        }
    }

    fn add(&mut self, session: ConnectionSession) {
        if self.sessions.len() >= self.cleanup_at {
            self.sessions.retain(|_, session| !session.handle.is_over());
            self.cleanup_at = (self.sessions.len() * 2).max(CLEANUP_AT);
        }
        self.sessions.insert(session.handle.id.clone(), session);
    }

    fn reject(&self, responder: Responder, error: RpcError) {
        self.tasks.spawn(responder.reject(error));
    }

    /// Disconnects resumable sessions, and ends the others and waits for them.
    async fn end(self, is_ending: bool) {
        let Connection { sessions, tasks, outgoing, .. } = self;
        drop(outgoing);
        let mut ending = Vec::new();
        for (_, session) in sessions {
            if session.is_resumable && !is_ending {
                session.handle.send(SessionMessage::Disconnected(session.subscription)).await;
            } else {
                session.handle.send(SessionMessage::End).await;
                ending.push(session.handle);
            }
        }
        for handle in ending {
            handle.ended().await;
        }
        tasks.close();
        tasks.wait().await;
    }
}
