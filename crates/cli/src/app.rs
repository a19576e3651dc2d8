//! App: what every command has: where it works, how it shows, and a session there.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::{OutputMode, Session, SessionOptions, Target};

use crate::asking;
use crate::failure::Failure;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::route::{self, Choice};

/// What every command has.
#[derive(Debug)]
pub struct App {
    /// Where it works, and why there.
    pub choice: Choice,
    /// Whether results are shown as JSON.
    pub json: bool,
}

impl App {
    /// Chooses the target.
    pub fn new(asked: Option<&str>, json: bool) -> Result<App, Failure> {
        Ok(App { choice: route::choose(asked)?, json })
    }

    /// The same, for paths that may name a target of their own; the path without it.
    pub fn for_path(asked: Option<&str>, json: bool, path: &str) -> Result<(App, String), Failure> {
        let (alias, path) = route::split_place(path)?;
        let app = match alias {
            Some(alias) if asked.is_some_and(|asked| asked != alias) => return Err(two_targets(&alias)),
            Some(alias) => App { choice: route::choose_once(&alias)?, json },
            None => App::new(asked, json)?,
        };
        let path = app.path(&path);
        Ok((app, path))
    }

    /// How sessions of the command line are opened.
    pub fn options(&self) -> SessionOptions {
        let output = match self.json {
            true => OutputMode::Verbatim,
            false => OutputMode::Base64,
        };
        // ssh asks at the terminal itself, not on our streams.
        let interactive =
            rustix::fs::open("/dev/tty", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).is_ok();
        // Who wants JSON is a program, and answers no questions.
        SessionOptions {
            output,
            interactive,
            approvals: interactive && !self.json,
            ..SessionOptions::default()
        }
    }

    /// A session on the target.
    pub async fn session(&self) -> Result<Session, Failure> {
        let options = self.options();
        let asks = options.approvals;
        let shelters = options.interactive && matches!(self.choice.target, Target::Ssh(_));
        let opening = Session::open(self.choice.target.clone(), options);
        let session = match shelters {
            true => {
                let mut interrupt = Interrupt::listen()?;
                let session = tokio::select! {
                    session = opening => session?,
                    () = interrupt.came() => return Err(Failure::new("interrupted").status(INTERRUPTED)),
                };
                tokio::spawn(interrupt.end_with_it());
                session
            }
            false => opening.await?,
        };
        opened().push(session.clone());
        if asks && session.has_capability("approvals") {
            tokio::spawn(asking::attend(session.clone()));
        }
        Ok(session)
    }

    /// A path there: what is relative starts where commands start.
    pub fn path(&self, path: &str) -> String {
        match &self.choice.cwd {
            Some(cwd) if !path.starts_with('/') => match path {
                "" | "." => cwd.clone(),
                path => format!("{}/{path}", cwd.trim_end_matches('/')),
            },
            _ => path.to_owned(),
        }
    }
}

/// `-t` and the alias before a path say different things.
pub fn two_targets(alias: &str) -> Failure {
    Failure::new(format!("-t names one target and {alias}: another")).hint("leave one of them away")
}

/// The sessions of this program, so that none is left open whichever way a command ends.
static OPENED: Mutex<Vec<Session>> = Mutex::new(Vec::new());
/// How long a last word may take.
const LAST_WORD: Duration = Duration::from_secs(1);

fn opened() -> MutexGuard<'static, Vec<Session>> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves every session that a command which failed has not closed: what it started there ends.
pub async fn leave_all() {
    let sessions = std::mem::take(&mut *opened());
    for session in sessions {
        // One that is closed says so at once; one whose link is gone has nobody to tell.
        tokio::time::timeout(LAST_WORD, session.close_without_waiting()).await.ok();
    }
}
