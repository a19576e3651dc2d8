//! `bash`: starts a command, waits for it as long as callers wait, and lets it go on in the background after that.

use std::sync::Arc;
use std::time::Duration;

use client::v1::codes;
use client::{Command, Error, Process, Session};

use super::arguments::Arguments;
use super::follow::Followed;
use super::outcome::Outcome;
use super::toolbox::{Call, Place, Toolbox};
use super::{answer, limits};
use crate::failure::Failure;

/// How long a command in the background is looked at, so that one that fails at once is told as failed.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// How long a start that was cancelled may still take: it is a matter of milliseconds, unless somebody is being asked.
const LATE_START: Duration = Duration::from_secs(1);

/// What is asked.
struct Asked {
    line: String,
    cwd: Option<String>,
    timeout: Option<Duration>,
    background: bool,
}

/// Runs a command.
pub(super) async fn bash(
    toolbox: &Toolbox,
    arguments: &Arguments<'_>,
    call: &Call,
) -> Result<Outcome, Outcome> {
    let background = arguments.flag("background")?;
    let asked = Asked {
        line: line(arguments.text("command")?, background),
        cwd: arguments.maybe_text("cwd")?.map(str::to_owned),
        timeout: arguments.maybe_number("timeout_ms", 1)?.map(Duration::from_millis),
        background,
    };
    let started = start(toolbox, &asked);
    tokio::pin!(started);
    let (process, is_detached, session) = tokio::select! {
        started = &mut started => started.map_err(Outcome::from)?,
        () = call.cancelled.cancelled() => {
            // Whether it runs is not known yet: nothing may be left behind.
            if let Ok(Ok((process, ..))) = tokio::time::timeout(LATE_START, started).await {
                process.control().kill(None).await.ok();
            }
            return Err(Outcome::failed("the call was cancelled before the command ran"));
        }
    };
    let followed = Arc::new(Followed::new(&process, 0, is_detached));
    toolbox.keep(followed.clone().run(process));
    toolbox.processes.add(followed.clone());
    call.runs(&followed);
    let patience = if asked.background { FIRST_LOOK } else { toolbox.setting.patience };
    tokio::select! {
        _ = followed.until_within(patience, |_| false) => {}
        () = call.cancelled.cancelled() => return Err(cancel(&followed).await),
    }
    let limits = limits::Limits::of(&session, asked.timeout);
    answer::of_command(&followed, &limits, asked.background).await
}

/// The line for the shell. A command that nobody can feed finds its stdin empty: with an open pipe there, `rg` and
/// others would read from it instead of searching, and wait for ever.
fn line(command: &str, background: bool) -> String {
    let is_remark = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    // Between braces there has to be a command, and the last line has to end.
    match background || command.lines().all(is_remark) || command.ends_with('\\') {
        true => command.to_owned(),
        false => format!("{{ {command}\n}} </dev/null"),
    }
}

async fn start(toolbox: &Toolbox, asked: &Asked) -> Result<(Process, bool, Session), Failure> {
    let outlive = toolbox.setting.outlive;
    let start = |place: Place| async move {
        let command = command(&place, asked);
        if outlive {
            match place.session.start(command.clone().detach()).await {
                // Without a state folder nothing can outlive us there: better attached than not at all.
                Err(Error::Refused(error)) if error.code == codes::UNSUPPORTED_CAPABILITY => {}
                started => return Ok((started?, true, place.session)),
            }
        }
        Ok((place.session.start(command).await?, false, place.session))
    };
    toolbox.ask(start).await
}

fn command(place: &Place, asked: &Asked) -> Command {
    let mut command = Command::line(asked.line.clone());
    if let Some(cwd) = asked.cwd.as_deref().map(|cwd| place.path(cwd)).or_else(|| place.cwd.clone()) {
        command = command.cwd(cwd);
    }
    if let Some(timeout) = asked.timeout {
        command = command.timeout(timeout);
    }
    command
}

/// Ends a command whose call was cancelled, with everything it started.
async fn cancel(process: &Followed) -> Outcome {
    match process.control.kill(None).await {
        Ok(killed) => {
            let names: Vec<_> =
                killed.killed.iter().map(|died| format!("{} ({})", died.name, died.pid)).collect();
            Outcome::failed(format!("the call was cancelled; ended: {}", names.join(", ")))
        }
        Err(error) => Outcome::failed(format!("the call was cancelled; ending the command failed: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn only_commands_that_nobody_can_feed_have_an_empty_stdin() {
        assert_eq!(line("cat", false), "{ cat\n} </dev/null");
        assert_eq!(line("cat", true), "cat");
        for unusual in ["echo \\", "", "# nothing\n"] {
            assert_eq!(line(unusual, false), unusual);
        }
    }
}
