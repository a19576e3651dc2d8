//! `rex kill`: end a process tree, or signal it.

use client::v1::{self, ExecKill};

use super::processes::{find, reach};
use crate::app::App;
use crate::args::Kill;
use crate::failure::{Failure, OWN_FAILURE, Status};
use crate::output;

/// Ends it and says who died; with `-s` only signals it.
pub(super) async fn run(app: &App, ask: Kill) -> Result<Status, Failure> {
    let session = app.session().await?;
    let found = find(&session, &ask.id).await?;
    let _within_reach = reach(&session, &found).await;
    let params = ExecKill {
        session_id: session.id(),
        process_id: found.process_id.clone(),
        signal: ask.signal.clone().map(v1::Signal::Name),
    };
    let killed = session.call(&params).await?;
    session.close().await.ok();
    if app.json {
        output::json_line(&killed)?;
    } else {
        for process in &killed.killed {
            output::line(format_args!("ended {} {}", process.pid, crate::table::plain(&process.name)))?;
        }
        for process in &killed.left {
            output::remark(format_args!(
                "{} {} is still there",
                process.pid,
                crate::table::plain(&process.name)
            ));
        }
        if !killed.ok && killed.left.is_empty() {
            output::remark(format_args!("{} has ended already", found.process_id));
        }
    }
    Ok(match killed.left.is_empty() {
        true => Status::OK,
        false => Status(OWN_FAILURE),
    })
}
