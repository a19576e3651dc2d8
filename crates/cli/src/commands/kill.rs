//! `rex kill`: kills a process tree or sends a signal.

use client::v1::{self, ExecKill};

use super::processes::{attach_foreign, find};
use crate::app::App;
use crate::args::KillArgs;
use crate::failure::{CommandStatus, Failure, OWN_FAILURE};
use crate::output;

/// Kills the process and prints the pids; with `-s` it only sends the signal. A process that has ended is an error, as for
/// kill(1).
pub(super) async fn run(app: &App, args: KillArgs) -> Result<CommandStatus, Failure> {
    let session = app.session().await?;
    let found = find(&session, &args.id).await?;
    let _attachment = attach_foreign(&session, &found).await;
    let params = ExecKill {
        session_id: session.id(),
        process_id: found.process_id.clone(),
        signal: args.signal.clone().map(v1::Signal::Name),
    };
    let killed = session.call(&params).await?;
    session.close().await.ok();
    if killed.incomplete && !app.json {
        output::note(output::INCOMPLETE_KILL);
    }
    if !killed.ok && killed.killed.is_empty() && killed.left.is_empty() {
        return Err(Failure::new(format!("cannot kill {}: it has already exited", args.id))
            .hint("`rex ps` lists the running processes; `rex wait ID` prints the status of an ended one"));
    }
    if app.json {
        output::json_line(&killed)?;
    } else {
        for process in &killed.killed {
            output::line(format_args!("killed {} {}", process.pid, output::name(&process.name)))?;
        }
        for process in &killed.left {
            output::note(format_args!("still running: {} {}", process.pid, process.name));
        }
    }
    Ok(match killed.left.is_empty() {
        true => CommandStatus::OK,
        false => CommandStatus(OWN_FAILURE),
    })
}
