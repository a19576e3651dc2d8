//! `rex runs`: lists, watches, starts and controls the runs on the hosts of a hub.

mod list;
mod send;
mod start;
mod stop;
mod watch;

use client::hub::RunRow;

use crate::args::RunsCommand;
use crate::failure::{CommandStatus, Failure};
use crate::hub::selection::SelectedHub;

/// Runs a subcommand of `rex runs`.
pub(super) async fn run(
    flag: Option<&str>,
    json: bool,
    command: RunsCommand,
) -> Result<CommandStatus, Failure> {
    let hub = SelectedHub::choose(flag)?;
    match command {
        RunsCommand::List { all } => list::run(&hub, json, all).await,
        RunsCommand::Watch(args) => watch::run(&hub, json, &args).await,
        RunsCommand::Start(args) => start::run(&hub, json, args).await,
        RunsCommand::Send { id, text, no_enter } => send::run(&hub, json, &id, text, no_enter).await,
        RunsCommand::Stop { id, signal } => stop::run(&hub, json, &id, signal).await,
    }
}

/// The run with this id or unique prefix, on the host of the command if it is limited to one.
async fn find(hub: &SelectedHub, id: &str) -> Result<RunRow, Failure> {
    let host = hub.host_id().await?;
    let is_on_host = |run: &RunRow| host.as_ref().is_none_or(|host| *host == run.host_id);
    let runs: Vec<RunRow> = hub.client.runs().await?.into_iter().filter(is_on_host).collect();
    let unknown = || Failure::new(format!("no run {id}")).hint("`rex runs list -a` shows the runs");
    if let Some(run) = runs.iter().find(|run| run.id == id) {
        return Ok(run.clone());
    }
    let mut meant = runs.into_iter().filter(|run| !id.is_empty() && run.id.starts_with(id));
    match (meant.next(), meant.next()) {
        (Some(run), None) => Ok(run),
        (Some(_), Some(_)) => Err(Failure::new(format!("ambiguous run id {id}: several start with it"))
            .hint("use more characters of the id")),
        // The list has the newest runs only.
        (None, _) => match hub.client.run(id).await? {
            Some(run) if is_on_host(&run) => Ok(run),
            _ => Err(unknown()),
        },
    }
}
