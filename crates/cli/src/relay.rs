//! Between our own streams and a process there: output and errors out, input and signals in, until its end.

use std::os::fd::BorrowedFd;

use client::stdio::{self, Output};
use client::v1::codes;
use client::{Error, Process, ProcessControl, ProcessEvent, ProcessEventKind, ProcessExit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use crate::bounds::Bounds;
use crate::failure::{Failure, NOT_FOUND, Status, TIMED_OUT};
use crate::interrupt;
use crate::output;
use crate::terminal::{self, Escape};

/// How much of stdin goes in one request.
const PIECE: usize = 128 * 1024;
/// Requests with input that are not answered yet.
const PIECES_AHEAD: usize = 16;

/// How a process is shown and fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    /// Events as they came, one line each.
    pub json: bool,
    /// Whether our stdin goes to it.
    pub input: Input,
    /// Whether it lives on without us, so that whoever ends us only leaves it.
    pub outlives: bool,
}

/// What becomes of our stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// It stays with us, and the process gets nothing.
    Nothing,
    /// It stays with us, and the process keeps its own.
    Untouched,
    /// It goes to the process, to its end.
    Forwarded,
    /// It is typed into the process's terminal; the escape leaves.
    Typed,
}

/// How it came to an end.
#[derive(Debug)]
pub enum End {
    /// The process ended.
    Exit(ProcessExit),
    /// The process ended, and not all of its output came.
    Incomplete(ProcessExit),
    /// The person left; it runs on.
    Left,
}

/// Relays until the process ends or the person leaves.
pub async fn relay(process: &mut Process, manner: Manner) -> Result<End, Failure> {
    let control = process.control();
    let mut out = Sinks::open(manner.json)?;
    let mut signals = Signals::listen()?;
    let mut input = JoinSet::new();
    match manner.input {
        Input::Nothing => {
            let control = control.clone();
            input.spawn(async move { control.close_input().await.map(|()| false) });
        }
        Input::Forwarded => drop(input.spawn(forward(control.clone(), None))),
        Input::Typed => drop(input.spawn(forward(control.clone(), Some(Escape::default())))),
        Input::Untouched => {}
    }
    let mut sending = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => {
                match signal {
                    Caught::Signal("HUP" | "TERM") if manner.outlives => return Ok(End::Left),
                    Caught::Insists(status) => {
                        return Err(Failure::new("ended while the command had not").status(status));
                    }
                    _ => {}
                }
                let control = control.clone();
                sending.spawn(async move { signal.send(&control).await });
            }
            event = process.next() => match event.map_err(|error| out.cut_off(error))? {
                Some(event) => if let Some(exit) = out.show(event).await? { return Ok(out.end(exit)) },
                None => return Err(Failure::new("the process's events ended without its exit")),
            },
            Some(fed) = input.join_next() => match fed {
                Ok(Ok(true)) => return Ok(End::Left),
                Ok(Err(Error::Refused(error))) if error.code == codes::UNSUPPORTED_CAPABILITY => {
                    output::remark(&error.message);
                }
                // A program that closed its input, or has ended, tells how by its exit.
                Ok(Ok(false) | Err(Error::Refused(_))) => {}
                Ok(Err(error)) => return Err(error.into()),
                Err(error) => return Err(Failure::new(format!("reading stdin failed: {error}"))),
            },
            Some(_) = sending.join_next() => {}
        }
    }
}

/// Our stdin to the process, with some pieces ahead. Tells whether the person left.
async fn forward(control: ProcessControl, mut escape: Option<Escape>) -> Result<bool, Error> {
    let unreadable = |error: std::io::Error| Error::Lost(format!("cannot read stdin: {error}"));
    let mut stdin = stdio::input(rustix::stdio::stdin()).map_err(unreadable)?;
    let mut ahead = JoinSet::new();
    let mut buffer = vec![0; PIECE];
    loop {
        let read = stdin.read(&mut buffer).await.map_err(unreadable)?;
        let mut leaves = false;
        let bytes = match &mut escape {
            Some(escape) => {
                let typed = escape.take(&buffer[..read]);
                leaves = typed.leaves;
                typed.bytes
            }
            None => buffer[..read].to_vec(),
        };
        while ahead.len() >= PIECES_AHEAD || ((read == 0 || leaves) && !ahead.is_empty()) {
            if let Some(Ok(Err(error))) = ahead.join_next().await {
                return Err(error);
            }
        }
        if !bytes.is_empty() {
            let control = control.clone();
            // Its first poll, which puts it in line, comes before the next one's: tasks start in order.
            ahead.spawn(async move { control.input(&bytes).await });
        }
        if leaves {
            return Ok(true);
        }
        if read == 0 {
            control.close_input().await?;
            return Ok(false);
        }
    }
}

/// Where output goes.
#[derive(Debug)]
pub struct Sinks {
    stdout: Output,
    stderr: Output,
    json: bool,
    /// How much of the output came.
    bytes: u64,
    /// Whether some of it did not.
    has_lost: bool,
}

impl Sinks {
    /// Our stdout and stderr; with `json` events go to stdout as they came.
    pub fn open(json: bool) -> Result<Sinks, Failure> {
        let open = |stream: BorrowedFd<'_>| stdio::output(stream);
        Ok(Sinks {
            stdout: open(rustix::stdio::stdout())?,
            stderr: open(rustix::stdio::stderr())?,
            json,
            bytes: 0,
            has_lost: false,
        })
    }

    /// Why nothing more comes, and what is known about the process then.
    fn cut_off(&self, error: Error) -> Failure {
        let known = format!("{} bytes of its output arrived; how it ended is not known", self.bytes);
        let failure = Failure::from(error);
        Failure { message: format!("{}; {known}", failure.message), ..failure }
    }

    /// Shows what came; the exit, if it is that.
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
            self.stdout.write_all(line).await.map_err(output::gone)?;
            self.stdout.write_all(b"\n").await.map_err(output::gone)?;
        }
        match event.kind {
            ProcessEventKind::Exit(exit) => return Ok(Some(exit)),
            _ if self.json => {}
            ProcessEventKind::Stdout(bytes) | ProcessEventKind::Terminal(bytes) => {
                self.stdout.write_all(&bytes).await.map_err(output::gone)?;
            }
            ProcessEventKind::Stderr(bytes) => self.stderr.write_all(&bytes).await.map_err(output::gone)?,
            ProcessEventKind::Lost(lost) => output::remark(lost),
            ProcessEventKind::Error(trouble) => output::remark(trouble),
        }
        Ok(None)
    }

    fn end(&self, exit: ProcessExit) -> End {
        match self.has_lost {
            true => End::Incomplete(exit),
            false => End::Exit(exit),
        }
    }
}

/// The signals that we hand on.
struct Signals {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hang_up: Signal,
    resize: Signal,
    interrupts: u32,
    terminations: u32,
}

enum Caught {
    Signal(&'static str),
    /// The person wants it gone.
    End,
    /// Whoever signals does not wait any longer; the status that says so.
    Insists(u8),
    Resize,
}

impl Signals {
    fn listen() -> Result<Signals, Failure> {
        interrupt::take();
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            resize: signal(SignalKind::window_change())?,
            interrupts: 0,
            terminations: 0,
        })
    }

    async fn next(&mut self) -> Caught {
        tokio::select! {
            _ = self.interrupt.recv() => {
                self.interrupts += 1;
                match self.interrupts {
                    1 | 2 => Caught::Signal("INT"),
                    3 => Caught::End,
                    _ => Caught::Insists(130),
                }
            }
            _ = self.quit.recv() => Caught::Signal("QUIT"),
            _ = self.terminate.recv() => {
                self.terminations += 1;
                match self.terminations {
                    1 => Caught::Signal("TERM"),
                    _ => Caught::Insists(143),
                }
            }
            _ = self.hang_up.recv() => Caught::Signal("HUP"),
            _ = self.resize.recv() => Caught::Resize,
        }
    }
}

impl Caught {
    async fn send(self, control: &ProcessControl) -> Result<(), Error> {
        match self {
            Caught::Signal(name) => match control.kill(Some(name)).await {
                // Whoever signals wants it to arrive: twice is better than not at all.
                Err(Error::Ambiguous { .. }) => control.kill(Some(name)).await.map(drop),
                sent => sent.map(drop),
            },
            Caught::End | Caught::Insists(_) => control.kill(None).await.map(drop),
            Caught::Resize => control.resize(terminal::size()).await,
        }
    }
}

/// The status that we end with, as the process did; and a word about a limit that ended it.
pub fn status(exit: &ProcessExit, bounds: Bounds, json: bool) -> Status {
    // Who reads events finds all of this in the last one.
    let remark = |text: std::fmt::Arguments<'_>| {
        if !json {
            output::remark(text);
        }
    };
    if exit.output_limit_exceeded {
        remark(format_args!("{}", bounds.output()));
    }
    if let Some(reason) = &exit.reason {
        remark(format_args!("it was ended: {}", reason.replace('_', " ")));
    }
    if let Some(denied) = &exit.sandbox_denied {
        let path = denied.path.as_deref().unwrap_or("something");
        remark(format_args!("the sandbox refused to {} {path}", denied.access));
    }
    if exit.timed_out {
        remark(format_args!("{}", bounds.time()));
        return Status(TIMED_OUT);
    }
    Status(u8::try_from(exit.status()).unwrap_or(255))
}

/// A start that failed, as a shell reports it: 127 for a program that is not there, 126 for one that cannot run.
pub fn not_started(error: Error) -> Failure {
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
