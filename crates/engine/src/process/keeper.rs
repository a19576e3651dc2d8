//! Processes that another program keeps: what the engine needs of a keeper, and the relay that stands in for a
//! supervisor.
//!
//! A kept process outlives every session. A session that adopts one gets the same handle as for a process of its own;
//! behind it a relay pulls what the keeper tells into a log and passes commands on. Ending the session ends the
//! relay and nothing else.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::log::{Cursor, OutputLog, Room};
use super::spec::{ExitCause, ExitStatus, ProcessId, ProcessSummary, Stream, TerminalSize};
use super::stdin::InputRequest;
use super::supervisor::Command;
use super::tree::KillOutcome;
use super::{Description, Signal};
use crate::Error;

/// Commands on their way to one keeper; past it the next asker waits.
const COMMANDS_UNDER_WAY: usize = 16;

/// What a keeper answers, later.
pub type KeeperReply<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// What a keeper tells next.
pub type NextKeeperEvent<'a> = Pin<Box<dyn Future<Output = Option<KeeperEvent>> + Send + 'a>>;

/// One fact about a kept process, in the order in which they happened.
#[derive(Debug)]
pub enum KeeperEvent {
    /// Output of one stream.
    Output {
        /// Where it starts.
        start: Cursor,
        /// Where it came from.
        stream: Stream,
        /// What was written.
        bytes: Bytes,
    },
    /// Output before `next` cannot be had any more.
    Lost {
        /// Where it goes on.
        next: Cursor,
    },
    /// The leader has ended; output may still come.
    Exited(ExitStatus),
    /// The end; nothing follows.
    Closed(ProcessSummary),
}

/// A process that another program keeps, as seen by one adopter.
pub trait Keeper: fmt::Debug + Send + 'static {
    /// Waits for the next fact; nothing when the keeper is gone without having told the end. Dropping the future
    /// loses nothing.
    fn next(&mut self) -> NextKeeperEvent<'_>;

    /// TERM and KILL end the whole tree and say who died; any other signal goes once to the group.
    fn kill(&self, signal: Signal) -> KeeperReply<KillOutcome>;

    /// Gives the process bytes to read, and the end of them if `is_last`.
    fn input(&self, bytes: Bytes, is_last: bool) -> KeeperReply<usize>;

    /// Changes the size of its terminal.
    fn resize(&self, size: TerminalSize) -> KeeperReply<()>;
}

/// Everything a session needs to know to adopt a kept process.
#[derive(Debug)]
pub struct KeptProcess {
    /// Its name, which its keeper gave it.
    pub id: ProcessId,
    /// What a listing says about it.
    pub description: Description,
    /// The number of its leader.
    pub pid: Option<i32>,
    /// Where the keeper begins to tell.
    pub from: Cursor,
    /// The way to it.
    pub keeper: Box<dyn Keeper>,
}

/// Stands in for the supervisor of a process that somebody else owns.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) keeper: Box<dyn Keeper>,
    pub(super) log: Arc<OutputLog>,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) inputs: mpsc::Receiver<InputRequest>,
    pub(super) stop: CancellationToken,
    pub(super) started_at: SystemTime,
}

impl Relay {
    /// Relays until the session ends, or nobody can ask the keeper anything and it has nothing more to tell or nobody
    /// listens.
    pub(super) async fn run(mut self) {
        let mut under_way = JoinSet::new();
        let mut input: Option<KeeperReply<()>> = None;
        let (mut is_closed, mut has_handles) = (false, true);
        while has_handles || !is_closed {
            if !has_handles && !self.log.is_claimed() {
                return self.log.leave();
            }
            let has_room = self.log.room() == Room::Yes;
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return self.log.leave(),
                command = self.commands.recv(), if has_handles && under_way.len() < COMMANDS_UNDER_WAY => match command {
                    Some(command) => self.pass_on(command, &mut under_way),
                    // Nobody holds a handle any more; a reader may still wait for the end.
                    None => has_handles = false,
                },
                Some(_passed) = under_way.join_next(), if !under_way.is_empty() => {}
                _passed = wait(&mut input), if input.is_some() => input = None,
                Some(request) = self.inputs.recv(), if input.is_none() => input = Some(self.feed(request)),
                told = self.keeper.next(), if has_room && !is_closed => is_closed = self.record(told),
                // Without handles, the end of the reader is the end of this.
                () = self.log.taken(), if !has_room || !has_handles => {}
            }
        }
    }

    fn pass_on(&self, command: Command, under_way: &mut JoinSet<()>) {
        match command {
            Command::Kill { signal, reply } => {
                let answer = self.keeper.kill(signal);
                under_way.spawn(async move {
                    let _heard = reply.send(answer.await);
                });
            }
            Command::Resize { size, reply } => {
                let answer = self.keeper.resize(size);
                under_way.spawn(async move {
                    let _heard = reply.send(answer.await);
                });
            }
        }
    }

    /// One at a time, so that they arrive in their order.
    fn feed(&self, request: InputRequest) -> KeeperReply<()> {
        let InputRequest { bytes, is_last, reply } = request;
        let answer = self.keeper.input(bytes, is_last);
        Box::pin(async move {
            let _heard = reply.send(answer.await);
            Ok(())
        })
    }

    /// Notes what was told; whether it was the end.
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

    /// The end of a process whose keeper was killed, and which therefore was killed as well.
    fn killed(&self) -> ProcessSummary {
        let facts = self.log.state().borrow().clone();
        ProcessSummary {
            exit: ExitStatus::Signal(Signal::KILL),
            cause: ExitCause::Itself,
            duration: self.started_at.elapsed().unwrap_or(Duration::ZERO),
            stdout_bytes: facts.stdout_bytes,
            stderr_bytes: facts.stderr_bytes,
            truncated_bytes: 0,
            held_by: Vec::new(),
            processes_refused: 0,
            denied: None,
        }
    }
}

async fn wait(input: &mut Option<KeeperReply<()>>) {
    match input {
        // What the asker was told is all there is to say.
        Some(input) => drop(input.await),
        None => std::future::pending().await,
    }
}
