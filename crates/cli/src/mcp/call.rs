//! RunningCall: one tool call, which may outlive the request that started it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use client::v1::ApprovalRequested;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value};

use super::elicit::{self, DeniedBy};
use super::progress::Progress;
use crate::tools::approval_queue::ClaimedApproval;
use crate::tools::{ToolCall, ToolOutcome, Toolbox};

/// The progress message while a person is asked.
const WAITING: &str = "waiting for approval";

/// A question to the person who uses the client.
type ApprovalPrompt = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The operation of a call.
type CallWork = Pin<Box<dyn Future<Output = ToolOutcome> + Send>>;

/// A tool call that runs while [`next`](RunningCall::next) is polled. Dropping it leaves its command in the background.
pub(super) struct RunningCall {
    toolbox: Arc<Toolbox>,
    /// Its cancellation and its process.
    pub(super) call: Arc<ToolCall>,
    name: String,
    arguments: Map<String, Value>,
    work: CallWork,
    /// Who denied its operation, once a question was answered.
    pub(super) denied_by: Arc<OnceLock<DeniedBy>>,
}

/// What happened to a running call.
pub(super) enum CallEvent {
    /// It has ended.
    Done(ToolOutcome),
    /// Its operation requires approval.
    Question(ClaimedApproval),
}

impl RunningCall {
    /// Starts the call of a request.
    pub(super) fn start(
        toolbox: Arc<Toolbox>,
        request: &CallToolRequestParams,
        call: ToolCall,
    ) -> RunningCall {
        let (name, arguments) = (request.name.to_string(), request.arguments.clone().unwrap_or_default());
        let call = Arc::new(call);
        let work = {
            let (toolbox, call) = (toolbox.clone(), call.clone());
            let (name, arguments) = (name.clone(), arguments.clone());
            Box::pin(async move { toolbox.call(&name, &arguments, &call).await })
        };
        RunningCall { toolbox, call, name, arguments, work, denied_by: Arc::default() }
    }

    /// Waits for its end or, if `claims`, for a question. Dropping the future loses nothing.
    pub(super) async fn next(&mut self, claims: bool) -> CallEvent {
        let RunningCall { toolbox, name, arguments, work, denied_by, .. } = self;
        let is_ours = |asked: &ApprovalRequested| elicit::belongs(asked, name, arguments);
        tokio::select! {
            biased;
            outcome = ended(work, denied_by) => CallEvent::Done(outcome),
            question = toolbox.approval_queue.next(is_ours), if claims => CallEvent::Question(question),
        }
    }

    /// Waits for its end, without its questions.
    pub(super) async fn done(&mut self) -> ToolOutcome {
        ended(&mut self.work, &self.denied_by).await
    }

    /// Whether a request repeats the one that started the call.
    pub(super) fn is_of(&self, request: &CallToolRequestParams) -> bool {
        let arguments = request.arguments.as_ref();
        self.name == request.name
            && arguments.map_or(self.arguments.is_empty(), |same| *same == self.arguments)
    }

    /// Cancels it; it then ends soon.
    pub(super) fn cancel(&self) {
        self.call.cancelled.cancel();
    }

    /// Whether it was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.call.cancelled.is_cancelled()
    }

    /// Whether it waits for its command as a task does.
    pub(super) fn becomes_task(&self) -> bool {
        self.call.foreground_wait.is_some() && !self.is_cancelled()
    }

    /// Denies the operation that a question is about, and ends the call in the background.
    pub(super) fn abandon(mut self, question: ClaimedApproval) {
        self.cancel();
        self.toolbox.clone().spawn(async move {
            question.decide(false, None).await;
            self.done().await;
        });
    }
}

async fn ended(work: &mut CallWork, denied_by: &OnceLock<DeniedBy>) -> ToolOutcome {
    let outcome = work.await;
    match denied_by.get() {
        Some(denied_by) if outcome.is_error => denied_by.explain(outcome),
        _ => outcome,
    }
}

/// Runs a call to its end within one request, and asks the person by requests of the server: the versions with sessions.
pub(super) async fn run(mut running: RunningCall, context: &RequestContext<RoleServer>) -> ToolOutcome {
    let mut progress = Progress::of(context);
    let mut approval_prompt: Option<ApprovalPrompt> = None;
    loop {
        let is_asking = approval_prompt.is_some();
        tokio::select! {
            biased;
            event = running.next(!is_asking) => match event {
                CallEvent::Done(outcome) => return outcome,
                CallEvent::Question(question) => {
                    progress.notify(Some(WAITING.to_owned())).await;
                    let denied_by = running.denied_by.clone();
                    approval_prompt = Some(Box::pin(elicit::ask(context.peer.clone(), question, denied_by)));
                }
            },
            () = context.ct.cancelled(), if !running.is_cancelled() => running.cancel(),
            () = pending(&mut approval_prompt) => approval_prompt = None,
            () = progress.due() => {
                let line = if is_asking { Some(WAITING.to_owned()) } else { running.call.last_line().await };
                progress.notify(line).await;
            }
        }
    }
}

async fn pending(approval_prompt: &mut Option<ApprovalPrompt>) {
    match approval_prompt {
        Some(approval_prompt) => approval_prompt.await,
        None => std::future::pending().await,
    }
}
