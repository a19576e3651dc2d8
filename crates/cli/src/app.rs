//! App: the context of a command: its target, its output format and its session.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::{Command, OutputMode, Process, Session, SessionOptions, Target};

use tokio::task::JoinSet;

use crate::approval_prompt;
use crate::failure::Failure;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::reconnect_notes;
use crate::relay::{self, Signals};
use crate::route::{self, Choice};

/// The context that every command receives.
#[derive(Debug)]
pub struct App {
    /// The target, and the rule that chose it.
    pub choice: Choice,
    /// Whether results are printed as JSON.
    pub json: bool,
}

impl App {
    /// Chooses the target by the routing rules.
    pub fn new(flag: Option<&str>, json: bool) -> Result<App, Failure> {
        Ok(App { choice: route::choose(flag)?, json })
    }

    /// The same for a path that may have an `ALIAS:` prefix; also returns the path without it.
    pub fn for_path(flag: Option<&str>, json: bool, path: &str) -> Result<(App, String), Failure> {
        let (alias, path) = route::remote_path(path)?;
        if let (Some(flag), Some(alias)) = (flag, &alias)
            && flag != alias
        {
            return Err(conflicting_targets(flag, alias));
        }
        let app = match alias {
            Some(alias) => App { choice: route::choose_once(&alias)?, json },
            None => App::new(flag, json)?,
        };
        let path = app.path(&path);
        Ok((app, path))
    }

    /// The options with which commands open their sessions.
    pub fn options(&self) -> SessionOptions {
        let output = match self.json {
            true => OutputMode::Verbatim,
            false => OutputMode::Bytes,
        };
        // ssh prompts on the terminal itself, not on stdin and stdout.
        let interactive =
            rustix::fs::open("/dev/tty", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).is_ok();
        // With --json the caller is a program, which cannot answer prompts.
        SessionOptions {
            output,
            interactive,
            approvals: interactive && !self.json,
            ..SessionOptions::default()
        }
    }

    /// Opens a session on the target.
    pub async fn session(&self) -> Result<Session, Failure> {
        let options = self.options();
        let prompts = options.approvals;
        let mut interrupt = self.interrupt(&options)?;
        let opening = Session::open(self.choice.target.clone(), options);
        let session = interruptible(&mut interrupt, opening).await?;
        self.register(&session, interrupt, prompts);
        Ok(session)
    }

    /// Opens a session and starts a command in it: in one round trip if the connection is open already. Signals are listened
    /// for before the command is sent.
    pub async fn start(&self, command: Command) -> Result<(Session, Process, Signals), Failure> {
        let options = self.options();
        let prompts = options.approvals;
        let mut interrupt = self.interrupt(&options)?;
        let dialing = Session::dial(self.choice.target.clone(), options);
        let connection = interruptible(&mut interrupt, dialing).await?;
        if !connection.is_connected() {
            let session = interruptible(&mut interrupt, connection.open()).await?;
            self.register(&session, interrupt, prompts);
            let (process, signals) = relay::start(session.start(command)).await?;
            return Ok((session, process, signals));
        }
        let starting = async {
            let (session, starting) = connection.start(command).await?;
            self.register(&session, interrupt, prompts);
            Ok((session, starting.process().await?))
        };
        let ((session, process), signals) = relay::start(starting).await?;
        Ok((session, process, signals))
    }

    /// Listens for Ctrl-C if the connection must survive it, so that ssh does not receive it.
    fn interrupt(&self, options: &SessionOptions) -> Result<Option<Interrupt>, Failure> {
        let ignores_interrupt = options.interactive && matches!(self.choice.target, Target::Ssh(_));
        ignores_interrupt.then(Interrupt::listen).transpose()
    }

    /// Starts the tasks that serve an open session, and remembers it.
    fn register(&self, session: &Session, interrupt: Option<Interrupt>, prompts: bool) {
        let mut tasks = JoinSet::new();
        if let Some(interrupt) = interrupt {
            tasks.spawn(interrupt.exit_on_interrupt());
        }
        tasks.spawn(reconnect_notes::report(session.connection_state(), self.target_name()));
        if prompts && session.has_capability("approvals") {
            tasks.spawn(approval_prompt::prompt_for_session(session.clone()));
        }
        open_sessions().push(OpenSession { session: session.clone(), _tasks: tasks });
    }

    /// The target as the user knows it: its alias, or its address.
    fn target_name(&self) -> String {
        self.choice.alias.clone().unwrap_or_else(|| self.choice.target.to_string())
    }

    /// A path on the target: a relative one starts in the directory where commands start.
    pub fn path(&self, path: &str) -> String {
        match &self.choice.cwd {
            Some(cwd) if !path.starts_with('/') => match path {
                "" | "." => cwd.clone(),
                path => format!("{}/{path}", cwd.trim_end_matches('/')),
            },
            _ => path.to_owned(),
        }
    }
}

/// Waits for a step of opening a session, or fails at the first Ctrl-C.
async fn interruptible<T>(
    interrupt: &mut Option<Interrupt>,
    step: impl Future<Output = Result<T, client::Error>>,
) -> Result<T, Failure> {
    let Some(interrupt) = interrupt else { return Ok(step.await?) };
    tokio::select! {
        result = step => Ok(result?),
        () = interrupt.received() => Err(Failure::new("interrupted").status(INTERRUPTED)),
    }
}

/// The error for `-t` and an `ALIAS:` prefix that name different targets.
pub fn conflicting_targets(flag: &str, alias: &str) -> Failure {
    Failure::new(format!("conflicting targets: `-t {flag}` and `{alias}:`")).hint("use one of them")
}

/// A session and the tasks that serve it: they are aborted when this is dropped.
struct OpenSession {
    session: Session,
    _tasks: JoinSet<()>,
}

/// The open sessions of this process, so that a failed command leaves none behind.
static OPEN_SESSIONS: Mutex<Vec<OpenSession>> = Mutex::new(Vec::new());
/// How long closing one session may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

fn open_sessions() -> MutexGuard<'static, Vec<OpenSession>> {
    OPEN_SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes every session that a failed command left open; processes it started there end.
pub async fn close_all_sessions() {
    let sessions = std::mem::take(&mut *open_sessions());
    for OpenSession { session, .. } in &sessions {
        // A closed session returns at once; with a broken connection the timeout ends the attempt.
        tokio::time::timeout(CLOSE_TIMEOUT, session.close_without_waiting()).await.ok();
    }
}
