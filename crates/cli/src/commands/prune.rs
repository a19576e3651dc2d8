//! `rex prune`: removes the logs of ended detached processes.

use client::v1::ExecPrune;

use crate::app::App;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// Removes the logs and prints how many; with `--json`, their ids.
pub(super) async fn run(app: &App) -> Result<CommandStatus, Failure> {
    let session = app.session().await?;
    if !session.has_capability("exec.prune") {
        return Err(Failure::new(format!("cannot remove logs: rexd on {} is too old", session.target()))
            .hint("update it with `rex target install`"));
    }
    let pruned = session.call(&ExecPrune { session_id: session.id() }).await?;
    session.close().await.ok();
    match (app.json, pruned.removed.len()) {
        (true, _) => output::json_line(&pruned)?,
        (false, 1) => output::line("removed the log of 1 process")?,
        (false, count) => output::line(format_args!("removed the logs of {count} processes"))?,
    }
    Ok(CommandStatus::OK)
}
