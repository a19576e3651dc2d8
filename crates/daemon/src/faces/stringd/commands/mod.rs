//! Commands: what one runs with, what it returns, and which kind of topic runs it.

pub mod bash;
mod context;
mod operations;
mod session;
mod shell;

pub use context::CommandContext;
pub use operations::{
    DirEntry, DirListing, EntryKind, HttpCall, HttpReply, ShellCommand, ShellOutput, WriteFile,
};

use super::convert::TopicType;
use super::documents;
use super::topics::TopicState;

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandResult {
    /// Whether it succeeded.
    pub ok: bool,
    /// The code of its failure; some failures have none.
    pub code: Option<String>,
    /// Its output.
    pub content: String,
}

impl CommandResult {
    /// A success with this output.
    pub fn ok(content: impl Into<String>) -> CommandResult {
        CommandResult { ok: true, code: None, content: content.into() }
    }

    /// A failure with a code.
    pub fn failed(code: impl Into<String>, content: impl Into<String>) -> CommandResult {
        CommandResult { ok: false, code: Some(code.into()), content: content.into() }
    }

    /// The result of a shell: its status, its directory and its output.
    pub fn of_shell(status: i32, cwd: &str, output: &str) -> CommandResult {
        let output = if output.is_empty() { "(no output)" } else { output };
        let content = format!("exit: {status} | cwd: {cwd}\n---\n{output}");
        match status {
            0 => CommandResult::ok(content),
            status => CommandResult::failed(format!("EXIT_{status}"), content),
        }
    }
}

/// Runs one command, without surrounding blanks, in its topic.
pub(super) async fn execute(state: &mut TopicState, context: &CommandContext, text: &str) -> CommandResult {
    if text.starts_with("/session") {
        return session::run(context, text);
    }
    match context.topic().kind() {
        TopicType::Bash => bash::run(&mut state.shell, context, text).await,
        TopicType::File | TopicType::App | TopicType::Web => {
            documents::run(&mut state.documents, context, text).await
        }
    }
}
