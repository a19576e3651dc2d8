//! One connection to a hub: the greeting, then events one way and commands the other, until it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use link::task::Tasks;
use link::{Incoming, Link, Outgoing, Receiver};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, interval_at, timeout_at};
use wire::hub::v1::{
    Envelope, HostHello, HubReady, MessageRejected, RpcHeader, RpcResponse, RunAck, RunStartResult, kind, rpc,
};

use super::calls::{Answer, HostRequest, begin, call, result_of};
use super::run::now;
use super::sender::Sender;
use super::uplink::HubUrl;
use super::{Host, HostIdentity};
use crate::core::request::ConnectionContext;
use crate::core::session::Face as _;
use crate::net::auth::{Caller, Scopes};
use crate::observe::metrics::Transport;

/// How long a hub that does not answer the greeting is waited for: it is one that knows no greeting.
const READY_TIMEOUT: Duration = Duration::from_secs(3);
/// The time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Requests of one hub that run at the same time; one more is refused.
const MAX_REQUESTS: usize = 256;

/// Serves a connection until it ends.
pub(super) async fn serve(host: &Arc<Host>, hub: &HubUrl, link: Link) {
    let Link { mut incoming, outgoing, writing } = link;
    let connection = Connection {
        host: host.clone(),
        hub: hub.clone(),
        sender: Sender::new(host.clone(), hub.key(), outgoing.clone()),
        outgoing,
        requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
        tasks: host.core().tasks.clone(),
    };
    if connection.greet(&mut incoming).await {
        super::gated::resume_after_greeting(host).await;
        connection.host.runs.end_dead().await;
        let connected = connection.host.questions.connected.clone();
        connected.fetch_add(1, Ordering::Relaxed);
        let exchange = async {
            tokio::select! {
                () = connection.receive(&mut incoming) => {}
                () = connection.sender.run() => {}
                () = connection.beat() => {}
            }
            connection.sender.close();
        };
        tokio::join!(exchange, connection.sender.store_acknowledgements());
        connected.fetch_sub(1, Ordering::Relaxed);
    }
    drop(connection);
    // What is still queued has no reader; requests that run are completed, and their answers are remembered.
    writing.abort();
}

struct Connection {
    host: Arc<Host>,
    hub: HubUrl,
    sender: Sender,
    outgoing: Outgoing,
    requests: Arc<Semaphore>,
    /// The requests that run; they outlive the connection.
    tasks: Tasks,
}

impl Connection {
    /// Sends the greeting, and waits until the hub has said which events it has. False if the connection has ended.
    async fn greet(&self, incoming: &mut Receiver) -> bool {
        let hello = HostHello {
            name: host_name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            runs: self.host.runs.held_for(self.hub.key(), &self.host.gated.runs_after_greeting()),
        };
        if !self.send(kind::HOST_HELLO, &hello).await || !self.send(kind::HOST_HEARTBEAT, &NoData {}).await {
            return false;
        }
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            match timeout_at(deadline, incoming.recv()).await {
                Ok(Some(message)) => {
                    let Some(envelope) = self.parse(message) else { continue };
                    match envelope.kind.as_str() {
                        kind::HUB_READY => {
                            let ready: Option<HubReady> = envelope.decode().ok();
                            let version = ready.map(|ready| ready.version);
                            tracing::info!(hub = %self.hub, ?version, "the hub is ready");
                            return true;
                        }
                        kind::RUN_ACK => {
                            if let Some(ack) = self.acknowledgement(&envelope) {
                                self.sender.greeted(&ack.run_id, ack.last_seq).await;
                            }
                        }
                        _ => self.handle(envelope).await,
                    }
                }
                Ok(None) => return false,
                Err(_late) => return true,
            }
        }
    }

    async fn receive(&self, incoming: &mut Receiver) {
        while let Some(message) = incoming.recv().await {
            if let Some(envelope) = self.parse(message) {
                self.handle(envelope).await;
            }
        }
    }

    async fn beat(&self) {
        let mut due = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        loop {
            due.tick().await;
            if !self.send(kind::HOST_HEARTBEAT, &NoData {}).await {
                return;
            }
        }
    }

    /// A message of the hub; one that cannot be parsed is logged and ignored.
    fn parse(&self, message: Incoming) -> Option<Envelope> {
        match message {
            Incoming::Message(text) => match serde_json::from_slice(&text) {
                Ok(envelope) => Some(envelope),
                Err(error) => {
                    tracing::warn!(hub = %self.hub, %error, "ignored a message that is no envelope");
                    None
                }
            },
            Incoming::TooLong { bytes } => {
                tracing::warn!(hub = %self.hub, bytes, "ignored a message that is too large");
                None
            }
        }
    }

    async fn handle(&self, envelope: Envelope) {
        match envelope.kind.as_str() {
            kind::RUN_ACK => {
                if let Some(ack) = self.acknowledgement(&envelope) {
                    self.sender.acknowledged(&ack.run_id, ack.last_seq);
                }
            }
            kind::HUB_READY => {}
            kind::HUB_ERROR => self.rejected(&envelope),
            name if name.starts_with("rpc.") && name != kind::RPC_RESPONSE => self.request(envelope).await,
            kind::RUN_SEND_INPUT
            | kind::RUN_SEND_STDIN
            | kind::RUN_RESIZE
            | kind::RUN_STOP
            | kind::RUN_PERMISSION_APPROVE
            | kind::RUN_PERMISSION_DENY => self.command(envelope).await,
            // Messages of later versions.
            _ => {}
        }
    }

    fn acknowledgement(&self, envelope: &Envelope) -> Option<RunAck> {
        let ack = envelope.decode::<RunAck>();
        ack.inspect_err(|error| tracing::warn!(hub = %self.hub, %error, "ignored an invalid acknowledgement"))
            .ok()
    }

    /// An event that is never acknowledged would hold up those of all runs: its run is not sent before the next connection.
    fn rejected(&self, envelope: &Envelope) {
        let rejected: Option<MessageRejected> = envelope.decode().ok();
        let (code, message) = rejected.map(|rejected| (rejected.code, rejected.message)).unwrap_or_default();
        tracing::error!(hub = %self.hub, code, run = envelope.run_id, "the hub rejected a message: {message}");
        match &envelope.run_id {
            Some(run) => self.sender.reject(run),
            None if code == "too_large" => self.sender.reject_largest(),
            None => {}
        }
    }

    /// A command, which has no response. Given to its session here, so that inputs keep their order.
    async fn command(&self, envelope: Envelope) {
        let (name, hub) = (envelope.kind.clone(), self.hub.clone());
        match begin(&self.host, self.to_request(envelope)).await {
            Ok(waiting) => self.tasks.spawn(async move {
                if let Err(error) = waiting.answer().await {
                    tracing::warn!(%hub, "{name} failed: {}", error.message);
                }
            }),
            Err(error) => tracing::warn!(%hub, "{name} failed: {}", error.message),
        }
    }

    /// A request, which runs beside others and is answered.
    async fn request(&self, envelope: Envelope) {
        let header: RpcHeader = envelope.decode().unwrap_or_default();
        let (rpc_type, run_id) = (envelope.kind.clone(), envelope.run_id.clone());
        let response = move |answer: &Answer| response(&rpc_type, run_id.clone(), &header.request_id, answer);
        let Ok(permit) = self.requests.clone().try_acquire_owned() else {
            let busy = Err(wire::jsonrpc::RpcError::invalid_request("too many requests at the same time"));
            return self.respond(response(&busy)).await;
        };
        let (host, request, outgoing) = (self.host.clone(), self.to_request(envelope), self.outgoing.clone());
        self.tasks.spawn(async move {
            let answer = call(&host, request).await;
            drop(permit);
            if let Some(message) = response(&answer) {
                // A lost connection loses the response; the client repeats the request on the next one.
                outgoing.respond(message).await.ok();
            }
        });
    }

    fn to_request(&self, envelope: Envelope) -> HostRequest {
        let header: RpcHeader = envelope.decode().unwrap_or_default();
        // The hub has checked the role of its user, and forwards only what this role may do.
        let caller = Caller::of_hub(header.user.as_deref(), Scopes::DEFAULT);
        let data = envelope.data.map_or_else(
            || Bytes::from_static(b"{}"),
            |data| Bytes::from(String::from(Box::<str>::from(data))),
        );
        HostRequest {
            kind: envelope.kind,
            run_id: envelope.run_id,
            data,
            context: ConnectionContext::new(caller, Transport::Ws),
        }
    }

    async fn respond(&self, message: Option<Bytes>) {
        if let Some(message) = message {
            // A closed connection is noticed where it is read.
            self.outgoing.respond(message).await.ok();
        }
    }

    /// Sends a message; false if the connection has ended.
    async fn send(&self, kind: &str, data: &impl Serialize) -> bool {
        let message = Envelope::new(kind, now(), data).ok();
        let message = message.and_then(|envelope| encode(&self.host.settings.identity, envelope));
        match message {
            Some(message) => self.outgoing.respond(message).await.is_ok(),
            None => true,
        }
    }
}

/// Data without members.
#[derive(Serialize)]
struct NoData {}

/// A message of this host, encoded.
pub(super) fn encode(identity: &HostIdentity, envelope: Envelope) -> Option<Bytes> {
    let envelope = Envelope { host_id: Some(identity.id.clone()), ..envelope };
    serde_json::to_vec(&envelope).ok().map(Bytes::from)
}

/// The response to a request. The run of a start is in the envelope too.
fn response(rpc_type: &str, run_id: Option<String>, request_id: &str, answer: &Answer) -> Option<Bytes> {
    let started = |result: &serde_json::value::RawValue| {
        let started: RunStartResult = serde_json::from_str(result.get()).ok()?;
        Some(started.run_id)
    };
    let run_id = match answer {
        Ok(result) if rpc_type == rpc::RUN_START => started(result),
        _ => run_id,
    };
    let response = RpcResponse {
        request_id: request_id.to_owned(),
        ok: answer.is_ok(),
        rpc_type: rpc_type.to_owned(),
        result: result_of(answer),
        error: answer.as_ref().err().map(|error| error.message.clone()),
    };
    let envelope = Envelope::new(kind::RPC_RESPONSE, now(), &response).ok()?;
    serde_json::to_vec(&Envelope { run_id, ..envelope }).ok().map(Bytes::from)
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
