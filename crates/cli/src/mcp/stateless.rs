//! Tool calls of MCP 2026-07-28, whose requests have no session: a question ends the request, and a long command becomes a
//! task.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ProtocolVersion};
use rmcp::service::{RequestContext, RoleServer};
use tokio_util::sync::CancellationToken;

use super::call::{CallEvent, RunningCall};
use super::caller::McpCaller;
use super::progress::Progress;
use super::questions::Repeated;
use super::tasks::TASK_WAIT;
use super::{convert, server};
use crate::tools::ToolCall;

/// How often a command that is not yet started is looked at when its wait has passed.
const START_CHECK: Duration = Duration::from_millis(100);

/// Whether a request is of a version without sessions.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Runs a call until it ends, asks a question or becomes a task.
pub(super) async fn call(
    caller: &McpCaller,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    stop: CancellationToken,
) -> Result<CallToolResponse, ErrorData> {
    let mut running = match &request.request_state {
        Some(state) => match caller.questions.answer(state, request).await? {
            Repeated::Continues(running) => running,
            Repeated::AsksAgain(question) => return Ok(question.into()),
        },
        None => {
            let toolbox = caller.toolbox(server::supports_forms(context)).clone();
            let becomes_task =
                request.name == "bash" && supports_tasks(context) && caller.tasks.has_capacity();
            let foreground_wait = becomes_task.then_some(TASK_WAIT);
            RunningCall::start(toolbox, request, ToolCall::new(stop).waiting(foreground_wait))
        }
    };
    let mut progress = Progress::of(context);
    let task_due = tokio::time::sleep(caller.foreground_wait());
    tokio::pin!(task_due);
    loop {
        tokio::select! {
            biased;
            event = running.next(true) => return match event {
                CallEvent::Done(outcome) => Ok(convert::result(outcome).into()),
                CallEvent::Question(question) => caller.questions.ask(running, question).map(Into::into),
            },
            () = context.ct.cancelled(), if !running.is_cancelled() => running.cancel(),
            () = &mut task_due, if running.becomes_task() => match running.call.process_id() {
                Some(_) => return Ok(caller.tasks.adopt(running).into()),
                None => task_due.as_mut().reset(tokio::time::Instant::now() + START_CHECK),
            },
            () = progress.due() => progress.notify(running.call.last_line().await).await,
        }
    }
}

fn supports_tasks(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().is_some_and(|client| client.supports_tasks())
}
