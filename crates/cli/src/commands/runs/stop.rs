//! `rex runs stop`: stops a run.

use client::hub::HubConnection;
use client::hub::v1::rpc;
use serde_json::json;

use super::find;
use crate::args::RunSignal;
use crate::failure::{CommandStatus, Failure};
use crate::hub::selection::SelectedHub;
use crate::output;

pub(super) async fn run(
    hub: &SelectedHub,
    json: bool,
    id: &str,
    signal: RunSignal,
) -> Result<CommandStatus, Failure> {
    let run = find(hub, id).await?;
    let mut connection = HubConnection::open(hub.client.clone()).await?;
    let data = json!({ "signal": signal.as_str() });
    let result = connection.call(rpc::RUN_STOP, Some(&run.id), data).await?;
    match json {
        true => output::json_line(&result)?,
        false => output::line(format_args!("sent {} to {}", signal.as_str(), output::name(&run.id)))?,
    }
    Ok(CommandStatus::OK)
}
