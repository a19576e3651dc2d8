//! `rex rm`: removes files and directories.

use client::Session;
use serde_json::json;

use crate::app::App;
use crate::args::RmArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// Removes every path. The first failure ends the command; earlier paths stay removed.
pub(super) async fn run(target: Option<&str>, json: bool, args: RmArgs) -> Result<CommandStatus, Failure> {
    for path in &args.paths {
        let (app, path) = App::for_path(target, json, path)?;
        let session = app.session().await?;
        remove(&session, &path, &args).await?;
        session.close().await.ok();
    }
    if json {
        output::json_line(&json!({ "ok": true }))?;
    }
    Ok(CommandStatus::OK)
}

async fn remove(session: &Session, path: &str, args: &RmArgs) -> Result<(), Failure> {
    let found = session.files().stat(path).await?;
    match (found.exists, found.kind.as_deref()) {
        (false, _) if args.force => Ok(()),
        (true, Some("dir")) if !args.recursive => {
            Err(Failure::new(format!("cannot remove {path}: it is a directory")).hint("use `rex rm -r`"))
        }
        _ => Ok(session.files().remove(path, args.recursive).await?),
    }
}
