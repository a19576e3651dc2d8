//! HubConnection: the WebSocket of an app at a hub. It reconnects by itself, and reports that it did.

use std::collections::VecDeque;
use std::time::Duration;

use link::{Incoming, Link};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use wire::hub::v1::{self, Envelope, MessageRejected, RpcResponse, kind};

use super::api::HubClient;
use super::error::HubError;
use crate::error::{ConnectError, ConnectStep};
use crate::options::KeepAlive;

/// An id that no run has.
const NO_RUN: &str = "none";
/// The path of the WebSocket.
const APP_PATH: &str = "/ws/app";
/// Time limit for one attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for reconnecting after the connection was lost.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(55);
/// The pause after the first attempt; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Time limit for the response to a request, over all connections.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Events that are kept while a request waits for its response; the oldest is dropped, and reported as a resync.
const MAX_KEPT_EVENTS: usize = 4_096;

/// A connection to the events and commands of a hub.
#[derive(Debug)]
pub struct HubConnection {
    client: HubClient,
    link: Link,
    /// What arrived while a request waited for its response.
    kept: VecDeque<HubEvent>,
}

/// What a hub sends, or what happened to the connection.
#[derive(Debug)]
pub enum HubEvent {
    /// A message.
    Message(Box<Envelope>),
    /// Messages may be missing: subscribe again after the last one, and repeat what has no response.
    Resync,
}

impl HubConnection {
    /// Connects. Only a connection that is cut during the handshake is tried again.
    pub async fn open(client: HubClient) -> Result<HubConnection, HubError> {
        let link = match connect(&client).await {
            Err(HubError::Connect(error)) if error.is_cut() => reconnect(&client).await?,
            connected => connected?,
        };
        Ok(HubConnection { client, link, kept: VecDeque::new() })
    }

    /// The HTTP API of the same hub.
    pub fn client(&self) -> &HubClient {
        &self.client
    }

    /// Sends a message. If the connection is lost, [`HubConnection::next`] reports it.
    pub async fn send(&mut self, message: &Envelope) -> Result<(), HubError> {
        let invalid = |error: serde_json::Error| HubError::Decode {
            request: message.kind.clone(),
            problem: format!("cannot encode it: {error}"),
        };
        let text = serde_json::to_vec(message).map_err(invalid)?;
        // A closed connection is reported by the next read.
        self.link.outgoing.respond(text.into()).await.ok();
        Ok(())
    }

    /// The next message; after a lost connection, the new connection is reported. Cancel-safe.
    pub async fn next(&mut self) -> Result<HubEvent, HubError> {
        match self.kept.pop_front() {
            Some(event) => Ok(event),
            None => self.receive().await,
        }
    }

    /// Subscribes to a run: its stored events after this one, then the new ones.
    pub async fn subscribe(&mut self, run_id: &str, after_seq: i64) -> Result<(), HubError> {
        let data =
            v1::Subscribe { replace: true, include_output: Some(true), after_seq: Some(after_seq.max(0)) };
        let message = message(kind::RUN_SUBSCRIBE, Some(run_id), &data)?;
        self.send(&message).await
    }

    /// Stops output and operations of runs: only changes of their state arrive. An app that never sent this, and
    /// never subscribed, receives everything.
    pub async fn ignore_output(&mut self) -> Result<(), HubError> {
        let message = message(kind::RUN_UNSUBSCRIBE, Some(NO_RUN), &serde_json::json!({}))?;
        self.send(&message).await
    }

    /// Sends a request and waits for its response. Sent again on a new connection: hosts run a repeated request once.
    pub async fn call(
        &mut self,
        name: &str,
        run_id: Option<&str>,
        data: impl Serialize,
    ) -> Result<Value, HubError> {
        let invalid = |error: serde_json::Error| HubError::Decode {
            request: name.to_owned(),
            problem: format!("cannot encode it: {error}"),
        };
        let mut data = serde_json::to_value(data).map_err(invalid)?;
        let id = random_id()?;
        if let Some(members) = data.as_object_mut() {
            members.insert("request_id".to_owned(), Value::from(id.clone()));
            members.insert("actor".to_owned(), Value::from("cli"));
        }
        let request = message(name, run_id, &data)?;
        let is_answer = |received: &Envelope| answer(received, &id);
        self.exchange(&request, is_answer).await
    }

    /// Sends a message, again on each new connection, until `answer` accepts one of the received messages. The others
    /// are kept for [`HubConnection::next`].
    pub async fn exchange<T>(
        &mut self,
        request: &Envelope,
        mut answer: impl FnMut(&Envelope) -> Option<Result<T, HubError>>,
    ) -> Result<T, HubError> {
        let deadline = Instant::now() + RESPONSE_TIMEOUT;
        let late = || HubError::Late { request: request.kind.clone(), seconds: RESPONSE_TIMEOUT.as_secs() };
        self.send(request).await?;
        loop {
            let event = timeout_at(deadline, self.receive()).await.map_err(|_| late())??;
            match &event {
                HubEvent::Message(message) => {
                    if let Some(answer) = answer(message) {
                        return answer;
                    }
                }
                HubEvent::Resync => self.send(request).await?,
            }
            self.keep(event);
        }
    }

    fn keep(&mut self, event: HubEvent) {
        if self.kept.len() >= MAX_KEPT_EVENTS {
            self.kept.clear();
            self.kept.push_back(HubEvent::Resync);
        }
        self.kept.push_back(event);
    }

    async fn receive(&mut self) -> Result<HubEvent, HubError> {
        loop {
            let Some(received) = self.link.incoming.recv().await else {
                self.link = reconnect(&self.client).await?;
                return Ok(HubEvent::Resync);
            };
            let Incoming::Message(text) = received else { return Ok(HubEvent::Resync) };
            // A message that cannot be decoded is from a newer hub.
            let Ok(message) = serde_json::from_slice::<Envelope>(&text) else { continue };
            return Ok(match message.kind.as_str() {
                kind::APP_RESYNC => HubEvent::Resync,
                _ => HubEvent::Message(Box::new(message)),
            });
        }
    }
}

/// A message with the current time.
pub(crate) fn message(name: &str, run_id: Option<&str>, data: &impl Serialize) -> Result<Envelope, HubError> {
    let now = jiff::Timestamp::now().to_string();
    let invalid = |error: serde_json::Error| HubError::Decode {
        request: name.to_owned(),
        problem: format!("cannot encode it: {error}"),
    };
    let message = Envelope::new(name, now, data).map_err(invalid)?;
    Ok(Envelope { run_id: run_id.map(str::to_owned), ..message })
}

/// A fresh id for a request or an input.
pub(crate) fn random_id() -> Result<String, HubError> {
    crate::session::random_hex().map_err(HubError::Random)
}

/// The result of a request, if the message is its response.
fn answer(received: &Envelope, id: &str) -> Option<Result<Value, HubError>> {
    match received.kind.as_str() {
        kind::RPC_RESPONSE => {
            let response: RpcResponse =
                received.decode().ok().filter(|response: &RpcResponse| response.request_id == id)?;
            Some(match response.ok {
                true => Ok(response.result.unwrap_or_default()),
                false => Err(HubError::Rpc {
                    name: response.rpc_type,
                    message: response.error.unwrap_or_else(|| "the host gave no reason".to_owned()),
                }),
            })
        }
        kind::APP_ERROR => rejection(received, id).map(Err),
        _ => None,
    }
}

/// The error for a message with this id, if the hub rejects it with this one.
pub(crate) fn rejection(received: &Envelope, id: &str) -> Option<HubError> {
    let rejected: MessageRejected = received.decode().ok()?;
    (received.kind == kind::APP_ERROR && rejected.rejected_id.as_deref() == Some(id))
        .then_some(HubError::Rejected { code: rejected.code, message: rejected.message })
}

async fn connect(client: &HubClient) -> Result<Link, HubError> {
    let opening = async {
        let socket = client.socket(APP_PATH).await?;
        socket.map_err(|error| client.explain(error))
    };
    let late = || {
        let cause = format!("no answer within {} s", CONNECT_TIMEOUT.as_secs());
        ConnectError::new(client.url(), ConnectStep::Connect, cause).transient()
    };
    let socket = tokio::time::timeout(CONNECT_TIMEOUT, opening).await.unwrap_or_else(|_| Err(late()))?;
    let (link, _closer) = socket.json(&KeepAlive::default(), &link::Limits::default());
    Ok(link)
}

/// Tries until an attempt succeeds, a failure is permanent, or the time is up.
async fn reconnect(client: &HubClient) -> Result<Link, HubError> {
    let deadline = Instant::now() + RECONNECT_TIMEOUT;
    let mut pause = FIRST_PAUSE;
    loop {
        match connect(client).await {
            Err(error) if error.is_transient() && Instant::now() + pause < deadline => {}
            result => return result,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
