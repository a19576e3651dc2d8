//! The tool `bash`: starts a command and waits for it; after the wait it continues in the background.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use client::v1::codes;
use client::{Command, Error, Process, Session};
use rustix::io::Errno;

use super::arguments::Arguments;
use super::limits::Limits;
use super::outcome::ToolOutcome;
use super::process_report::{self, RunNotes};
use super::toolbox::{TargetSession, ToolCall, Toolbox};
use super::tracked::TrackedProcess;
use crate::failure::Failure;

/// The capability of servers that start a command with `/dev/null` as its input.
const NO_STDIN: &str = "no_stdin";
/// The capability of servers that start a command with one pipe for both streams.
const MERGE_STDERR: &str = "merge_stderr";
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
    detach: bool,
}

/// Whether a command outlives the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detach {
    No,
    IfPossible,
    Required,
}

/// A started command.
struct Started {
    process: Process,
    is_detached: bool,
    session: Session,
    /// The shell that runs it.
    shell: &'static str,
}

/// Runs a command on the target.
pub(super) async fn bash(
    toolbox: &Toolbox,
    arguments: &Arguments<'_>,
    call: &ToolCall,
) -> Result<ToolOutcome, ToolOutcome> {
    let (background, detach) = (arguments.flag("background")?, arguments.flag("detach")?);
    let asked = BashArguments {
        line: arguments.text("command")?.to_owned(),
        cwd: arguments.maybe_text("cwd")?.map(str::to_owned),
        timeout: arguments.maybe_number("timeout_ms", 1)?.map(Duration::from_millis),
        background,
        detach,
    };
    let started = start(toolbox, &asked);
    tokio::pin!(started);
    let Started { process, is_detached, session, shell } = tokio::select! {
        started = &mut started => started.map_err(|failure| not_started(failure, &asked))?,
        () = call.cancelled.cancelled() => {
            // The command may have started: it must not be left behind.
            if let Ok(Ok(Started { process, .. })) = tokio::time::timeout(LATE_START, started).await {
                process.control().kill(None).await.ok();
            }
            return Err(ToolOutcome::failed("call cancelled before the command started"));
        }
    };
    let tracked = Arc::new(TrackedProcess::new(&process, 0, is_detached));
    toolbox.spawn(tracked.clone().run(process));
    toolbox.processes.add_started(tracked.clone());
    call.set_process(&tracked);
    let returns_at_once = asked.background || asked.detach;
    let foreground_wait = match returns_at_once {
        true => FIRST_LOOK,
        false => call.foreground_wait.unwrap_or(toolbox.options.foreground_wait),
    };
    tokio::select! {
        _ = tracked.wait_until_within(foreground_wait, |_| false) => {}
        () = call.cancelled.cancelled() => return Err(cancel(&tracked).await),
    }
    let run = RunNotes { limits: Limits::of(&session, asked.timeout), lacks_bash: shell != "bash" };
    process_report::command_outcome(&tracked, &run, asked.background).await
}

async fn start(toolbox: &Toolbox, asked: &BashArguments) -> Result<Started, Failure> {
    let detach = match (asked.detach, toolbox.options.detach_commands) {
        (true, _) => Detach::Required,
        (false, true) => Detach::IfPossible,
        (false, false) => Detach::No,
    };
    let start = |target: TargetSession| async move {
        if !target.target.lacks_bash.load(Ordering::Relaxed) {
            match start_in("bash", &target, asked, detach).await {
                Err(error) if is_missing(&error) => target.target.lacks_bash.store(true, Ordering::Relaxed),
                started => return started,
            }
        }
        start_in("sh", &target, asked, detach).await
    };
    toolbox.with_session(start).await
}

/// Starts the command in this shell, detached if that is wanted and possible.
async fn start_in(
    shell: &'static str,
    target: &TargetSession,
    asked: &BashArguments,
    detach: Detach,
) -> Result<Started, Error> {
    let session = &target.session;
    let command = command(shell, target, asked);
    let mut detached = None;
    if detach != Detach::No {
        detached = match session.start(command.clone().detach()).await {
            // Without a state directory on the target a process cannot be detached; it is started attached.
            Err(Error::Refused(error))
                if error.code == codes::UNSUPPORTED_CAPABILITY && detach == Detach::IfPossible =>
            {
                None
            }
            started => Some(started?),
        };
    }
    let is_detached = detached.is_some();
    let process = match detached {
        Some(process) => process,
        None => session.start(command).await?,
    };
    if !asked.background && !session.has_capability(NO_STDIN) {
        // A command that has ended needs no end of its input.
        process.control().close_input().await.ok();
    }
    Ok(Started { process, is_detached, session: session.clone(), shell })
}

/// The outcome of a command that did not start.
fn not_started(failure: Failure, asked: &BashArguments) -> ToolOutcome {
    match asked.detach && failure.code == codes::UNSUPPORTED_CAPABILITY {
        true => {
            failure.hint("run it without detach, with background: true; it then ends with this server").into()
        }
        false => failure.into(),
    }
}

/// Whether the program of a start does not exist.
fn is_missing(error: &Error) -> bool {
    let missing = Errno::NOENT.raw_os_error();
    error.rpc().is_some_and(|error| error.data.get("program").is_some() && error.data["errno"] == missing)
}

fn command(shell: &str, target: &TargetSession, asked: &BashArguments) -> Command {
    let mut command = Command::argv([shell, "-c", &asked.line]);
    // With a pipe as stdin, `rg` and other programs would read from it instead of searching.
    if !asked.background && target.session.has_capability(NO_STDIN) {
        command = command.null_input();
    }
    if target.session.has_capability(MERGE_STDERR) {
        command = command.merge_stderr();
    }
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
