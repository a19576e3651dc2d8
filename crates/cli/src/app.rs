//! App: what every command has: where it works, how it shows, and a session there.

use client::{Options, OutputForm, Session};

use crate::asking;
use crate::failure::Failure;
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
            Some(alias) => App { choice: route::choose_once(&alias)?, json },
            None => App::new(asked, json)?,
        };
        let path = app.path(&path);
        Ok((app, path))
    }

    /// How sessions of the command line are opened.
    pub fn options(&self) -> Options {
        let output = match self.json {
            true => OutputForm::Shown,
            false => OutputForm::Fast,
        };
        // ssh asks at the terminal itself, not on our streams.
        let interactive =
            rustix::fs::open("/dev/tty", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).is_ok();
        Options { output, interactive, ..Options::default() }
    }

    /// A session on the target.
    pub async fn session(&self) -> Result<Session, Failure> {
        let options = self.options();
        let asks = options.approvals;
        let session = Session::open(self.choice.target.clone(), options).await?;
        if asks && session.can("approvals") {
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
