//! ExecServerProcess: one process on an exec-server, its facts in order, and what can be done to it.

use bytes::Bytes;
use wire::exec_server::v1::{
    ExecOutputStream, ProcessSignal, SignalParams, TerminateParams, WriteParams, WriteResponse,
};

use super::error::ExecServerError;
use super::handle::ExecServerClient;
use crate::queue;

/// Something that happened to a process.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ExecServerEvent {
    /// It wrote something.
    Output {
        /// Where to.
        stream: ExecOutputStream,
        /// What.
        bytes: Bytes,
    },
    /// Its leader ended; output may follow.
    Exited {
        /// With what.
        exit_code: i32,
        /// Whether its sandbox seems to have been in the way.
        sandbox_denied: Option<bool>,
    },
    /// Nothing follows. A process of v0 has no such fact: its events end after `Exited`.
    Closed,
    /// Output was not kept, and this reader will never see it.
    Lost {
        /// How much, where it is known.
        bytes: Option<u64>,
    },
}

/// What a reader is handed: a fact, or why nothing more will come.
pub(super) type Heard = Result<ExecServerEvent, ExecServerError>;

/// A process. Dropping this does not end it: [`terminate`](ExecServerProcess::terminate) does.
#[derive(Debug)]
pub struct ExecServerProcess {
    client: ExecServerClient,
    process_id: String,
    events: queue::Receiver<Heard>,
}

impl ExecServerProcess {
    pub(super) fn new(
        client: ExecServerClient,
        process_id: String,
        events: queue::Receiver<Heard>,
    ) -> ExecServerProcess {
        ExecServerProcess { client, process_id, events }
    }

    /// What it is called within the session.
    pub fn process_id(&self) -> &str {
        &self.process_id
    }

    /// The next thing that happened to it, in the order in which it did; nothing after the last. Nothing is lost if
    /// this future is dropped.
    pub async fn next(&mut self) -> Result<Option<ExecServerEvent>, ExecServerError> {
        self.events.recv().await.transpose()
    }

    /// Writes to its input or terminal, once.
    pub async fn write(&self, bytes: impl Into<Bytes>) -> Result<WriteResponse, ExecServerError> {
        let (process_id, chunk) = (self.process_id.clone(), wire::exec_server::ByteChunk(bytes.into()));
        self.client.write(WriteParams { process_id, chunk, write_id: None }).await
    }

    /// Interrupts it, as Ctrl-C does.
    pub async fn interrupt(&self) -> Result<(), ExecServerError> {
        let (process_id, signal) = (self.process_id.clone(), ProcessSignal::Interrupt);
        self.client.signal(SignalParams { process_id, signal }).await
    }

    /// Ends it and everything it started; whether it was running.
    pub async fn terminate(&self) -> Result<bool, ExecServerError> {
        let params = TerminateParams { process_id: self.process_id.clone() };
        Ok(self.client.terminate(params).await?.running)
    }
}
