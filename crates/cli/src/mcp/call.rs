//! Runs one tool call, with progress notifications, cancellation and approval requests.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ProgressNotificationParam};
use rmcp::service::{RequestContext, RoleServer};
use tokio::time::{Instant, Interval, interval_at};
use tokio_util::sync::CancellationToken;

use super::elicit;
use crate::tools::{ToolCall, ToolOutcome, Toolbox};

/// The interval of progress notifications.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Runs a call to its end. `stop` cancels it, as the client's cancellation does.
pub(super) async fn run(
    toolbox: &Toolbox,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    stop: CancellationToken,
) -> ToolOutcome {
    let call = ToolCall::new(stop);
    let arguments = request.arguments.clone().unwrap_or_default();
    let work = toolbox.call(&request.name, &arguments, &call);
    tokio::pin!(work);
    let mut progress = Progress::asked_for(context);
    let mut approval_prompt: Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = None;
    let is_ours = |asked: &client::v1::ApprovalRequested| elicit::belongs(asked, &request.name, &arguments);
    loop {
        tokio::select! {
            biased;
            outcome = &mut work => return outcome,
            () = context.ct.cancelled(), if !call.cancelled.is_cancelled() => call.cancelled.cancel(),
            question = toolbox.approval_queue.next(is_ours), if approval_prompt.is_none() => {
                approval_prompt = Some(Box::pin(elicit::ask(context.peer.clone(), question)));
            }
            () = pending(&mut approval_prompt) => approval_prompt = None,
            () = progress.due() => progress.notify(context, call.last_line().await).await,
        }
    }
}

async fn pending(approval_prompt: &mut Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>>) {
    match approval_prompt {
        Some(approval_prompt) => approval_prompt.await,
        None => std::future::pending().await,
    }
}

/// Sends progress notifications if the client requested them.
struct Progress {
    ticks: Option<Interval>,
    started: Instant,
}

impl Progress {
    fn asked_for(context: &RequestContext<RoleServer>) -> Progress {
        let started = Instant::now();
        let wants = context.meta.get_progress_token().is_some();
        Progress { ticks: wants.then(|| interval_at(started + PROGRESS_EVERY, PROGRESS_EVERY)), started }
    }

    async fn due(&mut self) {
        match &mut self.ticks {
            Some(ticks) => drop(ticks.tick().await),
            None => std::future::pending().await,
        }
    }

    async fn notify(&self, context: &RequestContext<RoleServer>, line: Option<String>) {
        let Some(token) = context.meta.get_progress_token() else { return };
        let seconds = self.started.elapsed().as_secs_f64();
        let message = line.unwrap_or_else(|| format!("running for {seconds:.0} s"));
        let told = ProgressNotificationParam::new(token, seconds).with_message(message);
        // The client may have disconnected.
        context.peer.notify_progress(told).await.ok();
    }
}
