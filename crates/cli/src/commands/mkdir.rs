//! `rex mkdir`: creates a directory.

use serde_json::json;

use crate::app::App;
use crate::args::MkdirArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// Creates the directory on its target.
pub(super) async fn run(target: Option<&str>, json: bool, args: MkdirArgs) -> Result<CommandStatus, Failure> {
    let (app, path) = App::for_path(target, json, &args.path)?;
    let session = app.session().await?;
    session.files().mkdir(&path, args.parents).await?;
    session.close().await.ok();
    if json {
        output::json_line(&json!({ "ok": true }))?;
    }
    Ok(CommandStatus::OK)
}
