//! `rex wait`: until a process ends.

use client::process::signal_number;
use client::v1::ExecWait;

use super::processes::{find, reach};
use crate::app::App;
use crate::args::Wait;
use crate::failure::{Failure, Status, TIMED_OUT};
use crate::output;

/// Waits; the status is the process's own.
pub(super) async fn run(app: &App, ask: Wait) -> Result<Status, Failure> {
    let session = app.session().await?;
    let found = find(&session, &ask.id).await?;
    let _within_reach = reach(&session, &found).await;
    let ended = loop {
        // The server waits at most as long as its longest timeout: then it is asked again.
        let params =
            ExecWait { session_id: session.id(), process_id: found.process_id.clone(), timeout_ms: None };
        let ended = session.call(&params).await?;
        if ended.status != "running" {
            break ended;
        }
    };
    session.close().await.ok();
    if app.json {
        output::json_line(&ended)?;
    }
    let by_signal = ended.signal.as_deref().and_then(signal_number).map(|number| 128 + i64::from(number));
    let status = match ended.status.as_str() {
        "timed_out" => i64::from(TIMED_OUT),
        _ => by_signal.or(ended.exit_code).unwrap_or(255),
    };
    Ok(Status(u8::try_from(status).unwrap_or(255)))
}
