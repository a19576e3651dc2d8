//! Processes: what to run, what comes from it, and what can be done to it.

mod command;
mod control;
mod event;

use wire::rexd::v1;

use crate::error::Error;
use crate::queue;
use crate::session::Session;

pub use command::{Command, TerminalSize};
pub use control::ProcessControl;
pub(crate) use event::Heard;
pub use event::{OutputLoss, ProcessError, ProcessEvent, ProcessEventKind, ProcessExit, signal_number};

/// A process: its events, and through [`control`](Process::control) everything that can be done to it.
#[derive(Debug)]
pub struct Process {
    control: ProcessControl,
    events: queue::Receiver<Heard>,
    /// How it was when it was attached to.
    attached: Option<v1::ExecAttachResult>,
}

impl Process {
    pub(crate) fn new(
        session: Session,
        process_id: String,
        pty_id: Option<String>,
        events: queue::Receiver<Heard>,
    ) -> Process {
        Process { control: ProcessControl::new(session, process_id, pty_id), events, attached: None }
    }

    pub(crate) fn attached(
        session: Session,
        attached: v1::ExecAttachResult,
        events: queue::Receiver<Heard>,
    ) -> Process {
        let (process_id, pty_id) = (attached.process_id.clone(), attached.pty_id.clone());
        Process { attached: Some(attached), ..Process::new(session, process_id, pty_id, events) }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        self.control.id()
    }

    /// What can be done to it.
    pub fn control(&self) -> ProcessControl {
        self.control.clone()
    }

    /// How it was when it was attached to; nothing if it was started here.
    pub fn attach_result(&self) -> Option<&v1::ExecAttachResult> {
        self.attached.as_ref()
    }

    /// The next thing that comes from it; nothing after its end. Nothing is lost if this future is dropped.
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>, Error> {
        self.events.recv().await.transpose()
    }

    /// Reads to its end and throws the output away.
    pub async fn wait(&mut self) -> Result<ProcessExit, Error> {
        while let Some(event) = self.next().await? {
            if let ProcessEventKind::Exit(exit) = event.kind {
                return Ok(exit);
            }
        }
        Err(Error::Protocol("the process's events ended without its exit".to_owned()))
    }
}
