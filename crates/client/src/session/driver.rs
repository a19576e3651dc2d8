//! The task that owns a session's link: it sends the requests of handles and dispatches received messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use link::Incoming;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use wire::jsonrpc::{self, Item, Message, Response, RpcError, code};
use wire::rexd::v1::{Cancel, Method as _, SessionAck, SessionClose, SessionOpenResult, codes};

use super::ConnectionState;
use super::handshake::rpc_error;
use super::message::{ClientMessage, ClientRequest, NewRoute, Received};
use super::opening::has_capability;
use super::routes::EventRoutes;
use crate::acknowledge::Acknowledgements;
use crate::connection::{CloseRequest, DriverEndpoint, EndpointEvent, Inbox, LinkEnd, Readiness};
use crate::dial::{Carrier, TargetLink};
use crate::error::Error;
use crate::options::SessionOptions;
use crate::target::Target;

/// The capability of servers on which requests can name a session that is being opened.
pub(super) const LAST_SESSION_CAPABILITY: &str = "session.last";
/// The pause before a request is sent again that the server is still executing.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// What the driver publishes to the handles of its session.
pub(super) struct Publications {
    pub(super) opened: watch::Sender<Arc<SessionOpenResult>>,
    pub(super) connection: watch::Sender<ConnectionState>,
}

/// A request that was sent together with the one that opened the session.
pub(super) struct EarlyRequest {
    /// With the id of the session, as it is sent again.
    pub(super) request: ClientRequest,
    /// Whether it was sent on another connection, which was lost.
    pub(super) was_lost: bool,
}

pub(super) struct SessionDriver {
    pub(super) endpoint: DriverEndpoint<ClientMessage>,
    pub(super) carrier: Carrier,
    pub(super) target: Arc<Target>,
    pub(super) options: SessionOptions,
    pub(super) opened: watch::Sender<Arc<SessionOpenResult>>,
    pub(super) connection: watch::Sender<ConnectionState>,
    pub(super) pending: BTreeMap<u64, ClientRequest>,
    pub(super) routes: EventRoutes,
    /// Replayed requests whose first execution had not ended, and when to send them again.
    pub(super) retries: VecDeque<(Instant, ClientRequest)>,
    pub(super) acknowledgements: Acknowledgements,
    /// The request that named the session before the server had announced that it can be named so: if the server refuses it,
    /// it is sent again with the session's id.
    unannounced_start: Option<u64>,
    next_id: Arc<AtomicU64>,
}

impl SessionDriver {
    pub(super) fn new(
        link: TargetLink,
        (target, options): (Arc<Target>, SessionOptions),
        (inbox, Publications { opened, connection: state }): (Inbox<ClientMessage>, Publications),
        (next_id, drained): (Arc<AtomicU64>, Arc<Notify>),
    ) -> Box<SessionDriver> {
        let (connection, carrier) = link.into_connection();
        let acknowledgements = Acknowledgements::new(can_acknowledge(&opened.borrow()));
        Box::new(SessionDriver {
            endpoint: DriverEndpoint::new(connection, inbox, drained),
            carrier,
            target,
            opened,
            connection: state,
            pending: BTreeMap::new(),
            routes: EventRoutes::new(options.output),
            options,
            retries: VecDeque::new(),
            acknowledgements,
            unannounced_start: None,
            next_id,
        })
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs until the session is closed or lost. `messages` arrived together with the response that opened the session.
    pub(super) async fn run(mut self: Box<Self>, early: Option<EarlyRequest>, messages: Vec<Bytes>) {
        if let Some(early) = early {
            self.take_over(early);
        }
        for message in messages {
            self.dispatch(message);
        }
        loop {
            let end = match self.serve_link().await {
                LinkEnd::Disconnected => Box::pin(self.recover()).await,
                closed @ LinkEnd::Closed(_) => Ok(Some(closed)),
            };
            match end {
                Ok(None | Some(LinkEnd::Disconnected)) => {}
                Ok(Some(LinkEnd::Closed(request))) => return self.close(request).await,
                Err(error) => return self.fail(&error).await,
            }
        }
    }

    /// Takes over a request that was sent together with the one that opened the session.
    fn take_over(&mut self, EarlyRequest { request, was_lost }: EarlyRequest) {
        let lost = self.opened.borrow().lost.unwrap_or(0);
        self.routes.report_loss(lost, true);
        if was_lost {
            return self.send(request);
        }
        if !has_capability(&self.opened.borrow(), LAST_SESSION_CAPABILITY) {
            self.unannounced_start = Some(request.id);
        }
        self.pending.insert(request.id, request);
    }

    async fn serve_link(&mut self) -> LinkEnd {
        loop {
            if let Some(last) = self.acknowledgements.take() {
                let event_id = i64::try_from(last).unwrap_or(i64::MAX);
                let ack = SessionAck { session_id: self.opened.borrow().session_id.clone(), event_id };
                self.endpoint.send(jsonrpc::notification(SessionAck::NAME, &ack).into());
            }
            let retry = self.retries.front().map(|(at, _)| *at);
            let ready = Readiness {
                pending: self.pending.len(),
                is_stalled: self.routes.is_stalled(self.pending.is_empty()),
                wake_at: retry.into_iter().chain(self.acknowledgements.due()).min(),
            };
            match self.endpoint.next(ready).await {
                EndpointEvent::Message(message) => self.handle(message),
                EndpointEvent::Received(message) => self.dispatch(message),
                EndpointEvent::TooLarge(bytes) => self.fail_pending(&Error::ResponseTooLarge { bytes }),
                EndpointEvent::Due => {
                    while let Some((_, request)) = self.retries.pop_front_if(|(at, _)| *at <= Instant::now())
                    {
                        self.send(request);
                    }
                }
                EndpointEvent::Progress => {}
                EndpointEvent::Ended(end) => {
                    if let LinkEnd::Closed(_) = end {
                        while let Some(message) = self.endpoint.remaining() {
                            self.handle(message);
                        }
                    }
                    return end;
                }
            }
        }
    }

    fn handle(&mut self, message: ClientMessage) {
        match message {
            ClientMessage::Request(request) => self.send(request),
            ClientMessage::Cancel(id) => self.cancel(id),
            ClientMessage::SubscribeApprovals(events) => self.routes.subscribe_approvals(events),
        }
    }

    pub(super) fn send(&mut self, mut request: ClientRequest) {
        request.sent += 1;
        self.endpoint.send(request.message.clone());
        self.pending.insert(request.id, request);
    }

    fn cancel(&mut self, id: u64) {
        let is_pending = self.pending.remove(&id).is_some();
        let id = serde_json::value::RawValue::from_string(id.to_string());
        if let (true, Ok(id)) = (is_pending, id) {
            self.endpoint.send(jsonrpc::notification("$/cancel", &Cancel { id }).into());
        }
    }

    fn dispatch(&mut self, message: Bytes) {
        let bytes = message.len();
        let received = match wire::binary::split(&message) {
            Ok((header, payload)) => Received { text: header, payload: Some(payload) },
            // Any other message; an invalid binary one is no JSON either.
            Err(_) => Received { text: message, payload: None },
        };
        match jsonrpc::parse(&received.text) {
            Ok(Message::Single(Item::Response(response))) => self.respond(&received, &response),
            Ok(Message::Single(Item::Call(call))) => {
                self.routes.dispatch(&received, &call, self.has_starts());
                self.acknowledgements.received(bytes, self.routes.last_event_id());
            }
            Ok(Message::Batch(_)) => tracing::debug!("ignored a batch from the server"),
            Err(invalid) => {
                tracing::debug!(error = %invalid.error, "ignored an invalid message from the server")
            }
        }
    }

    /// Whether the process of a request without a response may have events.
    pub(super) fn has_starts(&self) -> bool {
        let starts = |request: &ClientRequest| {
            matches!(request.route, NewRoute::Process(_) | NewRoute::Reattached { .. })
        };
        // A start that is sent again later is pending too: its process may write before.
        self.pending.values().chain(self.retries.iter().map(|(_, request)| request)).any(starts)
    }

    fn respond(&mut self, received: &Received, response: &Response<'_>) {
        if let (None, Some(error)) = (&response.id, response.error) {
            return self.fail_unidentified(rpc_error(error.get()));
        }
        let id = response.id.as_ref().and_then(|id| id.to_string().parse::<u64>().ok());
        let Some(request) = id.and_then(|id| self.pending.remove(&id)) else { return };
        let result = match (response.result, response.error) {
            (Some(result), _) => {
                self.routes.open(request.route, result.get());
                let text = received.text.slice_ref(result.get().as_bytes());
                Ok(Received { text, payload: received.payload.clone() })
            }
            (None, error) => {
                let error = Error::from(rpc_error(error.map_or("null", |raw| raw.get())));
                if self.unannounced_start.take_if(|id| *id == request.id).is_some() {
                    return self.send(request);
                }
                if request.sent > 1 && is_in_progress(&error) {
                    return self.retries.push_back((Instant::now() + RETRY_AFTER, request));
                }
                return request.fail(&error);
            }
        };
        // The caller may have been dropped.
        request.response.send(result).ok();
    }

    /// Handles an error response without an id. A message above the server's limit was the longest pending one; any
    /// other unreadable message may have been any of them, and all fail.
    fn fail_unidentified(&mut self, error: RpcError) {
        let longest = self.pending.values().max_by_key(|request| request.message.len());
        let longest = longest.map(|request| request.id).filter(|_| error.code == code::RESOURCE_LIMIT);
        let error = Error::from(error);
        match longest.and_then(|id| self.pending.remove(&id)) {
            Some(request) => request.fail(&error),
            None => self.fail_pending(&error),
        }
    }

    fn fail_pending(&mut self, error: &Error) {
        for (_, request) in std::mem::take(&mut self.pending) {
            request.fail(error);
        }
    }

    /// Closes the session on the server, then ends the connection.
    async fn close(self, request: Option<CloseRequest>) {
        let session_id = self.opened.borrow().session_id.clone();
        let id = self.next_id();
        if let Ok(message) = jsonrpc::request(id, "session.close", &SessionClose { session_id }) {
            // A bridge runs in this program: its processes must have ended when this task ends.
            let is_bridge = matches!(self.carrier, Carrier::Bridge(_));
            let waits = is_bridge || request.is_none_or(|request| request.waits);
            // A server that does not answer ends the session with its connection.
            let last = async |mut link: link::Link| {
                link.outgoing.respond_written(message.into()).await.ok()?;
                if !waits {
                    return Some(());
                }
                let closing = Some(id.into());
                while let Some(incoming) = link.incoming.recv().await {
                    let Incoming::Message(line) = incoming else { continue };
                    if let Ok(Message::Single(Item::Response(response))) = jsonrpc::parse(&line)
                        && response.id == closing
                    {
                        break;
                    }
                }
                Some(())
            };
            self.endpoint.into_connection().finish(last).await;
        }
        self.carrier.finish().await;
    }

    /// Fails everything that depends on the session, which is lost.
    async fn fail(mut self, error: &Error) {
        for (_, request) in std::mem::take(&mut self.retries) {
            request.fail(error);
        }
        self.fail_pending(error);
        self.routes.fail_all(error);
        for message in self.endpoint.close().await {
            if let ClientMessage::Request(request) = message {
                request.response.send(Err(error.clone())).ok();
            }
        }
        self.carrier.finish().await;
    }
}

/// Whether the server is still executing a request with the same key.
fn is_in_progress(error: &Error) -> bool {
    error.rpc().is_some_and(|error| {
        error.code == codes::CONCURRENCY_CONFLICT && error.data["field"] == "idempotency_key"
    })
}

/// Whether the server keeps events until they are acknowledged.
pub(super) fn can_acknowledge(opened: &SessionOpenResult) -> bool {
    opened.resume_token.is_some() && has_capability(opened, SessionAck::NAME)
}
