//! `rex mv`: renames or moves a file or directory on a target.

use client::Session;
use serde_json::json;

use crate::app::{App, conflicting_targets};
use crate::args::MvArgs;
use crate::failure::{CommandStatus, Failure};
use crate::{output, route};

/// Moves the file or directory.
pub(super) async fn run(target: Option<&str>, json: bool, args: MvArgs) -> Result<CommandStatus, Failure> {
    let (app, from) = App::for_path(target, json, &args.from)?;
    let (alias, to) = route::remote_path(&args.to)?;
    if let Some(alias) = &alias {
        // The new path may name the target again, but no other one.
        let (before, _) = route::remote_path(&args.from)?;
        let first = before.as_deref().or(target).unwrap_or("local");
        if first != alias {
            return Err(conflicting_targets(first, alias).hint("`rex cp` copies between targets"));
        }
    }
    let session = app.session().await?;
    let to = destination(&session, &from, app.path(&to)).await?;
    session.files().rename(&from, &to, !args.no_clobber).await?;
    session.close().await.ok();
    if json {
        output::json_line(&json!({ "ok": true }))?;
    }
    Ok(CommandStatus::OK)
}

/// The new path: below an existing directory, the old name.
async fn destination(session: &Session, from: &str, to: String) -> Result<String, Failure> {
    let is_directory = session.files().stat(&to).await?.kind.as_deref() == Some("dir");
    let name = from.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    Ok(match is_directory && !name.is_empty() {
        true => format!("{}/{name}", to.trim_end_matches('/')),
        false => to,
    })
}
