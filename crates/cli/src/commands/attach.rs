//! `rex attach`: reattaches to a process.

use std::io::IsTerminal;

use client::{Process, Session, TerminalSize};

use super::processes::{find, find_only};
use super::shell::note_detached;
use crate::app::App;
use crate::args::AttachArgs;
use crate::command_limits::CommandLimits;
use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::relay::{self, InputMode, RelayEnd, RelayOptions, Signals};
use crate::terminal::{self, RawMode};

/// Bytes of a terminal's earlier output that are replayed if the server sends no screen: enough to contain it.
const REPLAYED_BYTES: u64 = 256 * 1024;

/// Attaches until the process exits or the user detaches.
pub(super) async fn run(app: &App, args: AttachArgs) -> Result<CommandStatus, Failure> {
    let session = app.session().await?;
    let found = match &args.id {
        Some(id) => find(&session, id).await?,
        None => find_only(&session, !app.json && std::io::stdin().is_terminal()).await?,
    };
    let is_terminal = found.pty_id.is_some();
    let cursor = match (args.new, is_terminal) {
        (true, _) => found.cursor,
        (false, true) => found.cursor.saturating_sub(REPLAYED_BYTES),
        (false, false) => 0,
    };
    let shows_screen = is_terminal
        && !args.new
        && !app.json
        && std::io::stdout().is_terminal()
        && session.has_capability("exec.attach.screen");
    let process = match shows_screen {
        true => session.attach_screen(&found.process_id).await?,
        false => session.attach(&found.process_id, cursor).await?,
    };
    relay_attached(
        app,
        session,
        process,
        AttachOptions { is_detached: found.detached, ends_with_session: false, forwards_stdin: args.input },
    )
    .await
}

/// How the process and this client depend on each other.
pub(super) struct AttachOptions {
    /// Whether the process is detached and survives this client.
    pub(super) is_detached: bool,
    /// Whether the process ends with this session.
    pub(super) ends_with_session: bool,
    /// Whether stdin is forwarded even if it is not a terminal.
    pub(super) forwards_stdin: bool,
}

/// Relays until the process exits or the user detaches.
pub(super) async fn relay_attached(
    app: &App,
    session: Session,
    mut process: Process,
    AttachOptions { is_detached, ends_with_session, forwards_stdin }: AttachOptions,
) -> Result<CommandStatus, Failure> {
    let control = process.control();
    let input = match (control.pty_id(), std::io::stdin().is_terminal()) {
        (Some(_), _) => InputMode::Terminal,
        // Input typed on a terminal is for the process; a pipe on stdin is forwarded only with --input.
        (None, true) => InputMode::Terminal,
        (None, false) if forwards_stdin => InputMode::Forwarded,
        (None, false) => InputMode::Untouched,
    };
    // A process without a terminal gets whole lines, and Ctrl-C is a signal to this client.
    let raw = match control.pty_id() {
        Some(_) => RawMode::enter()?,
        None => None,
    };
    if let Some(screen) = process.attach_result().and_then(|attached| attached.screen.as_ref()) {
        output::write_out(screen.text.as_bytes())?;
    }
    if raw.is_some() {
        redraw(&control).await?;
    }
    let end =
        relay::relay(&mut process, Signals::listen()?, RelayOptions { json: app.json, input, is_detached })
            .await;
    if raw.is_some() && !matches!(end, Ok(RelayEnd::Exit(_) | RelayEnd::Incomplete(_))) {
        terminal::restore_screen();
    }
    drop(raw);
    let status = match end? {
        RelayEnd::Exit(exit) | RelayEnd::Incomplete(exit) => {
            relay::status(&exit, CommandLimits::of_existing(&session), app.json)
        }
        RelayEnd::Detached if ends_with_session => {
            let (id, target) = (control.id(), session.target());
            output::note(format_args!("{id} is terminated: on {target} a terminal ends with its connection"));
            CommandStatus::OK
        }
        RelayEnd::Detached => {
            note_detached(app, control.id());
            CommandStatus::OK
        }
    };
    // Detached processes continue; the others end with the session.
    session.close().await.ok();
    Ok(status)
}

/// Resizes the remote terminal twice, because programs redraw when the size changes.
async fn redraw(control: &client::ProcessControl) -> Result<(), Failure> {
    let size = terminal::size();
    control.resize(TerminalSize { rows: size.rows.saturating_sub(1).max(1), ..size }).await?;
    Ok(control.resize(size).await?)
}
