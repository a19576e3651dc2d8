//! `rex logs`: the output of a process, as far as it is kept.

use client::ProcessEventKind;
use serde_json::json;

use super::processes::find;
use crate::app::App;
use crate::args::Logs;
use crate::failure::{Failure, Status};
use crate::output;
use crate::relay::Sinks;

/// Prints the output; without `-f` what there is now.
pub(super) async fn run(app: &App, ask: Logs) -> Result<Status, Failure> {
    let session = app.session().await?;
    let found = find(&session, &ask.id).await?;
    let until = match ask.follow || found.status != "running" {
        true => u64::MAX,
        false => found.cursor,
    };
    let mut place = ask.cursor;
    let mut process = session.attach(&found.process_id, ask.cursor).await?;
    let lost = process.attach_result().map_or(0, |was| was.lost);
    if lost > 0 {
        output::remark(format_args!("{lost} bytes before this are no longer kept"));
        place = place.saturating_add(lost);
    }
    let mut out = Sinks::open(app.json)?;
    let mut has_ended = false;
    while place < until {
        let Some(event) = process.next().await? else { break };
        has_ended = matches!(event.kind, ProcessEventKind::Exit(_));
        place = event.cursor.unwrap_or(place);
        out.show(event).await?;
        if has_ended {
            break;
        }
    }
    if app.json && !has_ended {
        output::json_line(
            &json!({ "process_id": found.process_id, "status": found.status, "cursor": place }),
        )?;
    }
    session.close().await.ok();
    Ok(Status::OK)
}
