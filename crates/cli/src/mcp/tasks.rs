//! CallTasks: long commands as tasks, the extension `io.modelcontextprotocol/tasks` of MCP 2026-07-28.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, CreateTaskResult, GetTaskResult, InputResponses};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};

use super::call::RunningCall;
use super::convert;

/// Tasks of a caller that run at once; beyond it, a long command is not a task and continues in the background.
const MAX_TASKS: usize = 16;
/// How long a task is kept, and its result after its end.
const TASK_TTL: Duration = Duration::from_secs(3_600);
/// How long a task waits for its command, which then continues in the background; below the time that it is kept.
pub(super) const TASK_WAIT: Duration = Duration::from_secs(3_300);
/// The interval at which clients ask for a task.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// The long commands of one caller.
#[derive(Default)]
pub(super) struct CallTasks(TaskManager);

impl CallTasks {
    /// Whether one more command can become a task.
    pub(super) fn has_capacity(&self) -> bool {
        self.0.running_task_count() < MAX_TASKS
    }

    /// Continues a call as a task.
    pub(super) fn adopt(&self, running: RunningCall) -> CreateTaskResult {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut options =
            TaskOptions::new().with_ttl_ms(millis(TASK_TTL)).with_poll_interval_ms(millis(POLL_EVERY));
        options.status_message = running.call.process_id().map(|id| format!("process {id}"));
        CreateTaskResult::new(self.0.spawn(options, |context| Box::pin(finish(running, context))))
    }

    /// The state of a task, with its result if it has ended.
    pub(super) fn get(&self, id: &str) -> Result<GetTaskResult, ErrorData> {
        self.0.get_task(id).map(GetTaskResult::new)
    }

    /// Takes answers to questions; a command has none after its start.
    pub(super) fn update(&self, id: &str, responses: InputResponses) -> Result<(), ErrorData> {
        self.0.update_task(id, responses)
    }

    /// Cancels a task: its command and everything it started end.
    pub(super) fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        self.0.cancel_task(id)
    }

    /// Ends and removes all tasks.
    pub(super) fn close(&self) {
        self.0.shutdown();
    }
}

async fn finish(mut running: RunningCall, context: TaskContext) -> Result<CallToolResult, TaskExit> {
    loop {
        tokio::select! {
            biased;
            // Questions are asked before a command starts, and a task begins after that.
            outcome = running.done() => return match running.is_cancelled() {
                true => Err(TaskExit::Cancelled),
                false => Ok(convert::result(outcome)),
            },
            () = context.cancelled(), if !running.is_cancelled() => running.cancel(),
        }
    }
}
