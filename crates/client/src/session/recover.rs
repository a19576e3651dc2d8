//! Recovery after a lost connection: reconnect, resume the session or open another, and fail the requests that are lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use wire::rexd::v1::{ExecAttach, Method as _, SessionOpenResult, SessionResume};

use super::ConnectionState;
use super::driver::{SessionDriver, can_acknowledge};
use super::handshake::{self, ResumeError};
use super::message::{ClientMessage, ClientRequest, NewRoute, ProcessRoute};
use super::opening;
use crate::acknowledge::Acknowledgements;
use crate::connection::{InboxEvent, LinkEnd, ReplayPolicy};
use crate::dial::TargetLink;
use crate::error::{Disconnect, Error, SessionLoss};
use crate::options::SessionOptions;
use crate::target::Target;

/// The pause after the first attempt; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Requests that wait for the next connection; further requests wait in the inbox.
const MAX_WAITING: usize = 512;

/// A new connection, with the same session or with another one.
enum Reconnection {
    Resumed(TargetLink, SessionOpenResult),
    Reopened(TargetLink, SessionOpenResult, SessionLoss),
}

impl SessionDriver {
    /// Reconnects to the target. Returns how the session ended if it was closed during that time, and an error if
    /// reconnecting is not possible or not in time.
    pub(super) async fn recover(&mut self) -> Result<Option<LinkEnd>, Error> {
        let disconnect = self.carrier.disconnect();
        if self.options.reconnect_timeout.is_zero() {
            return Err(SessionLoss::Disconnected(disconnect).into());
        }
        let timeout = self.options.reconnect_timeout;
        self.connection
            .send_replace(ConnectionState::Reconnecting { disconnect: disconnect.clone(), timeout });
        let retries = std::mem::take(&mut self.retries).into_iter();
        self.pending.extend(retries.map(|(_, request)| (request.id, request)));
        let opened = self.opened.borrow().clone();
        let resume = opened.resume_token.clone().map(|resume_token| SessionResume {
            session_id: opened.session_id.clone(),
            resume_token,
            last_event_id: i64::try_from(self.routes.last_event_id()).unwrap_or(i64::MAX),
            client_name: Some(self.options.client_name.clone()),
        });
        let reconnecting = reconnect(self.target.clone(), self.options.clone(), resume, disconnect.clone());
        tokio::pin!(reconnecting);
        let reconnection = loop {
            tokio::select! {
                reconnection = &mut reconnecting => break reconnection?,
                event = self.endpoint.next_message(self.pending.len() < MAX_WAITING) => match event {
                    InboxEvent::Message(ClientMessage::Request(request)) => {
                        self.pending.insert(request.id, request);
                    }
                    InboxEvent::Message(ClientMessage::Cancel(id)) => { self.pending.remove(&id); }
                    InboxEvent::Message(ClientMessage::SubscribeApprovals(events)) => {
                        self.routes.subscribe_approvals(events);
                    }
                    InboxEvent::Close(request) => return Ok(Some(LinkEnd::Closed(request))),
                },
            }
        };
        match reconnection {
            Reconnection::Resumed(link, opened) => self.resume(link, opened, &disconnect),
            Reconnection::Reopened(link, opened, loss) => self.reopen(link, opened, loss),
        }
        self.connection.send_replace(ConnectionState::Connected);
        Ok(None)
    }

    fn use_link(&mut self, link: TargetLink) {
        let (connection, carrier) = link.into_connection();
        self.endpoint.reconnect(connection);
        self.carrier = carrier;
    }

    /// Continues the same session: sends the requests again that may be, and fails the others as ambiguous.
    fn resume(&mut self, link: TargetLink, opened: SessionOpenResult, disconnect: &Disconnect) {
        self.use_link(link);
        self.acknowledgements.resumed();
        let has_starts = self.has_starts();
        self.routes.report_loss(opened.lost.unwrap_or(0), has_starts);
        let before = self.opened.borrow().resume_token.clone();
        let resume_token = opened.resume_token.clone().or(before);
        self.opened.send_replace(Arc::new(SessionOpenResult { resume_token, lost: None, ..opened }));
        for (_, request) in std::mem::take(&mut self.pending) {
            match request.sent > 0 && request.replay == ReplayPolicy::Never {
                true => {
                    let (method, disconnect) = (request.method, disconnect.clone());
                    request.response.send(Err(Error::Ambiguous { method, disconnect })).ok();
                }
                false => self.send(request),
            }
        }
    }

    /// Continues with a new session: attaches to detached processes where their output ended; all else is lost.
    fn reopen(&mut self, link: TargetLink, opened: SessionOpenResult, loss: SessionLoss) {
        let error = Error::from(loss);
        self.use_link(link);
        self.acknowledgements = Acknowledgements::new(can_acknowledge(&opened));
        let mut detached = Vec::new();
        for (_, request) in std::mem::take(&mut self.pending) {
            match request.route {
                // The last session was lost too before it was attached to.
                NewRoute::Reattached { process_id, route } => detached.push((process_id, route)),
                // Requests that were not sent name the lost session too.
                _ => request.fail(&error),
            }
        }
        let session_id = opened.session_id.clone();
        self.opened.send_replace(Arc::new(opened));
        detached.extend(self.routes.reset(&error));
        for (process_id, route) in detached {
            let cursor = i64::try_from(route.cursor).unwrap_or(i64::MAX);
            let session_id = session_id.clone();
            let params = ExecAttach { session_id, process_id, cursor, ..ExecAttach::default() };
            self.reattach(&params, route);
        }
    }

    /// Attaches to a process again. A failure reaches the reader of its events through the route.
    fn reattach(&mut self, params: &ExecAttach, route: ProcessRoute) {
        let (response, _unused) = oneshot::channel();
        let id = self.next_id();
        if let Ok(message) = wire::jsonrpc::request(id, ExecAttach::NAME, params) {
            let (message, route) =
                (message.into(), NewRoute::Reattached { process_id: params.process_id.clone(), route });
            let (method, replay) = (ExecAttach::NAME, ReplayPolicy::Safe);
            self.send(ClientRequest { id, method, message, replay, route, response, sent: 0 });
        }
    }
}

/// Tries until an attempt succeeds, a failure is permanent, or the time is up.
async fn reconnect(
    target: Arc<Target>,
    options: SessionOptions,
    mut resume: Option<SessionResume>,
    disconnect: Disconnect,
) -> Result<Reconnection, Error> {
    let deadline = Instant::now() + options.reconnect_timeout;
    let mut pause = FIRST_PAUSE;
    let mut loss = SessionLoss::NotResumable(disconnect.clone());
    loop {
        let attempt = match &resume {
            Some(params) => handshake::resume(&target, &options, params)
                .await
                .map(|(link, opened)| Reconnection::Resumed(link, opened)),
            None => opening::open(&target, &options)
                .await
                .map(|opened| Reconnection::Reopened(opened.link, opened.result, loss.clone()))
                .map_err(ResumeError::from),
        };
        let error = match attempt {
            Ok(reconnection) => return Ok(reconnection),
            Err(ResumeError::Expired(error)) => {
                loss = SessionLoss::Expired { disconnect: disconnect.clone(), error };
                resume = None;
                continue;
            }
            Err(ResumeError::Permanent(error)) => {
                return Err(SessionLoss::Reconnect { disconnect, error: Box::new(error) }.into());
            }
            Err(ResumeError::Transient(error)) => error,
        };
        if Instant::now() + pause >= deadline {
            let (timeout, error) = (options.reconnect_timeout, Box::new(error));
            return Err(SessionLoss::ReconnectTimeout { disconnect, timeout, error }.into());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
