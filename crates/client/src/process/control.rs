//! Control of a process: input, terminal size and signals.

use wire::rexd::v1;

use super::TerminalSize;
use crate::connection::ReplayPolicy;
use crate::error::Error;
use crate::session::message::NewRoute;
use crate::session::{ConnectionState, Session};

/// Writes to a process, resizes its terminal and signals it. Cheap to clone.
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

    /// The id of the process.
    pub fn id(&self) -> &str {
        &self.process_id
    }

    /// The id of the process's terminal, if it has one.
    pub fn pty_id(&self) -> Option<&str> {
        self.pty_id.as_deref()
    }

    /// Whether the connection is lost at the moment, so that requests wait.
    pub fn is_reconnecting(&self) -> bool {
        matches!(*self.session.connection_state().borrow(), ConnectionState::Reconnecting { .. })
    }

    /// Writes to the process's input or terminal, exactly once. Concurrent writes keep the order in which their futures
    /// are first polled.
    pub async fn input(&self, data: &[u8]) -> Result<(), Error> {
        self.write(data, false).await
    }

    /// Closes the process's input; in a terminal, types Ctrl-D.
    pub async fn close_input(&self) -> Result<(), Error> {
        match self.pty_id {
            Some(_) => self.write(&[4], false).await,
            None => self.write(&[], true).await,
        }
    }

    async fn write(&self, data: &[u8], eof: bool) -> Result<(), Error> {
        let (session_id, idempotency_key) = (self.session.id(), Some(self.session.key()));
        let replay = self.session.input_replay();
        match self.pty_id.clone() {
            Some(pty_id) => {
                let params = v1::PtyInput { session_id, pty_id, idempotency_key, ..v1::PtyInput::default() };
                self.session.request_bytes(&params, data, replay).await.map(drop)
            }
            None => {
                let process_id = self.process_id.clone();
                let defaults = v1::ExecInput::default();
                let params = v1::ExecInput { session_id, process_id, eof, idempotency_key, ..defaults };
                self.session.request_bytes(&params, data, replay).await.map(drop)
            }
        }
    }

    /// Sets the size of the process's terminal.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        let Some(pty_id) = self.pty_id.clone() else { return Ok(()) };
        let (cols, rows) = (Some(size.cols.into()), Some(size.rows.into()));
        let params = v1::PtyResize { session_id: self.session.id(), pty_id, cols, rows };
        self.session.request(&params, ReplayPolicy::Safe, NewRoute::None).await.map(drop)
    }

    /// Sends a signal; without one ends the whole process tree. Returns the processes that ended.
    pub async fn kill(&self, signal: Option<&str>) -> Result<v1::ExecKillResult, Error> {
        let replay = match signal {
            None | Some("KILL" | "TERM" | "SIGKILL" | "SIGTERM") => ReplayPolicy::Safe,
            Some(_) => ReplayPolicy::Never,
        };
        let params = v1::ExecKill {
            session_id: self.session.id(),
            process_id: self.process_id.clone(),
            signal: signal.map(|name| v1::Signal::Name(name.to_owned())),
        };
        self.session.request(&params, replay, NewRoute::None).await
    }
}
