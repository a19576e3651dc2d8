//! `rex completions`: what a shell needs to complete our commands.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::args::{Args, Completions};
use crate::failure::{Failure, Status};
use crate::output;

/// Prints them.
pub(super) fn run(ask: &Completions) -> Result<Status, Failure> {
    let shell: Shell = ask.shell.parse().map_err(|_| {
        Failure::new(format!("`{}` is no shell that is known", ask.shell))
            .hint("bash, zsh, fish, elvish, powershell")
    })?;
    let mut text = Vec::new();
    generate(shell, &mut Args::command(), "rex", &mut text);
    output::write_out(&text)?;
    Ok(Status::OK)
}
