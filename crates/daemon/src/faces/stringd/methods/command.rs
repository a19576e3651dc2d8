//! `command.run`: a command line in `/bin/bash -c`, to its end or to the timeout.

use std::path::Path;
use std::sync::Arc;

use engine::audit::RecordPriority;
use engine::process::{
    Cursor, ExitCause, ExitStatus, Item, PendingStart, Process, ProcessSpec, ProcessSummary, Program,
};
use engine::{Error, RootedPath, Roots};
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::RpcError;

use super::params::{ShellCommand, ShellOutput, name};
use super::{StringdContext, StringdPrepareResult};
use crate::core::Core;
use crate::core::authorize::{Asking, Authorization, Refusal, authorize};
use crate::core::effects::{CommandEffects, Effects};
use crate::core::request::{ConnectionContext, Details, RequestContext, Requester};
use crate::core::responder::Responder;
use crate::core::session::SessionMessage;
use crate::core::table::{Prepared, detail};
use crate::faces::stringd::errors::rpc_error;
use crate::faces::stringd::events::PROCESS_EXITED;
use crate::faces::stringd::session::Session;
use crate::net::auth::Caller;
use crate::observe::metrics::Transport;

/// Output of one command that is returned; the rest is dropped and counted.
const MAX_OUTPUT_BYTES: usize = 8 * 1024 * 1024;
/// The exit status of a command that reached its timeout.
pub(crate) const TIMED_OUT: i32 = 124;
/// The shell of command lines.
pub(crate) const BASH: &str = "/bin/bash";

/// `shell.input`: decides about a text for the shell of a topic, which runs it afterwards.
pub(crate) fn decide(params: &Arc<ShellCommand>, context: &StringdContext<'_>) -> StringdPrepareResult {
    let cwd =
        shell_directory(&context.session.roots, &context.request.cwd, &params.cwd).map_err(rpc_error)?;
    let effects = effects(params, context.start_directory(&cwd), HasTerminal::Yes)?;
    Ok(Prepared::with_effects(effects, |session, request| session.spawn(request.finish(Ok(())))))
}

/// A shell may have left the roots; what it can do there is up to the sandbox, and the text is decided about as at home.
fn shell_directory(roots: &Roots, home: &Path, cwd: &Path) -> Result<RootedPath, Error> {
    roots.admit(home, cwd).or_else(|_outside| roots.admit(home, home))
}

/// Decides as `shell.input` does and records that, without a request to the session. `None` if the session has to decide:
/// a person is asked, a rule depends on a path, or nothing can be recorded.
pub(crate) async fn decide_here(
    core: &Arc<Core>,
    requester: &Requester,
    (roots, home): (&Roots, &Path),
    params: &ShellCommand,
) -> Option<Result<(), RpcError>> {
    let policy = core.policy.current();
    let depends_on_paths = policy.policy.restricts_files() || policy.policy.depends_on_cwd();
    if depends_on_paths || core.audit.refusal(RecordPriority::Normal).is_some() {
        return None;
    }
    let cwd = shell_directory(roots, home, &params.cwd).ok()?;
    let effects = effects(params, cwd, HasTerminal::Yes).ok()?;
    let request = RequestContext {
        requester: requester.clone(),
        method: name::SHELL_INPUT,
        request_id: None,
        earlier_approval: None,
        cwd: Arc::new(home.to_owned()),
        authorization: Authorization::default(),
        cancel: CancellationToken::new(),
    };
    // The digest identifies a request to approvers.
    let (result, decision) = match authorize(&policy, &request, &effects, &String::new, Asking::default()) {
        Ok(decision) => (Ok(()), decision),
        Err(Refusal::Denied(denied)) => (Err(rpc_error(denied.0)), denied.1),
        Err(Refusal::Ask(_)) => return None,
    };
    let connection = ConnectionContext::new(Caller::on_loopback(), Transport::Http);
    let method = (Some(name::SHELL_INPUT), name::SHELL_INPUT.to_owned());
    let mut responder = Responder::recording(core, &connection, requester.clone(), method);
    responder.set_details(details(params));
    decision.into_iter().for_each(|decision| responder.record_decision(decision));
    responder.send(result.clone()).await;
    Some(result)
}

/// What the audit records of a command line.
pub(crate) fn details(params: &ShellCommand) -> Details {
    [detail("command", &params.text), detail("cwd", &params.cwd.to_string_lossy())].concat()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HasTerminal {
    Yes,
    No,
}

/// What a command line does.
fn effects(params: &ShellCommand, cwd: RootedPath, terminal: HasTerminal) -> Result<Effects, RpcError> {
    if params.text.contains('\0') {
        return Err(RpcError::invalid_params("the command has a NUL character"));
    }
    let effects = CommandEffects {
        program: Program::Argv(argv(params)),
        cwd,
        env: params.env.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect(),
        stdin: bytes::Bytes::new(),
        has_terminal: terminal == HasTerminal::Yes,
        is_detached: false,
    };
    Ok(Effects::Command(Box::new(effects)))
}

fn argv(params: &ShellCommand) -> Vec<String> {
    vec![BASH.to_owned(), "-c".to_owned(), params.text.clone()]
}

/// Checks and converts the request.
pub(crate) fn run(params: &Arc<ShellCommand>, context: &StringdContext<'_>) -> StringdPrepareResult {
    let cwd = start_directory(context, &params.cwd)?;
    let effects = effects(params, cwd.clone(), HasTerminal::No)?;
    let (argv, variables) = (argv(params), params.env.clone());
    Ok(Prepared::with_effects(effects, move |session: &mut Session, request| {
        let spec = match session.command_spec(argv, variables, cwd) {
            Ok(spec) => ProcessSpec {
                merges_stderr: true,
                stop_after: Some(session.face.settings.command_timeout),
                ..spec
            },
            Err(error) => return session.spawn(request.reject(error)),
        };
        match session.engine.start(spec) {
            Ok(starting) => {
                let (id, handle, core) =
                    (starting.process().id().clone(), session.handle(), session.core.clone());
                session.spawn(async move {
                    let started = |process: &Process| handle.record_process(&core, process, PROCESS_EXITED);
                    let ended = ended(starting, started).await.map_err(rpc_error);
                    request.finish(ended).await;
                    let remove = move |session: &mut Session| session.engine.remove(&id);
                    handle.send(SessionMessage::update(remove)).await;
                });
            }
            Err(error) => session.spawn(request.reject(rpc_error(error))),
        }
    }))
}

/// The directory that a command starts in.
fn start_directory(context: &StringdContext<'_>, cwd: &Path) -> Result<RootedPath, RpcError> {
    let admitted = context.session.roots.admit(&context.request.cwd, cwd).map_err(rpc_error)?;
    Ok(context.start_directory(&admitted))
}

async fn ended(starting: PendingStart, started: impl FnOnce(&Process)) -> Result<ShellOutput, Error> {
    let mut reader = starting.process().primary_reader(Cursor(0));
    let process = starting.running().await?;
    started(&process);
    let mut output = CommandOutput::default();
    loop {
        match reader.next(64 * 1024).await {
            Item::Output { bytes, .. } => output.push(&bytes),
            Item::Lost { bytes, .. } => output.lost += bytes,
            Item::Exited { .. } => {}
            Item::Closed(exit) => {
                return Ok(ShellOutput { status: status(&exit), output: output.into_text() });
            }
            Item::Disconnected => return Err(Error::Gone),
        }
    }
}

/// The exit status of a command as a shell reports it.
fn status(exit: &ProcessSummary) -> i32 {
    match (exit.cause, exit.exit) {
        (ExitCause::TimedOut, _) => TIMED_OUT,
        (_, ExitStatus::Code(code)) => code,
        (_, ExitStatus::Signal(signal)) => 128 + signal.number(),
    }
}

/// The output of a command up to the limit.
#[derive(Debug, Default)]
pub(crate) struct CommandOutput {
    bytes: Vec<u8>,
    pub(crate) lost: u64,
}

impl CommandOutput {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let free = MAX_OUTPUT_BYTES.saturating_sub(self.bytes.len());
        let (kept, rest) = bytes.split_at(bytes.len().min(free));
        self.bytes.extend_from_slice(kept);
        self.lost += rest.len() as u64;
    }

    /// The text of a terminal: without escape sequences and carriage returns.
    pub(crate) fn into_terminal_text(self) -> String {
        let CommandOutput { bytes, lost } = self;
        CommandOutput { bytes: without_escapes(&bytes), lost }.into_text()
    }

    /// The text without trailing blanks; what is missing is stated.
    pub(crate) fn into_text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.bytes).trim_end().to_owned();
        if self.lost > 0 {
            text += &format!("\n... ({} more bytes, limit {MAX_OUTPUT_BYTES})", self.lost);
        }
        text
    }
}

/// The bytes without control sequences (CSI and OSC) and carriage returns.
fn without_escapes(bytes: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match (byte, rest.peek()) {
            (b'\r', _) => {}
            (0x1b, Some(b'[')) => {
                rest.next();
                // Parameters and intermediates, then one final byte.
                while rest.next_if(|byte| (0x20..0x40).contains(byte)).is_some() {}
                rest.next_if(|byte| (0x40..0x7f).contains(byte));
            }
            (0x1b, Some(b']')) => {
                while rest.next_if(|byte| *byte != 0x07 && *byte != 0x1b).is_some() {}
                if rest.next() == Some(0x1b) {
                    rest.next_if_eq(&b'\\');
                }
            }
            (byte, _) => kept.push(byte),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_carriage_returns_are_removed() {
        let text = b"\x1b[1;31mred\x1b[0m\r\n\x1b]0;title\x07x\x1b]0;t\x1b\\y\x1b";
        assert_eq!(without_escapes(text), b"red\nxy\x1b");
    }

    #[test]
    fn output_beyond_the_limit_is_counted() {
        let mut output = CommandOutput::default();
        output.push(&vec![b'x'; MAX_OUTPUT_BYTES - 1]);
        output.push(b"abc");
        assert_eq!(output.lost, 2);
        assert!(output.into_text().ends_with("xa\n... (2 more bytes, limit 8388608)"));
    }
}
