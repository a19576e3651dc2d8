//! The tool `bash`: starts a command and waits for it; after the wait it continues in the background.

use std::sync::Arc;
use std::time::Duration;

use client::v1::codes;
use client::{Command, Error, Process, Session};

use super::arguments::Arguments;
use super::limits::Limits;
use super::outcome::ToolOutcome;
use super::process_report::{self, RunNotes};
use super::toolbox::{TargetSession, ToolCall, Toolbox};
use super::tracked::TrackedProcess;
use crate::failure::Failure;

/// How long a background command is observed, so that an immediate failure is reported.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// How long a start may still take after its call was cancelled: longer only while an approval is pending.
const LATE_START: Duration = Duration::from_secs(1);

/// The arguments of `bash`.
struct BashArguments {
    line: String,
    cwd: Option<String>,
    timeout: Option<Duration>,
    background: bool,
}

/// Runs a command on the target.
pub(super) async fn bash(
    toolbox: &Toolbox,
    arguments: &Arguments<'_>,
    call: &ToolCall,
) -> Result<ToolOutcome, ToolOutcome> {
    let background = arguments.flag("background")?;
    let asked = BashArguments {
        line: line(arguments.text("command")?, background),
        cwd: arguments.maybe_text("cwd")?.map(str::to_owned),
        timeout: arguments.maybe_number("timeout_ms", 1)?.map(Duration::from_millis),
        background,
    };
    let started = start(toolbox, &asked);
    tokio::pin!(started);
    let (process, is_detached, session) = tokio::select! {
        started = &mut started => started.map_err(ToolOutcome::from)?,
        () = call.cancelled.cancelled() => {
            // The command may have started: it must not be left behind.
            if let Ok(Ok((process, ..))) = tokio::time::timeout(LATE_START, started).await {
                process.control().kill(None).await.ok();
            }
            return Err(ToolOutcome::failed("call cancelled before the command started"));
        }
    };
    let tracked = Arc::new(TrackedProcess::new(&process, 0, is_detached));
    toolbox.spawn(tracked.clone().run(process));
    toolbox.processes.add(tracked.clone());
    call.set_process(&tracked);
    let foreground_wait = if asked.background { FIRST_LOOK } else { toolbox.options.foreground_wait };
    tokio::select! {
        _ = tracked.wait_until_within(foreground_wait, |_| false) => {}
        () = call.cancelled.cancelled() => return Err(cancel(&tracked).await),
    }
    let run = RunNotes { limits: Limits::of(&session, asked.timeout) };
    process_report::command_outcome(&tracked, &run, asked.background).await
}

/// The command line for the shell. A foreground command gets an empty stdin: with an open pipe, `rg` and other programs
/// would read from it instead of searching, and never end.
fn line(command: &str, background: bool) -> String {
    let is_remark = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    // Braces need a command inside, and its last line must be complete.
    match background || command.lines().all(is_remark) || command.ends_with('\\') {
        true => command.to_owned(),
        false => format!("{{ {command}\n}} </dev/null"),
    }
}

async fn start(toolbox: &Toolbox, asked: &BashArguments) -> Result<(Process, bool, Session), Failure> {
    let detach_commands = toolbox.options.detach_commands;
    let start = |target: TargetSession| async move {
        let command = command(&target, asked);
        if detach_commands {
            match target.session.start(command.clone().detach()).await {
                // Without a state directory on the target a process cannot be detached; it is started attached.
                Err(Error::Refused(error)) if error.code == codes::UNSUPPORTED_CAPABILITY => {}
                started => return Ok((started?, true, target.session)),
            }
        }
        Ok((target.session.start(command).await?, false, target.session))
    };
    toolbox.with_session(start).await
}

fn command(target: &TargetSession, asked: &BashArguments) -> Command {
    let mut command = Command::line(asked.line.clone());
    if let Some(cwd) = asked.cwd.as_deref().map(|cwd| target.path(cwd)).or_else(|| target.cwd.clone()) {
        command = command.cwd(cwd);
    }
    if let Some(timeout) = asked.timeout {
        command = command.timeout(timeout);
    }
    command
}

/// Kills the command of a cancelled call, with everything it started.
async fn cancel(process: &TrackedProcess) -> ToolOutcome {
    match process.control.kill(None).await {
        Ok(killed) => {
            let names: Vec<_> =
                killed.killed.iter().map(|died| format!("{} ({})", died.name, died.pid)).collect();
            ToolOutcome::failed(format!("call cancelled; killed: {}", names.join(", ")))
        }
        Err(error) => ToolOutcome::failed(format!("call cancelled; cannot kill the command: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn only_foreground_commands_get_an_empty_stdin() {
        assert_eq!(line("cat", false), "{ cat\n} </dev/null");
        assert_eq!(line("cat", true), "cat");
        for unusual in ["echo \\", "", "# nothing\n"] {
            assert_eq!(line(unusual, false), unusual);
        }
    }
}
