//! Commands in the directory of a run: `rpc.bash` after approval, and git.

use std::sync::Arc;

use engine::Error;
use engine::process::{Cursor, ExitStatus, Item, PendingStart, ProcessSummary, Program, Signal, Stream};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wire::hub::v1::{self, BashResult, GitResult, rpc};
use wire::jsonrpc::RpcError;

use super::{HostContext, HostPrepareResult};
use crate::core::effects::{CommandEffects, Effects};
use crate::core::request::off_thread;
use crate::core::session::SessionMessage;
use crate::core::table::{AlwaysAsks, Prepared};
use crate::faces::host::convert::relative;
use crate::faces::host::errors::rpc_error;
use crate::faces::host::session::Session;

/// The end of each stream of a command that is returned.
const MAX_OUTPUT_BYTES: usize = 200_000;
/// The end of a diff that is returned.
const MAX_DIFF_BYTES: usize = 400_000;

/// The rule behind the question about a command.
const ASKS: AlwaysAsks =
    AlwaysAsks { rule: rpc::BASH, reason: "a command through the hub needs the approval of a person" };

/// Settings with which git runs no program that the repository names.
const SAFE_GIT: &[&str] = &["git", "--no-optional-locks", "-c", "core.fsmonitor=false"];

/// `rpc.bash`: a command, after approval.
pub(crate) fn bash(params: &Arc<v1::Bash>, context: &HostContext<'_>) -> HostPrepareResult {
    if params.cmd.trim().is_empty() || params.cmd.contains('\0') {
        return Err(RpcError::invalid_params("missing cmd"));
    }
    let argv = vec!["bash".to_owned(), "-lc".to_owned(), params.cmd.clone()];
    let mark = super::running_mark(context);
    let prepared = command(
        context,
        argv,
        MAX_OUTPUT_BYTES,
        move || mark.set(),
        |ended| {
            let result = BashResult {
                stdout: ended.stdout.text(),
                stderr: ended.stderr.text(),
                exit_code: ended.exit_code(),
                truncated: ended.stdout.is_cut || ended.stderr.is_cut,
            };
            match result.exit_code {
                0 => Ok(result),
                // The error has the text of the protocol; the output is not lost.
                code => {
                    Err(RpcError::invalid_request(format!("bash exited with code {code}: {}", result.stderr))
                        .with_data(json!({ "result": result })))
                }
            }
        },
    )?;
    Ok(prepared.asking(ASKS))
}

/// `rpc.git.status`: the state of the work tree.
pub(crate) fn git_status(_: &Arc<v1::PathParams>, context: &HostContext<'_>) -> HostPrepareResult {
    git(context, &["status", "--porcelain=v1", "--branch"], MAX_OUTPUT_BYTES)
}

/// `rpc.git.diff`: a path may name a file that was deleted.
pub(crate) fn git_diff(params: &Arc<v1::GitDiff>, context: &HostContext<'_>) -> HostPrepareResult {
    let mut arguments = vec!["diff", "--no-ext-diff", "--no-textconv", "--no-color"];
    if params.staged {
        arguments.push("--cached");
    }
    arguments.push("--");
    if let Some(path) = params.path.as_deref().filter(|path| !path.is_empty()) {
        arguments.push(relative(path)?);
    }
    git(context, &arguments, MAX_DIFF_BYTES)
}

fn git(context: &HostContext<'_>, arguments: &[&str], max: usize) -> HostPrepareResult {
    let argv = SAFE_GIT.iter().chain(arguments).map(|word| (*word).to_owned()).collect();
    command(
        context,
        argv,
        max,
        || Ok(()),
        |ended| match ended.exit_code() {
            0 => Ok(GitResult { stdout: ended.stdout.text(), truncated: ended.stdout.is_cut }),
            code => Err(RpcError::invalid_request(format!(
                "git exited with code {code}: {}",
                ended.stderr.text().trim()
            ))),
        },
    )
}

/// A command that runs to its end; `before` runs on a worker thread before it starts.
fn command<T: serde::Serialize + Send + 'static>(
    context: &HostContext<'_>,
    argv: Vec<String>,
    max: usize,
    before: impl FnOnce() -> Result<(), RpcError> + Send + 'static,
    result: impl FnOnce(EndedCommand) -> Result<T, RpcError> + Send + 'static,
) -> HostPrepareResult {
    let cwd = context.start_directory(&context.admit("").map_err(rpc_error)?);
    let effects = CommandEffects {
        program: Program::Argv(argv.clone()),
        cwd: cwd.clone(),
        env: Vec::new(),
        stdin: bytes::Bytes::new(),
        has_terminal: false,
        is_detached: false,
    };
    Ok(Prepared::with_effects(Effects::Command(Box::new(effects)), move |session, request| {
        let (handle, cancel) = (session.handle(), request.context.cancel.clone());
        let spec = match session.command_spec(argv, Vec::new(), cwd) {
            Ok(spec) => spec,
            Err(error) => return session.spawn(request.reject(error)),
        };
        session.spawn(async move {
            if let Err(error) = off_thread(before).await {
                return request.reject(error).await;
            }
            // The session owns the process, so that it ends with it.
            let start = move |session: &mut Session| match session.engine.start(spec) {
                Ok(starting) => {
                    let (id, handle) = (starting.process().id().clone(), session.handle());
                    session.spawn(async move {
                        let ended = run(starting, max, &cancel).await.map_err(rpc_error);
                        request.finish(ended.and_then(result)).await;
                        handle
                            .send(SessionMessage::update(move |session: &mut Session| {
                                session.engine.remove(&id)
                            }))
                            .await;
                    });
                }
                Err(error) => session.spawn(request.reject(rpc_error(error))),
            };
            handle.send(SessionMessage::update(start)).await;
        });
    }))
}

/// A command that has ended, with the end of its output.
struct EndedCommand {
    stdout: OutputTail,
    stderr: OutputTail,
    exit: Arc<ProcessSummary>,
}

impl EndedCommand {
    fn exit_code(&self) -> i64 {
        match self.exit.exit {
            ExitStatus::Code(code) => i64::from(code),
            ExitStatus::Signal(signal) => 128 + i64::from(signal.number()),
        }
    }
}

/// The last bytes of a stream.
struct OutputTail {
    bytes: Vec<u8>,
    max: usize,
    is_cut: bool,
}

impl OutputTail {
    fn new(max: usize) -> OutputTail {
        OutputTail { bytes: Vec::new(), max, is_cut: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Cut rarely, so that each byte is moved at most once on average.
        if self.bytes.len() > self.max * 2 {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let excess = self.bytes.len().saturating_sub(self.max);
        if excess > 0 {
            self.is_cut = true;
            self.bytes.drain(..excess);
        }
    }

    /// The text, from a whole character on.
    fn text(&self) -> String {
        let excess = self.bytes.len().saturating_sub(self.max);
        let kept = self.bytes.get(excess..).unwrap_or_default();
        let is_inside = |byte: &u8| (0x80..0xC0).contains(byte);
        let skip =
            if self.is_cut { kept.iter().take(3).take_while(|byte| is_inside(byte)).count() } else { 0 };
        String::from_utf8_lossy(kept.get(skip..).unwrap_or_default()).into_owned()
    }
}

async fn run(starting: PendingStart, max: usize, cancel: &CancellationToken) -> Result<EndedCommand, Error> {
    let mut reader = starting.process().primary_reader(Cursor(0));
    let process = starting.running().await?;
    let (mut stdout, mut stderr) = (OutputTail::new(max), OutputTail::new(max));
    let mut is_cancelled = false;
    loop {
        let item = tokio::select! {
            item = reader.next(64 * 1024) => item,
            () = cancel.cancelled(), if !is_cancelled => {
                is_cancelled = true;
                // It may have ended meanwhile.
                process.kill(Signal::TERM).await.ok();
                continue;
            }
        };
        match item {
            Item::Output { stream: Stream::Stderr, bytes, .. } => stderr.push(&bytes),
            Item::Output { stream: Stream::Stdout | Stream::Terminal, bytes, .. } => stdout.push(&bytes),
            Item::Lost { .. } => stdout.is_cut = true,
            Item::Exited { .. } => {}
            Item::Closed(_) if is_cancelled => return Err(Error::Cancelled),
            Item::Closed(exit) => {
                stdout.cut();
                stderr.cut();
                return Ok(EndedCommand { stdout, stderr, exit });
            }
            Item::Disconnected => return Err(Error::Gone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_output_is_kept_in_whole_characters() {
        let mut tail = OutputTail::new(5);
        tail.push("aé".as_bytes());
        tail.cut();
        assert_eq!((tail.text().as_str(), tail.is_cut), ("aé", false));
        for _ in 0..10 {
            tail.push("é".as_bytes());
        }
        tail.cut();
        assert_eq!((tail.text().as_str(), tail.is_cut), ("éé", true));
    }
}
