//! Opening a session: attempts on connections that are cut, and the start of a command that is sent together with the request
//! to open the session, so that both take one round trip.
//!
//! If the connection is lost before the response arrives, the session may exist and the command may run. The request is then
//! sent again with the same `resume_key`, which continues that session; the command is not started twice.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use wire::jsonrpc;
use wire::rexd::v1::{ExecStart, LAST_SESSION, Method as _, SessionAck, SessionOpen, SessionOpenResult};

use super::driver::{EarlyRequest, LAST_SESSION_CAPABILITY};
use super::handshake::{self, EARLY_ID, OpenedLink, UnopenedLink};
use super::starting_process::{StartResponse, StartingProcess};
use super::{Session, random_hex};
use crate::error::{Disconnect, Error};
use crate::options::SessionOptions;
use crate::process::Command;
use crate::target::Target;

/// Attempts to open a session on connections that are cut.
const MAX_ATTEMPTS: usize = 5;
/// The pause after the first of them; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The capability of servers that support resume keys.
const RESUME_KEY: &str = "resume_key";

/// A connection to a target on which no session is open yet.
#[derive(Debug)]
pub struct TargetConnection {
    link: UnopenedLink,
    attempts: Attempts,
}

impl TargetConnection {
    /// Connects to the target. Must be called within a tokio runtime. `connect_timeout` runs from here to the open session.
    pub(super) async fn dial(target: Target, options: SessionOptions) -> Result<TargetConnection, Error> {
        let mut attempts = Attempts::new(target, options);
        loop {
            match attempts.dial().await {
                Ok(link) => return Ok(TargetConnection { link, attempts }),
                Err(error) if attempts.may_repeat(&error) => attempts.pause().await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the start of a command can be sent before the session is open. It cannot while ssh is still connecting, which
    /// may take long and may fail.
    pub fn is_connected(&self) -> bool {
        self.link.is_connected()
    }

    /// Opens a session, without a command.
    pub async fn open(self) -> Result<Session, Error> {
        let key_prefix = random_hex().map_err(Error::Random)?;
        let (opened, attempts) = self.open_link(None).await?;
        let Attempts { target, options, .. } = attempts;
        Ok(Session::run(opened, (target, options), (key_prefix, Arc::default()), None))
    }

    /// Opens a session and starts a command in it: in one round trip if the target [is connected](TargetConnection::is_connected)
    /// and the server permits it.
    pub async fn start(self, command: Command) -> Result<(Session, StartingProcess), Error> {
        if !self.is_connected() {
            let session = self.open().await?;
            let starting = session.begin(command).await?;
            return Ok((session, starting));
        }
        let key_prefix = random_hex().map_err(Error::Random)?;
        let mut request = command.request(LAST_SESSION.to_owned(), None, format!("{key_prefix}-{EARLY_ID}"));
        let early = request.encode(EARLY_ID)?;
        let early = EarlyStart { method: request.method(), message: early };
        let (opened, attempts) = self.open_link(Some(early)).await?;
        request.set_session(opened.result.session_id.clone());
        let message = request.encode(EARLY_ID)?;
        let drained = Arc::new(Notify::new());
        let (mut early, response) = StartResponse::of(&request, (EARLY_ID, message), drained.clone());
        early.sent = 1;
        let Attempts { target, options, is_resent, .. } = attempts;
        let early = EarlyRequest { request: early, was_lost: is_resent };
        let session = Session::run(opened, (target, options), (key_prefix, drained), Some(early));
        let starting = response.in_session(session.clone());
        Ok((session, starting))
    }

    async fn open_link(self, early: Option<EarlyStart>) -> Result<(OpenedLink, Attempts), Error> {
        let TargetConnection { mut link, mut attempts } = self;
        let mut params = attempts.options.open_params(&attempts.target);
        if early.is_some() && params.resume {
            params.resume_key = Some(resume_key()?);
        }
        loop {
            let result = attempts.open(link, &mut params, early.as_ref()).await;
            let error = match result {
                Ok(opened) => return Ok((opened, attempts)),
                Err(error) => error,
            };
            let has_key = attempts.sent.is_none() || params.resume_key.is_some();
            if !(has_key && attempts.may_repeat(&error)) {
                return Err(attempts.failure(error));
            }
            link = loop {
                attempts.pause().await;
                match attempts.dial().await {
                    Ok(link) => break link,
                    Err(error) if attempts.may_repeat(&error) => {}
                    Err(error) => return Err(attempts.failure(error)),
                }
            };
        }
    }
}

/// Connects to the target and opens a session without a command.
pub(super) async fn open(target: &Target, options: &SessionOptions) -> Result<OpenedLink, Error> {
    let connection = TargetConnection::dial(target.clone(), options.clone()).await?;
    Ok(connection.open_link(None).await?.0)
}

/// The attempts to open one session.
#[derive(Debug)]
struct Attempts {
    target: Target,
    options: SessionOptions,
    until: Instant,
    made: usize,
    next_pause: Duration,
    /// The start of the command, once it was sent.
    sent: Option<SentStart>,
    /// Whether the last attempt was made after that.
    is_resent: bool,
}

impl Attempts {
    fn new(target: Target, options: SessionOptions) -> Attempts {
        let until = Instant::now() + options.connect_timeout;
        Attempts { target, options, until, made: 0, next_pause: FIRST_PAUSE, sent: None, is_resent: false }
    }

    async fn dial(&mut self) -> Result<UnopenedLink, Error> {
        self.made += 1;
        self.is_resent = self.sent.is_some();
        match timeout_at(self.until, UnopenedLink::dial(&self.target, &self.options)).await {
            Ok(dialed) => dialed,
            Err(_elapsed) => Err(handshake::timed_out(&self.target, &self.options).await),
        }
    }

    /// Opens the session on a link: with `early` if that was not sent before.
    async fn open(
        &mut self,
        link: UnopenedLink,
        params: &mut SessionOpen,
        early: Option<&EarlyStart>,
    ) -> Result<OpenedLink, Error> {
        self.is_resent = self.sent.is_some();
        params.resent_after_ms = self.sent.as_ref().map(SentStart::age_ms);
        let mut messages = Vec::new();
        if let Some(early) = early.filter(|_| !self.is_resent) {
            if params.resume {
                // Before the command: from now on no more is on its way than the server keeps.
                let ack = SessionAck { session_id: LAST_SESSION.to_owned(), event_id: 0 };
                messages.push(jsonrpc::notification(SessionAck::NAME, &ack).into());
            }
            messages.push(early.message.clone());
            self.sent = Some(SentStart { method: early.method, at: since_boot() });
        }
        match timeout_at(self.until, link.handshake(&self.target, params, messages)).await {
            Ok(Ok(opened)) if self.is_resent && has_ignored_key(&opened.result) => {
                Err(self.ambiguous("the server cannot continue the session"))
            }
            Ok(Err(error @ Error::Refused(_))) if !self.is_resent => {
                // The command was refused with its session.
                self.sent = None;
                Err(error)
            }
            Ok(result) => result,
            Err(_elapsed) => Err(handshake::timed_out(&self.target, &self.options).await),
        }
    }

    /// Whether another attempt may succeed.
    fn may_repeat(&self, error: &Error) -> bool {
        match (error, &self.sent) {
            (Error::Connect(error), None) => error.is_cut() && self.made < MAX_ATTEMPTS,
            (Error::Connect(error), Some(_)) => error.is_transient && Instant::now() < self.until,
            (Error::Refused(error), Some(_)) => error.data["retry"] == true && Instant::now() < self.until,
            _ => false,
        }
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.next_pause).await;
        self.next_pause = (self.next_pause * 2).min(LONGEST_PAUSE);
    }

    /// The error of the last attempt. If the command may have been started, it says so.
    fn failure(&self, error: Error) -> Error {
        let may_run = match &error {
            Error::Connect(failed) => self.is_resent || (self.sent.is_some() && failed.is_transient),
            Error::Refused(_) => self.is_resent,
            _ => false,
        };
        if may_run { self.ambiguous(error) } else { error }
    }

    fn ambiguous(&self, cause: impl std::fmt::Display) -> Error {
        let method = self.sent.as_ref().map_or(ExecStart::NAME, |sent| sent.method);
        Error::Ambiguous { method, disconnect: Disconnect::Carrier(cause.to_string()) }
    }
}

/// The request that starts a command, for the session that is being opened.
struct EarlyStart {
    method: &'static str,
    message: Bytes,
}

/// A start that was sent, and when.
#[derive(Debug)]
struct SentStart {
    method: &'static str,
    at: Duration,
}

impl SentStart {
    /// At least 1: it was sent before.
    fn age_ms(&self) -> i64 {
        let age = since_boot().saturating_sub(self.at);
        i64::try_from(age.as_millis()).unwrap_or(i64::MAX).max(1)
    }
}

/// The time since the start of this machine. Unlike an [`Instant`], it includes the time for which the machine was suspended, in
/// which the server may have ended the session.
fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Whether a server may have executed the early start, and has opened another session now.
fn has_ignored_key(opened: &SessionOpenResult) -> bool {
    has_capability(opened, LAST_SESSION_CAPABILITY) && !has_capability(opened, RESUME_KEY)
}

pub(super) fn has_capability(opened: &SessionOpenResult, name: &str) -> bool {
    opened.capabilities.iter().any(|offered| offered == name)
}

fn resume_key() -> Result<String, Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(Error::Random)?;
    Ok(hex::encode(bytes))
}
