//! `rex mcp`: serves the tools through MCP, or configures an agent.

use std::time::Duration;

use crate::args::{McpArgs, McpCommand, McpInstallArgs};
use crate::failure::{CommandStatus, Failure};
use crate::mcp::{http, install, stdio};
use crate::tools::ToolboxOptions;

/// Serves MCP, or runs a subcommand.
pub(super) async fn run(target: Option<&str>, json: bool, args: McpArgs) -> Result<CommandStatus, Failure> {
    let options = ToolboxOptions {
        target: target.map(str::to_owned),
        client_name: "rex-mcp".to_owned(),
        structured: args.structured,
        foreground_wait: foreground_wait()?,
        ..ToolboxOptions::default()
    };
    match (args.command, args.http) {
        (Some(McpCommand::Install { client, only, options: args }), _) => {
            let install =
                install::InstallOptions { only, target: options.target, ..install_options(args, json) };
            install::run(client, &install)?;
        }
        (Some(McpCommand::Uninstall { client, options: args }), _) => {
            install::uninstall(client, &install_options(args, json))?;
        }
        (None, Some(address)) => http::serve(&address, options).await?,
        (None, None) => stdio::serve(options).await?,
    }
    Ok(CommandStatus::OK)
}

fn install_options(args: McpInstallArgs, json: bool) -> install::InstallOptions {
    let McpInstallArgs { name, project, yes, dry_run } = args;
    install::InstallOptions { name, project, yes, dry_run, json, ..install::InstallOptions::default() }
}

/// How long a call waits for its command; the variable is for clients with another timeout than most.
fn foreground_wait() -> Result<Duration, Failure> {
    const VARIABLE: &str = "REX_MCP_WAIT_MS";
    let Some(text) = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty()) else {
        return Ok(ToolboxOptions::default().foreground_wait);
    };
    text.parse().map(Duration::from_millis).map_err(|_| {
        Failure::new(format!("{VARIABLE} is `{text}`"))
            .hint("set it to milliseconds, less than the timeout of the MCP client")
    })
}
