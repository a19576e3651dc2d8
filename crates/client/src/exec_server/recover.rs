//! After a cut: reaching the server again, going on with the session, or saying what is lost.

use std::collections::HashSet;
use std::time::Duration;

use link::Link;
use tokio::time::Instant;
use wire::exec_server::code;
use wire::exec_server::v1::{InitializeResponse, PROCESS_START};

use super::connect::Reach;
use super::driver::{Driver, Over, Waits};
use super::error::ExecServerError;
use super::letter::Again;
use crate::connection::{Connection, Post};

/// How long a session is tried to be resumed: servers keep one for 30 s.
const RESUME_WITHIN: Duration = Duration::from_secs(25);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);
/// Requests that wait for the link to come back.
const MOST_WAITING: usize = 512;
const CUT: &str = "the connection was cut";

impl Driver {
    /// Resumes the session. An error means that it cannot be, or not in time; a value that the connection was closed
    /// meanwhile.
    pub(super) async fn recover(&mut self) -> Result<Option<Over>, ExecServerError> {
        let Some(session_id) = self.answered.session_id.clone().filter(|_| self.reach.socket.is_some())
        else {
            return Err(ExecServerError::Lost(CUT.to_owned()));
        };
        let mut letters = Vec::new();
        let link = {
            let resumed = resume(&self.reach, &session_id);
            tokio::pin!(resumed);
            loop {
                tokio::select! {
                    link = &mut resumed => break link?,
                    post = self.inbox.next(letters.len() < MOST_WAITING) => match post {
                        Post::Letter(letter) => letters.push(letter),
                        Post::Farewell(farewell) => return Ok(Some(Over::Closed(farewell))),
                    },
                }
            }
        };
        self.go_on(link);
        letters.into_iter().for_each(|letter| self.open_letter(letter));
        Ok(None)
    }

    /// The session is as it was: processes are read from where they were, what can be asked again is, and everything
    /// else is said to be in doubt.
    fn go_on(&mut self, link: Link) {
        self.connection = Connection::new(link, true);
        self.listeners.miss(CUT);
        let later = std::mem::take(&mut self.later).into_iter().map(|(_, call)| Waits::Asker(call));
        let pending = std::mem::take(&mut self.pending).into_values().chain(later);
        let lost = ExecServerError::Lost(format!("{CUT}, and commands of v0 end with their connection"));
        let mut starting = HashSet::new();
        for waits in pending {
            let (Waits::Asker(call) | Waits::Starter(call, ..)) = waits else { continue };
            if let Again::Starts(process_id, _) = &call.again {
                starting.insert(process_id.clone());
            }
            let is_safe = match call.again {
                Again::Safe => true,
                Again::Starts(..) => call.method == PROCESS_START,
                Again::Never => false,
            };
            match is_safe {
                true => self.send_call(call),
                false => {
                    let ambiguous = ExecServerError::Ambiguous { method: call.method, cut: CUT.to_owned() };
                    call.answer.send(Err(ambiguous)).ok();
                }
            }
        }
        // Whether there is such a process as one that is being started is only known when that is answered.
        for (process_id, after) in self.routes.read_anew(&lost, &starting) {
            self.read(process_id.clone(), after, Waits::Process(process_id));
        }
    }
}

/// Tries until it works, cannot work, or takes too long.
async fn resume(reach: &Reach, session_id: &str) -> Result<Link, ExecServerError> {
    let give_up_at = Instant::now() + RESUME_WITHIN;
    loop {
        let error = match reach.connect(Some(session_id.to_owned())).await {
            Ok((link, InitializeResponse { session_id: Some(same), .. })) if same == session_id => {
                return Ok(link);
            }
            Ok(_) => {
                return Err(ExecServerError::Lost(format!("{CUT}, and the server began another session")));
            }
            Err(error) if is_transient(&error) => error,
            Err(ExecServerError::Connect(error)) => {
                return Err(ExecServerError::Lost(format!("{CUT}; then: {}", error.in_full())));
            }
            Err(error) => return Err(ExecServerError::Lost(format!("{CUT}; then: {error}"))),
        };
        if Instant::now() + PAUSE >= give_up_at {
            let within = RESUME_WITHIN.as_secs();
            return Err(ExecServerError::Lost(format!("{CUT}; not resumed within {within} s: {error}")));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_transient(error: &ExecServerError) -> bool {
    match error {
        ExecServerError::Connect(error) => error.is_transient,
        ExecServerError::Refused(error) => error.code == code::SESSION_ATTACHED,
        ExecServerError::InitializeTimedOut(_) | ExecServerError::Lost(_) => true,
        _ => false,
    }
}
