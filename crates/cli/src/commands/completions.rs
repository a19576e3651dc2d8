//! `rex completions`: prints a completion script.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::args::{CompletionsArgs, RexArgs};
use crate::complete::SCRIPTS;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// Prints the completion script of a shell. That of bash, zsh and fish also completes aliases, processes and remote paths.
pub(super) fn run(args: &CompletionsArgs) -> Result<CommandStatus, Failure> {
    let shell: Shell = args.shell.parse().map_err(|_| {
        Failure::new(format!("unknown shell `{}`", args.shell))
            .hint("use bash, zsh, fish, elvish or powershell")
    })?;
    let name = shell.to_string();
    if let Some((_, script)) = SCRIPTS.iter().find(|(shell, _)| *shell == name) {
        output::write_out(script.as_bytes())?;
        return Ok(CommandStatus::OK);
    }
    let mut text = Vec::new();
    generate(shell, &mut RexArgs::command(), "rex", &mut text);
    output::write_out(&text)?;
    Ok(CommandStatus::OK)
}
