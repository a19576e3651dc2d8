//! `rex shell`: opens a terminal that the user can detach from.

use std::io::IsTerminal as _;

use client::{Command, Error, v1};

use super::attach::{AttachOptions, relay_attached};
use super::exec::{exit_status, is_dev_null};
use crate::app::App;
use crate::args::ShellArgs;
use crate::command_limits::CommandLimits;
use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::relay::{self, InputMode, RelayOptions};
use crate::route;
use crate::terminal;

/// Opens a terminal and relays it.
pub(super) async fn run(app: &App, args: ShellArgs) -> Result<CommandStatus, Failure> {
    let command = command(app, &args);
    if !std::io::stdin().is_terminal() {
        return piped(app, command).await;
    }
    let session = app.session().await?;
    let command = command.terminal(terminal::size());
    // Detached from the start: detaching or a broken connection must not end the program in the terminal.
    let mut is_detached = true;
    let started = match session.start(command.clone().detach()).await {
        Err(Error::Refused(error)) if error.code == v1::codes::UNSUPPORTED_CAPABILITY => {
            // The user is informed when detaching.
            is_detached = false;
            session.start(command).await
        }
        started => started,
    };
    let process = started.map_err(relay::start_failure)?;
    relay_attached(
        app,
        session,
        process,
        AttachOptions { is_detached, ends_with_session: !is_detached, forwards_stdin: false },
    )
    .await
}

fn command(app: &App, args: &ShellArgs) -> Command {
    let mut command = match args.command.is_empty() {
        true => Command::shell(),
        false => Command::argv(&args.command),
    };
    for (name, value) in term_variable().into_iter().chain(args.env.iter().cloned()) {
        command = command.env(name, value);
    }
    if let Some(cwd) = args.cwd.as_deref().map(|cwd| app.path(cwd)).or_else(|| app.choice.cwd.clone()) {
        command = command.cwd(cwd);
    }
    command
}

/// Without a local terminal none is opened on the target, as with ssh: the shell reads its commands from stdin.
async fn piped(app: &App, command: Command) -> Result<CommandStatus, Failure> {
    let (command, input) = match is_dev_null(rustix::stdio::stdin()) {
        true => (command.no_input(), InputMode::Closed),
        false => (command, InputMode::Forwarded),
    };
    let (session, mut process, signals) = app.start(command).await?;
    let end = relay::relay(&mut process, signals, RelayOptions { json: app.json, input, is_detached: false })
        .await?;
    let status = exit_status(end, CommandLimits::of_started(&session, None), app.json)?;
    session.close_without_waiting().await.ok();
    Ok(status)
}

/// Passes `TERM`, because remote programs write to the local terminal.
fn term_variable() -> Option<(String, String)> {
    std::env::var("TERM").ok().filter(|kind| !kind.is_empty()).map(|kind| ("TERM".to_owned(), kind))
}

/// Prints how to reattach, with `-t` if `rex` would choose another target by default.
pub(super) fn note_detached(app: &App, id: &str) {
    let choice = &app.choice;
    let flag = match route::current(None) {
        Ok(usual) if usual.target == choice.target => String::new(),
        _ => format!(" -t {}", choice.alias.clone().unwrap_or_else(|| choice.target.to_string())),
    };
    output::note(format_args!(
        "detached from {id} on {}; reattach with `rex{flag} attach {id}`",
        choice.target
    ));
}
