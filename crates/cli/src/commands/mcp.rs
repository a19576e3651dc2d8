//! `rex mcp`: the tools for an agent, and its program's configuration.

use crate::args::{Mcp, McpAsk};
use crate::failure::{Failure, Status};
use crate::mcp::{http, install, stdio};
use crate::tools::Setting;

/// Serves MCP, or writes a configuration.
pub(super) async fn run(target: Option<&str>, _json: bool, ask: Mcp) -> Result<Status, Failure> {
    let setting = Setting {
        target: target.map(str::to_owned),
        client_name: "rex-mcp".to_owned(),
        ..Setting::default()
    };
    match (ask.ask, ask.http) {
        (Some(McpAsk::Install { client, project, yes, dry_run }), _) => {
            install::run(client, &install::Manner { project, yes, dry_run, target: setting.target })?;
        }
        (None, Some(address)) => http::serve(&address, setting).await?,
        (None, None) => stdio::serve(setting).await?,
    }
    Ok(Status::OK)
}
