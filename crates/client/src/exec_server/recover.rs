//! Recovery after a lost connection: reconnect, resume the session, and fail the requests that are lost.

use std::collections::HashSet;
use std::time::Duration;

use link::Link;
use tokio::time::Instant;
use wire::exec_server::code;
use wire::exec_server::v1::InitializeResponse;

use super::connect::Connector;
use super::driver::{ExecServerDriver, ResponseTarget};
use super::error::{ExecServerError, ExecServerLoss, MissedCause};
use crate::connection::{Connection, InboxEvent, LinkEnd, ReplayPolicy};

/// Time limit for resuming a session: servers keep one for 30 s.
const RESUME_TIMEOUT: Duration = Duration::from_secs(25);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
/// Requests that wait for the next connection; further requests wait in the inbox.
const MAX_WAITING: usize = 512;

impl ExecServerDriver {
    /// Resumes the session. Returns how the connection ended if it was closed during that time, and an error if
    /// resuming is not possible or not in time.
    pub(super) async fn recover(&mut self) -> Result<Option<LinkEnd>, ExecServerError> {
        let has_address = self.connector.address.is_some();
        let Some(session_id) = self.initialized.session_id.clone().filter(|_| has_address) else {
            return Err(ExecServerLoss::Disconnected.into());
        };
        let mut messages = Vec::new();
        let link = {
            let resuming = resume(&self.connector, &session_id);
            tokio::pin!(resuming);
            loop {
                tokio::select! {
                    link = &mut resuming => break link?,
                    event = self.endpoint.next_message(messages.len() < MAX_WAITING) => match event {
                        InboxEvent::Message(message) => messages.push(message),
                        InboxEvent::Close(request) => return Ok(Some(LinkEnd::Closed(request))),
                    },
                }
            }
        };
        self.resume_on(link);
        messages.into_iter().for_each(|message| self.handle(message));
        Ok(None)
    }

    /// Continues the session: reads processes from where their events ended, sends the requests again that may be, and
    /// fails the others as ambiguous.
    fn resume_on(&mut self, link: Link) {
        self.endpoint.reconnect(Connection::new(link, true));
        self.received = 0;
        self.acknowledgements.restarted();
        self.listeners.report_missed(MissedCause::Disconnected);
        let retries = std::mem::take(&mut self.retries).into_iter();
        let retries = retries.map(|(_, request)| ResponseTarget::Caller(request));
        let pending = std::mem::take(&mut self.pending).into_values().chain(retries);
        let mut starting = HashSet::new();
        for target in pending {
            let (ResponseTarget::Caller(request) | ResponseTarget::StartCheck(request, _)) = target else {
                continue;
            };
            if let Some(start) = &request.start {
                starting.insert(start.process_id.clone());
            }
            match request.replay {
                ReplayPolicy::Safe => self.send(request),
                ReplayPolicy::Never => {
                    let ambiguous = ExecServerError::Ambiguous { method: request.method };
                    request.response.send(Err(ambiguous)).ok();
                }
            }
        }
        // A process that is being started is read after the response to its start.
        let lost = ExecServerError::from(ExecServerLoss::V0Process);
        for (process_id, after) in self.routes.restart_all(&lost, &starting) {
            self.read(process_id.clone(), after, ResponseTarget::Process(process_id));
        }
    }
}

/// Tries until an attempt succeeds, a failure is permanent, or the time is up.
async fn resume(connector: &Connector, session_id: &str) -> Result<Link, ExecServerError> {
    let deadline = Instant::now() + RESUME_TIMEOUT;
    loop {
        let error = match connector.connect(Some(session_id.to_owned())).await {
            Ok((link, InitializeResponse { session_id: Some(same), .. })) if same == session_id => {
                return Ok(link);
            }
            Ok(_) => return Err(ExecServerLoss::OtherSession.into()),
            Err(error) if is_transient(&error) => error,
            Err(error) => return Err(ExecServerLoss::Reconnect(error).into()),
        };
        if Instant::now() + PAUSE >= deadline {
            return Err(ExecServerLoss::ReconnectTimeout { timeout: RESUME_TIMEOUT, error }.into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_transient(error: &ExecServerError) -> bool {
    match error {
        ExecServerError::Connect(error) => error.is_transient,
        ExecServerError::Refused(error) => error.code == code::SESSION_ATTACHED,
        ExecServerError::InitializeTimedOut(_) | ExecServerError::Lost(_) => true,
        ExecServerError::Spawn { .. }
        | ExecServerError::ExitedEarly { .. }
        | ExecServerError::StillRunning
        | ExecServerError::Ambiguous { .. }
        | ExecServerError::Missed(_)
        | ExecServerError::Encode { .. }
        | ExecServerError::Decode { .. }
        | ExecServerError::ResponseTooLarge { .. }
        | ExecServerError::Random(_)
        | ExecServerError::Closed => false,
    }
}
