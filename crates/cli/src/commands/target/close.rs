//! `rex target close`: closes the ssh connection that commands on a target share.

use client::{SharedConnection, Target};
use serde_json::json;

use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::route;

/// Closes the connection of one target. A target without one is no error.
pub(super) async fn run(flag: Option<&str>, json: bool) -> Result<CommandStatus, Failure> {
    let choice = route::current(flag)?;
    let Target::Ssh(ssh) = &choice.target else {
        return Err(Failure::new(format!(
            "cannot close {}: only ssh targets share a connection",
            choice.target
        ))
        .hint("`rex target list` shows the targets, `rex target close --all` closes all connections"));
    };
    let is_closed = client::close_shared(ssh).await.map_err(cannot_close)? == SharedConnection::Closed;
    match (json, is_closed) {
        (true, _) => output::json_line(&json!({ "target": choice.target.to_string(), "closed": is_closed }))?,
        (false, true) => output::line(format_args!("closed the connection to {}", choice.target))?,
        (false, false) => output::line(format_args!("no open connection to {}", choice.target))?,
    }
    Ok(CommandStatus::OK)
}

/// Closes the connections of all targets.
pub(super) async fn run_all(json: bool) -> Result<CommandStatus, Failure> {
    let closed = client::close_all_shared().await.map_err(cannot_close)?;
    match json {
        true => output::json_line(&json!({ "closed": closed }))?,
        false => output::line(format_args!("closed {closed} connections"))?,
    }
    Ok(CommandStatus::OK)
}

fn cannot_close(error: std::io::Error) -> Failure {
    Failure::new(format!("cannot close the shared connection: {error}"))
        .hint("end the process `ssh: … [mux]` that holds it")
}
