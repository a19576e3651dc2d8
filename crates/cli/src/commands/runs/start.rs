//! `rex runs start`: starts a run on a host.

use std::time::Duration;

use client::hub::v1::{RunStart, RunStartResult, rpc};
use client::hub::{HubConnection, HubEvent};
use serde_json::{Value, json};

use crate::args::RunStartArgs;
use crate::failure::{CommandStatus, Failure};
use crate::hub::selection::SelectedHub;
use crate::output;
use crate::terminal;

/// How long the first event of a new run is waited for.
const LISTED_WITHIN: Duration = Duration::from_secs(10);

pub(super) async fn run(hub: &SelectedHub, json: bool, args: RunStartArgs) -> Result<CommandStatus, Failure> {
    let Some(host) = hub.host_id().await? else {
        return Err(Failure::new("a run needs one host, and `hub:` means all of them")
            .hint("use -t hub:HOST; `rex hosts` lists the hosts"));
    };
    let size = terminal::size();
    let cmd = match args.command_line {
        Some(line) => line,
        None => quoted(&args.command)?,
    };
    let start = RunStart {
        tool: args.tool,
        cmd,
        cwd: args.cwd,
        env: args.env.into_iter().collect(),
        cols: Some(size.cols),
        rows: Some(size.rows),
    };
    let mut data = serde_json::to_value(&start)
        .map_err(|error| Failure::new(format!("cannot encode the request: {error}")))?;
    data["host_id"] = Value::from(host);
    let mut connection = HubConnection::open(hub.client.clone()).await?;
    let result = connection.call(rpc::RUN_START, None, data).await?;
    let started: RunStartResult = serde_json::from_value(result).map_err(|error| {
        Failure::new(format!("protocol error: invalid response to {}: {error}", rpc::RUN_START))
    })?;
    // Without the event, the id is still printed: the run exists on its host.
    tokio::time::timeout(LISTED_WITHIN, until_listed(&mut connection, &started.run_id)).await.ok();
    match json {
        true => output::json_line(&json!({ "run_id": started.run_id }))?,
        false => output::line(started.run_id)?,
    }
    Ok(CommandStatus::OK)
}

/// Waits for the first event of the run: it may follow the response, and before it the hub does not know the run.
async fn until_listed(connection: &mut HubConnection, run_id: &str) -> Result<(), Failure> {
    loop {
        match connection.next().await? {
            HubEvent::Message(message)
                if message.run_id.as_deref() == Some(run_id) && message.seq.is_some() =>
            {
                return Ok(());
            }
            HubEvent::Message(_) => {}
            HubEvent::Resync => {
                if connection.client().run(run_id).await?.is_some() {
                    return Ok(());
                }
            }
        }
    }
}

/// The words as one line for the shell.
fn quoted(words: &[String]) -> Result<String, Failure> {
    shlex::try_join(words.iter().map(String::as_str))
        .map_err(|_| Failure::new("cannot quote the command: it contains a NUL character"))
}
