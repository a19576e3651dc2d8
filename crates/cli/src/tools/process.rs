//! The tools `bash_output`, `bash_input` and `kill`.

use std::sync::Arc;
use std::time::Duration;

use client::v1::codes;
use client::{Error, ProcessControl};
use serde_json::json;

use super::arguments::Arguments;
use super::outcome::ToolOutcome;
use super::process_report::{self, OutputPart, PAGE};
use super::toolbox::{TargetSession, ToolCall, Toolbox};
use super::tracked::TrackedProcess;
use super::until::{Until, UntilMatch};
use crate::failure::Failure;
use crate::output::INCOMPLETE_KILL;

/// How long `bash_output` waits for the end of a process, unless the call says otherwise.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);
/// The hint for a process that cannot be found.
const UNKNOWN: &str = "unknown or expired process_id; start the command again with bash";
/// How long the transfer of existing output may take.
const TRANSFER_WITHIN: Duration = Duration::from_secs(40);

/// Waits for the process, and returns its output: what was not shown yet, or one page from a cursor.
pub(super) async fn output(
    toolbox: &Toolbox,
    arguments: &Arguments<'_>,
    call: &ToolCall,
) -> Result<ToolOutcome, ToolOutcome> {
    let id = arguments.text("process_id")?;
    let cursor = arguments.maybe_number("cursor", 0)?;
    let until = arguments.maybe_text("until")?.map(Until::new).transpose()?;
    let longest = toolbox.options.foreground_wait;
    let wait = match (arguments.maybe_number("wait_ms", 0)?, &until, cursor) {
        (Some(ms), _, _) => Duration::from_millis(ms).min(longest),
        (None, Some(_), _) => longest,
        (None, None, Some(_)) => Duration::ZERO,
        (None, None, None) => DEFAULT_WAIT.min(longest),
    };
    let process = tracked(toolbox, id, cursor, cursor.unwrap_or(0).saturating_add(PAGE as u64)).await?;
    call.set_process(&process);
    let from = cursor.unwrap_or_else(|| process.shown());
    let mut shown_match = None;
    let waited = match &until {
        None => {
            process.wait_until_within(wait, |_| false).await;
            String::new()
        }
        Some(until) => {
            let matched = until.wait(&process, (from, cursor.is_none()), wait).await;
            let matched = matched.map_err(|error| {
                ToolOutcome::failed(format!("cannot read the stored output of {id}: {error}"))
            })?;
            match (matched, process.status().is_over()) {
                (Some(UntilMatch::New), _) => ", until matched".to_owned(),
                (Some(UntilMatch::Shown(line)), _) => {
                    shown_match = Some(line);
                    ", until matched output already shown".to_owned()
                }
                (None, true) => ", until did not match".to_owned(),
                (None, false) => format!(", until did not match within {} ms", wait.as_millis()),
            }
        }
    };
    let part = if cursor.is_some() { OutputPart::Page(from) } else { OutputPart::Rest(from) };
    let mut outcome = process_report::output_outcome(&process, part, &waited).await?;
    if let Some(line) = shown_match {
        let next =
            if process.status().is_over() { "" } else { "\n[the same call again waits for a new match]" };
        outcome.add_line(&format!("[already shown: {line}]{next}"));
    }
    Ok(outcome)
}

/// Finds or attaches a process whose output is available from `from`, and waits until it is received up to `wanted`.
pub(super) async fn tracked(
    toolbox: &Toolbox,
    id: &str,
    from: Option<u64>,
    wanted: u64,
) -> Result<Arc<TrackedProcess>, ToolOutcome> {
    let known = toolbox.processes.find(id);
    if let Some(process) = known.filter(|process| from.is_none_or(|from| from >= process.from)) {
        return Ok(process);
    }
    refuse_of_another_caller(toolbox, id)?;
    let from = from.unwrap_or(0);
    let follow = |target: TargetSession| async move {
        let listed = target.session.processes().await?;
        let listed = listed.into_iter().find(|process| process.process_id == id);
        let process = target.session.attach(id, from).await?;
        Ok((process, listed))
    };
    let (process, listed) = toolbox.with_session(follow).await.map_err(unknown)?;
    let is_detached = listed.as_ref().is_some_and(|listed| listed.detached);
    let (end, has_ended) = listed.map_or((0, false), |listed| (listed.cursor, listed.status != "running"));
    let tracked = Arc::new(TrackedProcess::new(&process, from, is_detached));
    toolbox.spawn(tracked.clone().run(process));
    toolbox.processes.add(tracked.clone());
    let wanted = wanted.min(end);
    // For an exited process, the exit event is awaited too.
    let is_there =
        |status: &super::tracked::TrackedStatus| status.end >= wanted && !(has_ended && wanted == end);
    tracked.wait_until_within(TRANSFER_WITHIN, is_there).await;
    Ok(tracked)
}

/// Writes to the stdin of a process.
pub(super) async fn input(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let (id, data) = (arguments.text("process_id")?, arguments.text("data")?);
    let eof = arguments.flag("eof")?;
    let (control, end) = control(toolbox, id).await?;
    if let Some(end) = end {
        return Err(has_ended(id, &end));
    }
    let written = async {
        if !data.is_empty() {
            control.input(data.as_bytes()).await?;
        }
        match eof {
            true => control.close_input().await,
            false => Ok(()),
        }
    };
    written.await.map_err(|error| no_input(id, error))?;
    let closed = if eof { " and closed its stdin" } else { "" };
    let text = format!(
        "wrote {} bytes to {id}{closed}\n[next: bash_output {} waits for its output]",
        data.len(),
        json!({ "process_id": id })
    );
    Ok(ToolOutcome::text(text).with(json!({ "process_id": id, "accepted_bytes": data.len(), "eof": eof })))
}

/// Kills a process or sends it a signal.
pub(super) async fn kill(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let id = arguments.text("process_id")?;
    let signal = arguments.maybe_text("signal")?;
    let (control, _) = control(toolbox, id).await?;
    let killed = control.kill(signal).await.map_err(|error| unknown(error.into()))?;
    let names = |list: &[client::v1::KilledProcess]| {
        list.iter()
            .map(|process| format!("{} ({})", process.name, process.pid))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let text = match (killed.killed.is_empty(), killed.left.is_empty(), killed.ok) {
        (_, false, _) => format!("{id}: still running: {}; try signal KILL", names(&killed.left)),
        (false, true, _) => format!("{id} was killed: {}", names(&killed.killed)),
        (true, true, true) => format!("{id}: signal sent"),
        (true, true, false) => format!("{id} has already exited"),
    };
    let text = match killed.incomplete {
        true => format!("{text}\n{INCOMPLETE_KILL}"),
        false => text,
    };
    let structured = json!({
        "ok": killed.ok, "killed": killed.killed, "left": killed.left, "incomplete": killed.incomplete,
    });
    Ok(ToolOutcome { is_error: !killed.left.is_empty(), ..ToolOutcome::text(text).with(structured) })
}

/// The control handle of a tracked process or of another process of the target, and how it ended if it has.
async fn control(toolbox: &Toolbox, id: &str) -> Result<(ProcessControl, Option<String>), ToolOutcome> {
    if let Some(process) = toolbox.processes.find(id) {
        let exit = process.status().exit;
        let end = exit.map(|exit| process_report::end_of(exit.signal.as_deref(), exit.code));
        return Ok((process.control.clone(), end));
    }
    refuse_of_another_caller(toolbox, id)?;
    // A cursor after the end: no output is transferred.
    let attach = |target: TargetSession| async move { target.session.attach(id, u64::MAX >> 1).await };
    let process = toolbox.with_session(attach).await.map_err(unknown)?;
    let attached = process.attach_result().filter(|attached| attached.status != "running");
    let end = attached
        .map(|attached| process_report::end_of(attached.signal.as_deref(), attached.exit_code.unwrap_or(-1)));
    Ok((process.control(), end))
}

/// A process of another caller is unknown to this one; the refusal is that of the server for a process that does not exist.
fn refuse_of_another_caller(toolbox: &Toolbox, id: &str) -> Result<(), ToolOutcome> {
    if !toolbox.processes.is_of_another_caller(id) {
        return Ok(());
    }
    let failure = Failure {
        code: codes::PROCESS_NOT_FOUND,
        data: json!({ "process_id": id }),
        ..Failure::new("process not found")
    };
    Err(unknown(failure))
}

fn unknown(failure: Failure) -> ToolOutcome {
    match failure.code == codes::PROCESS_NOT_FOUND {
        true => failure.hint(UNKNOWN).into(),
        false => failure.into(),
    }
}

/// The outcome for input to a process that does not take any.
fn no_input(id: &str, error: Error) -> ToolOutcome {
    match error.code() {
        Some(codes::INVALID_PARAMS) => Failure::from(error)
            .hint("its stdin is closed; only a process started with background: true accepts input, until eof is sent")
            .into(),
        // The server knew the process when its control handle was made.
        Some(codes::PROCESS_NOT_FOUND) => has_ended(id, "its exit code is in bash_output"),
        _ => unknown(error.into()),
    }
}

fn has_ended(id: &str, how: &str) -> ToolOutcome {
    let next = json!({ "process_id": id });
    ToolOutcome::failed(format!(
        "cannot write to process {id}: it has ended ({how})\nhint: bash_output {next} shows its output; start it again with bash and background: true"
    ))
}
