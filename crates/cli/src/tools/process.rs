//! The tools `bash_output`, `bash_input` and `kill`.

use std::sync::Arc;
use std::time::Duration;

use client::{Error, ProcessControl};
use serde_json::json;

use super::arguments::Arguments;
use super::outcome::ToolOutcome;
use super::process_report::{self, PAGE};
use super::toolbox::{TargetSession, Toolbox};
use super::tracked::TrackedProcess;
use crate::failure::Failure;
use crate::output::INCOMPLETE_KILL;

/// How long `bash_output` waits for new output of a running process.
const NEWS_WITHIN: Duration = Duration::from_secs(5);
/// How long the transfer of existing output may take.
const TRANSFER_WITHIN: Duration = Duration::from_secs(40);

/// Returns one page of output.
pub(super) async fn output(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let id = arguments.text("process_id")?;
    let asked = arguments.maybe_number("cursor", 0)?;
    let process = tracked(toolbox, id, asked, asked.unwrap_or(0).saturating_add(PAGE as u64)).await?;
    let from = asked.unwrap_or_else(|| process.shown());
    process.wait_until_within(NEWS_WITHIN, |status| status.end > from).await;
    process_report::page_outcome(&process, from).await
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
    let control = control(toolbox, id).await?;
    let written = async {
        if !data.is_empty() {
            control.input(data.as_bytes()).await?;
        }
        match eof {
            true => control.close_input().await,
            false => Ok(()),
        }
    };
    written.await.map_err(no_input)?;
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
    let control = control(toolbox, id).await?;
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

/// The control handle of a tracked process or of another process of the target.
async fn control(toolbox: &Toolbox, id: &str) -> Result<ProcessControl, ToolOutcome> {
    if let Some(process) = toolbox.processes.find(id) {
        return Ok(process.control.clone());
    }
    // A cursor after the end: no output is transferred.
    let attach = |target: TargetSession| async move { target.session.attach(id, u64::MAX >> 1).await };
    let process = toolbox.with_session(attach).await.map_err(unknown)?;
    Ok(process.control())
}

fn unknown(failure: Failure) -> ToolOutcome {
    let next = "unknown or expired process_id; start the command again with bash";
    match failure.code == client::v1::codes::PROCESS_NOT_FOUND {
        true => failure.hint(next).into(),
        false => failure.into(),
    }
}

fn no_input(error: Error) -> ToolOutcome {
    let is_closed = error.code() == Some(client::v1::codes::INVALID_PARAMS);
    let failure = Failure::from(error);
    match is_closed {
        true => failure
            .hint("only a process started with background: true, whose stdin is still open, accepts input")
            .into(),
        false => unknown(failure),
    }
}
