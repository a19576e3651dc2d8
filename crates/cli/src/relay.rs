//! Connects stdin, stdout, stderr and signals of this process to a remote process until it exits.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use client::stdio::{self, Output};
use client::v1::codes;
use client::{Error, Process, ProcessControl, ProcessEvent, ProcessEventKind, ProcessExit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use crate::command_limits::CommandLimits;
use crate::failure::{CommandStatus, Failure, NOT_FOUND, TIMED_OUT};
use crate::interrupt;
use crate::output;
use crate::terminal::{self, Escape};

/// Bytes of stdin per request.
const INPUT_CHUNK: usize = 128 * 1024;
/// How long a signal waits for the answer to the start of its command.
const EARLY_SIGNAL_WAIT: Duration = Duration::from_secs(2);
/// Input requests in flight; at this limit stdin is not read.
const MAX_INPUT_REQUESTS: usize = 16;
/// The same for typed input, which is short: Ctrl-C must be read while the connection is lost.
const MAX_TYPED_REQUESTS: usize = 256;
/// The byte that Ctrl-C types in raw mode.
const CTRL_C: u8 = 3;

/// How the streams of a process are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayOptions {
    /// Print events as JSON, one per line.
    pub json: bool,
    /// What is done with stdin.
    pub input: InputMode,
    /// Whether the process is detached, so that SIGHUP, SIGINT and SIGTERM only detach from it.
    pub is_detached: bool,
}

/// What is done with stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputMode {
    /// Not forwarded; the stdin of the process is closed.
    Closed,
    /// Not forwarded; the stdin of the process stays open.
    Untouched,
    /// Forwarded to the process until end of file.
    Forwarded,
    /// Typed on a terminal; `~.` at the start of a line detaches.
    Terminal,
}

/// Why the relay ended.
#[derive(Debug)]
pub enum RelayEnd {
    /// The process exited.
    Exit(ProcessExit),
    /// The process exited, and part of its output is lost.
    Incomplete(ProcessExit),
    /// The user detached; the process continues.
    Detached,
}

/// Waits for the start of a command. A signal that arrives before the response is for the command, which may run already; if
/// there is no response soon, or with another signal, `rex` exits instead.
pub async fn start<T>(starting: impl Future<Output = Result<T, Error>>) -> Result<(T, Signals), Failure> {
    let mut signals = Signals::listen()?;
    tokio::pin!(starting);
    let started = loop {
        let early = tokio::select! {
            started = &mut starting => break started,
            action = signals.next() => action,
        };
        if matches!(early, SignalAction::Resize) {
            continue;
        }
        let status = early.status();
        tokio::select! {
            started = &mut starting => {
                signals.early = Some(early);
                break started;
            }
            _second = signals.next() => {}
            () = tokio::time::sleep(EARLY_SIGNAL_WAIT) => {}
        }
        crate::app::close_all_sessions().await;
        return Err(Failure::new("interrupted; the command may have been started").status(status));
    };
    Ok((started.map_err(start_failure)?, signals))
}

/// Relays until the process exits or the user detaches.
pub async fn relay(
    process: &mut Process,
    mut signals: Signals,
    options: RelayOptions,
) -> Result<RelayEnd, Failure> {
    let control = process.control();
    let mut out = OutputSinks::open(options.json)?;
    let mut input = JoinSet::new();
    match options.input {
        InputMode::Closed => {
            let control = control.clone();
            input.spawn(async move { control.close_input().await.map(|()| InputEnd::Closed) });
        }
        InputMode::Forwarded => drop(input.spawn(forward(control.clone(), None))),
        InputMode::Terminal => drop(input.spawn(forward(control.clone(), Some(Escape::default())))),
        InputMode::Untouched => {}
    }
    let mut sending = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => {
                match signal {
                    SignalAction::Signal("HUP" | "TERM") if options.is_detached => return Ok(RelayEnd::Detached),
                    // A terminal types Ctrl-C into the process; here the signal is for this client.
                    SignalAction::Signal("INT") if options.is_detached => return Ok(RelayEnd::Detached),
                    SignalAction::Abort(status) => {
                        return Err(Failure::new("interrupted; the command may still be running").status(status));
                    }
                    SignalAction::Signal("INT") if control.is_reconnecting() => return Err(gave_up()),
                    _ => {}
                }
                let control = control.clone();
                sending.spawn(async move { signal.send(&control).await });
            }
            event = process.next() => match event.map_err(|error| out.interrupted(error))? {
                Some(event) => if let Some(exit) = out.show(event).await? { return Ok(out.end(exit)) },
                None => return Err(Failure::new("protocol error: the events of the process ended without its exit")),
            },
            Some(fed) = input.join_next() => match fed {
                Ok(Ok(InputEnd::Detached)) => return Ok(RelayEnd::Detached),
                Ok(Ok(InputEnd::Interrupted)) => return Err(gave_up()),
                Ok(Err(Error::Refused(error))) if error.code == codes::UNSUPPORTED_CAPABILITY => {
                    output::note(&error.message);
                }
                // The process closed its stdin or has exited; its exit event follows.
                Ok(Ok(InputEnd::Closed) | Err(Error::Refused(_))) => {}
                Ok(Err(error)) => return Err(error.into()),
                Err(error) => return Err(Failure::new(format!("cannot read stdin: {error}"))),
            },
            Some(_) = sending.join_next() => {}
        }
    }
}

/// The failure for a user who does not wait for the connection.
fn gave_up() -> Failure {
    Failure::new("interrupted while the connection was lost; the command may still be running")
        .hint("`rex ps` lists the processes of the target")
        .status(interrupt::INTERRUPTED)
}

/// Why stdin is not forwarded any longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputEnd {
    /// Its end was forwarded.
    Closed,
    /// The user detached.
    Detached,
    /// The user typed Ctrl-C while the connection was lost.
    Interrupted,
}

/// Forwards stdin to the process, several requests in flight.
async fn forward(control: ProcessControl, mut escape: Option<Escape>) -> Result<InputEnd, Error> {
    let unreadable = |error: std::io::Error| Error::ReadInput(std::sync::Arc::new(error));
    let mut stdin = stdio::input(rustix::stdio::stdin()).map_err(unreadable)?;
    let mut in_flight = JoinSet::new();
    let mut buffer = vec![0; INPUT_CHUNK];
    let limit = if escape.is_some() { MAX_TYPED_REQUESTS } else { MAX_INPUT_REQUESTS };
    loop {
        let read = stdin.read(&mut buffer).await.map_err(unreadable)?;
        if escape.is_some() && control.is_reconnecting() && buffer[..read].contains(&CTRL_C) {
            return Ok(InputEnd::Interrupted);
        }
        let mut detaches = false;
        let bytes = match &mut escape {
            Some(escape) => {
                let typed = escape.take(&buffer[..read]);
                detaches = typed.detaches;
                typed.bytes
            }
            None => buffer[..read].to_vec(),
        };
        while in_flight.len() >= limit || ((read == 0 || detaches) && !in_flight.is_empty()) {
            if let Some(Ok(Err(error))) = in_flight.join_next().await {
                return Err(error);
            }
        }
        if !bytes.is_empty() {
            let control = control.clone();
            // Requests are queued at their first poll, and tasks are first polled in the order they are spawned.
            in_flight.spawn(async move { control.input(&bytes).await });
        }
        if detaches {
            return Ok(InputEnd::Detached);
        }
        if read == 0 {
            control.close_input().await?;
            return Ok(InputEnd::Closed);
        }
    }
}

/// Where the output of a process is written.
#[derive(Debug)]
pub struct OutputSinks {
    stdout: Output,
    stderr: Output,
    json: bool,
    /// Bytes of output received.
    bytes: u64,
    /// Whether some output was lost.
    has_lost: bool,
}

impl OutputSinks {
    /// Opens stdout and stderr; with `json`, events are printed on stdout as received.
    pub fn open(json: bool) -> Result<OutputSinks, Failure> {
        let open = |stream: BorrowedFd<'_>| stdio::output(stream);
        Ok(OutputSinks {
            stdout: open(rustix::stdio::stdout())?,
            stderr: open(rustix::stdio::stderr())?,
            json,
            bytes: 0,
            has_lost: false,
        })
    }

    /// The failure when the event stream breaks off.
    fn interrupted(&self, error: Error) -> Failure {
        let known = format!("{} bytes of output were received; the exit status is unknown", self.bytes);
        let failure = Failure::from(error);
        Failure { message: format!("{}; {known}", failure.message), ..failure }
    }

    /// Writes one event; returns the exit if it is one.
    pub async fn show(&mut self, event: ProcessEvent) -> Result<Option<ProcessExit>, Failure> {
        if let ProcessEventKind::Stdout(bytes)
        | ProcessEventKind::Stderr(bytes)
        | ProcessEventKind::Terminal(bytes) = &event.kind
        {
            self.bytes += bytes.len() as u64;
        }
        self.has_lost |= matches!(event.kind, ProcessEventKind::Lost(_));
        if self.json
            && let Some(line) = &event.line
        {
            self.stdout.write_all(line).await.map_err(output::write_error)?;
            self.stdout.write_all(b"\n").await.map_err(output::write_error)?;
        }
        match event.kind {
            ProcessEventKind::Exit(exit) => return Ok(Some(exit)),
            _ if self.json => {}
            ProcessEventKind::Stdout(bytes) | ProcessEventKind::Terminal(bytes) => {
                self.stdout.write_all(&bytes).await.map_err(output::write_error)?;
            }
            ProcessEventKind::Stderr(bytes) => {
                self.stderr.write_all(&bytes).await.map_err(output::write_error)?
            }
            ProcessEventKind::Lost(lost) => output::note(lost),
            ProcessEventKind::Error(trouble) => output::note(trouble),
        }
        Ok(None)
    }

    fn end(&self, exit: ProcessExit) -> RelayEnd {
        match self.has_lost {
            true => RelayEnd::Incomplete(exit),
            false => RelayEnd::Exit(exit),
        }
    }
}

/// The signals that are forwarded.
#[derive(Debug)]
pub struct Signals {
    /// One that arrived before the process was known.
    early: Option<SignalAction>,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hang_up: Signal,
    resize: Signal,
    interrupts: u32,
    terminations: u32,
}

#[derive(Debug)]
enum SignalAction {
    Signal(&'static str),
    /// The user sent the third SIGINT: kill the process.
    Kill,
    /// The user sent another signal after that: exit with this status without waiting.
    Abort(u8),
    Resize,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Result<Signals, Failure> {
        interrupt::handle_elsewhere();
        Ok(Signals {
            early: None,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            resize: signal(SignalKind::window_change())?,
            interrupts: 0,
            terminations: 0,
        })
    }

    async fn next(&mut self) -> SignalAction {
        if let Some(early) = self.early.take() {
            return early;
        }
        tokio::select! {
            _ = self.interrupt.recv() => {
                self.interrupts += 1;
                match self.interrupts {
                    1 | 2 => SignalAction::Signal("INT"),
                    3 => SignalAction::Kill,
                    _ => SignalAction::Abort(130),
                }
            }
            _ = self.quit.recv() => SignalAction::Signal("QUIT"),
            _ = self.terminate.recv() => {
                self.terminations += 1;
                match self.terminations {
                    1 => SignalAction::Signal("TERM"),
                    _ => SignalAction::Abort(143),
                }
            }
            _ = self.hang_up.recv() => SignalAction::Signal("HUP"),
            _ = self.resize.recv() => SignalAction::Resize,
        }
    }
}

impl SignalAction {
    /// The exit status of a program that the signal ends.
    fn status(&self) -> u8 {
        match self {
            SignalAction::Signal("HUP") => 129,
            SignalAction::Signal("QUIT") => 131,
            SignalAction::Signal("TERM") => 143,
            SignalAction::Signal(_) | SignalAction::Kill | SignalAction::Resize => interrupt::INTERRUPTED,
            SignalAction::Abort(status) => *status,
        }
    }

    async fn send(self, control: &ProcessControl) -> Result<(), Error> {
        match self {
            SignalAction::Signal(name) => match control.kill(Some(name)).await {
                // A signal that may be lost is sent again: twice is better than never.
                Err(Error::Ambiguous { .. }) => control.kill(Some(name)).await.map(drop),
                sent => sent.map(drop),
            },
            SignalAction::Kill | SignalAction::Abort(_) => control.kill(None).await.map(drop),
            SignalAction::Resize => control.resize(terminal::size()).await,
        }
    }
}

/// The exit status for `rex`, with a note about the limit or sandbox that ended the process.
pub fn status(exit: &ProcessExit, limits: CommandLimits, json: bool) -> CommandStatus {
    // With --json the last event contains all of this.
    let note = |text: std::fmt::Arguments<'_>| {
        if !json {
            output::note(text);
        }
    };
    if exit.output_limit_exceeded {
        note(format_args!("{}", limits.output_message()));
    }
    if let Some(reason) = &exit.reason {
        note(format_args!("command killed: {}", reason.replace('_', " ")));
    }
    if let Some(denied) = &exit.sandbox_denied {
        let path = denied.path.as_deref().unwrap_or("something");
        note(format_args!("denied by the sandbox: {} {path}", denied.access));
    }
    if exit.timed_out {
        note(format_args!("{}", limits.timeout_message()));
        return CommandStatus(TIMED_OUT);
    }
    CommandStatus(u8::try_from(exit.status()).unwrap_or(255))
}

/// The failure for a start that failed, with a shell's status: 127 not found, 126 cannot be executed.
pub fn start_failure(error: Error) -> Failure {
    let errno = error
        .rpc()
        .filter(|error| error.data.get("program").is_some())
        .map(|error| error.data["errno"].as_i64());
    let failure = Failure::from(error);
    match errno {
        Some(Some(errno)) if errno == i64::from(rustix::io::Errno::NOENT.raw_os_error()) => {
            failure.status(NOT_FOUND)
        }
        Some(_) => failure.status(126),
        None => failure,
    }
}
