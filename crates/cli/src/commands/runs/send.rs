//! `rex runs send`: types text into a run.

use client::stdio;
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use super::find;
use crate::failure::{CommandStatus, Failure};
use crate::hub::selection::SelectedHub;
use crate::output;

/// The bytes of stdin that are sent as one input; more is refused, not cut.
const MAX_INPUT_BYTES: u64 = 1024 * 1024;

pub(super) async fn run(
    hub: &SelectedHub,
    json: bool,
    id: &str,
    text: Option<String>,
    no_enter: bool,
) -> Result<CommandStatus, Failure> {
    let run = find(hub, id).await?;
    let text = match text {
        Some(text) if no_enter => text,
        Some(text) => format!("{text}\n"),
        None => standard_input().await?,
    };
    hub.client.send_input(&run.id, &text).await?;
    if json {
        output::json_line(&json!({ "ok": true, "run_id": run.id }))?;
    }
    Ok(CommandStatus::OK)
}

async fn standard_input() -> Result<String, Failure> {
    let stdin = stdio::input(rustix::stdio::stdin())?;
    let mut bytes = Vec::new();
    stdin.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        return Err(Failure::new(format!("input too large: more than {MAX_INPUT_BYTES} bytes"))
            .hint("copy a file with `rex cp` instead"));
    }
    String::from_utf8(bytes).map_err(|_| Failure::new("cannot type stdin: it is not UTF-8"))
}
