//! `rex logs`: prints the output of a process, as far as the server keeps it.

use client::ProcessEventKind;
use serde_json::json;

use super::processes::find;
use crate::app::App;
use crate::args::LogsArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::relay::OutputSinks;

/// Prints the output so far, or with `-f` until the process exits.
pub(super) async fn run(app: &App, args: LogsArgs) -> Result<CommandStatus, Failure> {
    let session = app.session().await?;
    let found = find(&session, &args.id).await?;
    let until = match args.follow || found.status != "running" {
        true => u64::MAX,
        false => found.cursor,
    };
    let mut offset = args.cursor;
    let mut process = session.attach(&found.process_id, args.cursor).await?;
    let lost = process.attach_result().map_or(0, |was| was.lost);
    if lost > 0 {
        output::note(format_args!("output truncated: the first {lost} bytes are no longer kept"));
        offset = offset.saturating_add(lost);
    }
    let mut out = OutputSinks::open(app.json)?;
    let mut has_ended = false;
    while offset < until {
        let Some(event) = process.next().await? else { break };
        has_ended = matches!(event.kind, ProcessEventKind::Exit(_));
        offset = event.cursor.unwrap_or(offset);
        out.show(event).await?;
        if has_ended {
            break;
        }
    }
    if app.json && !has_ended {
        output::json_line(
            &json!({ "process_id": found.process_id, "status": found.status, "cursor": offset }),
        )?;
    }
    session.close().await.ok();
    Ok(CommandStatus::OK)
}
