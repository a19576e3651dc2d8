//! After a cut: reaching the target again, taking the session up where it was, or saying what is lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use wire::rexd::v1::{ExecAttach, Method as _, SessionOpenResult, SessionResume};

use super::driver::Driver;
use super::greet::{self, NotResumed};
use super::letter::{Again, Call, Farewell, Letter, Opens, ProcessRoute};
use crate::connection::Post;
use crate::dial::Dialed;
use crate::error::Error;

/// The pause after the first try; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Requests that wait for the link to come back.
const MOST_WAITING: usize = 512;

/// A link again, with the session that was or with a new one.
enum Back {
    Resumed(Dialed, SessionOpenResult),
    Anew(Dialed, SessionOpenResult, String),
}

/// Somebody closed the session while it was being recovered.
pub(super) type ClosedMeanwhile = Option<Farewell>;

impl Driver {
    /// Reaches the target again. An error means that it cannot be, or not in time; a value that the session was closed
    /// meanwhile.
    pub(super) async fn recover(&mut self, cut: &str) -> Result<Option<ClosedMeanwhile>, Error> {
        if self.options.reconnect_timeout.is_zero() {
            return Err(Error::Lost(cut.to_owned()));
        }
        self.pending.extend(std::mem::take(&mut self.waiting).into_iter().map(|(_, call)| (call.id, call)));
        let opened = self.opened.borrow().clone();
        let resume = opened.resume_token.clone().map(|resume_token| SessionResume {
            session_id: opened.session_id.clone(),
            resume_token,
            last_event_id: i64::try_from(self.routes.last_event_id()).unwrap_or(i64::MAX),
            client_name: Some(self.options.client_name.clone()),
        });
        let reached = reach(self.target.clone(), self.options.clone(), resume, cut.to_owned());
        tokio::pin!(reached);
        let back = loop {
            tokio::select! {
                back = &mut reached => break back?,
                post = self.inbox.next(self.pending.len() < MOST_WAITING) => match post {
                    Post::Letter(Letter::Call(call)) => { self.pending.insert(call.id, call); }
                    Post::Letter(Letter::Withdraw(id)) => { self.pending.remove(&id); }
                    Post::Letter(Letter::Attend(events)) => self.routes.attend(events),
                    Post::Farewell(farewell) => return Ok(Some(farewell)),
                },
            }
        };
        match back {
            Back::Resumed(dialed, opened) => self.go_on(dialed, opened, cut),
            Back::Anew(dialed, opened, why) => self.begin_anew(dialed, opened, &why),
        }
        Ok(None)
    }

    /// The session is as it was: what can be asked again is, everything else is said to be in doubt.
    fn go_on(&mut self, dialed: Dialed, opened: SessionOpenResult, cut: &str) {
        (self.connection, self.carrier) = dialed.into_connection();
        self.routes.missed(opened.lost.unwrap_or(0));
        let before = self.opened.borrow().resume_token.clone();
        let resume_token = opened.resume_token.clone().or(before);
        self.opened.send_replace(Arc::new(SessionOpenResult { resume_token, lost: None, ..opened }));
        for (_, call) in std::mem::take(&mut self.pending) {
            match call.sent > 0 && call.again == Again::Never {
                true => {
                    let ambiguous = Error::Ambiguous { method: call.method, cut: cut.to_owned() };
                    call.answer.send(Err(ambiguous)).ok();
                }
                false => self.send_call(call),
            }
        }
    }

    /// The session is gone; another goes on. Detached processes are followed from where they were, all else is lost.
    fn begin_anew(&mut self, dialed: Dialed, opened: SessionOpenResult, why: &str) {
        let error = Error::Lost(why.to_owned());
        (self.connection, self.carrier) = dialed.into_connection();
        for (_, call) in std::mem::take(&mut self.pending) {
            // What was never sent still names the session that is gone.
            call.answer.send(Err(error.clone())).ok();
        }
        let session_id = opened.session_id.clone();
        self.opened.send_replace(Arc::new(opened));
        for (process_id, route) in self.routes.begin_anew(&error) {
            let cursor = i64::try_from(route.cursor).unwrap_or(i64::MAX);
            let params = ExecAttach { session_id: session_id.clone(), process_id, cursor };
            self.attach_again(&params, route);
        }
    }

    /// Nobody waits for the answer: the route hears if there is nothing to follow any more.
    fn attach_again(&mut self, params: &ExecAttach, route: ProcessRoute) {
        let (answer, _nobody) = oneshot::channel();
        let id = self.next_id();
        if let Ok(message) = wire::jsonrpc::request(id, ExecAttach::NAME, params) {
            let (message, opens) = (message.into(), Opens::Process(route));
            let (method, again) = (ExecAttach::NAME, Again::Safe);
            self.send_call(Call { id, method, message, again, opens, answer, sent: 0 });
        }
    }
}

/// A cut, and what came of trying again; said once if the carrier has tried that itself.
fn then(cut: &str, error: &Error) -> String {
    let said = match error {
        Error::Connect(error) => error.in_full(),
        error => error.to_string(),
    };
    match cut.contains(&said) {
        true => cut.to_owned(),
        false => format!("{cut}; then: {said}"),
    }
}

/// Tries until it works, cannot work, or takes too long.
async fn reach(
    target: Arc<crate::target::Target>,
    options: crate::options::SessionOptions,
    resume: Option<SessionResume>,
    cut: String,
) -> Result<Back, Error> {
    let give_up_at = Instant::now() + options.reconnect_timeout;
    let mut pause = FIRST_PAUSE;
    let mut resume = resume;
    let mut why = format!("{cut}; the server keeps no sessions");
    loop {
        let tried = match &resume {
            Some(session) => greet::resume(&target, &options, session)
                .await
                .map(|(dialed, opened)| Back::Resumed(dialed, opened)),
            None => greet::open(&target, &options)
                .await
                .map(|(dialed, opened)| Back::Anew(dialed, opened, why.clone()))
                .map_err(NotResumed::of),
        };
        let error = match tried {
            Ok(back) => return Ok(back),
            Err(NotResumed::Gone(error)) => {
                why = format!("{cut}; the server no longer knows it ({})", error.message);
                resume = None;
                continue;
            }
            Err(NotResumed::Never(error)) => return Err(Error::Lost(then(&cut, &error))),
            Err(NotResumed::NotNow(error)) => error,
        };
        if Instant::now() + pause >= give_up_at {
            let within = options.reconnect_timeout.as_secs();
            return Err(Error::Lost(format!("{cut}; not reached again within {within} s: {error}")));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
