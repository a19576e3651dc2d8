//! Process control: input, size, signals and the end of a process.

use wire::rexd::v1;

use super::TerminalSize;
use crate::error::Error;
use crate::session::Session;
use crate::session::letter::{Again, Opens};

/// What can be done to a process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ProcessControl {
    session: Session,
    process_id: String,
    pty_id: Option<String>,
}

impl ProcessControl {
    pub(super) fn new(session: Session, process_id: String, pty_id: Option<String>) -> ProcessControl {
        ProcessControl { session, process_id, pty_id }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.process_id
    }

    /// The id of its terminal, if it has one.
    pub fn pty_id(&self) -> Option<&str> {
        self.pty_id.as_deref()
    }

    /// Writes to its input or types into its terminal, once. Inputs that are sent ahead keep the order in which their
    /// futures are first polled.
    pub async fn input(&self, data: &[u8]) -> Result<(), Error> {
        self.write(data, false).await
    }

    /// Closes its input; in a terminal as Ctrl-D does.
    pub async fn close_input(&self) -> Result<(), Error> {
        match self.pty_id {
            Some(_) => self.write(&[4], false).await,
            None => self.write(&[], true).await,
        }
    }

    async fn write(&self, data: &[u8], eof: bool) -> Result<(), Error> {
        let (data, encoding) = (wire::base64::encode(data), Some("base64".to_owned()));
        let (session_id, idempotency_key) = (self.session.id(), Some(self.session.key()));
        let again = self.session.input_again();
        match self.pty_id.clone() {
            Some(pty_id) => {
                let params = v1::PtyInput { session_id, pty_id, data, encoding, idempotency_key };
                self.session.ask(&params, again, Opens::Nothing).await.map(drop)
            }
            None => {
                let process_id = self.process_id.clone();
                let params = v1::ExecInput { session_id, process_id, data, encoding, eof, idempotency_key };
                self.session.ask(&params, again, Opens::Nothing).await.map(drop)
            }
        }
    }

    /// Sets the size of its terminal.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        let Some(pty_id) = self.pty_id.clone() else { return Ok(()) };
        let (cols, rows) = (Some(size.cols.into()), Some(size.rows.into()));
        let params = v1::PtyResize { session_id: self.session.id(), pty_id, cols, rows };
        self.session.ask(&params, Again::Safe, Opens::Nothing).await.map(drop)
    }

    /// Sends a signal; without one ends the whole tree. Tells who died.
    pub async fn kill(&self, signal: Option<&str>) -> Result<v1::ExecKillResult, Error> {
        let again = match signal {
            None | Some("KILL" | "TERM" | "SIGKILL" | "SIGTERM") => Again::Safe,
            Some(_) => Again::Never,
        };
        let params = v1::ExecKill {
            session_id: self.session.id(),
            process_id: self.process_id.clone(),
            signal: signal.map(|name| v1::Signal::Name(name.to_owned())),
        };
        self.session.ask(&params, again, Opens::Nothing).await
    }
}
