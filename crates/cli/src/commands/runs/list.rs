//! `rex runs list`: lists the runs of a hub.

use client::hub::RunRow;
use serde_json::value::RawValue;

use crate::commands::hosts::short_time;
use crate::failure::{CommandStatus, Failure};
use crate::hub::selection::SelectedHub;
use crate::output;
use crate::table::TextTable;

/// The status of a run that has ended.
const EXITED: &str = "exited";

pub(super) async fn run(hub: &SelectedHub, json: bool, all: bool) -> Result<CommandStatus, Failure> {
    let host = hub.host_id().await?;
    if json {
        let mut rows: Vec<Box<RawValue>> = hub.client.get("/runs").await?;
        rows.retain(|row| host.as_deref().is_none_or(|host| is_on_host(row, host)));
        output::json_line(&rows)?;
        return Ok(CommandStatus::OK);
    }
    let mut runs = hub.client.runs().await?;
    runs.retain(|run| host.as_deref().is_none_or(|host| run.host_id == host));
    let (shown, ended): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| all || run.status != EXITED);
    let mut table = TextTable::new(&["ID", "HOST", "STATUS", "STARTED", "TOOL", "COMMAND"]);
    for run in &shown {
        table.row(&[
            run.id.clone(),
            run.host_id.clone(),
            status(run),
            run.started_at.as_deref().map(short_time).unwrap_or_default(),
            run.tool.clone().unwrap_or_default(),
            run.command.clone().or_else(|| run.cwd.clone()).unwrap_or_default(),
        ]);
    }
    table.print()?;
    if !ended.is_empty() {
        output::note(format_args!("{} ended runs are not shown: `rex runs list -a` shows them", ended.len()));
    }
    Ok(CommandStatus::OK)
}

fn is_on_host(row: &RawValue, host: &str) -> bool {
    serde_json::from_str::<RunRow>(row.get()).is_ok_and(|run| run.host_id == host)
}

fn status(run: &RunRow) -> String {
    let status = run.status.replace('_', " ");
    match (&run.pending_prompt, run.exit_code) {
        (_, Some(code)) => format!("{status} ({code})"),
        (Some(prompt), None) if run.status != EXITED => format!("{status}: {prompt}"),
        _ => status,
    }
}
