//! One process on an exec-server: its events in order, its input and its end.

use bytes::Bytes;
use wire::exec_server::v1::{
    ExecOutputStream, ProcessSignal, SignalParams, TerminateParams, WriteParams, WriteResponse,
};

use super::error::ExecServerError;
use super::handle::ExecServerClient;
use crate::queue;

/// An event of a process.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ExecServerEvent {
    /// Bytes that the process wrote.
    Output {
        /// The stream it wrote to.
        stream: ExecOutputStream,
        /// The bytes it wrote.
        bytes: Bytes,
    },
    /// The process exited; output of its children may follow.
    Exited {
        /// Its exit code.
        exit_code: i32,
        /// Whether its sandbox seems to have denied an access.
        sandbox_denied: Option<bool>,
    },
    /// The last event. A process of v0 does not have it: its events end after `Exited`.
    Closed,
    /// Output was dropped and cannot be read.
    Lost {
        /// The number of bytes, if it is known.
        bytes: Option<u64>,
    },
}

/// An event, or why no more events follow.
pub(super) type ExecServerEventResult = Result<ExecServerEvent, ExecServerError>;

/// A process. Dropping this does not end it; [`terminate`](ExecServerProcess::terminate) does.
#[derive(Debug)]
pub struct ExecServerProcess {
    client: ExecServerClient,
    process_id: String,
    events: queue::Receiver<ExecServerEventResult>,
}

impl ExecServerProcess {
    pub(super) fn new(
        client: ExecServerClient,
        process_id: String,
        events: queue::Receiver<ExecServerEventResult>,
    ) -> ExecServerProcess {
        ExecServerProcess { client, process_id, events }
    }

    /// The id of the process within the session.
    pub fn process_id(&self) -> &str {
        &self.process_id
    }

    /// The next event in order; `None` after the last. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<ExecServerEvent>, ExecServerError> {
        self.events.recv().await.transpose()
    }

    /// Writes to the process's input or terminal, exactly once.
    pub async fn write(&self, bytes: impl Into<Bytes>) -> Result<WriteResponse, ExecServerError> {
        let (process_id, chunk) = (self.process_id.clone(), wire::exec_server::ByteChunk(bytes.into()));
        self.client.write(WriteParams { process_id, chunk, write_id: None }).await
    }

    /// Interrupts the process as Ctrl-C does.
    pub async fn interrupt(&self) -> Result<(), ExecServerError> {
        let (process_id, signal) = (self.process_id.clone(), ProcessSignal::Interrupt);
        self.client.signal(SignalParams { process_id, signal }).await
    }

    /// Ends the process tree; returns whether it was running.
    pub async fn terminate(&self) -> Result<bool, ExecServerError> {
        let params = TerminateParams { process_id: self.process_id.clone() };
        Ok(self.client.terminate(params).await?.running)
    }
}
