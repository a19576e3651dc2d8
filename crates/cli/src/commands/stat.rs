//! `rex stat`: shows the metadata of a path.

use client::v1::FsStatResult;

use crate::app::App;
use crate::args::StatArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// Shows the metadata; status 1 if the path does not exist.
pub(super) async fn run(target: Option<&str>, json: bool, args: StatArgs) -> Result<CommandStatus, Failure> {
    let (app, path) = App::for_path(target, json, &args.path)?;
    let session = app.session().await?;
    let stat = session.files().stat(&path).await?;
    session.close().await.ok();
    match json {
        true => output::json_line(&stat)?,
        false => show(&stat)?,
    }
    Ok(match stat.exists {
        true => CommandStatus::OK,
        false => CommandStatus::UNSUCCESSFUL,
    })
}

fn show(stat: &FsStatResult) -> Result<(), Failure> {
    if !stat.exists {
        output::note(format_args!("{}: no such file or directory", stat.path));
        return Ok(());
    }
    output::line(output::name(&stat.path))?;
    let member = |name: &str, value: Option<String>| match value {
        Some(value) => output::line(format_args!("  {name:6} {value}")),
        None => Ok(()),
    };
    member("type", stat.kind.clone())?;
    member("size", stat.size.map(|size| size.to_string()))?;
    member("mode", stat.mode.clone())?;
    member("owner", stat.uid.zip(stat.gid).map(|(uid, gid)| format!("{uid}:{gid}")))?;
    member("mtime", stat.mtime.map(super::ls::time))?;
    member("link", stat.symlink_target.as_deref().map(|link| output::name(link).into_owned()))
}
