//! `rex call`: calls one tool as an agent does.

use std::io::Read as _;

use serde_json::{Map, Value};
use tokio::signal::unix::SignalKind;
use tokio_util::sync::CancellationToken;

use crate::args::CallArgs;
use crate::failure::{CommandStatus, Failure};
use crate::interrupt;
use crate::output;
use crate::tools::{self, Toolbox, ToolboxOptions};

/// Calls a tool. Commands are detached, so that the next `rex call` finds the ones that still run.
pub(super) async fn run(target: Option<&str>, json: bool, args: CallArgs) -> Result<CommandStatus, Failure> {
    let arguments = arguments(&args)?;
    let options = ToolboxOptions {
        target: target.map(str::to_owned),
        structured: json,
        detach_commands: true,
        ..ToolboxOptions::default()
    };
    let toolbox = Toolbox::new(options);
    let cancelled = CancellationToken::new();
    let signals = [SignalKind::interrupt(), SignalKind::terminate()];
    let _signal_tasks = interrupt::cancel_on_signals(&signals, &cancelled)?;
    let call = tools::ToolCall::new(cancelled);
    let outcome = toolbox.call(&args.tool, &arguments, &call).await;
    toolbox.close().await;
    match json {
        true => output::json_line(&outcome.to_json())?,
        false => output::line(outcome.text_content())?,
    }
    Ok(match outcome.is_error {
        true => CommandStatus(1),
        false => CommandStatus::OK,
    })
}

fn arguments(args: &CallArgs) -> Result<Map<String, Value>, Failure> {
    let text = match args.arguments.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
        text => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(format!("invalid arguments of {}: not a JSON object: {error}", args.tool)).hint(format!(
            "rex call {} '{{\"name\": \"value\"}}'; `rex tools` shows the arguments",
            args.tool
        ))
    })
}
