//! `rex call`: one tool, called as an agent would.

use std::io::Read as _;

use serde_json::{Map, Value};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::Call as Ask;
use crate::failure::{Failure, Status};
use crate::output;
use crate::tools::{self, Setting, Toolbox};

/// Calls a tool. Commands are detached, so that the next `rex call` finds those that go on.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Ask) -> Result<Status, Failure> {
    let arguments = arguments(&ask)?;
    let setting = Setting { target: target.map(str::to_owned), outlive: true, ..Setting::default() };
    let toolbox = Toolbox::new(setting);
    let call = tools::Call::until(stopped_by_signals()?);
    let outcome = toolbox.call(&ask.tool, &arguments, &call).await;
    toolbox.close().await;
    match json {
        true => output::json_line(&outcome.to_json())?,
        false => output::line(outcome.words())?,
    }
    Ok(match outcome.is_error {
        true => Status(1),
        false => Status::OK,
    })
}

fn arguments(ask: &Ask) -> Result<Map<String, Value>, Failure> {
    let text = match ask.arguments.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
        text => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(format!("the arguments of {} are no JSON object: {error}", ask.tool)).hint(format!(
            "rex call {} '{{\"name\": \"value\"}}'; `rex tools` says which there are",
            ask.tool
        ))
    })
}

/// Ctrl-C stops the call, and with it the command.
fn stopped_by_signals() -> Result<CancellationToken, Failure> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let (mut signals, stop) = (signal(kind)?, stop.clone());
        tokio::spawn(async move {
            signals.recv().await;
            stop.cancel();
        });
    }
    Ok(stop)
}
