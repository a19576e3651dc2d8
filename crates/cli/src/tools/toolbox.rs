//! Toolbox: the sessions, processes and calls of one agent.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use client::{Error, Session, SessionOptions, Target};
use serde_json::{Map, Value};
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::approval_queue::ApprovalQueue;
use super::arguments::Arguments;
use super::host_run::HostRun;
use super::outcome::ToolOutcome;
use super::processes::TrackedProcesses;
use super::target_info::TargetInfo;
use super::tracked::TrackedProcess;
use super::{browse, catalog, files, grep, process, run};
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
    /// Whether the first result after a change of the target says which machine the tools work on.
    pub describe_target: bool,
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
            describe_target: false,
            foreground_wait: Duration::from_secs(45),
        }
    }
}

/// The sessions, processes and calls of one agent. Dropping it ends the sessions and their attached processes.
#[derive(Debug)]
pub struct Toolbox {
    pub(super) options: ToolboxOptions,
    pub(super) processes: Arc<TrackedProcesses>,
    /// The pending approval requests.
    pub approval_queue: Arc<ApprovalQueue>,
    sessions: Mutex<HashMap<String, Arc<OpenTarget>>>,
    tasks: Mutex<JoinSet<()>>,
    /// The description of the target that the model has received last.
    described: Mutex<Option<String>>,
    /// The run of a host that this process belongs to.
    host_run: Option<HostRun>,
}

/// One call: its cancellation and its process.
#[derive(Debug, Default)]
pub struct ToolCall {
    /// Cancels the call.
    pub cancelled: CancellationToken,
    /// How long it waits for its command, if not as long as the options of the toolbox say.
    pub foreground_wait: Option<Duration>,
    running: OnceLock<Arc<TrackedProcess>>,
}

impl ToolCall {
    /// A call that the token cancels.
    pub fn new(cancelled: CancellationToken) -> ToolCall {
        ToolCall { cancelled, ..ToolCall::default() }
    }

    /// Sets how long it waits for its command.
    pub fn waiting(self, foreground_wait: Option<Duration>) -> ToolCall {
        ToolCall { foreground_wait, ..self }
    }

    /// The id of its process, once it has started.
    pub fn process_id(&self) -> Option<&str> {
        self.running.get().map(|process| process.id.as_str())
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
    session: OnceCell<(Session, Arc<TargetInfo>)>,
    /// Whether a command found no `bash`.
    pub(super) lacks_bash: AtomicBool,
}

/// The session and the working directory of a call.
#[derive(Debug, Clone)]
pub(super) struct TargetSession {
    pub(super) session: Session,
    pub(super) target: Arc<OpenTarget>,
    /// The machine of the session.
    pub(super) info: Arc<TargetInfo>,
    /// Where commands and relative paths start; otherwise the default of the session.
    pub(super) cwd: Option<String>,
}

impl TargetSession {
    fn new(
        choice: Choice,
        target: Arc<OpenTarget>,
        session: Session,
        info: Arc<TargetInfo>,
    ) -> TargetSession {
        let roots = session.open_result().workspace_roots.clone();
        let is_served = |cwd: &String| roots.iter().any(|root| std::path::Path::new(cwd).starts_with(root));
        TargetSession { session, target, info, cwd: choice.cwd.filter(is_served) }
    }

    /// Resolves a path of the model against the working directory. The server resolves `~`.
    pub(super) fn path(&self, path: &str) -> String {
        let is_fixed = path.starts_with('/') || path == "~" || path.starts_with("~/");
        match &self.cwd {
            Some(cwd) if !is_fixed => match path {
                "" | "." => cwd.clone(),
                path => format!("{}/{path}", cwd.trim_end_matches('/')),
            },
            _ => path.to_owned(),
        }
    }

    /// The working directory, if the server reports it.
    pub(super) fn directory(&self) -> Option<String> {
        self.cwd.clone().or_else(|| self.info.cwd.clone())
    }

    /// Describes the target for a model, on one line.
    fn description(&self) -> String {
        let shell = match self.target.lacks_bash.load(Ordering::Relaxed) {
            true => Some("sh"),
            false => self.info.shell(),
        };
        self.info.description(shell, self.directory().as_deref())
    }
}

impl Toolbox {
    /// An empty toolbox. Needs a tokio runtime.
    pub fn new(options: ToolboxOptions) -> Toolbox {
        Toolbox::sharing(options, Arc::default())
    }

    /// A toolbox that shares its processes with another one of the same caller.
    pub fn sharing(options: ToolboxOptions, processes: Arc<TrackedProcesses>) -> Toolbox {
        Toolbox {
            options,
            processes,
            approval_queue: Arc::default(),
            sessions: Mutex::default(),
            tasks: Mutex::new(JoinSet::new()),
            described: Mutex::default(),
            host_run: HostRun::from_environment(),
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

    /// Runs a tool; failures are outcomes too.
    pub async fn call(&self, name: &str, given: &Map<String, Value>, call: &ToolCall) -> ToolOutcome {
        let mut outcome = self.run(name, given, call).await;
        if self.options.describe_target
            && let Some(description) = self.undescribed()
        {
            outcome.insert_line(&format!("[{description}]"));
        }
        // Last: the description counts too.
        let outcome = outcome.within_limits();
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
        if let Some(run) = &self.host_run {
            match route::current(self.options.target.as_deref()) {
                Ok(choice) if matches!(choice.target, Target::Local(_)) => {
                    if let Some(done) = run.call(tool.name, &arguments, (self, call)).await {
                        return done.unwrap_or_else(|failed| failed);
                    }
                }
                // Another target, or none: the error is reported below.
                Ok(_) | Err(_) => {}
            }
        }
        // `bash` handles cancellation itself because it must kill its command.
        if tool.name == "bash" {
            return run::bash(self, &arguments, call).await.unwrap_or_else(|failed| failed);
        }
        tokio::select! {
            done = self.dispatch(tool.name, &arguments, call) => done.unwrap_or_else(|failed| failed),
            () = call.cancelled.cancelled() => ToolOutcome::failed("call cancelled"),
        }
    }

    async fn dispatch(
        &self,
        name: &str,
        arguments: &Arguments<'_>,
        call: &ToolCall,
    ) -> Result<ToolOutcome, ToolOutcome> {
        match name {
            "bash_output" => process::output(self, arguments, call).await,
            "bash_input" => process::input(self, arguments).await,
            "kill" => process::kill(self, arguments).await,
            "read" => files::read(self, arguments).await,
            "write" => files::write(self, arguments).await,
            "edit" => files::edit(self, arguments).await,
            "patch" => files::patch(self, arguments).await,
            "list" => browse::list(self, arguments).await,
            "glob" => browse::glob(self, arguments).await,
            "grep" => grep::grep(self, arguments).await,
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
        let (session, info) = target.session.get_or_try_init(|| self.open(&choice)).await?.clone();
        Ok((key, TargetSession::new(choice, target, session, info)))
    }

    /// Opens the session before the first call needs it, and describes the target for the instructions of the server. After
    /// the wait, opening continues; an error is reported by the first call.
    pub async fn open_and_describe(self: &Arc<Self>, wait: Duration) -> Option<String> {
        let ((sender, opened), toolbox) = (oneshot::channel(), self.clone());
        self.spawn(async move {
            // The receiver may have stopped waiting.
            sender.send(toolbox.target().await.ok()).ok();
        });
        let description = tokio::time::timeout(wait, opened).await.ok()?.ok()??.description();
        *self.described() = Some(description.clone());
        Some(description)
    }

    /// The description of the current target, if its session is open and the model has another one or none.
    fn undescribed(&self) -> Option<String> {
        let choice = route::current(self.options.target.as_deref()).ok()?;
        let target = self.sessions().get(&format!("{:?}", choice.target))?.clone();
        let (session, info) = target.session.get()?.clone();
        let description = TargetSession::new(choice, target, session, info).description();
        let mut described = self.described();
        let is_new = described.as_ref() != Some(&description);
        is_new.then(|| described.insert(description).clone())
    }

    async fn open(&self, choice: &Choice) -> Result<(Session, Arc<TargetInfo>), Failure> {
        let options = SessionOptions {
            client_name: self.options.client_name.clone(),
            approvals: self.options.approvals,
            ..SessionOptions::default()
        };
        let session = Session::open(choice.target.clone(), options).await?;
        let info = Arc::new(TargetInfo::of(choice, &session).await);
        if self.options.approvals {
            let approvals = session.subscribe_approvals().await?;
            self.spawn(self.approval_queue.clone().listen(approvals, info.place()));
        }
        Ok((session, info))
    }

    /// Spawns a task that the toolbox owns.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Closes every session; returns when their attached processes have ended.
    pub async fn close(&self) {
        let sessions: Vec<_> =
            self.sessions().drain().filter_map(|(_, target)| target.session.get().cloned()).collect();
        for (session, _) in sessions {
            // A lost session needs no closing.
            session.close().await.ok();
        }
    }

    fn described(&self) -> MutexGuard<'_, Option<String>> {
        self.described.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<OpenTarget>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
