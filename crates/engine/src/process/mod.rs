//! Processes: starting, supervising and reading them.
//!
//! A [`Process`] is a handle. The child is owned by its supervisor, a task; a handle sends commands to the supervisor and
//! reads the log.

mod cgroup;
mod child;
mod descendants;
mod drain;
mod flow;
mod guardian;
mod keeper;
mod launch;
pub mod limits;
mod log;
mod open_files;
mod orphans;
mod proc;
mod reader;
mod runaways;
mod session_leader;
mod side_channel;
mod signal;
mod socket_activation;
mod spawn;
mod spec;
mod spill;
mod start_time;
mod state;
mod stdin;
mod streams;
mod supervisor;
pub(crate) mod sys;
mod terminal_reader;
mod terminal_state;
mod text;
mod times;
mod tree;
mod waits;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use cgroup::own_cgroup_dir;
pub use guardian::guard;
pub use keeper::{Keeper, KeeperEvent, KeeperReply, KeptProcess, NextKeeperEvent};
pub use launch::Containment;
pub(crate) use launch::Launcher;
pub use log::Cursor;
pub use open_files::raise_open_file_limit;
pub use proc::{is_reaped, own_start_time, stat_fields};
pub use reader::{Item, LogReader};
pub(crate) use runaways::end_runaways;
pub use session_leader::spawn_session_leader;
pub use side_channel::{SideChannel, SidePipes};
pub use signal::Signal;
pub use socket_activation::activation_sockets;
pub use spec::{
    ExitCause, ExitStatus, OutputLimit, ProcessId, ProcessSpec, ProcessSummary, Program, Stdin, Stream,
    TerminalSize,
};
pub(crate) use start_time::StartTime;
pub use state::ProcessState;
pub(crate) use sys::release_memory;
pub use terminal_state::{TerminalState, TerminalWait};
pub use tree::{KillOutcome, TreeMember};

use crate::Error;
use crate::registry::Registry;
use log::OutputLog;
use stdin::InputRequest;
use supervisor::{Assignment, SupervisorCommand};

/// Inputs queued for one supervisor: 1, beside the bytes queued for the program. With more slots, an input that waited
/// could be overtaken by a later one that finds a free slot.
const INPUTS_WAITING: usize = 1;

/// Limits of a process: buffers, queues and waits.
#[derive(Debug, Clone)]
pub struct ProcessLimits {
    /// Output kept in memory per process.
    pub log_bytes: usize,
    /// Output kept on disk per process for a primary reader that has stopped.
    pub spill_bytes: u64,
    /// Directory of the spilled output.
    pub spill_dir: PathBuf,
    /// Commands queued for one supervisor; when full, the caller waits.
    pub commands_waiting: usize,
    /// Time between TERM and KILL.
    pub kill_grace: Duration,
    /// Time without output, after the exit of the leader, after which the process is closed.
    pub drain_idle: Duration,
    /// Longest wait, after the exit of the leader, for output that a descendant keeps open.
    pub drain_max: Duration,
}

/// The entry of a process in listings.
#[derive(Debug, Clone)]
pub struct Description {
    /// The name that its user gave it.
    pub name: Option<String>,
    /// The arguments as passed to the kernel.
    pub argv: Vec<String>,
    /// Its working directory at the start.
    pub cwd: PathBuf,
    /// Whether it has a terminal.
    pub has_terminal: bool,
    /// The face through which it was started.
    pub origin: Cow<'static, str>,
    /// Time of the start.
    pub started_at: SystemTime,
    /// Whether a keeper owns it, so that it outlives every session.
    pub is_detached: bool,
}

/// A handle to one process. Cheap to clone. Dropping it changes nothing for the process.
#[derive(Debug, Clone)]
pub struct Process {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    id: ProcessId,
    description: Description,
    log: Arc<OutputLog>,
    commands: mpsc::Sender<SupervisorCommand>,
    inputs: mpsc::Sender<InputRequest>,
}

/// A registered process that may not run yet. It can be killed already.
#[derive(Debug)]
pub struct PendingStart {
    process: Process,
    outcome: oneshot::Receiver<Result<i32, Error>>,
}

impl Process {
    /// Begins to start a process under a supervisor that `tasks` owns and `stop` ends.
    pub(crate) fn begin(
        (id, mark): (ProcessId, String),
        spec: ProcessSpec,
        bounds: &ProcessLimits,
        (launcher, registry): (&Arc<Launcher>, &Registry),
        (tasks, stop): (&TaskTracker, CancellationToken),
    ) -> PendingStart {
        let (command_sender, commands) = mpsc::channel(bounds.commands_waiting.max(1));
        let (input_sender, inputs) = mpsc::channel(INPUTS_WAITING);
        let (started, outcome) = oneshot::channel();
        let log = Arc::new(OutputLog::new(bounds.log_bytes));
        let argv = spec.program.argv();
        let description = Description {
            name: spec.name.clone(),
            argv,
            cwd: spec.cwd.as_path().to_owned(),
            has_terminal: spec.terminal.is_some(),
            origin: spec.origin.clone(),
            started_at: SystemTime::now(),
            is_detached: false,
        };
        let shared = Shared {
            id: id.clone(),
            description,
            log: log.clone(),
            commands: command_sender,
            inputs: input_sender,
        };
        let process = Process { shared: Arc::new(shared) };
        let assignment = Assignment {
            registration: (registry.clone(), WeakProcess(Arc::downgrade(&process.shared))),
            mark,
            spec,
            log,
            bounds: bounds.clone(),
            launcher: launcher.clone(),
            commands,
            inputs,
            started,
            stop,
        };
        tasks.spawn(supervisor::supervise(assignment));
        PendingStart { process, outcome }
    }

    /// A handle to a process that a keeper owns, with a primary reader from the first cursor of the keeper. A relay that
    /// `tasks` owns and `stop` ends forwards events and commands; the process outlives it.
    pub(crate) fn adopt(
        kept: KeptProcess,
        bounds: &ProcessLimits,
        (tasks, stop): (&TaskTracker, CancellationToken),
    ) -> (Process, LogReader) {
        let KeptProcess { id, description, pid, from, keeper } = kept;
        let (command_sender, commands) = mpsc::channel(bounds.commands_waiting.max(1));
        let (input_sender, inputs) = mpsc::channel(INPUTS_WAITING);
        let log = Arc::new(OutputLog::starting_at(from, bounds.log_bytes));
        if let Some(pid) = pid {
            log.running(pid);
        }
        // Before the relay starts, so that nothing is dropped for lack of a reader.
        let reader = LogReader::primary(log.clone(), from);
        let started_at = description.started_at;
        tasks.spawn(keeper::Relay { keeper, log: log.clone(), commands, inputs, stop, started_at }.run());
        let shared = Shared { id, description, log, commands: command_sender, inputs: input_sender };
        (Process { shared: Arc::new(shared) }, reader)
    }

    /// Its id within the engine.
    pub fn id(&self) -> &ProcessId {
        &self.shared.id
    }

    /// Its entry in listings.
    pub fn description(&self) -> &Description {
        &self.shared.description
    }

    /// The pid of its leader; `None` before it runs.
    pub fn pid(&self) -> Option<i32> {
        self.shared.log.state().borrow().pid
    }

    /// Its current state: the end of its log, whether it exited, whether it closed.
    pub fn state(&self) -> ProcessState {
        self.shared.log.state().borrow().clone()
    }

    /// The oldest position of its log that can still be read.
    pub fn first(&self) -> Cursor {
        self.shared.log.first()
    }

    /// The position of the first output since a time, to about a second (coarser in a long log); the end if there is none.
    /// A process of a keeper has the times at which its output arrived here.
    pub fn since(&self, time: SystemTime) -> Cursor {
        self.shared.log.since(time)
    }

    /// Bytes of output held in memory.
    pub fn memory(&self) -> usize {
        self.shared.log.memory()
    }

    /// Drops the output of a process that ended; its state remains.
    pub fn forget_output(&self) {
        self.shared.log.forget();
    }

    /// The primary reader, which loses nothing: the process waits for it. A new one replaces the previous one.
    pub fn primary_reader(&self, from: Cursor) -> LogReader {
        LogReader::primary(self.shared.log.clone(), from)
    }

    /// Like [`Process::primary_reader`], for a caller that may have to send output again: the last `keep` bytes that it
    /// has read are retained.
    pub fn primary_reader_retaining(&self, from: Cursor, keep: u64) -> LogReader {
        LogReader::primary(self.shared.log.clone(), from).keeping(keep)
    }

    /// Sets whether the primary reader is disconnected for a while. Meanwhile the process does not wait for it: output is
    /// kept in memory and on disk up to their limits, then the oldest is dropped and reported as lost.
    pub fn set_reader_disconnected(&self, is_primary_disconnected: bool) {
        self.shared.log.set_primary_disconnected(is_primary_disconnected);
    }

    /// A reader that the process does not wait for. Output that is dropped before it was read is reported as lost.
    pub fn reader(&self, from: Cursor) -> LogReader {
        LogReader::viewer(self.shared.log.clone(), from)
    }

    /// Waits for the end; [`Error::Gone`] if the relay to its keeper ended before. Dropping this future does not affect the
    /// process.
    pub async fn closed(&self) -> Result<Arc<ProcessSummary>, Error> {
        let mut state = self.shared.log.state();
        let is_over = |state: &ProcessState| state.closed.is_some() || state.is_disconnected;
        let state = state.wait_for(is_over).await.map_err(|_gone| Error::Gone)?;
        state.closed.clone().ok_or(Error::Gone)
    }

    /// Waits until all members of its tree are gone, background jobs included. Dropping this future does not affect them.
    pub async fn gone(&self) {
        self.shared.commands.closed().await;
    }

    /// TERM and KILL end the whole tree and return its members; any other signal is sent once to the process group.
    pub async fn kill(&self, signal: Signal) -> Result<KillOutcome, Error> {
        let (reply, answer) = oneshot::channel();
        self.shared
            .commands
            .send(SupervisorCommand::Kill { signal, reply })
            .await
            .map_err(|_ended| Error::Gone)?;
        answer.await.map_err(|_ended| Error::Gone)?
    }

    /// Writes to standard input, and closes it if `is_last`. Waits while the queue is full.
    pub async fn input(&self, bytes: Bytes, is_last: bool) -> Result<usize, Error> {
        let (reply, answer) = oneshot::channel();
        let request = InputRequest { bytes, is_last, reply };
        self.shared.inputs.send(request).await.map_err(|_ended| Error::Gone)?;
        answer.await.map_err(|_ended| Error::Gone)?
    }

    /// Changes the size of its terminal. A side of 0 stays as it is.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        self.shared
            .commands
            .send(SupervisorCommand::Resize { size, reply })
            .await
            .map_err(|_ended| Error::Gone)?;
        answer.await.map_err(|_ended| Error::Gone)?
    }

    /// Reads what its terminal holds now, and returns the end of the log: everything that the program wrote before this call
    /// is before it. Fails with [`Error::Gone`] when the process has ended.
    pub async fn catch_up(&self) -> Result<Cursor, Error> {
        let (reply, answer) = oneshot::channel();
        self.shared
            .commands
            .send(SupervisorCommand::CatchUp { reply })
            .await
            .map_err(|_ended| Error::Gone)?;
        answer.await.map_err(|_ended| Error::Gone)
    }

    /// Sends a signal to the foreground process group of its terminal. Returns whether that is the leader's own group, which
    /// then received it unless the signal ends processes.
    pub async fn signal_foreground(&self, signal: Signal) -> Result<bool, Error> {
        let (reply, answer) = oneshot::channel();
        self.shared
            .commands
            .send(SupervisorCommand::SignalForeground { signal, reply })
            .await
            .map_err(|_ended| Error::Gone)?;
        answer.await.map_err(|_ended| Error::Gone)?
    }

    /// Examines its terminal: the size, the echo, and whether a foreground process waits for input. Fails with
    /// [`Error::Gone`] without a terminal. Costs some milliseconds of a blocking thread; call it when output has paused.
    pub async fn terminal_state(&self) -> Result<TerminalState, Error> {
        let (reply, answer) = oneshot::channel();
        self.shared
            .commands
            .send(SupervisorCommand::Terminal { reply })
            .await
            .map_err(|_ended| Error::Gone)?;
        answer.await.map_err(|_ended| Error::Gone)?.0.await
    }
}

/// A weak handle, which does not keep the state of the process alive.
#[derive(Debug, Clone)]
pub(crate) struct WeakProcess(Weak<Shared>);

impl WeakProcess {
    pub(crate) fn upgrade(&self) -> Option<Process> {
        self.0.upgrade().map(|shared| Process { shared })
    }
}

impl PendingStart {
    /// The handle, usable before the process runs.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Waits until the program runs, or returns why it does not. Dropping this future does not stop the start.
    pub async fn running(self) -> Result<Process, Error> {
        match self.outcome.await {
            Ok(Ok(_pid)) => Ok(self.process),
            Ok(Err(error)) => Err(error),
            Err(_ended) => Err(Error::Gone),
        }
    }
}
