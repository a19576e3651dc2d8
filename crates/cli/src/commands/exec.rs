//! `rex exec`: runs a command on the target.

use client::{Command, Process, Session};

use crate::app::App;
use crate::args::{ExecArgs, misuse_hint};
use crate::command_limits::CommandLimits;
use crate::failure::{CommandStatus, Failure, NOT_FOUND};
use crate::output;
use crate::relay::{self, InputMode, RelayEnd, RelayOptions, Signals};
use crate::terminal::{self, RawMode};

/// Runs a command and returns its status.
pub(super) async fn run(app: &App, args: ExecArgs) -> Result<CommandStatus, Failure> {
    let has_no_input = !args.tty && (args.no_stdin || is_dev_null(rustix::stdio::stdin()));
    let mut command = command(app, &args);
    if has_no_input {
        command = command.no_input();
    }
    let started = match args.name {
        Some(_) => start_named(app, command).await,
        None => app.start(command).await,
    };
    let (session, mut process, signals) =
        started.map_err(|failure| with_shell_hint(failure, &args.command))?;
    if args.detach {
        print_process_id(app, &process)?;
        session.close().await?;
        return Ok(CommandStatus::OK);
    }
    let input = match (args.no_stdin || has_no_input, args.tty) {
        (true, _) => InputMode::Closed,
        (false, true) => InputMode::Terminal,
        (false, false) => InputMode::Forwarded,
    };
    let raw = match args.tty {
        true => RawMode::enter()?,
        false => None,
    };
    let end =
        relay::relay(&mut process, signals, RelayOptions { json: app.json, input, is_detached: false }).await;
    drop(raw);
    let status = exit_status(end?, CommandLimits::of_started(&session, args.timeout), app.json)?;
    // All output has arrived: do not wait for the cleanup on the target.
    session.close_without_waiting().await.ok();
    Ok(status)
}

/// Starts a command that has a name, unless the server would ignore the name.
async fn start_named(app: &App, command: Command) -> Result<(Session, Process, Signals), Failure> {
    let session = app.session().await?;
    if !session.has_capability("name") {
        return Err(Failure::new(format!(
            "cannot name the process: rexd on {} is too old",
            session.target()
        ))
        .hint("update it with `rex target install`"));
    }
    let (process, signals) = relay::start(session.start(command)).await?;
    Ok((session, process, signals))
}

/// Adds a hint for a whole line in the place of a program.
fn with_shell_hint(failure: Failure, command: &[String]) -> Failure {
    let is_shell_character = |c: char| c.is_whitespace() || "|&;<>()$`\"'*?~#".contains(c);
    match command {
        [line] if failure.status == NOT_FOUND && line.contains(is_shell_character) => {
            let quoted = shlex::try_quote(line).unwrap_or_default().into_owned();
            failure.hint(format!("run it in a shell: `rex exec -c {quoted}`"))
        }
        _ => failure,
    }
}

/// Adds the hint for `-it` to the failure to find its target.
pub(super) fn with_tty_hint(failure: Failure) -> Failure {
    match misuse_hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The status of an exited command. With status 0 a caller relies on complete output, so lost output is a failure.
pub(super) fn exit_status(
    end: RelayEnd,
    limits: CommandLimits,
    json: bool,
) -> Result<CommandStatus, Failure> {
    match end {
        RelayEnd::Exit(exit) => Ok(relay::status(&exit, limits, json)),
        RelayEnd::Incomplete(exit) => match relay::status(&exit, limits, json) {
            CommandStatus::OK => Err(incomplete_output()),
            status => Ok(status),
        },
        RelayEnd::Detached => Ok(CommandStatus::OK),
    }
}

fn incomplete_output() -> Failure {
    Failure::new("output is incomplete: the command succeeded, but some of its output is lost")
        .hint("redirect the output to a file on the target and copy it with `rex cp`")
}

fn command(app: &App, args: &ExecArgs) -> Command {
    let mut command = match &args.text {
        Some(text) => Command::line(text),
        None => Command::argv(&args.command),
    };
    for (name, value) in &args.env {
        command = command.env(name, value);
    }
    if let Some(timeout) = args.timeout {
        command = command.timeout(timeout);
    }
    if let Some(cwd) = args.cwd.as_deref().map(|cwd| app.path(cwd)).or_else(|| app.choice.cwd.clone()) {
        command = command.cwd(cwd);
    }
    if let Some(profile) = &args.sandbox {
        command = command.sandbox(profile);
    }
    if args.tty {
        command = command.terminal(terminal::size());
    }
    if args.detach {
        command = command.detach();
    }
    if let Some(name) = &args.name {
        command = command.name(name);
    }
    command
}

/// Whether stdin is /dev/null.
pub(super) fn is_dev_null(stdin: impl rustix::fd::AsFd) -> bool {
    let null = rustix::fs::stat("/dev/null").map(|found| found.st_rdev);
    let ours = rustix::fs::fstat(stdin);
    matches!((ours, null), (Ok(ours), Ok(null)) if ours.st_rdev == null && null != 0)
}

fn print_process_id(app: &App, process: &client::Process) -> Result<(), Failure> {
    match app.json {
        true => output::json_line(&serde_json::json!({ "process_id": process.id() })),
        false => output::line(process.id()),
    }
}
