//! `rex completions`: prints a completion script.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::args::{CompletionsArgs, RexArgs};
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// Prints the completion script of a shell.
pub(super) fn run(args: &CompletionsArgs) -> Result<CommandStatus, Failure> {
    let shell: Shell = args.shell.parse().map_err(|_| {
        Failure::new(format!("unknown shell `{}`", args.shell))
            .hint("use bash, zsh, fish, elvish or powershell")
    })?;
    let mut text = Vec::new();
    generate(shell, &mut RexArgs::command(), "rex", &mut text);
    output::write_out(&text)?;
    Ok(CommandStatus::OK)
}
