//! Processes: what runs, who owns it, what it wrote.
//!
//! A [`Process`] is a handle. The child belongs to its supervisor, a task of its own; whoever holds a handle asks the
//! supervisor for things and reads the log.

mod apart;
mod cgroup;
mod child;
mod drain;
mod flow;
mod keeper;
mod launch;
pub mod limits;
mod log;
mod newer;
mod open_files;
mod orphans;
mod passed;
mod proc;
mod reader;
mod signal;
mod spawn;
mod spec;
mod spill;
mod stdin;
mod streams;
mod supervisor;
pub(crate) mod sys;
mod tree;
mod waits;

use std::borrow::Cow;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use apart::spawn_session_leader;
pub use keeper::{Keeper, KeeperEvent, KeeperReply, KeptProcess, NextKeeperEvent};
pub use launch::Containment;
pub(crate) use launch::Launcher;
pub use log::{Cursor, ProcessState};
pub(crate) use newer::Moment;
pub use open_files::raise_open_file_limit;
pub use passed::activation_sockets;
pub use reader::{Item, LogReader};
pub use signal::Signal;
pub use spec::{
    ExitCause, ExitStatus, OutputLimit, ProcessId, ProcessSpec, ProcessSummary, Program, Stdin, Stream,
    TerminalSize,
};
pub use tree::{KillOutcome, TreeMember};

use crate::Error;
use crate::registry::Registry;
use log::OutputLog;
use proc::Marked;
use stdin::InputRequest;
use supervisor::{Assignment, Command};

/// Inputs that wait for one supervisor, beside what it has queued for the program itself. One: with more slots, an
/// input that waited and was woken can be overtaken by one that comes later and finds a slot free.
const INPUTS_WAITING: usize = 1;

/// How often it is looked for members that got away: a process that is becoming another program shows its mark only after.
const SWEEPS: u32 = 20;
const BETWEEN_SWEEPS: Duration = Duration::from_millis(1);

/// The bounds a process is kept within.
#[derive(Debug, Clone)]
pub struct ProcessLimits {
    /// Output kept in memory per process.
    pub log_bytes: usize,
    /// Output kept on disk per process for a primary reader that has stopped.
    pub spill_bytes: u64,
    /// Where it is kept.
    pub spill_dir: PathBuf,
    /// Commands that wait for one supervisor; past it the asker waits, which slows that asker only.
    pub commands_waiting: usize,
    /// Between the request to end and the kill.
    pub kill_grace: Duration,
    /// Silence after the leader's end that counts as the end of output.
    pub drain_idle: Duration,
    /// The longest wait for the end of output that somebody else keeps open.
    pub drain_max: Duration,
}

/// What a listing says about a process.
#[derive(Debug, Clone)]
pub struct Description {
    /// The arguments as the kernel got them.
    pub argv: Vec<String>,
    /// Where it was started.
    pub cwd: PathBuf,
    /// Whether it has a terminal.
    pub has_terminal: bool,
    /// The face through which it was started.
    pub origin: Cow<'static, str>,
    /// When.
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
    commands: mpsc::Sender<Command>,
    inputs: mpsc::Sender<InputRequest>,
}

/// A process that is registered and may not run yet: a kill that arrives now is honoured.
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

    /// A handle to a process that somebody else keeps, with a reader from where its keeper begins to tell. A relay
    /// that `tasks` owns and `stop` ends passes everything on; the process itself goes on without it.
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
        // Before the relay begins, so that nothing it brings is dropped for want of a reader.
        let reader = LogReader::primary(log.clone(), from);
        let started_at = description.started_at;
        tasks.spawn(keeper::Relay { keeper, log: log.clone(), commands, inputs, stop, started_at }.run());
        let shared = Shared { id, description, log, commands: command_sender, inputs: input_sender };
        (Process { shared: Arc::new(shared) }, reader)
    }

    /// Its name within the engine.
    pub fn id(&self) -> &ProcessId {
        &self.shared.id
    }

    /// What a listing says about it.
    pub fn description(&self) -> &Description {
        &self.shared.description
    }

    /// The number of its leader; nothing before it runs.
    pub fn pid(&self) -> Option<i32> {
        self.shared.log.state().borrow().pid
    }

    /// What is known so far: how far its log goes, whether it exited, whether it closed.
    pub fn state(&self) -> ProcessState {
        self.shared.log.state().borrow().clone()
    }

    /// The oldest position of its log that can still be read.
    pub fn first(&self) -> Cursor {
        self.shared.log.first()
    }

    /// Bytes of output held in memory.
    pub fn memory(&self) -> usize {
        self.shared.log.memory()
    }

    /// Drops the output of a process that ended; its facts stay.
    pub fn forget_output(&self) {
        self.shared.log.forget();
    }

    /// A reader that loses nothing: the process waits for it. There is one; a new one takes its place.
    pub fn primary_reader(&self, from: Cursor) -> LogReader {
        LogReader::primary(self.shared.log.clone(), from)
    }

    /// As [`Process::primary_reader`], for somebody who may have to tell again what they were given: the last `keep`
    /// bytes of it are kept as if they had not been taken.
    pub fn primary_reader_retaining(&self, from: Cursor, keep: u64) -> LogReader {
        LogReader::primary(self.shared.log.clone(), from).keeping(keep)
    }

    /// The primary reader has left and may come back, or is back. While it is away the process does not wait for it:
    /// what it misses is kept as far as memory and disk go, then the oldest is given up and declared.
    pub fn set_reader_disconnected(&self, is_away: bool) {
        self.shared.log.set_away(is_away);
    }

    /// A reader that may fall behind and is then told what it lost.
    pub fn reader(&self, from: Cursor) -> LogReader {
        LogReader::viewer(self.shared.log.clone(), from)
    }

    /// Waits until nothing follows; gone if nothing more is heard of it here. Dropping this future leaves the process
    /// as it is.
    pub async fn closed(&self) -> Result<Arc<ProcessSummary>, Error> {
        let mut facts = self.shared.log.state();
        let is_over = |facts: &ProcessState| facts.closed.is_some() || facts.is_disconnected;
        let facts = facts.wait_for(is_over).await.map_err(|_gone| Error::Gone)?;
        facts.closed.clone().ok_or(Error::Gone)
    }

    /// Waits until nothing is left of it, the background jobs of its leader included. Dropping this future leaves
    /// them as they are.
    pub async fn gone(&self) {
        self.shared.commands.closed().await;
    }

    /// TERM and KILL end the whole tree and say who died; any other signal goes once to the group.
    pub async fn kill(&self, signal: Signal) -> Result<KillOutcome, Error> {
        let (reply, answer) = oneshot::channel();
        self.shared.commands.send(Command::Kill { signal, reply }).await.map_err(|_ended| Error::Gone)?;
        answer.await.map_err(|_ended| Error::Gone)?
    }

    /// Gives the process bytes to read, and the end of them if `is_last`. Waits while too much is waiting already.
    pub async fn input(&self, bytes: Bytes, is_last: bool) -> Result<usize, Error> {
        let (reply, answer) = oneshot::channel();
        let request = InputRequest { bytes, is_last, reply };
        self.shared.inputs.send(request).await.map_err(|_ended| Error::Gone)?;
        answer.await.map_err(|_ended| Error::Gone)?
    }

    /// Changes the size of its terminal. A side of 0 stays as it is.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        self.shared.commands.send(Command::Resize { size, reply }).await.map_err(|_ended| Error::Gone)?;
        answer.await.map_err(|_ended| Error::Gone)?
    }
}

/// A process that is remembered only as long as somebody else does.
#[derive(Debug, Clone)]
pub(crate) struct WeakProcess(Weak<Shared>);

impl WeakProcess {
    pub(crate) fn upgrade(&self) -> Option<Process> {
        self.0.upgrade().map(|shared| Process { shared })
    }
}

/// Ends whatever still carries a mark that starts with `prefix`: members that got away from their trees.
/// None of them is older than `since`.
pub(crate) async fn end_runaways(prefix: String, since: Moment) {
    if let Some(few) = since.numbers_since() {
        let is_clear = sweep(&prefix, &since, &mut few.clone());
        // What came into being meanwhile may be of them.
        if is_clear && since.numbers_since() == Some(few) {
            return;
        }
    }
    let end = move || {
        for _ in 0..SWEEPS {
            if sweep(&prefix, &since, &mut proc::pids()) {
                return;
            }
            std::thread::sleep(BETWEEN_SWEEPS);
        }
    };
    // A runtime that shuts down runs it no more; then there is nobody to wait for it either.
    let _swept: Result<(), _> = tokio::task::spawn_blocking(end).await;
}

/// Ends those that carry the mark. Tells whether there were none, and none that could not be told.
fn sweep(prefix: &str, since: &Moment, pids: &mut dyn Iterator<Item = i32>) -> bool {
    let mut is_clear = true;
    for pid in pids {
        match proc::marked(pid, launch::MARK, prefix) {
            Marked::No => {}
            Marked::Unseen => is_clear &= !since.may_precede(pid),
            Marked::Yes => {
                is_clear = false;
                // Opened first, then looked at again: the handle is bound to a process that carries the mark.
                let handle =
                    proc::open(pid).filter(|_| proc::marked(pid, launch::MARK, prefix) == Marked::Yes);
                if let Some(handle) = handle {
                    sys::send(handle.as_fd(), Signal::KILL);
                }
            }
        }
    }
    is_clear
}

impl PendingStart {
    /// The handle, usable before the process runs.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Waits until the program runs, or says why it does not. Dropping this future does not stop the start.
    pub async fn running(self) -> Result<Process, Error> {
        match self.outcome.await {
            Ok(Ok(_pid)) => Ok(self.process),
            Ok(Err(error)) => Err(error),
            Err(_ended) => Err(Error::Gone),
        }
    }
}
