//! The WebSocket of an app: what is pending, live events, subscriptions, and the messages that it sends.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use link::listen::{HttpConnection, UpgradedStream};
use link::websocket::{self, Close, Role as SocketRole};
use link::{Closed, Incoming, Link, Outgoing, Receiver};
use tokio::time::timeout;
use wire::hub::v1::{
    AppAuth, AppReady, AppResync, Envelope, MessageRejected, RpcHeader, RpcResponse, Subscribe, kind,
};

use crate::auth::Principal;
use crate::browser;
use crate::feed::{AppMessage, AppQueue, LiveEvent};
use crate::hosts::RpcWaiter;
use crate::routing::{self, RouteError};
use crate::runs::is_usable_id;
use crate::services::{Services, addressed, message};
use crate::store::{ApprovalStatus, StoreError};
use crate::uplink::rejection;
use crate::web;

/// Stored events that are read at once for a subscription.
const READ_AT_ONCE: i64 = 200;
/// Events that wait to be written to the socket: as many as a transaction has for an app, so that one write sends them.
const EVENT_SLOTS: usize = 64;
/// Requests and prompts that a connecting app receives at once.
const PENDING_SENT: i64 = 500;
/// Runs to which one app can subscribe from a stored position; further subscriptions are rejected.
const MAX_CURSORS: usize = 4096;

/// Serves an app until its connection ends. Without a principal, its first message has to be `app.auth`.
pub(crate) async fn serve(
    services: Arc<Services>,
    principal: Option<Principal>,
    (stream, connection): (UpgradedStream, Arc<HttpConnection>),
) {
    let UpgradedStream { stream, read_already } = stream;
    let limits = services.link_limits(services.limits.app_message_bytes);
    let limits = link::Limits { event_slots: EVENT_SLOTS, ..limits };
    let (link, closer) =
        websocket::link(stream, read_already, SocketRole::Server, &services.keepalive(), &limits);
    let Link { mut incoming, outgoing, writing } = link;
    let principal = match principal {
        Some(principal) => Some(principal),
        None => {
            timeout(services.limits.handshake, first_message(&services, &mut incoming)).await.ok().flatten()
        }
    };
    let close = match principal {
        None => Close::new(Close::REVOKED, "missing/invalid token"),
        Some(principal) => {
            connection.slot.authenticate();
            let app = services.feed.connect(outgoing.clone(), principal.only_run().cloned());
            let id = app.id;
            let credential = principal.credential.clone();
            let mut session = AppSession {
                services: services.clone(),
                principal,
                outgoing,
                announced: HashSet::new(),
                cursors: HashMap::new(),
            };
            let close = tokio::select! {
                biased;
                close = services.ended(&credential) => close,
                close = session.run(app, incoming) => close,
            };
            services.hosts.forget_app(id);
            close
        }
    };
    closer.set_reason(close.clone());
    if close.code != Close::NORMAL {
        closer.close(close);
    }
    timeout(services.limits.closing, writing.finished()).await.ok();
}

/// The principal of `app.auth`.
async fn first_message(services: &Services, incoming: &mut Receiver) -> Option<Principal> {
    let Some(Incoming::Message(bytes)) = incoming.recv().await else { return None };
    let envelope = Envelope::parse(std::str::from_utf8(&bytes).ok()?).ok()?;
    let auth = envelope.decode::<AppAuth>().ok().filter(|_| envelope.kind == kind::APP_AUTH)?;
    browser::principal(services, &auth.token).await.ok()
}

/// How far an app has received the events of a run.
#[derive(Debug)]
struct RunCursor {
    seq: i64,
    host_id: String,
    with_output: bool,
}

struct AppSession {
    services: Arc<Services>,
    principal: Principal,
    outgoing: Outgoing,
    /// Events that were sent because they were pending, and may be in the queue too.
    announced: HashSet<(String, i64)>,
    cursors: HashMap<String, RunCursor>,
}

/// Why a session ends.
enum SessionEnd {
    Closed,
    Store(StoreError),
}

impl From<Closed> for SessionEnd {
    fn from(_: Closed) -> SessionEnd {
        SessionEnd::Closed
    }
}

impl From<StoreError> for SessionEnd {
    fn from(error: StoreError) -> SessionEnd {
        SessionEnd::Store(error)
    }
}

impl AppSession {
    async fn run(&mut self, app: AppQueue, incoming: Receiver) -> Close {
        match self.exchange(app, incoming).await {
            Ok(()) | Err(SessionEnd::Closed) => Close::new(Close::NORMAL, ""),
            Err(SessionEnd::Store(error)) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the connection of an app failed");
                Close::new(Close::TRY_AGAIN, "the hub cannot access its database; connect again")
            }
        }
    }

    async fn exchange(&mut self, mut app: AppQueue, mut incoming: Receiver) -> Result<(), SessionEnd> {
        let ready = AppReady {
            user: self.principal.name.to_string(),
            role: self.principal.role.word().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            bundle_version: Some(web::version().to_owned()),
        };
        self.outgoing.event(message(kind::APP_READY, &ready)).await?;
        self.send_pending().await?;
        loop {
            tokio::select! {
                biased;
                received = incoming.recv() => match received {
                    Some(Incoming::Message(bytes)) => self.handle(&app, &bytes).await?,
                    Some(Incoming::TooLong { bytes }) => {
                        let limit = self.services.limits.app_message_bytes;
                        let text = format!("message too large: {bytes} bytes (limit {limit})");
                        self.reject(&rejection("too_large", text, None)).await?;
                    }
                    None => return Ok(()),
                },
                (queued, dropped) = app.next() => {
                    if dropped > 0 || matches!(queued, AppMessage::Resync) {
                        self.resync(dropped).await?;
                    }
                    match queued {
                        AppMessage::Event(event) => self.send_event(event).await?,
                        AppMessage::Frame(frame) => self.outgoing.event(frame).await?,
                        AppMessage::Resync => {}
                    }
                }
            }
        }
    }

    /// Sends the requests and prompts that wait for a person.
    async fn send_pending(&mut self) -> Result<(), SessionEnd> {
        let store = &self.services.store;
        let requests = store.approvals(ApprovalStatus::Pending, None, PENDING_SENT).await?;
        let mut pending: Vec<(String, String, i64)> =
            requests.into_iter().map(|request| (request.run_id, request.host_id, request.seq)).collect();
        for run in store.waiting_runs(PENDING_SENT).await? {
            if let Some(prompt) = run.pending.filter(|prompt| prompt.request_id.is_none()) {
                pending.push((run.id, run.host_id, prompt.seq));
            }
        }
        if let Some(only) = self.principal.only_run() {
            pending.retain(|(run, ..)| **run == **only);
        }
        for (run, host, seq) in pending {
            for event in self.services.store.events_after(&run, (seq - 1, seq), 1).await? {
                self.outgoing.event(event.frame(&host, &run)).await?;
            }
            self.announced.insert((run, seq));
        }
        Ok(())
    }

    /// Informs the app that messages were dropped, and sends what is missing in its subscriptions from a stored position.
    async fn resync(&mut self, dropped: u64) -> Result<(), SessionEnd> {
        self.outgoing.event(message(kind::APP_RESYNC, &AppResync { dropped })).await?;
        let runs: Vec<&str> = self.cursors.keys().map(String::as_str).collect();
        for (run, last_seq) in self.services.store.positions(&runs, None).await? {
            self.catch_up(&run, last_seq).await?;
        }
        Ok(())
    }

    /// Sends a live event, and before it the stored ones that the app has not received yet.
    async fn send_event(&mut self, event: LiveEvent) -> Result<(), SessionEnd> {
        let was_announced =
            !self.announced.is_empty() && self.announced.remove(&(event.run_id.to_string(), event.seq));
        if was_announced && !self.cursors.contains_key(&*event.run_id) {
            return Ok(());
        }
        if let Some(cursor) = self.cursors.get(&*event.run_id) {
            if event.seq <= cursor.seq {
                return Ok(());
            }
            // Without output, the numbers of the others have gaps.
            if cursor.with_output && event.seq > cursor.seq + 1 {
                self.catch_up(&event.run_id, event.seq - 1).await?;
            }
            if let Some(cursor) = self.cursors.get_mut(&*event.run_id) {
                cursor.seq = event.seq;
            }
        }
        Ok(self.outgoing.event(event.frame).await?)
    }

    /// Sends stored events of a run from its cursor on.
    async fn catch_up(&mut self, run: &str, to: i64) -> Result<(), SessionEnd> {
        while let Some(cursor) = self.cursors.get_mut(run) {
            let events = self.services.store.events_after(run, (cursor.seq, to), READ_AT_ONCE).await?;
            let Some(last) = events.last() else { break };
            cursor.seq = last.seq;
            for event in &events {
                if cursor.with_output || event.kind != kind::RUN_OUTPUT {
                    self.outgoing.event(event.frame(&cursor.host_id, run)).await?;
                }
            }
        }
        Ok(())
    }

    async fn handle(&mut self, app: &AppQueue, bytes: &Bytes) -> Result<(), SessionEnd> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string());
        let envelope = match text.and_then(|text| Envelope::parse(text).map_err(|error| error.to_string())) {
            Ok(envelope) => envelope,
            Err(error) => {
                return self.reject(&rejection("bad_message", format!("not a message: {error}"), None)).await;
            }
        };
        if !routing::is_within_share(&self.principal, &envelope) {
            return self.report(&envelope, &RouteError::OutsideShare).await;
        }
        let handled = match envelope.kind.as_str() {
            kind::APP_PING => {
                return Ok(self.outgoing.respond(message(kind::APP_PONG, &serde_json::json!({}))).await?);
            }
            kind::RUN_SUBSCRIBE => self.subscribe(app, &envelope).await?,
            kind::RUN_UNSUBSCRIBE => {
                if let Some(run) = &envelope.run_id {
                    self.services.feed.unsubscribe(app.id, run);
                    self.cursors.remove(run);
                }
                Ok(())
            }
            // Repeated by a client that also sent the token elsewhere.
            kind::APP_AUTH => Ok(()),
            _ => {
                let waiter = Some(RpcWaiter::App(app.id));
                routing::forward(&self.services, &self.principal, &envelope, waiter).await
            }
        };
        match handled {
            Ok(()) => Ok(()),
            Err(error) => self.report(&envelope, &error).await,
        }
    }

    async fn subscribe(
        &mut self,
        app: &AppQueue,
        envelope: &Envelope,
    ) -> Result<Result<(), RouteError>, SessionEnd> {
        let Some(run) = envelope.run_id.as_deref().filter(|run| is_usable_id(run)) else {
            return Ok(Err(RouteError::UnknownRun));
        };
        let Ok(wanted) = envelope.decode::<Subscribe>() else {
            return Ok(Err(RouteError::Invalid("the data of run.subscribe is invalid".to_owned())));
        };
        let with_output = wanted.include_output.unwrap_or(true);
        // Before the stored events are read, so that none between them and the live ones is missed.
        self.services.feed.subscribe(app.id, run, with_output, wanted.replace);
        if wanted.replace {
            self.cursors.clear();
        }
        self.cursors.remove(run);
        let Some(after) = wanted.after_seq else { return Ok(Ok(())) };
        let Some(stored) = self.services.store.run(run).await? else {
            return Ok(Err(RouteError::UnknownRun));
        };
        if self.cursors.len() >= MAX_CURSORS {
            return Ok(Err(RouteError::Invalid(format!("too many subscriptions (limit {MAX_CURSORS})"))));
        }
        let cursor = RunCursor { seq: after.max(0), host_id: stored.host_id, with_output };
        self.cursors.insert(run.to_owned(), cursor);
        self.catch_up(run, stored.last_seq).await?;
        Ok(Ok(()))
    }

    /// Answers a message that was not delivered.
    async fn report(&self, envelope: &Envelope, error: &RouteError) -> Result<(), SessionEnd> {
        if let RouteError::Store(error) = error {
            tracing::error!(error = error as &dyn std::error::Error, "a message of an app failed");
        }
        let request = envelope.decode::<RpcHeader>().unwrap_or_default();
        if envelope.kind.starts_with("rpc.") && envelope.kind != kind::RPC_RESPONSE {
            let response = RpcResponse {
                request_id: request.request_id,
                ok: false,
                rpc_type: envelope.kind.clone(),
                result: None,
                error: Some(error.to_string()),
            };
            let frame = addressed(kind::RPC_RESPONSE, &response, None, envelope.run_id.as_deref());
            return Ok(self.outgoing.respond(frame).await?);
        }
        let id = envelope.decode::<RejectedId>().ok().and_then(|ids| ids.request_id.or(ids.input_id));
        let rejected = MessageRejected {
            rejected_id: id,
            ..rejection(error.code(), error.to_string(), Some(envelope.kind.clone()))
        };
        let frame = addressed(kind::APP_ERROR, &rejected, None, envelope.run_id.as_deref());
        Ok(self.outgoing.respond(frame).await?)
    }

    async fn reject(&self, rejected: &MessageRejected) -> Result<(), SessionEnd> {
        Ok(self.outgoing.respond(message(kind::APP_ERROR, rejected)).await?)
    }
}

/// The ids by which a client finds its message again.
#[derive(serde::Deserialize)]
struct RejectedId {
    request_id: Option<String>,
    input_id: Option<String>,
}
