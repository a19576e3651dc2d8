//! `rex wait`: waits for a process.

use client::process::signal_number;
use client::v1::ExecWait;

use super::processes::{attach_foreign, find};
use crate::app::App;
use crate::args::WaitArgs;
use crate::failure::{CommandStatus, Failure, TIMED_OUT};
use crate::output;

/// Waits for a process and returns its status.
pub(super) async fn run(app: &App, args: WaitArgs) -> Result<CommandStatus, Failure> {
    let session = app.session().await?;
    let found = find(&session, &args.id).await?;
    let _attachment = attach_foreign(&session, &found).await;
    let ended = loop {
        // A request waits at most as long as the server's longest timeout; then it is repeated.
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
    Ok(CommandStatus(u8::try_from(status).unwrap_or(255)))
}
