//! The task that owns the link: it sends the requests of handles and dispatches received messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use link::Link;
use tokio::sync::Notify;
use tokio::time::Instant;
use wire::exec_server::envelope::{self, Message};
use wire::exec_server::v1::{self, InitializeResponse, SessionAckNotification};
use wire::exec_server::{ErrorObject, code};
use wire::jsonrpc::Id;

use super::connect::Connector;
use super::error::ExecServerError;
use super::listeners::NotificationListeners;
use super::message::{ExecServerMessage, ExecServerRequest};
use super::routes::{Disposition, ProcessRoutes, read_params, slice};
use crate::acknowledge::Acknowledgements;
use crate::connection::{Connection, DriverEndpoint, EndpointEvent, Inbox, LinkEnd, Readiness};

/// The pause before a start is sent again that the server may still be executing.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// The number of times a start is sent.
const MAX_STARTS: u32 = 250;

pub(super) struct ExecServerDriver {
    pub(super) endpoint: DriverEndpoint<ExecServerMessage>,
    pub(super) connector: Connector,
    pub(super) initialized: Arc<InitializeResponse>,
    pub(super) pending: BTreeMap<u64, ResponseTarget>,
    pub(super) routes: ProcessRoutes,
    pub(super) listeners: NotificationListeners,
    /// Starts that are sent again, and when.
    pub(super) retries: VecDeque<(Instant, ExecServerRequest)>,
    pub(super) acknowledgements: Acknowledgements,
    /// The events of processes that were received on this connection.
    pub(super) received: u64,
    next_id: Arc<AtomicU64>,
}

/// Where a response goes.
#[derive(Debug)]
pub(super) enum ResponseTarget {
    /// To the caller of the request.
    Caller(ExecServerRequest),
    /// To the process whose events are missing.
    Process(String),
    /// To the caller of a start that was refused when it was sent again: the response shows whether the process runs.
    StartCheck(ExecServerRequest, String),
}

impl ExecServerDriver {
    pub(super) fn new(
        (link, initialized): (Link, Arc<InitializeResponse>),
        connector: Connector,
        inbox: Inbox<ExecServerMessage>,
        (next_id, drained): (Arc<AtomicU64>, Arc<Notify>),
    ) -> ExecServerDriver {
        let connection = Connection::new(link, connector.address.is_some());
        let acknowledgements = Acknowledgements::new(initialized.session_ack == Some(true));
        ExecServerDriver {
            acknowledgements,
            received: 0,
            endpoint: DriverEndpoint::new(connection, inbox, drained),
            connector,
            initialized,
            pending: BTreeMap::new(),
            routes: ProcessRoutes::default(),
            listeners: NotificationListeners::default(),
            retries: VecDeque::new(),
            next_id,
        }
    }

    /// Runs until the connection is closed or the session is lost.
    pub(super) async fn run(mut self) {
        loop {
            let end = match self.serve_link().await {
                LinkEnd::Disconnected => self.recover().await,
                closed @ LinkEnd::Closed(_) => Ok(Some(closed)),
            };
            match end {
                Ok(None | Some(LinkEnd::Disconnected)) => {}
                Ok(Some(LinkEnd::Closed(_))) => break,
                Err(error) => return self.fail(&error).await,
            }
        }
        self.fail_all(&ExecServerError::Closed);
        let last = async |Link { incoming, outgoing, writing }| {
            drop((incoming, outgoing));
            writing.finished().await.ok()
        };
        self.endpoint.into_connection().finish(last).await;
    }

    async fn serve_link(&mut self) -> LinkEnd {
        loop {
            if let Some(received) = self.acknowledgements.take()
                && let Ok(message) =
                    envelope::notification(v1::SESSION_ACK, &SessionAckNotification { received })
            {
                self.endpoint.send(message.into());
            }
            let is_idle = self.pending.is_empty();
            let retry = self.retries.front().map(|(at, _)| *at);
            let ready = Readiness {
                pending: self.pending.len(),
                is_stalled: self.routes.is_stalled(is_idle) || self.listeners.is_stalled(is_idle),
                wake_at: retry.into_iter().chain(self.acknowledgements.due()).min(),
            };
            match self.endpoint.next(ready).await {
                EndpointEvent::Message(message) => self.handle(message),
                EndpointEvent::Received(line) => self.dispatch(&line),
                EndpointEvent::TooLarge(bytes) => {
                    self.fail_pending(&ExecServerError::ResponseTooLarge { bytes });
                }
                EndpointEvent::Due => {
                    if let Some((_, request)) = self.retries.pop_front_if(|(at, _)| *at <= Instant::now()) {
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

    pub(super) fn handle(&mut self, message: ExecServerMessage) {
        match message {
            ExecServerMessage::Request(request) => self.send(*request),
            ExecServerMessage::Subscribe(queue) => self.listeners.add(queue),
        }
    }

    pub(super) fn send(&mut self, mut request: ExecServerRequest) {
        if let Some(start) = &mut request.start
            && let Some(route) = start.route.take()
        {
            let process_id = &start.process_id;
            if self.routes.has(process_id) {
                let error = ErrorObject::invalid_request(format!("process {process_id} is already running"));
                request.response.send(Err(error.into())).ok();
                return;
            }
            // The first events may arrive before the response to the start.
            self.routes.open(process_id, route);
        }
        request.sent += 1;
        self.endpoint.send(request.message.clone());
        self.pending.insert(request.id, ResponseTarget::Caller(request));
    }

    /// Requests events of a process for a target.
    pub(super) fn read(&mut self, process_id: String, after: u64, target: ResponseTarget) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        if let Ok(message) = envelope::request(id, v1::PROCESS_READ, &read_params(process_id, after)) {
            self.endpoint.send(message.into());
            self.pending.insert(id, target);
        }
    }

    fn dispatch(&mut self, line: &Bytes) {
        match envelope::parse(line) {
            Ok(Message::Response { id, result }) => {
                let result = result.map(|text| slice(line, text.get())).map_err(ExecServerError::from);
                self.respond(&id, result);
            }
            Ok(Message::Notification { method, params }) => {
                if ProcessRoutes::is_event(&method) {
                    self.received += 1;
                    self.acknowledgements.received(line.len(), self.received);
                }
                let params = params.map_or("null", |raw| raw.get());
                match self.routes.dispatch(&method, params) {
                    Ok(Disposition::NoProcess) => {
                        self.listeners.publish(&method, &slice_or_null(line, params));
                    }
                    Ok(disposition) => self.apply(disposition),
                    Err(error) => self.fail_invalid(params, error),
                }
            }
            Ok(Message::Request { id, method, .. }) => {
                let error = ErrorObject::new(code::METHOD_NOT_FOUND, format!("unknown method: {method}"));
                self.endpoint.send(envelope::error_response(&id, &error).into());
            }
            Err(error) => tracing::debug!(error, "ignored an invalid message from the exec-server"),
        }
    }

    fn apply(&mut self, disposition: Disposition) {
        if let Disposition::Read { process_id, after } = disposition {
            self.read(process_id.clone(), after, ResponseTarget::Process(process_id));
        }
    }

    /// Ends the events of a process: an event that cannot be decoded leaves a gap that no read fills.
    fn fail_invalid(&mut self, params: &str, error: serde_json::Error) {
        match ProcessRoutes::process_id(params) {
            Some(process_id) => {
                self.routes.fail(&process_id, &ExecServerError::decode(v1::PROCESS_OUTPUT, error));
            }
            None => tracing::debug!(%error, "ignored an invalid notification"),
        }
    }

    fn respond(&mut self, id: &Id, result: Result<Bytes, ExecServerError>) {
        let Some(target) = id.to_string().parse().ok().and_then(|id: u64| self.pending.remove(&id)) else {
            return;
        };
        match target {
            ResponseTarget::Caller(request) => self.respond_to_caller(request, result),
            ResponseTarget::Process(process_id) => self.respond_to_read(process_id, result),
            ResponseTarget::StartCheck(request, process_id) => match result {
                // The process exists: the first start succeeded.
                Ok(page) => {
                    request.response.send(Ok(start_response(&process_id))).ok();
                    self.respond_to_read(process_id, Ok(page));
                }
                // The first start may still be executing.
                Err(_) if request.sent < MAX_STARTS => {
                    self.retries.push_back((Instant::now() + RETRY_AFTER, request));
                }
                Err(_) => {
                    let error = ExecServerError::Ambiguous { method: request.method };
                    self.routes.fail(&process_id, &error);
                    request.response.send(Err(error)).ok();
                }
            },
        }
    }

    fn respond_to_caller(&mut self, request: ExecServerRequest, result: Result<Bytes, ExecServerError>) {
        if let (Some(start), Err(error)) = (&request.start, &result) {
            let process_id = start.process_id.clone();
            if request.sent > 1 && error.code() == Some(code::INVALID_REQUEST) {
                match self.routes.restart_reading(&process_id) {
                    Some(after) => {
                        let target = ResponseTarget::StartCheck(request, process_id.clone());
                        self.read(process_id, after, target);
                    }
                    // All of its events have already arrived.
                    None => drop(request.response.send(Ok(start_response(&process_id)))),
                }
                return;
            }
            self.routes.fail(&process_id, error);
        }
        // The caller may have been dropped.
        request.response.send(result).ok();
    }

    fn respond_to_read(&mut self, process_id: String, result: Result<Bytes, ExecServerError>) {
        let page = result.and_then(|text| {
            serde_json::from_slice::<v1::ReadResponse>(&text)
                .map_err(|error| ExecServerError::decode(v1::PROCESS_READ, error))
        });
        match page {
            Ok(page) => {
                let disposition = self.routes.add_page(process_id, page);
                self.apply(disposition);
            }
            Err(error) => self.routes.fail(&process_id, &error),
        }
    }

    /// Fails everything that depends on the session, which is lost.
    async fn fail(mut self, error: &ExecServerError) {
        self.fail_all(error);
        for message in self.endpoint.close().await {
            if let ExecServerMessage::Request(request) = message {
                request.response.send(Err(error.clone())).ok();
            }
        }
    }

    fn fail_pending(&mut self, error: &ExecServerError) {
        let retries = std::mem::take(&mut self.retries).into_iter();
        let retries = retries.map(|(_, request)| ResponseTarget::Caller(request));
        for target in std::mem::take(&mut self.pending).into_values().chain(retries) {
            match target {
                ResponseTarget::Caller(request) | ResponseTarget::StartCheck(request, _) => {
                    if let Some(start) = &request.start {
                        self.routes.fail(&start.process_id, error);
                    }
                    request.response.send(Err(error.clone())).ok();
                }
                ResponseTarget::Process(process_id) => self.routes.fail(&process_id, error),
            }
        }
    }

    fn fail_all(&mut self, error: &ExecServerError) {
        self.fail_pending(error);
        self.routes.fail_all(error);
        self.listeners.clear();
    }
}

/// The response of a server to a start.
fn start_response(process_id: &str) -> Bytes {
    serde_json::json!({ "processId": process_id }).to_string().into()
}

fn slice_or_null(line: &Bytes, params: &str) -> Bytes {
    match params {
        "null" => Bytes::from_static(b"null"),
        params => slice(line, params),
    }
}
