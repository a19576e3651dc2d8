//! The step with a question: an agent's command waits for a person, who approves it through the hub.

use client::hub::v1::{Bash, BashResult, PermissionRequested, RunStart, RunStartResult, Stop, kind, rpc};
use client::hub::{ApprovalDecision, HubClient, HubConnection, HubEvent};
use serde_json::Value;

use super::daemon::HOST_ID;
use super::screen::Screen;
use super::tour::check;
use crate::failure::Failure;

/// The tool of the run, as `rex runs start` names it without one.
const TOOL: &str = "shell";

/// Starts a run, has a command in it wait for a person, approves it through the hub, and prints its output.
pub(super) async fn approve(screen: &Screen, hub: &HubClient) -> Result<(), Failure> {
    screen.heading("A person decides: a command in a run waits until someone approves it, on any device")?;
    screen.command(&format!("rex runs start -t hub:{HOST_ID} -- cat"))?;
    let mut connection = HubConnection::open(hub.clone()).await?;
    let start = RunStart { tool: TOOL.to_owned(), cmd: "cat".to_owned(), ..Default::default() };
    let mut data = encoded(&start)?;
    data["host_id"] = HOST_ID.into();
    let started: RunStartResult = decoded(connection.call(rpc::RUN_START, None, data).await?)?;
    let run = started.run_id;
    screen.wrote(&run)?;
    until_listed(&mut connection, &run).await?;
    let command = Bash { cmd: "sh deploy.sh".to_owned() };
    let (result, answered) =
        tokio::join!(connection.call(rpc::BASH, Some(&run), &command), answer(screen, hub));
    answered?;
    let result: BashResult = decoded(result?)?;
    screen.wrote(&result.stdout)?;
    let stop = Stop { signal: Some("kill".to_owned()), actor: None };
    connection.call(rpc::RUN_STOP, Some(&run), &stop).await?;
    check(result.stdout.contains("deployed") && result.exit_code == 0, "the approved command runs")
}

/// Waits for the first event of the run: before it, the hub does not know the run.
async fn until_listed(connection: &mut HubConnection, run: &str) -> Result<(), Failure> {
    loop {
        match connection.next().await? {
            HubEvent::Message(message) if message.run_id.as_deref() == Some(run) && message.seq.is_some() => {
                return Ok(());
            }
            HubEvent::Message(_) | HubEvent::Resync => {}
        }
    }
}

/// Waits for the question and approves it.
async fn answer(screen: &Screen, hub: &HubClient) -> Result<(), Failure> {
    let mut connection = HubConnection::open(hub.clone()).await?;
    loop {
        let HubEvent::Message(message) = connection.next().await? else { continue };
        let Some(run) = message.run_id.as_ref().filter(|_| message.kind == kind::RUN_PERMISSION_REQUESTED)
        else {
            continue;
        };
        let Ok(request) = message.decode::<PermissionRequested>() else { continue };
        let row = hub.approval(run, &request.request_id).await?;
        let shown = row.shown.unwrap_or_default();
        screen.say(&format!("waiting: {}", shown["summary"].as_str().unwrap_or(&request.prompt)))?;
        screen.command(&format!("rex approvals approve {} -t hub:", request.request_id))?;
        return Ok(hub.decide(run, &request.request_id, ApprovalDecision::Approve).await?);
    }
}

fn encoded(value: &impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| Failure::new(format!("cannot encode a request: {error}")))
}

fn decoded<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value)
        .map_err(|error| Failure::new(format!("protocol error: invalid response of the host: {error}")))
}
