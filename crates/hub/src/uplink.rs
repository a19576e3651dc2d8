//! The WebSocket of a host: enrolment, its first message, events and acknowledgements, responses.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::HeaderMap;
use link::listen::{HttpConnection, UpgradedStream};
use link::websocket::{self, Close, Role as SocketRole};
use link::{Incoming, Link, Outgoing, Receiver};
use tokio::time::timeout;
use wire::hub::v1::{
    Envelope, HostHello, HostPresence, HubReady, MessageRejected, RpcResponse, RunAck, kind,
};

use crate::api::{self, PlainError};
use crate::auth::{Credential, TokenDigest, now, now_ms};
use crate::collect::CollectedEvents;
use crate::ingest::NotStored;
use crate::routing;
use crate::runs::{HostEvent, is_usable_id};
use crate::services::{Services, addressed, message, timestamp};
use crate::store::{ApprovalStatus, AuditEntry, EventBatch, HostClaim, HostLease, RejectedEvent, StoreError};
use crate::wakeups::Topic;

/// Runs of one `host.hello`; further ones are ignored, and their events are acknowledged when they arrive.
const RUNS_PER_HELLO: usize = 10_000;
/// Decisions that are sent again when a host connects.
const REPEATED_DECISIONS: i64 = 1_000;
/// The close code for a connection that a newer one of the same host replaces.
const REPLACED: u16 = wire::exec_server::relay::REPLACED;

/// What a host presents.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct HostQuery {
    pub(crate) host_id: Option<String>,
    pub(crate) host_token: Option<String>,
}

/// Authenticates a host, and enrols a new one if it may. Returns its id.
pub(crate) async fn authenticate(
    services: &Services,
    query: HostQuery,
    headers: &HeaderMap,
) -> Result<String, PlainError> {
    let header =
        crate::auth::bearer(headers).map_err(|_| PlainError::unauthorized("invalid host_id/host_token"))?;
    let token = header.map(str::to_owned).or(query.host_token);
    let (Some(id), Some(token)) = (query.host_id, token) else {
        return Err(PlainError::unauthorized("missing host_id/host_token query params"));
    };
    let (id, token) = (id.trim(), token.trim());
    if !is_usable_id(id) || token.is_empty() {
        return Err(PlainError::unauthorized("invalid host_id/host_token"));
    }
    let code = headers.get("rexhub-join-code").and_then(|code| code.to_str().ok());
    let code = code.map(|code| TokenDigest::of(&normal_code(code)));
    let may_enrol = services.enrolment == crate::config::Enrolment::Tofu;
    match services.store.claim_host(id, TokenDigest::of(token), (may_enrol, code), now()).await? {
        HostClaim::Known => {}
        HostClaim::Enrolled => {
            tracing::info!(host = id, "host enrolled");
            services.audit(AuditEntry::new(format!("host:{id}"), "host.enrol", id)).await;
        }
        HostClaim::WrongToken => return Err(PlainError::unauthorized("invalid host_id/host_token")),
        HostClaim::NotEnrolled => {
            return Err(PlainError::unauthorized(
                "unknown host_id: enrol it with a code of `rexhub join-code` (`rexd host --join CODE`)",
            ));
        }
    }
    Ok(id.to_owned())
}

/// A join code as it is stored: case and separators do not matter.
pub(crate) fn normal_code(code: &str) -> String {
    code.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_uppercase()
}

/// Serves a host until its connection ends.
pub(crate) async fn serve(
    services: Arc<Services>,
    host: String,
    (stream, _connection): (UpgradedStream, Arc<HttpConnection>),
) {
    let UpgradedStream { stream, read_already } = stream;
    let limits = services.link_limits(services.limits.host_message_bytes);
    let (link, closer) =
        websocket::link(stream, read_already, SocketRole::Server, &services.keepalive(), &limits);
    let Link { incoming, outgoing, writing } = link;
    let lease = HostLease {
        node: &services.wakeups.node,
        lease_ms: now_ms() + lease_ms(&services),
        now_ms: now_ms(),
    };
    let connected = match services.store.connect_host(&host, &lease).await {
        Ok(generation) => generation,
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "connecting a host failed");
            closer.close(Close::new(Close::TRY_AGAIN, "the hub cannot access its database"));
            drop((incoming, outgoing));
            timeout(services.limits.closing, writing.finished()).await.ok();
            return;
        }
    };
    let replaced =
        connected.and_then(|number| Some((number, services.hosts.connect(&host, number, outgoing.clone())?)));
    let Some((generation, replaced)) = replaced else {
        closer.close(Close::new(REPLACED, "a newer connection of this host exists"));
        drop((incoming, outgoing));
        timeout(services.limits.closing, writing.finished()).await.ok();
        return;
    };
    tracing::info!(host, generation, "host connected");
    let mut session = HostSession {
        services: services.clone(),
        host: host.clone(),
        generation,
        outgoing,
        is_greeted: false,
    };
    let credential = Credential::Host(host.clone());
    let close = tokio::select! {
        biased;
        () = replaced.cancelled() => Close::new(REPLACED, "a newer connection of this host exists"),
        close = services.ended(&credential) => close,
        close = session.run(incoming) => close,
    };
    session.end(&close).await;
    closer.set_reason(close.clone());
    if close.code != Close::NORMAL {
        closer.close(close);
    }
    drop(session);
    timeout(services.limits.closing, writing.finished()).await.ok();
}

/// The length of a lease in milliseconds.
pub(crate) fn lease_ms(services: &Services) -> i64 {
    i64::try_from(services.limits.lease.as_millis()).unwrap_or(i64::MAX)
}

struct HostSession {
    services: Arc<Services>,
    host: String,
    generation: i64,
    outgoing: Outgoing,
    /// Whether the host's first message was handled.
    is_greeted: bool,
}

impl HostSession {
    /// Handles messages until the connection ends.
    async fn run(&mut self, mut incoming: Receiver) -> Close {
        self.announce(kind::HOST_ONLINE, &HostPresence::default());
        loop {
            let Some(first) = incoming.recv().await else { return Close::new(Close::NORMAL, "") };
            let (mut next, mut batch) = (Some(first), self.services.ingest.batch());
            while let Some(received) = next.take() {
                match self.sort(received) {
                    Sorted::Event(event, message) => batch.push(*event, message),
                    Sorted::Other(envelope) => {
                        if let Err(NotStored) = self.store(&mut batch).await {
                            return unavailable();
                        }
                        if let Err(error) = self.handle(*envelope).await {
                            tracing::error!(
                                error = &error as &dyn std::error::Error,
                                "a message of a host failed"
                            );
                            return unavailable();
                        }
                    }
                    Sorted::Rejected(rejected, run) => self.reject(&rejected, run.as_deref()).await,
                }
                if batch.has_room() {
                    // What has arrived already is stored in the same transaction.
                    next = incoming.recv().now_or_never().flatten();
                }
            }
            if let Err(NotStored) = self.store(&mut batch).await {
                return unavailable();
            }
        }
    }

    fn sort(&self, received: Incoming) -> Sorted {
        let bytes = match received {
            Incoming::Message(bytes) => bytes,
            Incoming::TooLong { bytes } => {
                let limit = self.services.limits.host_message_bytes;
                let text = format!("message too large: {bytes} bytes (limit {limit})");
                return Sorted::Rejected(rejection("too_large", text, None), None);
            }
        };
        let parsed = std::str::from_utf8(&bytes).map_err(|error| error.to_string());
        let parsed = parsed.and_then(|text| Envelope::parse(text).map_err(|error| error.to_string()));
        let envelope = match parsed {
            Ok(envelope) => envelope,
            Err(error) => {
                let rejected = rejection("bad_message", format!("not a message: {error}"), None);
                return Sorted::Rejected(rejected, None);
            }
        };
        let is_event =
            !matches!(envelope.kind.as_str(), kind::RPC_RESPONSE | kind::HOST_HELLO | kind::HOST_HEARTBEAT);
        if !is_event {
            return Sorted::Other(Box::new(envelope));
        }
        let (kind, run) = (envelope.kind.clone(), envelope.run_id.clone());
        match HostEvent::parse_at(envelope, &self.host, timestamp) {
            Ok(event) => Sorted::Event(Box::new(event), bytes),
            Err(error) => Sorted::Rejected(rejection(error.code(), error.to_string(), Some(kind)), run),
        }
    }

    async fn handle(&mut self, envelope: Envelope) -> Result<(), StoreError> {
        match envelope.kind.as_str() {
            kind::HOST_HELLO => match envelope.decode::<HostHello>() {
                Ok(hello) => self.greet(hello).await?,
                Err(error) => {
                    let rejected = rejection("bad_message", error.to_string(), Some(envelope.kind.clone()));
                    self.reject(&rejected, None).await;
                }
            },
            kind::RPC_RESPONSE => self.respond(envelope).await,
            // A heartbeat; the socket being read is what counts.
            _ => {}
        }
        self.first_message().await
    }

    /// A host without `host.hello` also receives the decisions and requests that it may have missed.
    async fn first_message(&mut self) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.is_greeted, true) {
            return Ok(());
        }
        let sent =
            self.services.store.approvals(ApprovalStatus::Sent, Some(&self.host), REPEATED_DECISIONS).await?;
        for command in sent.into_iter().filter_map(|approval| approval.command) {
            self.outgoing.respond(command.into()).await.ok();
        }
        let (frames, failed) = self.services.hosts.take_over(&self.host, self.generation);
        routing::fail(&self.services, failed);
        for frame in frames {
            self.outgoing.respond(frame).await.ok();
        }
        Ok(())
    }

    async fn greet(&mut self, hello: HostHello) -> Result<(), StoreError> {
        let (name, version) = (crate::runs::clean(&hello.name), crate::runs::clean(&hello.version));
        self.services.store.describe_host(&self.host, &name, &version).await?;
        let held = hello.runs.into_iter().map(|held| held.run_id).filter(|run| is_usable_id(run));
        let held: Vec<String> = held.take(RUNS_PER_HELLO).collect();
        let ids: Vec<&str> = held.iter().map(String::as_str).collect();
        let stored = self.services.store.positions(&ids, Some(&self.host)).await?;
        for run in held {
            let last_seq = stored.get(&run).copied().unwrap_or(0);
            self.acknowledge(run, last_seq).await;
        }
        let ready = HubReady { version: env!("CARGO_PKG_VERSION").to_owned(), generation: self.generation };
        self.outgoing.respond(message(kind::HUB_READY, &ready)).await.ok();
        let is_older = Some(api::is_older(Some(&version)));
        let presence = HostPresence { name: Some(name), version: Some(version), is_older };
        self.announce(kind::HOST_ONLINE, &presence);
        Ok(())
    }

    /// Delivers a response to the clients that asked.
    async fn respond(&self, envelope: Envelope) {
        let Ok(response) = envelope.decode::<RpcResponse>() else {
            let text = "rpc.response needs request_id, ok and rpc_type".to_owned();
            return self.reject(&rejection("bad_message", text, Some(envelope.kind)), None).await;
        };
        let envelope =
            Envelope { host_id: Some(self.host.clone()), ts: Some(timestamp()), seq: None, ..envelope };
        let Ok(frame) = serde_json::to_vec(&envelope).map(Bytes::from) else { return };
        for waiter in self.services.hosts.waiters(&self.host, &response.request_id) {
            self.services.deliver(waiter, &frame);
        }
    }

    /// Stores events, and then acknowledges them.
    async fn store(&mut self, collected: &mut CollectedEvents) -> Result<(), NotStored> {
        if collected.events.is_empty() {
            return Ok(());
        }
        let events = std::mem::take(&mut collected.events);
        let batch = EventBatch { host_id: self.host.clone(), events };
        let written = self.services.ingest.store(batch).await?;
        *collected = self.services.ingest.batch();
        for RejectedEvent { run_id, kind, error } in written.rejected {
            self.reject(&rejection(error.code(), error.to_string(), Some(kind)), Some(&run_id)).await;
        }
        for run in written.runs.into_iter().filter(|run| run.last_seq > 0) {
            self.acknowledge(run.run_id, run.last_seq).await;
        }
        self.first_message().await.map_err(|_| NotStored)
    }

    async fn acknowledge(&self, run_id: String, last_seq: i64) {
        // If the connection has ended, reading ends too.
        self.outgoing.respond(message(kind::RUN_ACK, &RunAck { run_id, last_seq })).await.ok();
    }

    /// Rejects a message. With its run, so that the host stops sending one that belongs to another host.
    async fn reject(&self, rejected: &MessageRejected, run: Option<&str>) {
        tracing::debug!(host = self.host, code = rejected.code, "rejected a message of a host");
        self.outgoing.respond(addressed(kind::HUB_ERROR, rejected, None, run)).await.ok();
    }

    /// Tells apps that the host has connected or disconnected.
    fn announce(&self, kind: &str, presence: &HostPresence) {
        self.services.feed.publish_frame(&addressed(kind, presence, Some(&self.host), None));
        self.services.wakeups.publish(Topic::Host(self.host.as_str().into()));
    }

    /// Ends the connection: the host is offline unless a newer connection has replaced this one.
    async fn end(&self, close: &Close) {
        tracing::info!(
            host = self.host,
            generation = self.generation,
            reason = close.reason,
            "host disconnected"
        );
        let Some(failed) = self.services.hosts.disconnect(&self.host, self.generation) else { return };
        routing::fail(&self.services, failed);
        match self.services.store.disconnect_host(&self.host, self.generation, now_ms()).await {
            // A newer connection to another node, which does not know these requests.
            Ok(false) => {
                let elsewhere = self.services.hosts.abandon_host(&self.host);
                return routing::fail(&self.services, elsewhere);
            }
            Ok(true) => {}
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "disconnecting a host failed")
            }
        }
        self.announce(kind::HOST_OFFLINE, &HostPresence::default());
    }
}

/// A received message by what happens to it.
enum Sorted {
    /// With the message that it was.
    Event(Box<HostEvent>, Bytes),
    Other(Box<Envelope>),
    /// With the run that it names.
    Rejected(MessageRejected, Option<String>),
}

pub(crate) fn rejection(code: &str, message: String, rejected_type: Option<String>) -> MessageRejected {
    MessageRejected { code: code.to_owned(), message, rejected_type, rejected_id: None }
}

fn unavailable() -> Close {
    Close::new(Close::TRY_AGAIN, "the hub cannot store events at the moment; connect again")
}
