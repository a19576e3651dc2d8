//! `rex shell`: a terminal there that one can leave and come back to.

use client::{Command, Error, Session, v1};

use super::attach::{Staying, stay};
use crate::app::App;
use crate::args::Shell;
use crate::failure::{Failure, Status};
use crate::output;
use crate::relay;
use crate::terminal;

/// Opens a terminal and stays in it.
pub(super) async fn run(app: &App, ask: Shell) -> Result<Status, Failure> {
    let session = app.session().await?;
    let command = command(app, &ask);
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
    command.terminal(terminal::size())
}

/// Programs there must speak to the terminal we sit at.
fn terminal_kind() -> Option<(String, String)> {
    std::env::var("TERM").ok().filter(|kind| !kind.is_empty()).map(|kind| ("TERM".to_owned(), kind))
}

/// Tells how to come back.
pub(super) fn left(session: &Session, id: &str) {
    output::remark(format_args!("left {id} running on {}; `rex attach {id}` comes back", session.target()));
}
