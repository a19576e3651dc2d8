//! Document topics: the state of a file, app or web topic, and its commands.

mod bindings;
mod commands;
mod load;
mod packages;
mod paths;
mod perform;
mod state;
mod store;
mod view;

pub use state::DocumentState;

use sfmd::command::{self, CommandLine, Verb};

use super::commands::{CommandContext, CommandResult};
use super::errors::OperationError;

/// The text of a success, or the whole failure.
type DocumentResult = Result<String, CommandResult>;

/// Work on texts above this size runs on another thread, so that other topics do not wait for it.
const LARGE_TEXT: usize = 256 * 1024;

/// Does work on texts of this size in total.
async fn work<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if bytes <= LARGE_TEXT {
        return work();
    }
    match tokio::task::spawn_blocking(work).await.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The daemon ends.
        Err(Err(_cancelled)) => std::future::pending().await,
    }
}

/// Runs one command, without surrounding blanks, in a document topic.
pub async fn run(state: &mut DocumentState, context: &CommandContext, text: &str) -> CommandResult {
    let result = match command::parse(text) {
        Ok(line) => dispatch(state, context, &line).await,
        Err(error) => Err(CommandResult::failed("COMMAND_UNSUPPORTED", error.to_string())),
    };
    match result {
        Ok(content) => CommandResult::ok(content),
        Err(failure) => failure,
    }
}

async fn dispatch(
    state: &mut DocumentState,
    context: &CommandContext,
    line: &CommandLine<'_>,
) -> DocumentResult {
    match &line.verb {
        Verb::Help => Ok(commands::help::run(state)),
        Verb::Open => commands::open::run(state, context, line.args).await,
        Verb::Nav => commands::nav::run(state, line.args),
        Verb::Act(id) => commands::act::run(state, context, id.as_deref(), line.args).await,
        Verb::Back => commands::back::run(state, context).await,
        Verb::Close => commands::close::run(state),
        Verb::Refresh => commands::refresh::run(state, context).await,
        Verb::Info => commands::info::run(state, context, line.args),
        Verb::Source => commands::source::run(state),
        Verb::Ls => commands::ls::run(state, context, line.args).await,
        Verb::Write => commands::write::run(state, context, line).await,
        Verb::Append => commands::append::run(state, context, line).await,
        Verb::Edit => commands::edit::run(state, context, line).await,
        Verb::Verify => commands::verify::run(state, context, line.args).await,
        Verb::Undo => commands::undo::run(state, context).await,
        Verb::Set => commands::set::run(state, context, line).await,
        Verb::Exec => commands::exec::run(state, context, line.args).await,
        Verb::Install => commands::install::run(state, context, line.args).await,
        Verb::Uninstall => commands::uninstall::run(context, line.args).await,
        Verb::Tool { name, action } => {
            commands::tool::run(
                state,
                context,
                commands::tool::ToolCall { name, action: action.as_deref(), args: line.args },
            )
            .await
        }
    }
}

/// A failure with a code.
fn failed(code: &str, text: impl Into<String>) -> CommandResult {
    CommandResult::failed(code, text)
}

/// A failure of an operation on a path, as typed; `code` and `text` are the command's own for other reasons.
fn file_failure(error: &OperationError, typed: &str, code: &'static str, text: &str) -> CommandResult {
    match error {
        OperationError::OutsideRoots(_) => {
            failed("FILE_NOT_ALLOWED", format!("Path outside workspace: {typed}"))
        }
        OperationError::Denied(reason) => failed("POLICY_DENIED", reason.clone()),
        OperationError::NotFound(reason) | OperationError::Failed(reason) => {
            failed(code, format!("{text}: {reason}"))
        }
    }
}

/// What every command that needs a document says without one.
fn no_document() -> CommandResult {
    failed("INVALID_TARGET", "No document open.")
}
