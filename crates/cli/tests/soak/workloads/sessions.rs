//! A session of the client library that is opened when needed, and what its errors mean for a job.

use std::time::{Duration, Instant};

use client::target::{BearerToken, Scheme, Tls, UrlTarget};
use client::{Error, KeepAlive, Session, SessionOptions, Target};
use testkit::serve::TOKEN;

use super::answer;
use crate::Stage;
use crate::counters::{Outcome, Work};
use crate::faults::FaultKind;

/// The carrier of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Unix,
    WebSocket,
}

/// A session that is opened when it is needed.
pub(super) struct Sessions {
    way: Way,
    approves: bool,
    session: Option<Session>,
    /// When the session last proved to be alive: the begin of the last job that it completed, or its opening.
    proved: Instant,
}

impl Sessions {
    pub(super) fn new(way: Way, approves: bool) -> Sessions {
        Sessions { way, approves, session: None, proved: Instant::now() }
    }

    /// The session, opened if there is none.
    pub(super) async fn get(&mut self, stage: &Stage, work: Work) -> Result<Session, Outcome> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        self.proved = Instant::now();
        let options = SessionOptions {
            client_name: "soak".to_owned(),
            // A connection that is half open is noticed within seconds.
            keep_alive: KeepAlive { ping_every: Duration::from_secs(1), deadline: Duration::from_secs(6) },
            approvals: self.approves,
            ..SessionOptions::default()
        };
        let opening = Session::open(self.target(stage), options);
        match answer(stage, work, "session.open", opening).await {
            Some(Ok(session)) => Ok(self.session.insert(session).clone()),
            Some(Err(error)) => Err(self.judge(stage, work, &error)),
            None => Err(Outcome::InDoubt),
        }
    }

    /// Records that a job that began at this time was completed.
    pub(super) fn prove(&mut self, begin: Instant) {
        self.proved = begin;
    }

    /// What an error means; the session is opened again if it is of no more use.
    pub(super) fn judge(&mut self, stage: &Stage, work: Work, error: &Error) -> Outcome {
        match error {
            // The server has answered, or the request was never sent.
            Error::Connect(_) => {
                self.session = None;
                Outcome::Refused
            }
            Error::Refused(refused) => {
                // A keeper that does not respond refuses requests about its process.
                let kinds =
                    [FaultKind::FullDisk, FaultKind::LowLimits, FaultKind::StopKeeper, FaultKind::KillKeeper];
                let kinds = if work == Work::Detached { &kinds[..] } else { &kinds[..2] };
                if !stage.history.since(self.proved, kinds) {
                    let (message, code) = (&refused.message, refused.code);
                    let faults = stage.history.list(self.proved);
                    let note = format!("refused without a reason: {message} ({code}); {faults}");
                    stage.counters.unanswered(work, note);
                }
                Outcome::Refused
            }
            Error::Ambiguous { .. } => Outcome::InDoubt,
            Error::Lost(_) | Error::Closed => {
                if !stage.history.since(self.proved, &[FaultKind::KillDaemon]) {
                    stage.counters.lost(work, 1, format!("the daemon was not killed: {error}"));
                }
                // Its handle works on the next daemon, unless it has given up.
                if matches!(error, Error::Closed) {
                    self.session = None;
                }
                Outcome::InDoubt
            }
            other => {
                stage.counters.unanswered(work, other.to_string());
                self.session = None;
                Outcome::InDoubt
            }
        }
    }

    /// Closes the session, which ends its processes.
    pub(super) async fn close(&mut self, stage: &Stage, work: Work) {
        if let Some(session) = self.session.take() {
            answer(stage, work, "session.close", session.close()).await;
        }
    }

    fn target(&self, stage: &Stage) -> Target {
        match self.way {
            Way::Unix => Target::Unix(stage.system.unix.addresses.unix.clone()),
            Way::WebSocket => Target::Url(UrlTarget {
                scheme: Scheme::Ws,
                authority: stage.system.web.addresses.http.to_string(),
                path: String::new(),
                token: Some(BearerToken(TOKEN.to_owned())),
                headers: Vec::new(),
                tls: Tls::default(),
            }),
        }
    }
}
