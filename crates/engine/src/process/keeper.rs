//! Processes owned by a keeper: the interface to the keeper, and the relay that replaces the supervisor.
//!
//! A kept process outlives every session. A session that adopts one gets the same handle as for its own processes; the
//! relay behind it copies the keeper's events into a log and forwards commands. The end of the session ends the relay
//! only.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::flow::Capacity;
use super::log::{Cursor, OutputLog};
use super::spec::{ExitCause, ExitStatus, ProcessId, ProcessSummary, Stream, TerminalSize};
use super::stdin::InputRequest;
use super::supervisor::SupervisorCommand;
use super::terminal_state::{Examination, TerminalState};
use super::tree::KillOutcome;
use super::{Description, Signal};
use crate::Error;

/// Commands in flight to one keeper: 16; the next caller waits.
const COMMANDS_UNDER_WAY: usize = 16;

/// The reply of a keeper to one command.
pub type KeeperReply<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// The next event of a keeper; `None` when the connection to it is lost.
pub type NextKeeperEvent<'a> = Pin<Box<dyn Future<Output = Option<KeeperEvent>> + Send + 'a>>;

/// One event of a kept process, in the order in which they happened.
#[derive(Debug)]
pub enum KeeperEvent {
    /// Output of one stream.
    Output {
        /// Where it starts.
        start: Cursor,
        /// Its stream.
        stream: Stream,
        /// What was written.
        bytes: Bytes,
    },
    /// Output before `next` is lost.
    Lost {
        /// The first cursor after the loss.
        next: Cursor,
    },
    /// The leader has exited. Output of its descendants may follow; a keeper that has not recorded the position sends
    /// this just before `Closed`.
    Exited(ExitStatus),
    /// The end; nothing follows.
    Closed(ProcessSummary),
}

/// The connection of one session to the keeper of a process.
pub trait Keeper: fmt::Debug + Send + 'static {
    /// Waits for the next event; `None` when the keeper ended without sending the end. Dropping the future loses
    /// nothing.
    fn next(&mut self) -> NextKeeperEvent<'_>;

    /// TERM and KILL end the whole tree and return its members; any other signal is sent once to the process group.
    fn kill(&self, signal: Signal) -> KeeperReply<KillOutcome>;

    /// Writes to standard input, and closes it if `is_last`.
    fn input(&self, bytes: Bytes, is_last: bool) -> KeeperReply<usize>;

    /// Changes the size of its terminal.
    fn resize(&self, size: TerminalSize) -> KeeperReply<()>;

    /// Examines the terminal of the process.
    fn terminal(&self) -> KeeperReply<TerminalState>;
}

/// A process owned by a keeper, with all that a session needs to adopt it.
#[derive(Debug)]
pub struct KeptProcess {
    /// Its id, assigned when the keeper was started.
    pub id: ProcessId,
    /// Its entry in listings.
    pub description: Description,
    /// The pid of its leader, if it runs.
    pub pid: Option<i32>,
    /// The cursor of the first event.
    pub from: Cursor,
    /// The connection to the keeper.
    pub keeper: Box<dyn Keeper>,
}

/// Replaces the supervisor of a process that a keeper owns.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) keeper: Box<dyn Keeper>,
    pub(super) log: Arc<OutputLog>,
    pub(super) commands: mpsc::Receiver<SupervisorCommand>,
    pub(super) inputs: mpsc::Receiver<InputRequest>,
    pub(super) stop: CancellationToken,
    pub(super) started_at: SystemTime,
}

impl Relay {
    /// Relays until the session ends, or until all handles are dropped and the log is closed or has no primary reader.
    pub(super) async fn run(mut self) {
        let mut under_way = JoinSet::new();
        let mut input: Option<KeeperReply<()>> = None;
        let (mut is_closed, mut has_handles) = (false, true);
        while has_handles || !is_closed {
            if !has_handles && !self.log.is_claimed() {
                return self.log.leave();
            }
            let has_capacity = self.log.capacity() == Capacity::Available;
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return self.log.leave(),
                command = self.commands.recv(), if has_handles && under_way.len() < COMMANDS_UNDER_WAY => match command {
                    Some(command) => self.pass_on(command, &mut under_way),
                    // The last handle was dropped; a reader may still wait for the end.
                    None => has_handles = false,
                },
                Some(_passed) = under_way.join_next(), if !under_way.is_empty() => {}
                _passed = wait(&mut input), if input.is_some() => input = None,
                Some(request) = self.inputs.recv(), if input.is_none() => input = Some(self.feed(request)),
                told = self.keeper.next(), if has_capacity && !is_closed => is_closed = self.record(told),
                // Without handles, the relay ends with the primary reader.
                () = self.log.taken(), if !has_capacity || !has_handles => {}
            }
        }
    }

    fn pass_on(&self, command: SupervisorCommand, under_way: &mut JoinSet<()>) {
        match command {
            SupervisorCommand::Kill { signal, reply } => {
                let answer = self.keeper.kill(signal);
                under_way.spawn(async move {
                    let _sent = reply.send(answer.await);
                });
            }
            SupervisorCommand::Resize { size, reply } => {
                let answer = self.keeper.resize(size);
                under_way.spawn(async move {
                    let _sent = reply.send(answer.await);
                });
            }
            // A keeper's terminal is reached through its own connection.
            SupervisorCommand::CatchUp { reply } => drop(reply),
            SupervisorCommand::SignalForeground { reply, .. } => drop(reply),
            SupervisorCommand::Terminal { reply } => {
                // The requester waits for the keeper.
                let _sent = reply.send(Examination(self.keeper.terminal()));
            }
        }
    }

    /// One at a time, so that inputs arrive in order.
    fn feed(&self, request: InputRequest) -> KeeperReply<()> {
        let InputRequest { bytes, is_last, reply } = request;
        let answer = self.keeper.input(bytes, is_last);
        Box::pin(async move {
            let _sent = reply.send(answer.await);
            Ok(())
        })
    }

    /// Appends an event to the log; returns whether it was the end.
    fn record(&self, told: Option<KeeperEvent>) -> bool {
        match told {
            Some(KeeperEvent::Output { start, stream, bytes }) => {
                self.log.push_at(start, stream, bytes);
            }
            Some(KeeperEvent::Lost { next }) => self.log.skip_to(next),
            Some(KeeperEvent::Exited(exit)) => self.log.append_exit(exit, false),
            Some(KeeperEvent::Closed(closed)) => {
                self.log.close(closed);
                return true;
            }
            None => {
                self.log.close(self.killed());
                return true;
            }
        }
        false
    }

    /// The summary of a process whose keeper was killed: the kernel kills it together with its keeper.
    fn killed(&self) -> ProcessSummary {
        let state = self.log.state().borrow().clone();
        ProcessSummary {
            exit: ExitStatus::Signal(Signal::KILL),
            cause: ExitCause::Itself,
            duration: self.started_at.elapsed().unwrap_or(Duration::ZERO),
            stdout_bytes: state.stdout_bytes,
            stderr_bytes: state.stderr_bytes,
            truncated_bytes: 0,
            held_by: Vec::new(),
            processes_refused: 0,
            denied: None,
        }
    }
}

async fn wait(input: &mut Option<KeeperReply<()>>) {
    match input {
        // The requester receives the reply; here only its completion matters.
        Some(input) => drop(input.await),
        None => std::future::pending().await,
    }
}
