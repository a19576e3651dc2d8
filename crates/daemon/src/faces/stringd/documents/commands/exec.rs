//! `/exec`: a shell command in the topic's directory.

use crate::faces::stringd::commands::{CommandContext, CommandResult, ShellCommand};
use crate::faces::stringd::documents::perform::command_failure;
use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{DocumentResult, failed};

/// Runs a command line with the session variables in its environment.
pub(in super::super) async fn run(
    state: &DocumentState,
    context: &CommandContext,
    args: &str,
) -> DocumentResult {
    if args.is_empty() {
        return Err(failed("COMMAND_UNSUPPORTED", "Usage: /exec <command>"));
    }
    let cwd = state.cwd(context.home());
    let mut env = vec![("HOME".to_owned(), context.home().to_string_lossy().into_owned())];
    env.extend(state.variables.iter().filter(|(name, _)| !name.starts_with('_')).cloned());
    let shown = cwd.to_string_lossy().into_owned();
    let command = ShellCommand { text: args.to_owned(), cwd, env };
    let output = context.run(command).await.map_err(command_failure)?;
    let result = CommandResult::of_shell(output.status, &shown, &output.output);
    if result.ok { Ok(result.content) } else { Err(result) }
}
