//! Toolbox: the sessions, processes and calls of one agent.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::AtomicBool;
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

/// The maximum size of a file that is returned as a resource.
const MAX_RESOURCE_BYTES: u64 = 16 * 1024 * 1024;

/// The options of a toolbox.
#[derive(Debug, Clone)]
pub struct ToolboxOptions {
    /// The value of `-t`.
    pub target: Option<String>,
    /// The client name in the server's audit.
    pub client_name: String,
    /// Whether the client can answer approval requests.
    pub approvals: bool,
    /// Whether results have a structured form, for programs. Clients that receive it give it to the model and drop the text.
    pub structured: bool,
    /// Whether commands are detached, so that another process finds them.
    pub detach_commands: bool,
    /// How long a call waits for its command before it continues in the background; below the timeout of MCP clients.
    pub foreground_wait: Duration,
}

impl Default for ToolboxOptions {
    fn default() -> ToolboxOptions {
        ToolboxOptions {
            target: None,
            client_name: "rex".to_owned(),
            approvals: false,
            structured: false,
            detach_commands: false,
            foreground_wait: Duration::from_secs(45),
        }
    }
}

/// The sessions, processes and calls of one agent. Dropping it ends the sessions and their attached processes.
#[derive(Debug)]
pub struct Toolbox {
    pub(super) options: ToolboxOptions,
    pub(super) processes: TrackedProcesses,
    /// The pending approval requests.
    pub approval_queue: Arc<ApprovalQueue>,
    sessions: Mutex<HashMap<String, Arc<OpenTarget>>>,
    tasks: Mutex<JoinSet<()>>,
}

/// One call: its cancellation and its process.
#[derive(Debug, Default)]
pub struct ToolCall {
    /// Cancels the call.
    pub cancelled: CancellationToken,
    running: OnceLock<Arc<TrackedProcess>>,
}

impl ToolCall {
    /// A call that the token cancels.
    pub fn new(cancelled: CancellationToken) -> ToolCall {
        ToolCall { cancelled, running: OnceLock::new() }
    }

    /// The last line of output of its command.
    pub async fn last_line(&self) -> Option<String> {
        self.running.get()?.last_line().await
    }

    pub(super) fn set_process(&self, process: &Arc<TrackedProcess>) {
        // A call runs one command.
        self.running.set(process.clone()).ok();
    }
}

/// A target and its session, once it is open.
#[derive(Debug, Default)]
pub(super) struct OpenTarget {
    session: OnceCell<Session>,
    /// Whether a command found no `bash`.
    pub(super) lacks_bash: AtomicBool,
}

/// The session and the working directory of a call.
#[derive(Debug, Clone)]
pub(super) struct TargetSession {
    pub(super) session: Session,
    pub(super) target: Arc<OpenTarget>,
    /// Where commands and relative paths start; otherwise the default of the session.
    pub(super) cwd: Option<String>,
}

impl TargetSession {
    /// Resolves a path of the model against the working directory.
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
    /// An empty toolbox. Needs a tokio runtime.
    pub fn new(options: ToolboxOptions) -> Toolbox {
        Toolbox {
            options,
            processes: TrackedProcesses::default(),
            approval_queue: Arc::default(),
            sessions: Mutex::default(),
            tasks: Mutex::new(JoinSet::new()),
        }
    }

    /// Reads a whole file of the current target.
    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let largest = MAX_RESOURCE_BYTES;
        let size =
            self.with_session(|target| async move { target.session.files().stat(path).await }).await?.size;
        match size.is_some_and(|size| size > largest) {
            true => {
                Err(Failure::new(format!("{path} is too large (limit {largest} bytes); use the tool read")))
            }
            false => {
                self.with_session(|target| async move { target.session.files().read_all(path).await }).await
            }
        }
    }

    /// Opens the session before the first call needs it.
    pub fn warm_up(self: &Arc<Self>) {
        let toolbox = self.clone();
        self.spawn(async move {
            // An error is reported by the first call.
            toolbox.target().await.ok();
        });
    }

    /// Runs a tool; failures are outcomes too.
    pub async fn call(&self, name: &str, given: &Map<String, Value>, call: &ToolCall) -> ToolOutcome {
        let outcome = self.run(name, given, call).await.within_limits();
        if self.options.structured { outcome } else { outcome.text_only() }
    }

    async fn run(&self, name: &str, given: &Map<String, Value>, call: &ToolCall) -> ToolOutcome {
        let Some(tool) = catalog::find(name) else {
            let names = catalog::ALL.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
            return ToolOutcome::failed(format!("unknown tool `{name}`; the tools are {names}"));
        };
        let arguments = match Arguments::of(tool, given) {
            Ok(arguments) => arguments,
            Err(error) => return error.into(),
        };
        // `bash` handles cancellation itself because it must kill its command.
        if tool.name == "bash" {
            return run::bash(self, &arguments, call).await.unwrap_or_else(|failed| failed);
        }
        tokio::select! {
            done = self.dispatch(tool.name, &arguments) => done.unwrap_or_else(|failed| failed),
            () = call.cancelled.cancelled() => ToolOutcome::failed("call cancelled"),
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

    /// Runs `what` with the session of the current target; reopens a closed session once.
    pub(super) async fn with_session<T, F: Future<Output = Result<T, Error>>>(
        &self,
        what: impl Fn(TargetSession) -> F,
    ) -> Result<T, Failure> {
        let (key, target) = self.target_with_key().await?;
        match what(target).await {
            // Nothing was sent: the session was closed before.
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

    /// The current target. The rules are evaluated for each call, so that `rex target use` takes effect at once.
    async fn target_with_key(&self) -> Result<(String, TargetSession), Failure> {
        let choice = route::current(self.options.target.as_deref())?;
        let key = format!("{:?}", choice.target);
        let target = self.sessions().entry(key.clone()).or_default().clone();
        let session = target.session.get_or_try_init(|| self.open(&choice)).await?.clone();
        let roots = session.open_result().workspace_roots.clone();
        let is_served = |cwd: &String| roots.iter().any(|root| std::path::Path::new(cwd).starts_with(root));
        let cwd = choice.cwd.filter(is_served);
        Ok((key, TargetSession { session, target, cwd }))
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

    /// Spawns a task that the toolbox owns.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Closes every session; returns when their attached processes have ended.
    pub async fn close(&self) {
        let sessions: Vec<_> =
            self.sessions().drain().filter_map(|(_, target)| target.session.get().cloned()).collect();
        for session in sessions {
            // A lost session needs no closing.
            session.close().await.ok();
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<OpenTarget>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
