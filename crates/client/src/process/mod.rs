//! Processes: commands to run, their events and their control.

mod command;
mod control;
mod event;

use wire::rexd::v1;

use crate::error::Error;
use crate::queue;
use crate::session::Session;

pub use command::{Command, TerminalSize};
pub(crate) use command::{StartRequest, StartedIds};
pub use control::ProcessControl;
pub(crate) use event::EventResult;
pub use event::{OutputLoss, ProcessError, ProcessEvent, ProcessEventKind, ProcessExit, signal_number};

/// A process and its events; [`control`](Process::control) writes to it and signals it.
#[derive(Debug)]
pub struct Process {
    control: ProcessControl,
    events: queue::Receiver<EventResult>,
    /// The response to `exec.attach`.
    attached: Option<v1::ExecAttachResult>,
}

impl Process {
    pub(crate) fn new(
        session: Session,
        process_id: String,
        pty_id: Option<String>,
        events: queue::Receiver<EventResult>,
    ) -> Process {
        Process { control: ProcessControl::new(session, process_id, pty_id), events, attached: None }
    }

    pub(crate) fn attached(
        session: Session,
        attached: v1::ExecAttachResult,
        events: queue::Receiver<EventResult>,
    ) -> Process {
        let (process_id, pty_id) = (attached.process_id.clone(), attached.pty_id.clone());
        Process { attached: Some(attached), ..Process::new(session, process_id, pty_id, events) }
    }

    /// The id of the process.
    pub fn id(&self) -> &str {
        self.control.id()
    }

    /// A handle for input, size and signals.
    pub fn control(&self) -> ProcessControl {
        self.control.clone()
    }

    /// The response to `exec.attach`; `None` if this session started the process.
    pub fn attach_result(&self) -> Option<&v1::ExecAttachResult> {
        self.attached.as_ref()
    }

    /// The next event; `None` after the exit. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>, Error> {
        self.events.recv().await.transpose()
    }

    /// Waits for the exit and discards the output.
    pub async fn wait(&mut self) -> Result<ProcessExit, Error> {
        while let Some(event) = self.next().await? {
            if let ProcessEventKind::Exit(exit) = event.kind {
                return Ok(exit);
            }
        }
        Err(Error::MissingExit { process_id: self.id().to_owned() })
    }
}
