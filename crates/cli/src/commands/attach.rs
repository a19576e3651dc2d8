//! `rex attach`: take up a process again, its output so far and its input.

use std::io::IsTerminal;

use client::{Process, Session, TerminalSize};

use super::processes::find;
use super::shell::left;
use crate::app::App;
use crate::args::Attach;
use crate::bounds::Bounds;
use crate::failure::{Failure, Status};
use crate::output;
use crate::relay::{self, End, Input, Manner};
use crate::terminal::{self, Raw};

/// How much of a terminal's past is shown again; what is on its screen was written last.
const PAST: u64 = 256 * 1024;

/// Attaches and stays until the process ends or the person leaves.
pub(super) async fn run(app: &App, ask: Attach) -> Result<Status, Failure> {
    let session = app.session().await?;
    let found = find(&session, &ask.id).await?;
    let is_terminal = found.pty_id.is_some();
    let cursor = match (ask.new, is_terminal) {
        (true, _) => found.cursor,
        (false, true) => found.cursor.saturating_sub(PAST),
        (false, false) => 0,
    };
    let process = session.attach(&found.process_id, cursor).await?;
    stay(app, session, process, Staying { outlives: found.detached, ends: false, forwards: ask.input }).await
}

/// How one stays with a process.
pub(super) struct Staying {
    /// Whether it lives on when we leave.
    pub(super) outlives: bool,
    /// Whether it ends when we leave.
    pub(super) ends: bool,
    /// Whether our stdin goes to it though it is no terminal.
    pub(super) forwards: bool,
}

/// Relays until the process ends, or the person leaves it running.
pub(super) async fn stay(
    app: &App,
    session: Session,
    mut process: Process,
    Staying { outlives, ends, forwards }: Staying,
) -> Result<Status, Failure> {
    let control = process.control();
    let input = match (control.pty_id(), std::io::stdin().is_terminal()) {
        (Some(_), _) => Input::Typed,
        // What is typed here is meant for it; a pipe that happens to be our stdin only if that is said.
        (None, true) => Input::Forwarded,
        (None, false) if forwards => Input::Forwarded,
        (None, false) => Input::Untouched,
    };
    let raw = match input {
        Input::Typed => Raw::enter()?,
        _ => None,
    };
    if raw.is_some() {
        redraw(&control).await?;
    }
    let end = relay::relay(&mut process, Manner { json: app.json, input, outlives }).await;
    if raw.is_some() && !matches!(end, Ok(End::Exit(_) | End::Incomplete(_))) {
        terminal::restore_screen();
    }
    drop(raw);
    let status = match end? {
        End::Exit(exit) | End::Incomplete(exit) => relay::status(&exit, Bounds::unknown(&session), app.json),
        End::Left if ends => {
            let (id, target) = (control.id(), session.target());
            output::remark(format_args!("{id} ends: on {target} a terminal lives as long as its connection"));
            Status::OK
        }
        End::Left => {
            left(app, control.id());
            Status::OK
        }
    };
    // What is detached lives on; the rest was asked to end with the session.
    session.close().await.ok();
    Ok(status)
}

/// Sets the size of our terminal there, by way of another one: a program draws anew when the size changes.
async fn redraw(control: &client::ProcessControl) -> Result<(), Failure> {
    let size = terminal::size();
    control.resize(TerminalSize { rows: size.rows.saturating_sub(1).max(1), ..size }).await?;
    Ok(control.resize(size).await?)
}
