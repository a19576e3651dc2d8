//! `rex exec`: a command there, as if it ran here.

use client::Command;

use crate::app::App;
use crate::args::Exec;
use crate::bounds::Bounds;
use crate::failure::{Failure, Status};
use crate::output;
use crate::relay::{self, End, Input, Manner};
use crate::terminal::{self, Raw};

/// Runs a command; the status is its own.
pub(super) async fn run(app: &App, ask: Exec) -> Result<Status, Failure> {
    let session = app.session().await?;
    let has_no_input = !ask.tty && (ask.no_stdin || is_empty(rustix::stdio::stdin()));
    let mut command = command(app, &ask);
    if has_no_input {
        command = command.no_input();
    }
    let mut process = session.start(command).await.map_err(relay::not_started)?;
    if ask.detach {
        detached(app, &process)?;
        session.close().await?;
        return Ok(Status::OK);
    }
    let input = match (ask.no_stdin || has_no_input, ask.tty) {
        (true, _) => Input::Nothing,
        (false, true) => Input::Typed,
        (false, false) => Input::Forwarded,
    };
    let raw = match ask.tty {
        true => Raw::enter()?,
        false => None,
    };
    let end = relay::relay(&mut process, Manner { json: app.json, input, outlives: false }).await;
    drop(raw);
    let status = ended(end?, Bounds::asked(&session, ask.timeout), app.json)?;
    // The output is out: what is still being cleaned up there does not hold us.
    session.close_without_waiting().await.ok();
    Ok(status)
}

/// The status of a command that has ended. Whoever reads the output of a success takes it for all of it.
pub(super) fn ended(end: End, bounds: Bounds, json: bool) -> Result<Status, Failure> {
    match end {
        End::Exit(exit) => Ok(relay::status(&exit, bounds, json)),
        End::Incomplete(exit) => match relay::status(&exit, bounds, json) {
            Status::OK => Err(incomplete()),
            status => Ok(status),
        },
        End::Left => Ok(Status::OK),
    }
}

fn incomplete() -> Failure {
    Failure::new("the command ended well, but some of its output is lost")
        .hint("run it again with its output in a file there, and copy that with `rex cp`")
}

fn command(app: &App, ask: &Exec) -> Command {
    let mut command = Command::argv(&ask.command);
    for (name, value) in &ask.env {
        command = command.env(name, value);
    }
    if let Some(timeout) = ask.timeout {
        command = command.timeout(timeout);
    }
    if let Some(cwd) = ask.cwd.as_deref().map(|cwd| app.path(cwd)).or_else(|| app.choice.cwd.clone()) {
        command = command.cwd(cwd);
    }
    if let Some(profile) = &ask.sandbox {
        command = command.sandbox(profile);
    }
    if ask.tty {
        command = command.terminal(terminal::size());
    }
    if ask.detach {
        command = command.detach();
    }
    command
}

/// Whether there is nothing to read, and never will be.
pub(super) fn is_empty(stdin: impl rustix::fd::AsFd) -> bool {
    let null = rustix::fs::stat("/dev/null").map(|found| found.st_rdev);
    let ours = rustix::fs::fstat(stdin);
    matches!((ours, null), (Ok(ours), Ok(null)) if ours.st_rdev == null && null != 0)
}

fn detached(app: &App, process: &client::Process) -> Result<(), Failure> {
    match app.json {
        true => output::json_line(&serde_json::json!({ "process_id": process.id() })),
        false => output::line(process.id()),
    }
}
