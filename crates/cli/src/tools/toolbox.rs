//! Toolbox: what one agent works with: a session per target, the processes it started, the calls under way.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use client::{Error, Session, SessionOptions};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::approval_queue::ApprovalQueue;
use super::arguments::Arguments;
use super::outcome::ToolOutcome;
use super::processes::TrackedProcesses;
use super::tracked::TrackedProcess;
use super::{browse, catalog, files, process, run};
use crate::failure::Failure;
use crate::route::{self, Choice};

/// The largest file that is handed out whole.
const MAX_RESOURCE_BYTES: u64 = 16 * 1024 * 1024;

/// How a toolbox works.
#[derive(Debug, Clone)]
pub struct ToolboxOptions {
    /// What `-t` says.
    pub target: Option<String>,
    /// Who calls, as the server's audit names it.
    pub client_name: String,
    /// Whether somebody can be asked what policy leaves open.
    pub approvals: bool,
    /// Whether commands detach_commands this program, so that another one finds them.
    pub detach_commands: bool,
    /// How long a command is waited for before it goes on in the background: less than MCP's clients wait.
    pub foreground_wait: Duration,
}

impl Default for ToolboxOptions {
    fn default() -> ToolboxOptions {
        ToolboxOptions {
            target: None,
            client_name: "rex".to_owned(),
            approvals: false,
            detach_commands: false,
            foreground_wait: Duration::from_secs(45),
        }
    }
}

/// What one agent works with. Dropping it ends its sessions, and with them what it started and did not detach.
#[derive(Debug)]
pub struct Toolbox {
    pub(super) options: ToolboxOptions,
    pub(super) processes: TrackedProcesses,
    /// What waits for somebody to decide.
    pub approval_queue: Arc<ApprovalQueue>,
    sessions: Mutex<HashMap<String, Arc<OnceCell<Session>>>>,
    tasks: Mutex<JoinSet<()>>,
}

/// One call: how it is told to stop, and what can be seen of it meanwhile.
#[derive(Debug, Default)]
pub struct ToolCall {
    /// Stops it.
    pub cancelled: CancellationToken,
    running: OnceLock<Arc<TrackedProcess>>,
}

impl ToolCall {
    /// A call that this token stops.
    pub fn new(cancelled: CancellationToken) -> ToolCall {
        ToolCall { cancelled, running: OnceLock::new() }
    }

    /// The last line that its command wrote.
    pub async fn last_line(&self) -> Option<String> {
        self.running.get()?.last_line().await
    }

    pub(super) fn set_process(&self, process: &Arc<TrackedProcess>) {
        // A call runs one command.
        self.running.set(process.clone()).ok();
    }
}

/// Where one call works.
#[derive(Debug, Clone)]
pub(super) struct TargetSession {
    pub(super) session: Session,
    /// Where commands and relative paths start; the session's own directory otherwise.
    pub(super) cwd: Option<String>,
}

impl TargetSession {
    /// A path as the model wrote it, from where relative paths start.
    pub(super) fn path(&self, path: &str) -> String {
        match &self.cwd {
            Some(cwd) if !path.starts_with('/') && !path.starts_with("~/") => match path {
                "" | "." => cwd.clone(),
                path => format!("{}/{path}", cwd.trim_end_matches('/')),
            },
            _ => path.to_owned(),
        }
    }
}

impl Toolbox {
    /// An empty one. Must be made within a tokio runtime.
    pub fn new(options: ToolboxOptions) -> Toolbox {
        Toolbox {
            options,
            processes: TrackedProcesses::default(),
            approval_queue: Arc::default(),
            sessions: Mutex::default(),
            tasks: Mutex::new(JoinSet::new()),
        }
    }

    /// A whole file of where the work is now.
    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let largest = MAX_RESOURCE_BYTES;
        let size =
            self.with_session(|target| async move { target.session.files().stat(path).await }).await?.size;
        match size.is_some_and(|size| size > largest) {
            true => Err(Failure::new(format!(
                "{path} is larger than {largest} bytes; the tool read pages through it"
            ))),
            false => {
                self.with_session(|target| async move { target.session.files().read_all(path).await }).await
            }
        }
    }

    /// Opens the session that the first call will need.
    pub async fn warm_up(&self) {
        // Why it fails is told to whoever calls a tool.
        self.target().await.ok();
    }

    /// Runs a tool. What goes wrong is an outcome too.
    pub async fn call(&self, name: &str, given: &Map<String, Value>, call: &ToolCall) -> ToolOutcome {
        let Some(tool) = catalog::find(name) else {
            let names = catalog::ALL.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
            return ToolOutcome::failed(format!("there is no tool `{name}`; there are {names}"));
        };
        let arguments = match Arguments::of(tool, given) {
            Ok(arguments) => arguments,
            Err(error) => return error.into(),
        };
        // A command has to be ended, so it sees to that itself; everything else may just stop.
        if tool.name == "bash" {
            return run::bash(self, &arguments, call).await.unwrap_or_else(|failed| failed);
        }
        tokio::select! {
            done = self.dispatch(tool.name, &arguments) => done.unwrap_or_else(|failed| failed),
            () = call.cancelled.cancelled() => ToolOutcome::failed("the call was cancelled"),
        }
    }

    async fn dispatch(&self, name: &str, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
        match name {
            "bash_output" => process::output(self, arguments).await,
            "bash_input" => process::input(self, arguments).await,
            "kill" => process::kill(self, arguments).await,
            "read" => files::read(self, arguments).await,
            "write" => files::write(self, arguments).await,
            "edit" => files::edit(self, arguments).await,
            "patch" => files::patch(self, arguments).await,
            "list" => browse::list(self, arguments).await,
            "glob" => browse::glob(self, arguments).await,
            "grep" => browse::grep(self, arguments).await,
            _ => browse::stat(self, arguments).await,
        }
    }

    /// Asks the session of where the work is now. One that is gone is opened anew, once.
    pub(super) async fn with_session<T, F: Future<Output = Result<T, Error>>>(
        &self,
        what: impl Fn(TargetSession) -> F,
    ) -> Result<T, Failure> {
        let (key, target) = self.target_with_key().await?;
        match what(target).await {
            // Nothing was sent: the session had ended before.
            Err(Error::Closed) => {
                self.sessions().remove(&key);
                let (_, target) = self.target_with_key().await?;
                Ok(what(target).await?)
            }
            done => Ok(done?),
        }
    }

    pub(super) async fn target(&self) -> Result<TargetSession, Failure> {
        self.target_with_key().await.map(|(_, target)| target)
    }

    /// Where the work is now: the rules are asked each time, so that `rex target use` is heard at once.
    async fn target_with_key(&self) -> Result<(String, TargetSession), Failure> {
        let choice = route::current(self.options.target.as_deref())?;
        let key = format!("{:?}", choice.target);
        let cell = self.sessions().entry(key.clone()).or_default().clone();
        let session = cell.get_or_try_init(|| self.open(&choice)).await?.clone();
        let roots = session.open_result().workspace_roots.clone();
        let is_served = |cwd: &String| roots.iter().any(|root| std::path::Path::new(cwd).starts_with(root));
        let cwd = choice.cwd.filter(is_served);
        Ok((key, TargetSession { session, cwd }))
    }

    async fn open(&self, choice: &Choice) -> Result<Session, Failure> {
        let options = SessionOptions {
            client_name: self.options.client_name.clone(),
            approvals: self.options.approvals,
            ..SessionOptions::default()
        };
        let session = Session::open(choice.target.clone(), options).await?;
        if self.options.approvals {
            let approvals = session.subscribe_approvals().await?;
            self.spawn(self.approval_queue.clone().listen(approvals));
        }
        Ok(session)
    }

    /// Has a task run that ends with the toolbox.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Ends every session; returns when what they started has ended.
    pub async fn close(&self) {
        let sessions: Vec<_> = self.sessions().drain().filter_map(|(_, cell)| cell.get().cloned()).collect();
        for session in sessions {
            // One that is gone already is closed.
            session.close().await.ok();
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<OnceCell<Session>>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
