//! `rex mcp`: the tools for an agent, and its program's configuration.

use std::time::Duration;

use crate::args::{Mcp, McpAsk};
use crate::failure::{Failure, Status};
use crate::mcp::{http, install, stdio};
use crate::tools::Setting;

/// Serves MCP, or writes a configuration.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Mcp) -> Result<Status, Failure> {
    let setting = Setting {
        target: target.map(str::to_owned),
        client_name: "rex-mcp".to_owned(),
        patience: patience()?,
        ..Setting::default()
    };
    match (ask.ask, ask.http) {
        (Some(McpAsk::Install { client, project, yes, dry_run }), _) => {
            let manner = install::Manner { project, yes, dry_run, json, target: setting.target };
            install::run(client, &manner)?;
        }
        (None, Some(address)) => http::serve(&address, setting).await?,
        (None, None) => stdio::serve(setting).await?,
    }
    Ok(Status::OK)
}

/// How long a command is waited for: what the environment says, for a client that waits longer or less than most.
fn patience() -> Result<Duration, Failure> {
    const VARIABLE: &str = "REX_MCP_WAIT_MS";
    let Some(text) = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty()) else {
        return Ok(Setting::default().patience);
    };
    text.parse().map(Duration::from_millis).map_err(|_| {
        Failure::new(format!("{VARIABLE} is `{text}`"))
            .hint("it is a number of milliseconds, less than the client waits")
    })
}
