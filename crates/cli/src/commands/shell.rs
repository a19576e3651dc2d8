//! `rex shell`: a terminal there that one can leave and come back to.

use std::io::IsTerminal as _;

use client::{Command, Error, Session, v1};

use super::attach::{Staying, stay};
use super::exec::ended;
use super::exec::is_empty;
use crate::app::App;
use crate::args::Shell;
use crate::bounds::Bounds;
use crate::failure::{Failure, Status};
use crate::output;
use crate::relay::{self, Input, Manner};
use crate::route;
use crate::terminal;

/// Opens a terminal and stays in it.
pub(super) async fn run(app: &App, ask: Shell) -> Result<Status, Failure> {
    let session = app.session().await?;
    let command = command(app, &ask);
    if !std::io::stdin().is_terminal() {
        return piped(app, session, command).await;
    }
    let command = command.terminal(terminal::size());
    // Detached from the start: leaving it, or losing the link, must not end what runs in it.
    let mut outlives = true;
    let started = match session.start(command.clone().detach()).await {
        Err(Error::Refused(error)) if error.code == v1::codes::UNSUPPORTED_CAPABILITY => {
            // That matters to whoever leaves it, and is said then.
            outlives = false;
            session.start(command).await
        }
        started => started,
    };
    let process = started.map_err(relay::not_started)?;
    stay(app, session, process, Staying { outlives, ends: !outlives, forwards: false }).await
}

fn command(app: &App, ask: &Shell) -> Command {
    let mut command = match ask.command.is_empty() {
        true => Command::shell(),
        false => Command::argv(&ask.command),
    };
    for (name, value) in terminal_kind().into_iter().chain(ask.env.iter().cloned()) {
        command = command.env(name, value);
    }
    if let Some(cwd) = ask.cwd.as_deref().map(|cwd| app.path(cwd)).or_else(|| app.choice.cwd.clone()) {
        command = command.cwd(cwd);
    }
    command
}

/// Without a terminal here there is none there, as with ssh: the shell does what comes on our stdin, to its end.
async fn piped(app: &App, session: Session, command: Command) -> Result<Status, Failure> {
    let (command, input) = match is_empty(rustix::stdio::stdin()) {
        true => (command.no_input(), Input::Nothing),
        false => (command, Input::Forwarded),
    };
    let mut process = session.start(command).await.map_err(relay::not_started)?;
    let end = relay::relay(&mut process, Manner { json: app.json, input, outlives: false }).await?;
    let status = ended(end, Bounds::asked(&session, None), app.json)?;
    session.close_without_waiting().await.ok();
    Ok(status)
}

/// Programs there must speak to the terminal we sit at.
fn terminal_kind() -> Option<(String, String)> {
    std::env::var("TERM").ok().filter(|kind| !kind.is_empty()).map(|kind| ("TERM".to_owned(), kind))
}

/// Tells how to come back, with the target where `rex` alone would choose another.
pub(super) fn left(app: &App, id: &str) {
    let choice = &app.choice;
    let flag = match route::current(None) {
        Ok(usual) if usual.target == choice.target => String::new(),
        _ => format!(" -t {}", choice.alias.clone().unwrap_or_else(|| choice.target.to_string())),
    };
    output::remark(format_args!(
        "left {id} running on {}; `rex{flag} attach {id}` comes back",
        choice.target
    ));
}
