//! Bash topics: a persistent shell, and the commands that begin with `//`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::process::{Cursor, PendingStart, ProcessSpec, SideChannel, TerminalSize};
use tokio::sync::oneshot;

use super::super::errors::{OperationError, operation_error, rpc_error};
use super::super::events::PROCESS_EXITED;
use super::super::methods::params::ShellCommand;
use super::super::session::Session;
use super::shell::{Shell, argv};
use super::{CommandContext, CommandResult};
use crate::core::session::{Face as _, SessionMessage};

/// The size of the shell's terminal.
const TERMINAL: TerminalSize = TerminalSize { cols: 200, rows: 24 };

const HELP: &str = "Bash Session\n---\nText is run by a shell that keeps its directory, variables, functions and \
                    jobs.\n\n//help    show this text\n//info    show the directory and the state of the \
                    shell\n//close   end the shell; the next command starts a new one";

/// The shell of a topic, once it was started.
#[derive(Debug, Default)]
pub struct ShellSlot(Option<Shell>);

/// Runs one command in a bash topic.
pub(super) async fn run(slot: &mut ShellSlot, context: &CommandContext, text: &str) -> CommandResult {
    if let Some(ended) = slot.0.take_if(|shell| shell.is_over()) {
        forget(context, &ended).await;
    }
    let Some(meta) = text.strip_prefix("//") else { return input(slot, context, text).await };
    match meta.split_whitespace().next().unwrap_or_default() {
        "help" => CommandResult::ok(HELP),
        "info" => CommandResult::ok(info(slot, context)),
        "close" => {
            if let Some(shell) = slot.0.take() {
                shell.kill().await;
                forget(context, &shell).await;
            }
            CommandResult::ok("Bash session closed.")
        }
        other => CommandResult::failed(
            "COMMAND_UNSUPPORTED",
            format!("Unknown bash meta-command: //{other}\nUse //help for the commands of a bash topic."),
        ),
    }
}

fn info(slot: &ShellSlot, context: &CommandContext) -> String {
    let state = match &slot.0 {
        Some(shell) => format!("cwd:       {}\npid:       running", shown(&shell.cwd, context.home())),
        None => "cwd:       (no active shell)".to_owned(),
    };
    format!("Bash session info\n---\n{state}")
}

/// A directory below the home as `~/x/`, others as they are, with a slash at the end.
fn shown(cwd: &str, home: &Path) -> String {
    let path = match Path::new(cwd).strip_prefix(home) {
        Ok(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Ok(below) => format!("~/{}", below.display()),
        Err(_outside) => cwd.trim_end_matches('/').to_owned(),
    };
    path + "/"
}

async fn input(slot: &mut ShellSlot, context: &CommandContext, text: &str) -> CommandResult {
    let denied = |error: OperationError| {
        CommandResult::failed(error.code("INTERNAL_ERROR"), format!("Bash error: {error}"))
    };
    let cwd = slot.0.as_ref().map_or_else(|| context.home().to_owned(), |shell| shell.cwd.clone().into());
    let command = ShellCommand { text: text.to_owned(), cwd, env: Vec::new() };
    // Decides about the text; the shell itself does nothing that was not decided about.
    if let Err(error) = context.decide(&command).await {
        return denied(error);
    }
    let mut shell = match slot.0.take() {
        Some(shell) => shell,
        None => match start(context).await {
            Ok(shell) => shell,
            Err(error) => return denied(error),
        },
    };
    let reply = shell.run(text, context.timeout()).await;
    let result = CommandResult::of_shell(reply.status, &shell.cwd, &reply.output);
    match reply.is_alive {
        true => slot.0 = Some(shell),
        false => forget(context, &shell).await,
    }
    result
}

/// Removes a shell that has ended from the listings.
async fn forget(context: &CommandContext, shell: &Shell) {
    let id = shell.id().clone();
    let remove = move |session: &mut Session| session.engine.remove(&id);
    context.session.send(SessionMessage::update(remove)).await;
}

/// Starts the shell in the user's home.
async fn start(context: &CommandContext) -> Result<Shell, OperationError> {
    let failed = |error: std::io::Error| OperationError::Failed(error.to_string());
    let (channel, pipes) = SideChannel::open().map_err(failed)?;
    let home = context.home().to_owned();
    let home_text = home.to_string_lossy();
    // An inherited TMOUT would end the shell while it waits for the next command.
    let fixed = [("TERM", "dumb"), ("HISTFILE", ""), ("BASH_ENV", ""), ("TMOUT", ""), ("HOME", &*home_text)];
    let variables = fixed.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let (sender, started) = oneshot::channel();
    let start = {
        let home = home.clone();
        move |session: &mut Session| {
            let cwd = session.roots.admit(&session.cwd, &home).map_err(rpc_error);
            let spec = cwd.and_then(|cwd| session.command_spec(argv(&pipes), variables, cwd));
            let started = spec.and_then(|spec| {
                let (terminal, side_pipes) = (Some(TERMINAL), Some(Arc::new(pipes)));
                // An interactive shell ignores TERM, and `/shutdown` must not wait for it.
                let end_grace = Some(Duration::ZERO);
                let spec = ProcessSpec { terminal, side_pipes, end_grace, ..spec };
                session.engine.start(spec).map_err(rpc_error)
            });
            // Fails only if the command was dropped.
            sender.send(started).ok();
        }
    };
    let deleted = || OperationError::Failed("the session was deleted".to_owned());
    let session = context.session.handle(&context.face).map_err(operation_error)?;
    session.send(SessionMessage::update(start)).await;
    let starting: PendingStart = started.await.map_err(|_ended| deleted())?.map_err(operation_error)?;
    let reader = starting.process().primary_reader(Cursor(0));
    let running = |error| operation_error(rpc_error(error));
    let process = starting.running().await.map_err(running)?;
    session.record_process(context.face.core(), &process, PROCESS_EXITED);
    let cwd = home.to_string_lossy().into_owned();
    Shell::new((process, reader), channel, cwd).await.map_err(running)
}
