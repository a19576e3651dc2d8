//! A session of REXD in another daemon of this user, on behalf of a caller of this one.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use link::{Incoming, Receiver};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use wire::jsonrpc::{self, Id, Item, Message, RpcError};
use wire::rexd::v1::{self, Event as _, Method};

use crate::core::peers::{ForwardedCaller, Peers};

/// How long another daemon may take to respond: longer than it takes to end a process tree.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Events that arrive before a response; beyond it the connection is given up.
const MAX_EVENTS: usize = 1_024;

/// A session in another daemon; it ends when this is dropped.
pub(super) struct PeerSession {
    incoming: Receiver,
    outgoing: link::Outgoing,
    last_id: u64,
    /// Its id in the other daemon.
    pub(super) id: String,
    events: VecDeque<PeerEvent>,
}

/// An event of another daemon.
#[derive(Debug)]
pub(super) enum PeerEvent {
    Requested(Box<v1::ApprovalRequested>),
    Decided(v1::ApprovalDecided),
}

/// A line of another daemon.
enum Received {
    Response(Option<Id>, Result<Box<RawValue>, RpcError>),
    Event(PeerEvent),
    Other,
}

impl PeerSession {
    /// Opens a session, as an approver if `can_approve`.
    pub(super) async fn open(
        peers: &Peers,
        daemon: &str,
        caller: ForwardedCaller,
        can_approve: bool,
    ) -> Result<PeerSession, RpcError> {
        let link = peers.connect(daemon, caller).await.map_err(|error| unreachable(&error))?;
        let mut session = PeerSession {
            incoming: link.incoming,
            outgoing: link.outgoing,
            last_id: 0,
            id: String::new(),
            events: VecDeque::new(),
        };
        let params = v1::SessionOpen {
            client_name: Some("rexd".to_owned()),
            approvals: Some(can_approve),
            ..v1::SessionOpen::default()
        };
        session.id = session.call(&params).await?.session_id;
        Ok(session)
    }

    /// Sends a request and waits for its response. Events that arrive before it are kept.
    pub(super) async fn call<M: Method>(&mut self, params: &M) -> Result<M::Result, RpcError> {
        let exchange = self.exchange(M::NAME, params);
        let result = tokio::time::timeout(RESPONSE_TIMEOUT, exchange).await;
        decode(&result.map_err(|elapsed| unreachable(&elapsed.into()))??)
    }

    async fn exchange(
        &mut self,
        method: &str,
        params: &impl serde::Serialize,
    ) -> Result<Box<RawValue>, RpcError> {
        self.last_id += 1;
        let id = Id::from(self.last_id);
        let line =
            jsonrpc::request(self.last_id, method, params).map_err(|error| unreachable(&error.into()))?;
        let closed = || unreachable(&io::ErrorKind::ConnectionAborted.into());
        self.outgoing.respond(line.into()).await.map_err(|_closed| closed())?;
        loop {
            match self.receive().await.ok_or_else(closed)? {
                Received::Response(of, result) if of.as_ref() == Some(&id) => return result,
                Received::Event(_) if self.events.len() >= MAX_EVENTS => return Err(closed()),
                Received::Event(event) => self.events.push_back(event),
                Received::Response(..) | Received::Other => {}
            }
        }
    }

    /// The next event; `None` when the other daemon has closed the connection. Nothing is lost if this future is dropped.
    pub(super) async fn next_event(&mut self) -> Option<PeerEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        loop {
            if let Received::Event(event) = self.receive().await? {
                return Some(event);
            }
        }
    }

    async fn receive(&mut self) -> Option<Received> {
        let Incoming::Message(line) = self.incoming.recv().await? else { return Some(Received::Other) };
        Some(match jsonrpc::parse(&line) {
            Ok(Message::Single(Item::Response(response))) => {
                let result = match (response.result, response.error) {
                    (Some(result), None) => Ok(result.to_owned()),
                    (_, error) => Err(error
                        .and_then(|error| serde_json::from_str(error.get()).ok())
                        .unwrap_or_else(|| RpcError::internal("another daemon sent an invalid response"))),
                };
                Received::Response(response.id, result)
            }
            Ok(Message::Single(Item::Call(call))) => {
                let params = call.params.map_or("null", RawValue::get);
                let event = match &*call.method {
                    v1::ApprovalRequested::METHOD => {
                        serde_json::from_str(params).ok().map(|event| PeerEvent::Requested(Box::new(event)))
                    }
                    v1::ApprovalDecided::METHOD => serde_json::from_str(params).ok().map(PeerEvent::Decided),
                    _ => None,
                };
                event.map_or(Received::Other, Received::Event)
            }
            Ok(Message::Batch(_)) | Err(_) => Received::Other,
        })
    }
}

fn decode<T: DeserializeOwned>(result: &RawValue) -> Result<T, RpcError> {
    serde_json::from_str(result.get())
        .map_err(|error| RpcError::internal(format!("another daemon sent an invalid result: {error}")))
}

fn unreachable(error: &io::Error) -> RpcError {
    RpcError::internal(format!("another daemon of this user cannot be reached: {error}"))
}
