//! The supervisor: the one task that owns a child. It alone writes the child's log, signals it and reaps it.
//!
//! A process goes through three phases. It runs; its leader exits and its output is drained; it is closed. Background
//! jobs of the leader continue, watched by the same task, until they end or the session does.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::drain::Drain;
use super::flow::Flow;
use super::launch::{Launcher, RunningChild};
use super::limits::LimitEvents;
use super::log::Cursor;
use super::log::OutputLog;
use super::spec::{ExitCause, ExitStatus, ProcessSpec, ProcessSummary, Stdin, Stream, TerminalSize};
use super::stdin::{InputRequest, StdinQueue};
use super::streams::Output;
use super::sys;
use super::terminal_state::{self, Examination};
use super::tree::KillOutcome;
use super::waits::{discard, next_output, wait_ending, wait_exit, yield_to_ready_tasks};
use super::{ProcessLimits, Signal, WeakProcess};
use crate::Error;
use crate::limits::OnOutputLimit;
use crate::registry::Registry;
use crate::sandbox::{Denial, DenialDetector, StandIns};

/// A command to a supervisor.
#[derive(Debug)]
pub(super) enum SupervisorCommand {
    /// End the tree, or signal its process group; the reply is sent when that is done.
    Kill { signal: Signal, reply: oneshot::Sender<Result<KillOutcome, Error>> },
    /// Change the size of the terminal.
    Resize { size: TerminalSize, reply: oneshot::Sender<Result<(), Error>> },
    /// Read what the terminal holds; the reply is the end of the log.
    CatchUp { reply: oneshot::Sender<Cursor> },
    /// Signal the foreground process group of the terminal; the reply is whether that is the group of the leader.
    SignalForeground { signal: Signal, reply: oneshot::Sender<Result<bool, Error>> },
    /// Examine the terminal; the reply is the examination, which the requester runs.
    Terminal { reply: oneshot::Sender<Examination> },
}

/// The arguments of a supervisor.
#[derive(Debug)]
pub(super) struct Assignment {
    /// The mark in the environment of every process of the tree.
    pub(super) mark: String,
    /// The registry, and the handle that is added to it once the process runs.
    pub(super) registration: (Registry, WeakProcess),
    pub(super) spec: ProcessSpec,
    pub(super) log: Arc<OutputLog>,
    pub(super) bounds: ProcessLimits,
    pub(super) launcher: Arc<Launcher>,
    pub(super) commands: mpsc::Receiver<SupervisorCommand>,
    pub(super) inputs: mpsc::Receiver<InputRequest>,
    pub(super) started: oneshot::Sender<Result<i32, Error>>,
    /// Cancelled when the session ends, and its processes with it.
    pub(super) stop: CancellationToken,
}

/// An event that a supervisor waits for.
enum SupervisorEvent {
    Output { index: usize, bytes: Option<Bytes> },
    Exited(ExitStatus),
    Command(SupervisorCommand),
    Input(InputRequest),
    InputMoved(io::Result<usize>),
    Ended(KillOutcome),
    TimeIsUp,
    Drained,
    CapacityOrStall,
    Stop,
}

pub(super) type KillFuture = Pin<Box<dyn Future<Output = KillOutcome> + Send>>;

pub(super) struct Supervisor {
    log: Arc<OutputLog>,
    launcher: Arc<Launcher>,
    bounds: ProcessLimits,
    commands: mpsc::Receiver<SupervisorCommand>,
    inputs: mpsc::Receiver<InputRequest>,
    stop: CancellationToken,
    live: RunningChild,
    /// Outputs that ended; their descriptors are closed after the end was published.
    ended: Vec<Output>,
    stdin: StdinQueue,
    flow: Flow,
    ending: Option<KillFuture>,
    waiting: Vec<oneshot::Sender<Result<KillOutcome, Error>>>,
    is_stopping: bool,
    started_at: Instant,
    stop_at: Option<Instant>,
    may_write: Option<u64>,
    at_limit: OnOutputLimit,
    end_grace: Duration,
    cause: ExitCause,
    exit: Option<(ExitStatus, Duration)>,
    /// Whether the exit is in the log, behind all output that the leader wrote.
    is_exit_logged: bool,
    drain: Option<Drain>,
    truncated_bytes: u64,
    /// Observes the output of a confined process, to report a denial.
    denial_detector: Option<DenialDetector>,
}

/// Starts the child and supervises it. Returns when its tree has ended, or when the session stopped and the remaining
/// members cannot be killed.
pub(super) async fn supervise(assignment: Assignment) {
    let launcher = assignment.launcher.clone();
    launcher.tree_starts();
    start_and_run(assignment).await;
    launcher.tree_ended();
}

async fn start_and_run(assignment: Assignment) {
    let Assignment {
        mark,
        registration: (registry, process),
        spec,
        log,
        bounds,
        launcher,
        commands,
        inputs,
        started,
        stop,
    } = assignment;
    let live = match launcher.launch(&spec, &mark).await {
        Ok(live) => live,
        Err(error) => {
            // Fails if the caller dropped the start.
            let _sent = started.send(Err(error));
            return;
        }
    };
    let (started_at, pid) = (Instant::now(), live.pid);
    let stdin = StdinQueue::new(match spec.stdin {
        Stdin::Given(bytes) => Some(bytes),
        Stdin::Open | Stdin::Empty => None,
    });
    let supervisor = Supervisor {
        flow: Flow::new(log.clone(), &bounds),
        end_grace: spec.end_grace.unwrap_or(bounds.kill_grace),
        log,
        launcher,
        bounds,
        commands,
        inputs,
        stop,
        live,
        ended: Vec::new(),
        stdin,
        ending: None,
        waiting: Vec::new(),
        is_stopping: false,
        started_at,
        stop_at: spec.stop_after.map(|after| started_at + after),
        may_write: spec.output_limit.map(|limit| limit.bytes),
        at_limit: spec.output_limit.map_or(OnOutputLimit::Kill, |limit| limit.then),
        cause: ExitCause::Itself,
        exit: None,
        is_exit_logged: false,
        drain: None,
        truncated_bytes: 0,
        denial_detector: spec
            .confinement
            .filter(|confinement| !confinement.is_off())
            .map(|confinement| DenialDetector::new(confinement, spec.cwd.as_path().to_owned())),
    };
    supervisor.log.running(pid);
    let _sent = started.send(Ok(pid));
    supervisor.launcher.guard();
    registry.add(process).await;
    supervisor.run().await;
}

impl Supervisor {
    async fn run(mut self) {
        while !self.is_closed() {
            let event = self.next().await;
            self.handle(event).await;
        }
        // Removed before the end is published, unless a member of the tree still runs.
        if !self.live.stand_ins.is_empty() && self.live.tree.is_gone().await {
            self.live.stand_ins = StandIns::default();
        }
        self.close().await;
        // The end is delivered before the cleanup: one turn for the reader, one for the writer.
        for _ in 0..3 {
            yield_to_ready_tasks().await;
        }
        self.ended.clear();
        self.supervise_background().await;
    }

    /// Closed once the leader has exited, its output is drained, and no kill is in progress.
    fn is_closed(&self) -> bool {
        let is_drained = self.live.outputs.is_empty() || self.drain.as_ref().is_some_and(Drain::is_over);
        self.exit.is_some() && is_drained && self.ending.is_none()
    }

    /// Waits for the next event. Commands come first, so that no flood of output delays a kill.
    async fn next(&mut self) -> SupervisorEvent {
        let has_input = self.stdin.wants_to_write();
        let reads = self.flow.may_read();
        let drains = self.drain.is_some() && reads;
        let idle_until = self.drain.as_ref().map_or(self.started_at, Drain::until);
        let time_is_up = self.stop_at.unwrap_or(self.started_at);
        tokio::select! {
            biased;
            Some(command) = self.commands.recv() => SupervisorEvent::Command(command),
            () = self.stop.cancelled(), if !self.is_stopping => SupervisorEvent::Stop,
            exit = wait_exit(&self.live.leader), if self.exit.is_none() => SupervisorEvent::Exited(exit),
            ended = wait_ending(&mut self.ending), if self.ending.is_some() => SupervisorEvent::Ended(ended),
            Some(request) = self.inputs.recv(), if self.stdin.has_capacity() => SupervisorEvent::Input(request),
            moved = self.stdin.write(&self.live.input), if has_input => SupervisorEvent::InputMoved(moved),
            (index, bytes) = next_output(&mut self.live.outputs), if reads => SupervisorEvent::Output { index, bytes },
            () = self.flow.capacity_or_stall(), if !reads => SupervisorEvent::CapacityOrStall,
            () = sleep_until(time_is_up), if self.stop_at.is_some() && self.exit.is_none() => SupervisorEvent::TimeIsUp,
            () = sleep_until(idle_until), if drains => SupervisorEvent::Drained,
        }
    }

    async fn handle(&mut self, event: SupervisorEvent) {
        match event {
            SupervisorEvent::Output { index, bytes: Some(bytes) } => self.take_output(index, bytes),
            SupervisorEvent::Output { index, bytes: None } => self.end_output(index),
            SupervisorEvent::Exited(exit) => self.leader_ended(exit).await,
            SupervisorEvent::Command(SupervisorCommand::CatchUp { reply }) => {
                self.read_backlog().await;
                let _sent = reply.send(self.log.state().borrow().end);
            }
            SupervisorEvent::Command(command) => self.handle_command(command),
            SupervisorEvent::Input(request) => self.stdin.accept(request, &mut self.live.input),
            SupervisorEvent::InputMoved(moved) => self.stdin.moved(moved, &mut self.live.input),
            SupervisorEvent::Ended(ended) => self.tree_ended(&ended),
            SupervisorEvent::TimeIsUp => {
                self.stop_at = None;
                self.end_tree(ExitCause::TimedOut, Some(self.bounds.kill_grace));
            }
            SupervisorEvent::Drained => {
                self.drain.iter_mut().for_each(|drain| drain.quiet(&self.live.outputs))
            }
            SupervisorEvent::CapacityOrStall => self.flow.relieve().await,
            SupervisorEvent::Stop => {
                self.end_with_session();
            }
        }
    }

    fn take_output(&mut self, index: usize, bytes: Bytes) {
        if let Some(drain) = &mut self.drain {
            drain.read(&self.live.outputs);
        }
        let Some(stream) = self.live.outputs.get(index).map(|output| output.stream) else { return };
        self.record(stream, bytes);
        self.log_exit_if_drained();
    }

    fn end_output(&mut self, index: usize) {
        if index < self.live.outputs.len() {
            let mut output = self.live.outputs.remove(index);
            self.record(output.stream, output.rest());
            self.ended.push(output);
            if let Some(drain) = &mut self.drain {
                drain.ended(index);
            }
            self.log_exit_if_drained();
        }
    }

    /// Appends output to the log, exactly up to the output limit.
    fn record(&mut self, stream: Stream, mut bytes: Bytes) {
        if let Some(left) = self.may_write {
            let fits = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            let over = (bytes.len() - fits) as u64;
            bytes.truncate(fits);
            self.may_write = Some(left - fits as u64);
            self.truncated_bytes += over;
            let is_first = over > 0 && self.truncated_bytes == over;
            if is_first && self.at_limit == OnOutputLimit::Kill {
                self.end_tree(ExitCause::OutputLimit, None);
            }
        }
        if let Some(denial_detector) = &mut self.denial_detector {
            denial_detector.observe(stream, &bytes);
        }
        self.log.push(stream, bytes);
        self.flow.pushed();
    }

    async fn leader_ended(&mut self, exit: ExitStatus) {
        self.launcher.reaped(self.live.pid);
        self.live.tree.reaped();
        self.exit = Some((exit, self.started_at.elapsed()));
        self.read_backlog().await;
        self.drain = Some(Drain::new(&self.live.outputs, &self.bounds));
        self.log_exit_if_drained();
        if !self.is_exit_logged {
            self.log.exited(exit);
        }
    }

    /// Records what the terminal holds now.
    async fn read_backlog(&mut self) {
        if let [output] = self.live.outputs.as_mut_slice()
            && output.stream == Stream::Terminal
        {
            for bytes in output.read_terminal_backlog().await {
                self.record(Stream::Terminal, bytes);
            }
        }
    }

    /// Appends the exit to the log after the output that was in the pipes when the leader exited. Output is read at the
    /// speed of the primary reader, so this may be long after the exit.
    fn log_exit_if_drained(&mut self) {
        let Some((status, _)) = self.exit.filter(|_| !self.is_exit_logged) else { return };
        if !self.drain.as_ref().is_some_and(|drain| drain.owes_nothing(&self.live.outputs)) {
            return;
        }
        self.is_exit_logged = true;
        self.record_rests();
        self.log.append_exit(status, self.denial(status).is_some());
    }

    /// Records incomplete characters that were held back.
    fn record_rests(&mut self) {
        for index in 0..self.live.outputs.len() {
            let (stream, rest) = (self.live.outputs[index].stream, self.live.outputs[index].rest());
            self.record(stream, rest);
        }
    }

    fn denial(&self, exit: ExitStatus) -> Option<Denial> {
        self.denial_detector.as_ref().and_then(|detector| detector.denial(exit))
    }

    fn handle_command(&mut self, command: SupervisorCommand) {
        match command {
            SupervisorCommand::Kill { signal, reply } if signal.ends() => {
                let grace = (signal == Signal::TERM).then_some(self.bounds.kill_grace);
                self.waiting.push(reply);
                // A KILL does not wait for the grace of an earlier TERM.
                if self.ending.is_none() || grace.is_none() {
                    self.end_tree(ExitCause::Killed, grace);
                }
            }
            SupervisorCommand::Kill { signal, reply } => {
                self.live.tree.signal_group(signal);
                let _sent = reply.send(Ok(KillOutcome::default()));
            }
            SupervisorCommand::Resize { size, reply } => {
                let resized = match self.terminal() {
                    Some(terminal) => terminal.resize(size).map_err(|_gone| Error::Gone),
                    None => Err(Error::Gone),
                };
                let _sent = reply.send(resized);
            }
            // Handled where it can wait.
            SupervisorCommand::CatchUp { reply } => {
                let _sent = reply.send(self.log.state().borrow().end);
            }
            SupervisorCommand::SignalForeground { signal, reply } => {
                let _sent = reply.send(self.signal_foreground(signal));
            }
            SupervisorCommand::Terminal { reply } => {
                let probe = self.terminal().map(Output::probe);
                let _sent = reply.send(Examination(Box::pin(terminal_state::examine(probe))));
            }
        }
    }

    fn signal_foreground(&self, signal: Signal) -> Result<bool, Error> {
        let group = self.terminal().and_then(Output::foreground_group).ok_or(Error::Gone)?;
        let is_own = group == self.live.pid;
        match is_own {
            true if signal.ends() => {}
            true => drop(self.live.tree.signal_group(signal)),
            false => drop(sys::send_to_group(group, signal)),
        }
        Ok(is_own)
    }

    fn terminal(&self) -> Option<&Output> {
        self.live.outputs.iter().find(|output| output.stream == Stream::Terminal)
    }

    fn end_tree(&mut self, cause: ExitCause, grace: Option<Duration>) {
        if self.cause == ExitCause::Itself && self.exit.is_none() {
            self.cause = cause;
        }
        if self.ending.is_some() && grace.is_some() {
            // A kill is in progress; a new one would only extend the grace.
            return;
        }
        self.ending = Some(Box::pin(self.live.tree.clone().end(grace)));
    }

    /// Kills the tree because its session ends. The session itself searches for members that left the tree.
    fn end_with_session(&mut self) {
        self.is_stopping = true;
        self.live.tree = self.live.tree.of_ending_session();
        let grace = Some(self.end_grace).filter(|grace| !grace.is_zero());
        self.end_tree(ExitCause::Killed, grace);
    }

    fn tree_ended(&mut self, ended: &KillOutcome) {
        self.ending = None;
        for reply in self.waiting.drain(..) {
            let _sent = reply.send(Ok(ended.clone()));
        }
    }

    /// The last entry of the log.
    async fn close(&mut self) {
        let Some((exit, duration)) = self.exit else { return };
        let names: Vec<String> = self.live.outputs.iter().filter_map(Output::name).collect();
        let held_by = if names.is_empty() { Vec::new() } else { self.live.tree.holders(names).await };
        self.record_rests();
        self.stdin.close(&mut self.live.input);
        // Pending and later inputs are refused.
        self.inputs.close();
        while let Ok(request) = self.inputs.try_recv() {
            self.stdin.accept(request, &mut self.live.input);
        }
        let state = self.log.state().borrow().clone();
        let counted = self.counted();
        // A command that exited with 0 has handled the kill of one of its processes.
        if self.cause == ExitCause::Itself && counted.memory_kills > 0 && exit != ExitStatus::Code(0) {
            self.cause = ExitCause::MemoryLimit;
        }
        self.log.close(ProcessSummary {
            exit,
            cause: self.cause,
            duration,
            stdout_bytes: state.stdout_bytes,
            stderr_bytes: state.stderr_bytes,
            truncated_bytes: self.truncated_bytes,
            held_by,
            processes_refused: counted.processes_refused,
            denied: self.denial(exit),
        });
    }

    /// The counters that the kernel keeps for its limits.
    fn counted(&self) -> LimitEvents {
        let Some(held) = &self.live.held else { return LimitEvents::default() };
        let cgroup = self.live.tree.cgroup.as_ref();
        held.counted() + cgroup.map_or_else(LimitEvents::default, |lease| lease.counted())
    }

    /// Supervises background jobs after the end: their output is read and discarded, since closing the pipe would kill them.
    async fn supervise_background(mut self) {
        while self.ending.is_some() || !self.live.tree.is_gone().await {
            if self.is_stopping && self.ending.is_none() {
                // The remaining members are stuck in the kernel and cannot be killed.
                return;
            }
            let tree = self.live.tree.clone();
            tokio::select! {
                biased;
                Some(command) = self.commands.recv() => self.handle_command(command),
                () = self.stop.cancelled(), if !self.is_stopping => {
                    self.end_with_session();
                }
                ended = wait_ending(&mut self.ending), if self.ending.is_some() => {
                    self.tree_ended(&ended);
                    if self.is_stopping {
                        return;
                    }
                }
                () = discard(&mut self.live.outputs) => {}
                () = tree.emptied(), if self.ending.is_none() => {}
            }
        }
    }
}
