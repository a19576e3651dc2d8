//! Processes: what to run, what comes from it, and what can be done to it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use wire::rexd::v1::{self, LimitsReport};

use crate::error::Error;
use crate::queue;
use crate::session::Session;
use crate::session::letter::{Again, Opens};

/// What to run, and how.
#[derive(Debug, Clone, Default)]
pub struct Command {
    program: Program,
    cwd: Option<String>,
    env: BTreeMap<String, Option<String>>,
    timeout: Option<Duration>,
    output_limit: Option<u64>,
    terminal: Option<Size>,
    is_detached: bool,
    sandbox: Option<String>,
}

#[derive(Debug, Clone)]
enum Program {
    Argv(Vec<String>),
    Line {
        line: String,
        login: bool,
    },
    /// The login shell, in a terminal.
    Shell,
}

impl Default for Program {
    fn default() -> Program {
        Program::Argv(Vec::new())
    }
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Width.
    pub cols: u16,
    /// Height.
    pub rows: u16,
}

impl Command {
    /// A program and its arguments; no shell looks at them.
    pub fn argv(argv: impl IntoIterator<Item = impl Into<String>>) -> Command {
        let argv = argv.into_iter().map(Into::into).collect();
        Command { program: Program::Argv(argv), ..Command::default() }
    }

    /// A line for the shell there.
    pub fn line(line: impl Into<String>) -> Command {
        Command { program: Program::Line { line: line.into(), login: false }, ..Command::default() }
    }

    /// The user's shell; it needs a [`terminal`](Command::terminal).
    pub fn shell() -> Command {
        Command { program: Program::Shell, ..Command::default() }
    }

    /// Has a line read by a login shell.
    #[must_use]
    pub fn login(mut self) -> Command {
        if let Program::Line { login, .. } = &mut self.program {
            *login = true;
        }
        self
    }

    /// Where it runs; the session's directory otherwise.
    #[must_use]
    pub fn cwd(self, cwd: impl Into<String>) -> Command {
        Command { cwd: Some(cwd.into()), ..self }
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Command {
        self.env.insert(name.into(), Some(value.into()));
        self
    }

    /// How long it may run. Without this as long as the server allows at most.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Command {
        Command { timeout: Some(timeout), ..self }
    }

    /// How much it may write. Without this as much as the server allows at most.
    #[must_use]
    pub fn output_limit(self, bytes: u64) -> Command {
        Command { output_limit: Some(bytes), ..self }
    }

    /// Runs it in a terminal of this size.
    #[must_use]
    pub fn terminal(self, size: Size) -> Command {
        Command { terminal: Some(size), ..self }
    }

    /// Lets it outlive the session, the link and the daemon.
    #[must_use]
    pub fn detach(self) -> Command {
        Command { is_detached: true, ..self }
    }

    /// Confines it: `read-only` or `workspace-write`.
    #[must_use]
    pub fn sandbox(self, profile: impl Into<String>) -> Command {
        Command { sandbox: Some(profile.into()), ..self }
    }

    pub(crate) fn is_detached(&self) -> bool {
        self.is_detached
    }

    /// Asks for it; the ids of the process and of its terminal.
    pub(crate) async fn start(
        self,
        session: &Session,
        opens: Opens,
    ) -> Result<(String, Option<String>), Error> {
        let key = Some(session.key());
        let limits = session.opened().limits.clone();
        match self.terminal {
            Some(size) => {
                let params = v1::PtyOpen { idempotency_key: key, ..self.pty_open(session.id(), size) };
                let opened = session.ask(&params, Again::Safe, opens).await?;
                Ok((opened.process_id, Some(opened.pty_id)))
            }
            None => {
                let params = v1::ExecStart { idempotency_key: key, ..self.exec_start(session.id(), &limits) };
                let started = session.ask(&params, Again::Safe, opens).await?;
                Ok((started.process_id, None))
            }
        }
    }

    fn pty_open(self, session_id: String, size: Size) -> v1::PtyOpen {
        let (argv, command, login) = match self.program {
            Program::Argv(argv) => (argv, None, None),
            Program::Line { line, login } => (Vec::new(), Some(line), Some(login)),
            Program::Shell => (Vec::new(), None, None),
        };
        v1::PtyOpen {
            session_id,
            argv,
            shell: command.is_some(),
            command,
            login,
            cwd: self.cwd,
            env: self.env,
            cols: Some(size.cols.into()),
            rows: Some(size.rows.into()),
            timeout_ms: self.timeout.map(milliseconds),
            detach: self.is_detached,
            sandbox: self.sandbox,
            idempotency_key: None,
        }
    }

    fn exec_start(self, session_id: String, limits: &LimitsReport) -> v1::ExecStart {
        let (argv, command, login) = match self.program {
            Program::Argv(argv) => (argv, None, false),
            Program::Line { line, login } => (Vec::new(), Some(line), login),
            Program::Shell => (vec!["sh".to_owned()], None, false),
        };
        // A detached process has no timeout unless it is given one; another has the longest there is.
        let ceiling = (!self.is_detached).then_some(limits.hard_timeout_ms);
        let timeout_ms = self.timeout.map(milliseconds).or_else(|| ceiling.and_then(asked));
        let output = self.output_limit.or(limits.hard_output_bytes);
        v1::ExecStart {
            session_id,
            argv,
            shell: command.is_some(),
            command,
            login,
            cwd: self.cwd,
            env: self.env,
            timeout_ms,
            max_output_bytes: output.and_then(asked),
            detach: self.is_detached,
            sandbox: self.sandbox,
            ..v1::ExecStart::default()
        }
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A ceiling as a request names it. One that is off is asked for as the number it is reported as.
fn asked(ceiling: u64) -> Option<i64> {
    i64::try_from(ceiling.min(v1::UNLIMITED)).ok()
}

/// A process: its events, and through [`control`](Process::control) everything that can be done to it.
#[derive(Debug)]
pub struct Process {
    control: ProcessControl,
    events: queue::Receiver<Heard>,
    /// How it was when it was attached to.
    attached: Option<v1::ExecAttachResult>,
}

/// What can be done to a process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ProcessControl {
    session: Session,
    process_id: String,
    pty_id: Option<String>,
}

/// Something that came from a process.
#[derive(Debug, Clone)]
pub struct ProcessEvent {
    /// What it is.
    pub what: What,
    /// Where in the process's output it ends.
    pub cursor: Option<u64>,
    /// The event as it came, if [`OutputForm::Shown`](crate::OutputForm::Shown) was asked for.
    pub line: Option<Bytes>,
}

/// What came from a process.
#[derive(Debug, Clone)]
pub enum What {
    /// Written to its output.
    Stdout(Bytes),
    /// Written to its error output.
    Stderr(Bytes),
    /// Written to its terminal.
    Terminal(Bytes),
    /// Output that this reader will never see.
    Lost(Lost),
    /// Something happened to it that is not its end.
    Trouble(Trouble),
    /// It ended; nothing follows.
    Exit(Exit),
}

/// What a reader is handed: something that came, or why nothing more will.
pub(crate) type Heard = Result<ProcessEvent, Error>;

impl What {
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut Bytes> {
        match self {
            What::Stdout(bytes) | What::Stderr(bytes) | What::Terminal(bytes) => Some(bytes),
            What::Lost(_) | What::Trouble(_) | What::Exit(_) => None,
        }
    }

    pub(crate) fn weight(&self) -> usize {
        match self {
            What::Stdout(bytes) | What::Stderr(bytes) | What::Terminal(bytes) => bytes.len(),
            What::Lost(_) | What::Trouble(_) | What::Exit(_) => 0,
        }
    }
}

/// Output that a reader will never see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// So many bytes of a stream.
    Bytes {
        /// `stdout`, `stderr` or `pty`.
        stream: String,
        /// How many.
        bytes: u64,
    },
    /// So many events of the session, this process's perhaps among them.
    Events(u64),
}

/// Something that happened to a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Trouble {
    /// What kind; see [`v1::codes`].
    pub code: i64,
    /// What happened.
    pub message: String,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Exit {
    /// Its exit code; -1 when a signal ended it.
    pub code: i64,
    /// The signal that ended it, without `SIG`.
    pub signal: Option<String>,
    /// Whether its timeout ended it.
    pub timed_out: bool,
    /// Whether it wrote more than it may.
    pub output_limit_exceeded: bool,
    /// Another limit that ended it: `memory_limit`.
    pub reason: Option<String>,
    /// What the sandbox refused, if it failed at that.
    pub sandbox_denied: Option<v1::SandboxDenied>,
    /// Who still holds its output open.
    pub held_by: Vec<i64>,
    /// How long it ran.
    pub duration: Duration,
}

impl Exit {
    /// As a shell reports it: the exit code, or 128 and the number of the signal.
    pub fn status(&self) -> i32 {
        match self.signal.as_deref().and_then(signal_number) {
            Some(number) => 128 + number,
            None => i32::try_from(self.code).unwrap_or(255),
        }
    }
}

/// The number of a signal by its name, with or without `SIG`.
pub fn signal_number(name: &str) -> Option<i32> {
    const NAMES: &[(&str, i32)] = &[
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ILL", 4),
        ("TRAP", 5),
        ("ABRT", 6),
        ("BUS", 7),
        ("FPE", 8),
        ("KILL", 9),
        ("USR1", 10),
        ("SEGV", 11),
        ("USR2", 12),
        ("PIPE", 13),
        ("ALRM", 14),
        ("TERM", 15),
        ("STKFLT", 16),
        ("CHLD", 17),
        ("CONT", 18),
        ("STOP", 19),
        ("TSTP", 20),
        ("TTIN", 21),
        ("TTOU", 22),
        ("URG", 23),
        ("XCPU", 24),
        ("XFSZ", 25),
        ("VTALRM", 26),
        ("PROF", 27),
        ("WINCH", 28),
        ("IO", 29),
        ("PWR", 30),
        ("SYS", 31),
    ];
    let plain = name.strip_prefix("SIG").unwrap_or(name);
    let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(plain)).map(|(_, number)| *number);
    known.or_else(|| plain.parse().ok().filter(|number| (1..=64).contains(number)))
}

impl Process {
    pub(crate) fn new(
        session: Session,
        process_id: String,
        pty_id: Option<String>,
        events: queue::Receiver<Heard>,
    ) -> Process {
        Process { control: ProcessControl { session, process_id, pty_id }, events, attached: None }
    }

    pub(crate) fn attached(
        session: Session,
        attached: v1::ExecAttachResult,
        events: queue::Receiver<Heard>,
    ) -> Process {
        let (process_id, pty_id) = (attached.process_id.clone(), attached.pty_id.clone());
        Process { attached: Some(attached), ..Process::new(session, process_id, pty_id, events) }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.control.process_id
    }

    /// What can be done to it.
    pub fn control(&self) -> ProcessControl {
        self.control.clone()
    }

    /// How it was when it was attached to; nothing if it was started here.
    pub fn was(&self) -> Option<&v1::ExecAttachResult> {
        self.attached.as_ref()
    }

    /// The next thing that comes from it; nothing after its end. Nothing is lost if this future is dropped.
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>, Error> {
        self.events.recv().await.transpose()
    }

    /// Reads to its end and throws the output away.
    pub async fn wait(&mut self) -> Result<Exit, Error> {
        while let Some(event) = self.next().await? {
            if let What::Exit(exit) = event.what {
                return Ok(exit);
            }
        }
        Err(Error::Protocol("the process's events ended without its exit".to_owned()))
    }
}

impl ProcessControl {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.process_id
    }

    /// The id of its terminal, if it has one.
    pub fn pty_id(&self) -> Option<&str> {
        self.pty_id.as_deref()
    }

    /// Writes to its input or types into its terminal, once. Inputs that are sent ahead keep the order in which their
    /// futures are first polled.
    pub async fn input(&self, data: &[u8]) -> Result<(), Error> {
        self.write(data, false).await
    }

    /// Closes its input; in a terminal as Ctrl-D does.
    pub async fn close_input(&self) -> Result<(), Error> {
        match self.pty_id {
            Some(_) => self.write(&[4], false).await,
            None => self.write(&[], true).await,
        }
    }

    async fn write(&self, data: &[u8], eof: bool) -> Result<(), Error> {
        let (data, encoding) = (wire::base64::encode(data), Some("base64".to_owned()));
        let (session_id, idempotency_key) = (self.session.id(), Some(self.session.key()));
        let again = self.session.input_again();
        match self.pty_id.clone() {
            Some(pty_id) => {
                let params = v1::PtyInput { session_id, pty_id, data, encoding, idempotency_key };
                self.session.ask(&params, again, Opens::Nothing).await.map(drop)
            }
            None => {
                let process_id = self.process_id.clone();
                let params = v1::ExecInput { session_id, process_id, data, encoding, eof, idempotency_key };
                self.session.ask(&params, again, Opens::Nothing).await.map(drop)
            }
        }
    }

    /// Sets the size of its terminal.
    pub async fn resize(&self, size: Size) -> Result<(), Error> {
        let Some(pty_id) = self.pty_id.clone() else { return Ok(()) };
        let (cols, rows) = (Some(size.cols.into()), Some(size.rows.into()));
        let params = v1::PtyResize { session_id: self.session.id(), pty_id, cols, rows };
        self.session.ask(&params, Again::Safe, Opens::Nothing).await.map(drop)
    }

    /// Sends a signal; without one ends the whole tree. Tells who died.
    pub async fn kill(&self, signal: Option<&str>) -> Result<v1::ExecKillResult, Error> {
        let again = match signal {
            None | Some("KILL" | "TERM" | "SIGKILL" | "SIGTERM") => Again::Safe,
            Some(_) => Again::Never,
        };
        let params = v1::ExecKill {
            session_id: self.session.id(),
            process_id: self.process_id.clone(),
            signal: signal.map(|name| v1::Signal::Name(name.to_owned())),
        };
        self.session.ask(&params, again, Opens::Nothing).await
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Bytes { stream, bytes } => {
                write!(f, "{bytes} bytes of {stream} were not kept and are lost")
            }
            Lost::Events(events) => write!(f, "{events} events were not kept: output may be missing here"),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl From<v1::ExecLost> for Lost {
    fn from(lost: v1::ExecLost) -> Lost {
        Lost::Bytes { stream: lost.stream.unwrap_or_else(|| "output".to_owned()), bytes: lost.bytes }
    }
}

impl From<v1::ExecError> for Trouble {
    fn from(error: v1::ExecError) -> Trouble {
        Trouble { code: error.code, message: error.message }
    }
}

impl From<v1::ExecExit> for Exit {
    fn from(exit: v1::ExecExit) -> Exit {
        Exit {
            code: exit.exit_code,
            signal: exit.signal,
            timed_out: exit.timed_out,
            output_limit_exceeded: exit.output_limit_exceeded,
            reason: exit.reason,
            sandbox_denied: exit.sandbox_denied,
            held_by: exit.held_by,
            duration: Duration::from_millis(exit.duration_ms),
        }
    }
}

impl From<v1::PtyExit> for Exit {
    fn from(exit: v1::PtyExit) -> Exit {
        Exit {
            code: exit.exit_code,
            signal: exit.signal,
            timed_out: exit.timed_out,
            output_limit_exceeded: false,
            reason: exit.reason,
            sandbox_denied: exit.sandbox_denied,
            held_by: exit.held_by,
            duration: Duration::from_millis(exit.duration_ms),
        }
    }
}
